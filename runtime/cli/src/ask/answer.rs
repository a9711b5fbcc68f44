//! What a daemon answered, in words and as JSON.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use punctual_client::{Client, Response, Tensor};
use punctual_decode::{Detection, Rect};
use punctual_report::printable;
use serde::Serialize;

use super::frame::{Framed, Placement};
use crate::commands::camera::boxes;
use crate::pixel_classes::PixelClasses;

/// Of a tensor's values that are shown.
const FIRST: usize = 5;
/// Classes of pixels that are told.
const CLASSES_MAX: usize = 10;

/// The answer to one file.
#[derive(Debug, Serialize)]
pub struct Answered {
    pub file: String,
    /// What was done to it, so that it is a frame.
    pub frame: String,
    pub verdict: String,
    /// From when the frame was submitted.
    pub latency_ms: f64,
    /// Counted from 1, as the number of them is; none without an answer.
    pub exit: Option<u32>,
    pub exits: usize,
    pub class: Option<String>,
    pub class_index: Option<u16>,
    pub confidence: Option<f32>,
    /// In pixels of the picture; none if answers have none.
    pub detections: Option<Vec<Found>>,
    /// How much of the tensor each class has, if pixels have classes: the most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pixels: Vec<Share>,
    pub tensors: Vec<Summary>,
    /// What tasks after this one answer for crops of the frame.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartAnswered>,
}

/// The answer of a task for a crop that another found.
#[derive(Debug, Serialize)]
pub struct PartAnswered {
    pub task: String,
    pub verdict: String,
    pub exit: Option<u32>,
    /// By name, if it has one.
    pub class: Option<String>,
    pub class_index: Option<u16>,
    pub confidence: Option<f32>,
    /// In pixels of the picture: left, top, right, bottom. None of an array.
    #[serde(rename = "box")]
    pub sides: Option<[f32; 4]>,
}

/// The pixels of a class.
#[derive(Debug, PartialEq, Serialize)]
pub struct Share {
    pub class: String,
    pub share: f64,
}

#[derive(Debug, Serialize)]
pub struct Found {
    pub class: String,
    #[serde(skip)]
    pub class_index: u16,
    pub score: f32,
    /// Left, top, right, bottom.
    #[serde(rename = "box")]
    pub sides: [f32; 4],
}

/// A tensor in a line. Of a quantised one what its bytes stand for.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub name: String,
    pub element: &'static str,
    pub shape: Vec<u32>,
    pub first: Vec<f64>,
    /// Of those values that are finite; none if there are none.
    pub min: Option<f64>,
    pub mean: Option<f64>,
    pub max: Option<f64>,
    pub not_finite: usize,
}

/// The first tensor that says the class of each pixel, and how; none if answers have no such.
pub fn pixel_classes<'r>(
    response: &'r Response,
    names: &Names,
) -> Option<(PixelClasses, Tensor<'r>)> {
    response.outputs()?.iter().find_map(|tensor| {
        let form = PixelClasses::of(tensor.element(), tensor.shape())?;
        let meant = form.scored().is_none_or(|classes| classes == names.count());
        meant.then_some((form, tensor))
    })
}

/// The names of classes: the network's, or those of a file.
pub struct Names(Vec<String>);

impl Names {
    pub fn new(given: Option<Vec<String>>, client: &Client) -> Self {
        Self(given.unwrap_or_else(|| client.description().classes.clone()))
    }

    pub const fn count(&self) -> usize {
        self.0.len()
    }

    pub fn of(&self, class: usize) -> String {
        let name = self.0.get(class).map(|name| printable(name));
        name.unwrap_or_else(|| format!("class {class}"))
    }
}

impl Answered {
    /// `score` is the least of detections that count.
    pub fn new(
        file: String,
        framed: &Framed,
        response: &Response,
        submitted_ns: u64,
        client: &Client,
        names: &Names,
        score: f32,
    ) -> Self {
        let answer = response.answer;
        let placement = match framed {
            Framed::Picture { placement, .. } => Some(placement),
            Framed::Tensor(_) => None,
        };
        let detections = placement.and_then(|placement| found(response, placement, names, score));
        let all = response.outputs();
        let tensors = all.into_iter().flat_map(|outputs| outputs.iter());
        // What became boxes is not told twice.
        let told = |tensor: &Tensor<'_>| {
            detections.is_none() || !["detections", "count"].contains(&tensor.name())
        };
        Self {
            file,
            frame: match framed {
                Framed::Picture { placement, .. } => placement.to_string(),
                Framed::Tensor(shape) => format!("a tensor of {shape:?}"),
            },
            verdict: response.verdict.to_string(),
            latency_ms: response.finished_ns.saturating_sub(submitted_ns) as f64 / 1e6,
            exit: answer.map(|answer| u32::from(answer.exit) + 1),
            exits: client.description().exits.len(),
            class: response.class().map(|class| names.of(class.into())),
            class_index: response.class(),
            confidence: response.confidence(),
            pixels: shares(response, names),
            tensors: tensors
                .filter(told)
                .map(|tensor| Summary::of(&tensor))
                .collect(),
            detections,
            parts: response
                .parts()
                .iter()
                .map(|part| PartAnswered::of(part, placement))
                .collect(),
        }
    }

    pub const fn is_answered(&self) -> bool {
        self.exit.is_some()
    }

    /// What the network says, in a few words.
    fn said(&self) -> String {
        match (&self.class, &self.detections) {
            (Some(class), _) => class.clone(),
            (None, Some(found)) if found.len() == 1 => "1 object".to_owned(),
            (None, Some(found)) => format!("{} objects", found.len()),
            (None, None) => match self.tensors.len() {
                1 => "1 tensor".to_owned(),
                tensors => format!("{tensors} tensors"),
            },
        }
    }

    /// Its lines: the first one begins with the file's name, which takes `columns` of them.
    pub fn text(&self, columns: usize) -> String {
        let Self { verdict, .. } = self;
        let file = printable(&self.file);
        let mut text = format!("{file:columns$}  ");
        let Some(exit) = self.exit else {
            let _ = writeln!(text, "{verdict}");
            return text;
        };
        let mut words = vec![self.said()];
        if let Some(confidence) = self.confidence {
            words.push(format!("{:.1}% sure", confidence * 100.0));
        }
        words.push(match self.exits {
            0 => format!("exit {exit}"),
            exits => format!("exit {exit} of {exits}"),
        });
        words.push(format!("{:.1} ms", self.latency_ms));
        words.push(verdict.clone());
        words.push(self.frame.clone());
        let _ = writeln!(text, "{}", words.join(" · "));
        for found in self.detections.iter().flatten() {
            let _ = writeln!(text, "  {found}");
        }
        for part in &self.parts {
            let _ = writeln!(text, "  {part}");
        }
        for Share { class, share } in &self.pixels {
            let _ = writeln!(text, "  {class:20}  {:5.1}% of the pixels", share * 100.0);
        }
        for tensor in &self.tensors {
            let _ = writeln!(text, "  {tensor}");
        }
        text
    }
}

impl PartAnswered {
    fn of(response: &Response, placement: Option<&Placement>) -> Self {
        let sides = placement.zip(response.view()).map(|(placement, view)| {
            let Rect {
                left,
                top,
                right,
                bottom,
            } = placement.rect(&view.bounds());
            [left, top, right, bottom]
        });
        Self {
            task: response.task_name().unwrap_or_default().to_owned(),
            verdict: response.verdict.to_string(),
            exit: response.answer.map(|answer| u32::from(answer.exit) + 1),
            class: response.class_name().map(printable),
            class_index: response.class(),
            confidence: response.confidence(),
            sides,
        }
    }
}

impl fmt::Display for PartAnswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = vec![format!("{}:", printable(&self.task))];
        words.extend(self.class.clone());
        words.extend(self.confidence.map(|it| format!("{:.1}%", it * 100.0)));
        if let Some([left, top, right, bottom]) = self.sides {
            words.push(format!(
                "({left:.0}, {top:.0}) to ({right:.0}, {bottom:.0})"
            ));
        }
        write!(f, "{} · {}", words.join(" "), self.verdict)
    }
}

/// The detections of an answer in pixels of the picture, the best first; none if answers have none.
fn found(
    response: &Response,
    placement: &Placement,
    names: &Names,
    score: f32,
) -> Option<Vec<Found>> {
    let counted = |found: &Detection| found.score >= score;
    let detections = boxes::of(response)?.into_iter().filter(counted);
    let found = detections.map(|found| {
        let Rect {
            left,
            top,
            right,
            bottom,
        } = placement.rect(&found.rect);
        Found {
            class: names.of(found.class.into()),
            class_index: found.class,
            score: found.score,
            sides: [left, top, right, bottom],
        }
    });
    // Those that lie in the borders alone are none of the picture.
    Some(
        found
            .filter(|found| found.sides[0] < found.sides[2] && found.sides[1] < found.sides[3])
            .collect(),
    )
}

fn shares(response: &Response, names: &Names) -> Vec<Share> {
    let Some((form, tensor)) = pixel_classes(response, names) else {
        return Vec::new();
    };
    let classes = form.classes(tensor.bytes());
    let mut counts = BTreeMap::new();
    for class in &classes {
        *counts.entry(*class).or_insert(0_u64) += 1;
    }
    let mut counts: Vec<(u32, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(CLASSES_MAX);
    let all = classes.len().max(1) as f64;
    let share = |(class, count): (u32, u64)| Share {
        class: names.of(class as usize),
        share: count as f64 / all,
    };
    counts.into_iter().map(share).collect()
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [left, top, right, bottom] = self.sides;
        let (class, score) = (&self.class, self.score * 100.0);
        write!(
            f,
            "{class:20}  {score:5.1}%  ({left:.0}, {top:.0}) to ({right:.0}, {bottom:.0})"
        )
    }
}

impl Summary {
    fn of(tensor: &Tensor<'_>) -> Self {
        let values = || tensor.element().values(tensor.bytes());
        let finite = || values().filter(|value| value.is_finite());
        let count = finite().count();
        let some = |value: f64| (count > 0).then_some(value);
        Self {
            name: tensor.name().to_owned(),
            element: tensor.element().name(),
            shape: tensor.shape().to_vec(),
            first: values().take(FIRST).collect(),
            min: some(finite().fold(f64::INFINITY, f64::min)),
            mean: some(finite().sum::<f64>() / count as f64),
            max: some(finite().fold(f64::NEG_INFINITY, f64::max)),
            not_finite: values().count() - count,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shape, element, .. } = self;
        let name = printable(&self.name);
        let elements = shape.iter().map(|side| *side as usize).product::<usize>();
        let first: Vec<String> = self
            .first
            .iter()
            .map(|value| format!("{value:.4}"))
            .collect();
        write!(f, "{name}  {element} {shape:?}  {}", first.join(" "))?;
        if elements > FIRST {
            write!(f, " ...")?;
            if let (Some(min), Some(mean), Some(max)) = (self.min, self.mean, self.max) {
                write!(f, "  min {min:.4}, mean {mean:.4}, max {max:.4}")?;
            }
        }
        match self.not_finite {
            0 => Ok(()),
            count => write!(f, "  {count} NOT FINITE"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered() -> Answered {
        Answered {
            file: "a.png".to_owned(),
            frame: "64x48".to_owned(),
            verdict: "on time".to_owned(),
            latency_ms: 1.25,
            exit: Some(2),
            exits: 3,
            class: None,
            class_index: None,
            confidence: Some(0.5),
            detections: None,
            pixels: Vec::new(),
            tensors: Vec::new(),
            parts: Vec::new(),
        }
    }

    #[test]
    fn an_answer_is_a_line_with_its_objects_and_tensors_below() {
        let found = Found {
            class: "stop".to_owned(),
            class_index: 0,
            score: 0.875,
            sides: [1.0, 2.0, 3.4, 4.0],
        };
        let tensor = Summary {
            name: "depth".to_owned(),
            element: "float32",
            shape: vec![2, 4],
            first: vec![1.0; FIRST],
            min: Some(0.0),
            mean: Some(0.5),
            max: Some(1.0),
            not_finite: 1,
        };
        let answered = Answered {
            detections: Some(vec![found]),
            tensors: vec![tensor],
            ..answered()
        };
        assert_eq!(
            answered.text(7),
            "a.png    1 object · 50.0% sure · exit 2 of 3 · 1.2 ms · on time · 64x48
  stop                   87.5%  (1, 2) to (3, 4)
  depth  float32 [2, 4]  1.0000 1.0000 1.0000 1.0000 1.0000 ...  min 0.0000, mean 0.5000, max 1.0000  1 NOT FINITE\n"
        );
    }

    #[test]
    fn without_an_answer_there_is_the_verdict_alone() {
        let rejected = Answered {
            exit: None,
            verdict: "rejected: its task's queue is full".to_owned(),
            ..answered()
        };
        assert_eq!(
            rejected.text(0),
            "a.png  rejected: its task's queue is full\n"
        );
        assert!(!rejected.is_answered());
    }
}

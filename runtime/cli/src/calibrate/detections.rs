//! Detections: objects with places and classes, from the outputs of a declared decoder.

use punctual_decode::{ROW_VALUES, Rows, View};
use punctual_model::{Network, Output};
use punctual_quality::{AveragePrecision, Matched, Object, best_score};
use punctual_types::{Element, Size};

use super::annotations::{Annotated, Annotations};
use super::kind::{Answered, ClassFigures, Figure, Kind, Terms, TruthError};

pub struct Detections {
    truth: Vec<Annotated>,
    /// Of detections.
    classes: Vec<String>,
    /// Positions of the outputs `detections` and `count`.
    outputs: [usize; 2],
    /// From which score on detections count; unless the author gave it, the best one at the last exit.
    least_score: Option<f32>,
}

impl Detections {
    pub fn new(
        network: &Network,
        truth: Annotations,
        least_score: Option<f32>,
    ) -> Result<Self, TruthError> {
        let detections = position(network, "detections", |output| {
            matches!(output.shape[..], [_, values] if values as usize == ROW_VALUES)
                && output.element == Element::F32
        });
        let count = position(network, "count", |output| {
            output.elements() == 1 && output.element == Element::I32
        });
        let (Some(detections), Some(count)) = (detections, count) else {
            return Err(TruthError::Network {
                network: network.name.clone(),
                problem: "has no outputs `detections`, float32 of shape (K, 6), and `count`, one int32: declare a \
                          decoder of its boxes by `punctual compile --detections`, or decode and judge its answers yourself \
                          and give the records to `punctual compile --calibration`"
                    .to_owned(),
            });
        };
        Ok(Self {
            truth: truth.pictures,
            classes: truth.classes,
            outputs: [detections, count],
            least_score,
        })
    }

    /// In pixels of the picture.
    fn found(&self, answered: &Answered<'_>) -> punctual_decode::Detections {
        let [detections, count] = self.outputs.map(|at| &answered.result.outputs[at]);
        let count = Element::I32.values(count).next().unwrap_or(0.0);
        let values = Element::F32.values(detections);
        let values: Vec<f32> = values.map(|value| value as f32).collect();
        let rows = Rows { threshold: 0.0 };
        let mut found = punctual_decode::Detections::default();
        let decoded = rows.decode(&values, count as i32, &mut found);
        decoded.expect("the output's shape was checked");
        answered.placement.view.detections(&mut found);
        found
    }

    fn name(&self, class: u16) -> String {
        let name = self.classes.get(usize::from(class));
        name.map_or_else(|| class.to_string(), Clone::clone)
    }
}

/// The position of the output of this name, if it is as it should be at each exit.
fn position(network: &Network, name: &str, fits: fn(&Output) -> bool) -> Option<usize> {
    let at = network.output_names().position(|known| known == name)?;
    let mut exits = network.exits();
    exits.all(|(_, exit)| fits(&exit.outputs[at])).then_some(at)
}

/// The part of an object that the network sees; none of one that lies outside.
fn seen(object: &Object, view: &View) -> Option<Object> {
    let rect = object.rect.clipped(&view.bounds());
    (rect.area() > 0.0).then_some(Object { rect, ..*object })
}

impl Kind for Detections {
    type Judged = Matched;

    fn terms(&self) -> Terms {
        let least = self.least_score.unwrap_or_default();
        Terms {
            kind: "detections",
            quality: "frame F1",
            meaning: format!(
                "A frame's quality is its F1: twice the detections that are right over detections and objects together; 1 if \
                 each object is found and nothing else. Detections with a score of at least {least:.2} count (--score), and are \
                 right from an overlap of 0.5 on."
            ),
            counted: "objects",
        }
    }

    fn judge(&mut self, answered: &Answered<'_>) -> Result<Matched, TruthError> {
        let truth = &self.truth[answered.sample];
        let Size { width, height } = answered.placement.picture;
        if truth
            .size
            .is_some_and(|size| size != answered.placement.picture)
        {
            return Err(TruthError::invalid(
                &truth.place,
                format!(
                    "the picture has {width} x {height} pixels, not those that `width` and `height` say; give boxes in its \
                     pixels"
                ),
            ));
        }
        let objects = truth.objects.iter();
        let objects = objects.filter_map(|object| seen(object, &answered.placement.view));
        let objects: Vec<Object> = objects.collect();
        Ok(Matched::of(&objects, &self.found(answered)))
    }

    fn settle(&mut self, last: &[Matched]) {
        self.least_score.get_or_insert_with(|| {
            let best = best_score(last);
            best.map_or(0.0, |best| best.score)
        });
    }

    fn quality(&self, judged: &Matched) -> f64 {
        judged.f1(self.least_score.unwrap_or_default())
    }

    fn figures(&self, answers: &[&Matched]) -> Vec<Figure> {
        let precision = AveragePrecision::of(answers.iter().copied());
        vec![
            Figure::share("mAP50", precision.map50.unwrap_or(f64::NAN)),
            Figure::share("mAP50-95", precision.map50_95.unwrap_or(f64::NAN)),
        ]
    }

    fn by_class(&self, answers: &[&Matched]) -> Vec<ClassFigures> {
        let precision = AveragePrecision::of(answers.iter().copied());
        let classes = precision.classes.into_iter();
        let figures = classes.map(|class| ClassFigures {
            class: self.name(class.class),
            count: class.objects.into(),
            figures: vec![
                Figure::share("AP50", class.ap50),
                Figure::share("AP50-95", class.ap50_95),
            ],
        });
        figures.collect()
    }
}

//! Detections against the objects of a frame, as COCO's evaluation compares them (Lin et al., "Microsoft COCO: Common
//! Objects in Context", 2014; `cocoeval.py` of pycocotools): average precision over 101 recalls, objects of all sizes.

use std::collections::BTreeMap;

use punctual_decode::{Detection, Rect};

/// An object that a frame shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Object {
    /// In the same coordinates as the detections.
    pub rect: Rect,
    pub class: u16,
    /// A region with many objects of the class: what is found in it counts neither as right nor as wrong.
    pub crowd: bool,
}

/// Overlaps (intersection over union) from which a detection finds an object: mAP50 takes the first, mAP50-95 all.
pub const OVERLAPS: [f64; 10] = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];

/// How many detections of a class count in a frame: those with the best scores.
pub const DETECTIONS_MAX: usize = 100;

/// Recalls at which precision is taken.
const RECALLS: usize = 101;

/// A frame's detections, compared with its objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matched {
    /// By class, and in a class by score.
    detections: Vec<MatchedDetection>,
    /// How many objects of each class there are, crowds not counted.
    objects: BTreeMap<u16, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct MatchedDetection {
    score: f32,
    class: u16,
    /// A bit for each of [`OVERLAPS`]: it finds an object.
    right: u16,
    /// A bit for each of [`OVERLAPS`]: it lies in a crowd.
    ignored: u16,
}

impl Matched {
    /// Compares the detections of a frame, in any order, with its objects.
    ///
    /// The best score chooses first: a detection finds the object of its class that it overlaps most, of those that no
    /// better one has found. A score that is no number is 0.
    #[must_use]
    pub fn of(truth: &[Object], detections: &[Detection]) -> Self {
        let mut by_class = BTreeMap::<u16, (Vec<&Object>, Vec<Detection>)>::new();
        for object in truth {
            by_class.entry(object.class).or_default().0.push(object);
        }
        for detection in detections {
            let score = detection.score.max(0.0);
            let detection = Detection {
                score,
                ..*detection
            };
            let of_class = by_class.entry(detection.class).or_default();
            of_class.1.push(detection);
        }
        let mut matched = Self::default();
        for (class, (mut objects, mut detections)) in by_class {
            // Crowds last: they are for what finds no object.
            objects.sort_by_key(|object| object.crowd);
            detections.sort_by(|a, b| b.score.total_cmp(&a.score));
            detections.truncate(DETECTIONS_MAX);
            let count = objects.iter().filter(|object| !object.crowd).count() as u32;
            if count > 0 {
                matched.objects.insert(class, count);
            }
            matched
                .detections
                .extend(match_class(&objects, &detections));
        }
        matched
    }

    /// Twice the detections that are right, over detections and objects together: 1 if each object is found and nothing
    /// else. Detections count from the score `least` on, and are right from an overlap of 0.5 on. A frame that shows
    /// nothing and in which nothing is found has 1.
    #[must_use]
    pub fn f1(&self, least: f32) -> f64 {
        let found = self
            .detections
            .iter()
            .filter(|found| found.score >= least && found.ignored & 1 == 0);
        let (mut detections, mut right) = (0_u32, 0_u32);
        for detection in found {
            detections += 1;
            right += u32::from(detection.right & 1);
        }
        f1(right, detections, self.object_count())
    }

    /// Objects that the frame shows.
    #[must_use]
    pub fn object_count(&self) -> u32 {
        self.objects.values().sum()
    }
}

fn f1(right: u32, detections: u32, objects: u32) -> f64 {
    match detections + objects {
        0 => 1.0,
        both => f64::from(2 * right) / f64::from(both),
    }
}

/// Detections of one class, best score first, and its objects, crowds last.
fn match_class(objects: &[&Object], detections: &[Detection]) -> Vec<MatchedDetection> {
    let overlap = |detection: &Detection| -> Vec<f64> {
        let object = |object: &&Object| overlap(&detection.rect, object);
        objects.iter().map(object).collect()
    };
    let overlaps: Vec<Vec<f64>> = detections.iter().map(overlap).collect();
    let unmatched = |detection: &Detection| MatchedDetection {
        score: detection.score,
        class: detection.class,
        right: 0,
        ignored: 0,
    };
    let mut matched: Vec<_> = detections.iter().map(unmatched).collect();
    for (bit, least) in OVERLAPS.into_iter().enumerate() {
        let mut taken = vec![false; objects.len()];
        for (detection, overlaps) in matched.iter_mut().zip(&overlaps) {
            match found(objects, overlaps, &taken, least) {
                Some(object) if objects[object].crowd => detection.ignored |= 1 << bit,
                Some(object) => {
                    taken[object] = true;
                    detection.right |= 1 << bit;
                }
                None => {}
            }
        }
    }
    matched
}

/// The object that a detection finds: of those that are not taken the one that it overlaps most, the last of equals;
/// a crowd only if there is no object.
fn found(objects: &[&Object], overlaps: &[f64], taken: &[bool], least: f64) -> Option<usize> {
    let mut best = None;
    let mut least = least;
    for (at, object) in objects.iter().enumerate() {
        if best.is_some_and(|best: usize| !objects[best].crowd) && object.crowd {
            break;
        }
        if !taken[at] && overlaps[at] >= least {
            (best, least) = (Some(at), overlaps[at]);
        }
    }
    best
}

/// Intersection over union; of a crowd the share of the detection that lies in it. In f64, as overlaps that are exactly
/// a limit are common among boxes of whole pixels. 0 of a rectangle with a side that is infinite or no number.
fn overlap(detection: &Rect, object: &Object) -> f64 {
    let Rect {
        left,
        top,
        right,
        bottom,
    } = *detection;
    if ![left, top, right, bottom]
        .iter()
        .all(|side| side.is_finite())
    {
        return 0.0;
    }
    let sides = |rect: &Rect| {
        let [left, top, right, bottom] =
            [rect.left, rect.top, rect.right, rect.bottom].map(f64::from);
        ([left, top], [right, bottom])
    };
    let area = |(low, high): ([f64; 2], [f64; 2])| {
        (high[0] - low[0]).max(0.0) * (high[1] - low[1]).max(0.0)
    };
    let (a, b) = (sides(detection), sides(&object.rect));
    let low = [0, 1].map(|axis| a.0[axis].max(b.0[axis]));
    let high = [0, 1].map(|axis| a.1[axis].min(b.1[axis]));
    let common = area((low, high));
    let whole = if object.crowd {
        area(a)
    } else {
        area(a) + area(b) - common
    };
    if common > 0.0 { common / whole } else { 0.0 }
}

/// Mean average precision of a set of frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AveragePrecision {
    /// The mean of the classes' [`ClassPrecision::ap50`]; `None` if the frames show no object.
    pub map50: Option<f64>,
    /// The mean of the classes' [`ClassPrecision::ap50_95`].
    pub map50_95: Option<f64>,
    /// The classes of which there are objects.
    pub classes: Vec<ClassPrecision>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassPrecision {
    pub class: u16,
    /// Objects, crowds not counted.
    pub objects: u32,
    /// Average precision where detections are right from an overlap of 0.5 on, 0 to 1.
    pub ap50: f64,
    /// The mean of the average precisions at all [`OVERLAPS`].
    pub ap50_95: f64,
}

impl AveragePrecision {
    /// Of these frames, each compared with its own objects. Equal scores count in the order of the frames.
    #[must_use]
    pub fn of<'f>(frames: impl IntoIterator<Item = &'f Matched>) -> Self {
        let mut by_class = BTreeMap::<u16, (u32, Vec<MatchedDetection>)>::new();
        for frame in frames {
            for (&class, count) in &frame.objects {
                by_class.entry(class).or_default().0 += count;
            }
            for detection in &frame.detections {
                by_class
                    .entry(detection.class)
                    .or_default()
                    .1
                    .push(*detection);
            }
        }
        let with_objects = by_class
            .into_iter()
            .filter(|(_, (objects, _))| *objects > 0);
        let classes: Vec<_> = with_objects
            .map(|(class, (objects, detections))| class_precision(class, objects, detections))
            .collect();
        let mean = |of: fn(&ClassPrecision) -> f64| {
            let sum: f64 = classes.iter().map(of).sum();
            (!classes.is_empty()).then(|| sum / classes.len() as f64)
        };
        Self {
            map50: mean(|class| class.ap50),
            map50_95: mean(|class| class.ap50_95),
            classes,
        }
    }
}

fn class_precision(
    class: u16,
    objects: u32,
    mut detections: Vec<MatchedDetection>,
) -> ClassPrecision {
    detections.sort_by(|a, b| b.score.total_cmp(&a.score));
    let at: [f64; OVERLAPS.len()] = std::array::from_fn(|bit| {
        let counted = detections.iter();
        let counted = counted.filter(|detection| detection.ignored >> bit & 1 == 0);
        average_precision(
            objects,
            counted.map(|detection| detection.right >> bit & 1 == 1),
        )
    });
    ClassPrecision {
        class,
        objects,
        ap50: at[0],
        ap50_95: at.iter().sum::<f64>() / at.len() as f64,
    }
}

/// The mean over [`RECALLS`] recalls of the best precision at that recall or a higher one; `right` by score.
fn average_precision(objects: u32, right: impl Iterator<Item = bool>) -> f64 {
    let mut found = 0_u32;
    let mut curve: Vec<(f64, f64)> = right
        .zip(1_u32..)
        .map(|(right, detections)| {
            found += u32::from(right);
            let recall = f64::from(found) / f64::from(objects);
            (recall, f64::from(found) / f64::from(detections))
        })
        .collect();
    let mut best = 0.0_f64;
    for (_, precision) in curve.iter_mut().rev() {
        best = best.max(*precision);
        *precision = best;
    }
    let precision = |at: usize| {
        // Not at / 100: pycocotools has these figures, some of which are a little larger.
        let recall = at as f64 * 0.01;
        let first = curve.partition_point(|(reached, _)| *reached < recall);
        curve.get(first).map_or(0.0, |(_, precision)| *precision)
    };
    (0..RECALLS).map(precision).sum::<f64>() / RECALLS as f64
}

/// The score from which on detections should count, so that F1 over all frames is best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestScore {
    pub score: f32,
    /// Over the detections and objects of all frames together.
    pub f1: f64,
}

/// `None` if no detection is right.
#[must_use]
pub fn best_score<'f>(frames: impl IntoIterator<Item = &'f Matched>) -> Option<BestScore> {
    let mut objects = 0;
    let mut detections = Vec::new();
    for frame in frames {
        objects += frame.object_count();
        let counted = frame
            .detections
            .iter()
            .filter(|found| found.ignored & 1 == 0);
        detections.extend(counted.map(|found| (found.score, found.right & 1)));
    }
    detections.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut best = None;
    let (mut right, mut count) = (0, 0);
    for equal in detections.chunk_by(|a, b| a.0 == b.0) {
        count += equal.len() as u32;
        right += equal
            .iter()
            .map(|(_, right)| u32::from(*right))
            .sum::<u32>();
        let f1 = f1(right, count, objects);
        if f1 > best.map_or(0.0, |best: BestScore| best.f1) {
            let score = equal[0].0;
            best = Some(BestScore { score, f1 });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn rect(left: f32, top: f32, right: f32, bottom: f32) -> Rect {
        Rect {
            left,
            top,
            right,
            bottom,
        }
    }

    const fn object(class: u16, rect: Rect) -> Object {
        Object {
            rect,
            class,
            crowd: false,
        }
    }

    const fn detection(class: u16, score: f32, rect: Rect) -> Detection {
        Detection { rect, score, class }
    }

    const SQUARE: Rect = rect(0.0, 0.0, 10.0, 10.0);
    const OTHER: Rect = rect(50.0, 50.0, 60.0, 60.0);

    #[test]
    fn a_frame_is_whole_if_each_object_is_found_and_nothing_else() {
        let truth = [object(0, SQUARE), object(1, OTHER)];
        let found = [detection(0, 0.9, SQUARE), detection(1, 0.4, OTHER)];
        assert_eq!(Matched::of(&truth, &found).f1(0.1), 1.0);
        assert_eq!(Matched::of(&truth, &found).f1(0.5), 2.0 / 3.0, "one counts");
        assert_eq!(Matched::of(&truth, &[]).f1(0.1), 0.0);
        assert_eq!(Matched::of(&[], &found).f1(0.1), 0.0);
        assert_eq!(Matched::of(&[], &found).f1(0.95), 1.0, "nothing counts");
        assert_eq!(Matched::of(&[], &[]).f1(0.1), 1.0);
    }

    #[test]
    fn an_object_is_found_once_and_by_its_own_class() {
        let truth = [object(0, SQUARE)];
        let twice = [detection(0, 0.9, SQUARE), detection(0, 0.8, SQUARE)];
        assert_eq!(Matched::of(&truth, &twice).f1(0.0), 2.0 / 3.0);
        let other_class = [detection(1, 0.9, SQUARE)];
        assert_eq!(Matched::of(&truth, &other_class).f1(0.0), 0.0);
    }

    #[test]
    fn an_overlap_that_is_exactly_the_limit_is_enough() {
        // 7 of 10 rows: 0.7 exactly, which single precision misses.
        let truth = [object(0, SQUARE)];
        let part = Matched::of(&truth, &[detection(0, 0.5, rect(0.0, 0.0, 10.0, 7.0))]);
        assert_eq!(part.detections[0].right, 0b1_1111);
        let precision = AveragePrecision::of([&part]);
        assert_eq!(
            (precision.map50, precision.map50_95),
            (Some(1.0), Some(0.5))
        );
    }

    #[test]
    fn what_is_found_in_a_crowd_counts_neither_way() {
        let crowd = Object {
            crowd: true,
            ..object(0, rect(0.0, 0.0, 100.0, 100.0))
        };
        let found = [
            detection(0, 0.9, SQUARE),
            detection(0, 0.8, rect(20.0, 20.0, 30.0, 30.0)),
        ];
        let matched = Matched::of(&[crowd, object(0, SQUARE)], &found);
        assert_eq!((matched.f1(0.0), matched.object_count()), (1.0, 1));
        assert_eq!(AveragePrecision::of([&matched]).map50_95, Some(1.0));
        let alone = Matched::of(&[crowd], &found);
        assert_eq!(alone.f1(0.0), 1.0);
        assert_eq!(AveragePrecision::of([&alone]), AveragePrecision::default());
    }

    #[test]
    fn numbers_that_are_none_find_nothing_and_break_nothing() {
        let none = f32::NAN;
        let found = [
            detection(0, none, SQUARE),
            detection(0, 0.5, rect(none, none, none, none)),
            detection(0, 0.4, rect(9.0, 9.0, 1.0, 1.0)),
            detection(0, 0.3, rect(0.0, 0.0, f32::INFINITY, f32::INFINITY)),
        ];
        let matched = Matched::of(&[object(0, SQUARE)], &found);
        // The first is right, with the least score.
        assert_eq!(matched.f1(0.0), 2.0 / 5.0);
        let precision = AveragePrecision::of([&matched]).map50.unwrap();
        assert!((precision - 0.25).abs() < 1e-12);
    }

    #[test]
    fn the_best_score_leaves_wrong_detections_out() {
        let truth = [object(0, SQUARE)];
        let frame = |score, noise| {
            let found = [detection(0, score, SQUARE), detection(0, noise, OTHER)];
            Matched::of(&truth, &found)
        };
        let frames = [frame(0.9, 0.1), frame(0.6, 0.2), frame(0.5, 0.3)];
        let best = best_score(&frames).unwrap();
        assert_eq!((best.score, best.f1), (0.5, 1.0));
        assert_eq!(best_score(&[Matched::of(&truth, &[])]), None);
    }
}

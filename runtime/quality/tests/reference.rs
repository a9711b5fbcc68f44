//! Average precision against that of COCO's own evaluation (`reference.py`).

use punctual_decode::{Detection, Rect};
use punctual_quality::{AveragePrecision, Matched, Object};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    frames: Vec<Frame>,
    all: Figures,
    #[serde(rename = "first half")]
    first_half: Figures,
}

#[derive(Deserialize)]
struct Frame {
    /// Class, whether a crowd, left, top, width, height.
    objects: Vec<(u16, bool, f32, f32, f32, f32)>,
    /// Class, score, left, top, width, height.
    detections: Vec<(u16, f32, f32, f32, f32, f32)>,
}

/// By class, and their means.
#[derive(Deserialize)]
struct Figures {
    map50: f64,
    map50_95: f64,
    ap50: Vec<f64>,
    ap50_95: Vec<f64>,
}

const fn rect(left: f32, top: f32, width: f32, height: f32) -> Rect {
    Rect {
        left,
        top,
        right: left + width,
        bottom: top + height,
    }
}

impl Frame {
    fn matched(&self) -> Matched {
        let objects = self.objects.iter();
        let objects = objects.map(|&(class, crowd, left, top, width, height)| Object {
            rect: rect(left, top, width, height),
            class,
            crowd,
        });
        let detections = self.detections.iter();
        let detections = detections.map(|&(class, score, left, top, width, height)| Detection {
            rect: rect(left, top, width, height),
            score,
            class,
        });
        Matched::of(
            &objects.collect::<Vec<_>>(),
            &detections.collect::<Vec<_>>(),
        )
    }
}

fn assert_meets(found: &AveragePrecision, figures: &Figures) {
    let near = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    };
    near(found.map50.expect("there are objects"), figures.map50);
    near(found.map50_95.expect("there are objects"), figures.map50_95);
    assert_eq!(found.classes.len(), figures.ap50.len());
    for class in &found.classes {
        near(class.ap50, figures.ap50[usize::from(class.class)]);
        near(class.ap50_95, figures.ap50_95[usize::from(class.class)]);
    }
}

#[test]
fn average_precision_is_that_of_pycocotools() {
    let record = include_str!("reference.json");
    let reference: Reference = serde_json::from_str(record).expect("the record is valid");
    let frames: Vec<Matched> = reference.frames.iter().map(Frame::matched).collect();
    assert_meets(&AveragePrecision::of(&frames), &reference.all);
    let half = &frames[..frames.len() / 2];
    assert_meets(&AveragePrecision::of(half), &reference.first_half);
}

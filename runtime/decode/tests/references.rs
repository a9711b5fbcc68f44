//! Each decoder compared with the networks' own post-processing: `recorded/record.py` made the tensors and the expected values.

use std::collections::BTreeMap;
use std::path::Path;

use punctual_decode::{
    Activation, Alignment, AnchorHead, Anchors, BoxForm, BoxHead, Candidates, DefaultBoxes,
    Detections, DistributionHead, GridAnchors, HeatMaps, Keep, KeyPoint, Layout, LevelTensors,
    Mask, PeakHead, Prototypes, Rect, Refinement, SetHead, SetScores, Size, Suppression, View,
};

/// What a value may differ by: pixels, or parts of a score.
const TOLERANCE: f32 = 1e-4;

/// The tensors of one case by name.
struct Case(BTreeMap<String, Vec<f32>>);

impl Case {
    fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
        let bytes = std::fs::read(folder.join("cases.f32")).unwrap();
        let values: Vec<f32> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        let text = std::fs::read_to_string(folder.join("cases.json")).unwrap();
        let cases: serde_json::Value = serde_json::from_str(&text).unwrap();
        let number = |value: &serde_json::Value| value.as_u64().unwrap() as usize;
        let tensors = cases[name].as_object().unwrap().iter();
        let tensor = |(name, index): (&String, &serde_json::Value)| {
            let at = number(&index["at"]);
            let sides = index["shape"].as_array().unwrap();
            let length: usize = sides.iter().map(number).product();
            (name.clone(), values[at..at + length].to_vec())
        };
        Self(tensors.map(tensor).collect())
    }

    fn get(&self, tensor: &str) -> &[f32] {
        &self.0[tensor]
    }

    /// Compares with rows of left, top, right, bottom, score, class: the same in the same order, up to equal scores.
    fn expect(&self, detections: &Detections) {
        let ours: Vec<[f32; 6]> = detections
            .iter()
            .map(|found| {
                let Rect {
                    left,
                    top,
                    right,
                    bottom,
                } = found.rect;
                [
                    left,
                    top,
                    right,
                    bottom,
                    found.score,
                    f32::from(found.class),
                ]
            })
            .collect();
        let (theirs, _) = self.get("expected").as_chunks::<6>();
        assert_eq!(ours.len(), theirs.len());
        assert_eq!(detections.places().len(), ours.len());
        assert!(ours.is_sorted_by(|one, other| one[4] >= other[4]));
        let mut left = ours.clone();
        for (at, expected) in theirs.iter().enumerate() {
            let ranks = left
                .iter()
                .take_while(|row| row[4] >= expected[4] - TOLERANCE);
            let same = |row: &[f32; 6]| row.iter().zip(expected).all(|(a, b)| near(*a, *b));
            let found = ranks.enumerate().find(|(_, row)| same(row));
            let (place, _) = found.unwrap_or_else(|| {
                panic!(
                    "row {at}: {expected:?} is not in its place, where is {:?}",
                    ours[at]
                )
            });
            left.remove(place);
        }
    }
}

fn near(one: f32, other: f32) -> bool {
    (one - other).abs() <= TOLERANCE
}

fn all_near(ours: &[f32], theirs: &[f32]) {
    assert_eq!(ours.len(), theirs.len());
    for (at, (one, other)) in ours.iter().zip(theirs).enumerate() {
        assert!(near(*one, *other), "value {at}: {one} instead of {other}");
    }
}

const fn size(height: u32, width: u32) -> Size {
    Size { width, height }
}

fn squares(sides: &[u32]) -> Vec<Size> {
    sides.iter().map(|side| size(*side, *side)).collect()
}

/// Compares with every 41st anchor.
fn expect_anchors(name: &str, anchors: &Anchors) {
    let case = Case::read(name);
    assert_eq!(anchors.rects().len(), case.get("count")[0] as usize);
    let every = anchors.rects().iter().step_by(41);
    let sides = |rect: &Rect| [rect.left, rect.top, rect.right, rect.bottom];
    let ours: Vec<f32> = every.flat_map(sides).collect();
    all_near(&ours, case.get("rects"));
}

#[test]
fn anchors_are_those_of_torchvisions_networks() {
    let ratios: [&[f64]; 6] = [
        &[2.0],
        &[2.0, 3.0],
        &[2.0, 3.0],
        &[2.0, 3.0],
        &[2.0],
        &[2.0],
    ];
    let ssd300 = DefaultBoxes {
        input: size(300, 300),
        maps: &squares(&[38, 19, 10, 5, 3, 1]),
        aspect_ratios: &ratios,
        scales: &[0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05],
        steps: Some(&[8.0, 16.0, 32.0, 64.0, 100.0, 300.0]),
        clip: true,
    };
    expect_anchors("anchors-ssd300", &ssd300.anchors().unwrap());
    let ssdlite = DefaultBoxes {
        input: size(320, 320),
        maps: &squares(&[20, 10, 5, 3, 2, 1]),
        aspect_ratios: &[&[2.0, 3.0][..]; 6],
        scales: &DefaultBoxes::scales(0.2, 0.95, 6),
        steps: None,
        clip: true,
    };
    expect_anchors("anchors-ssdlite320", &ssdlite.anchors().unwrap());
    let whole = |side: f64| {
        [
            side,
            (side * 2_f64.powf(1.0 / 3.0)).trunc(),
            (side * 2_f64.powf(2.0 / 3.0)).trunc(),
        ]
    };
    let sizes = [32.0, 64.0, 128.0, 256.0, 512.0].map(whole);
    let retinanet = GridAnchors {
        input: size(256, 320),
        maps: &[
            size(32, 40),
            size(16, 20),
            size(8, 10),
            size(4, 5),
            size(2, 3),
        ],
        sizes: &sizes.each_ref().map(|sizes| &sizes[..]),
        aspect_ratios: &[0.5, 1.0, 2.0],
    };
    expect_anchors("anchors-retinanet", &retinanet.anchors().unwrap());
}

#[test]
fn ssd_is_as_torchvisions() {
    let case = Case::read("ssd");
    let input = size(96, 128);
    let boxes = DefaultBoxes {
        input,
        maps: &[size(6, 8), size(3, 4), size(2, 2)],
        aspect_ratios: &[&[2.0], &[2.0, 3.0], &[2.0]],
        scales: &[0.2, 0.4, 0.7, 1.0],
        steps: None,
        clip: true,
    };
    let head = AnchorHead {
        anchors: &boxes.anchors().unwrap(),
        classes: 6,
        weights: AnchorHead::SSD_WEIGHTS,
        activation: Activation::Softmax,
        background: Some(0),
        layout: Layout::Places,
        input,
        keep: Keep {
            threshold: 0.2,
            candidates: Candidates::OfEachClass(8),
            several_classes: true,
            suppression: Suppression::PerClass { overlap: 0.45 },
            limit: 30,
        },
    };
    let mut detections = Detections::default();
    let (boxes, scores) = (case.get("boxes"), case.get("scores"));
    head.decode(boxes, scores, &mut detections).unwrap();
    case.expect(&detections);
}

#[test]
fn retinanet_is_as_torchvisions() {
    let case = Case::read("retinanet");
    let input = size(128, 160);
    let sizes = [16.0, 32.0, 64.0_f64].map(|side| {
        [
            side,
            side * 2_f64.powf(1.0 / 3.0),
            side * 2_f64.powf(2.0 / 3.0),
        ]
    });
    let anchors = GridAnchors {
        input,
        maps: &[size(8, 10), size(4, 5), size(2, 3)],
        sizes: &sizes.each_ref().map(|sizes| &sizes[..]),
        aspect_ratios: &[0.5, 1.0, 2.0],
    };
    let head = AnchorHead {
        anchors: &anchors.anchors().unwrap(),
        classes: 4,
        weights: [1.0; 4],
        activation: Activation::Sigmoid,
        background: None,
        layout: Layout::Places,
        input,
        keep: Keep {
            threshold: 0.1,
            candidates: Candidates::OfEachLevel(25),
            several_classes: true,
            suppression: Suppression::PerClass { overlap: 0.5 },
            limit: 100,
        },
    };
    let mut detections = Detections::default();
    let (boxes, scores) = (case.get("boxes"), case.get("scores"));
    head.decode(boxes, scores, &mut detections).unwrap();
    case.expect(&detections);
}

#[test]
fn fcos_is_as_torchvisions() {
    let case = Case::read("fcos");
    let input = size(96, 128);
    let head = DistributionHead {
        levels: DistributionHead::levels(input, &[8, 16, 32]),
        bins: 1,
        classes: 5,
        activation: Activation::Sigmoid,
        layout: Layout::Places,
        centre: 0.0,
        input,
        keep: Keep {
            threshold: 0.25,
            candidates: Candidates::OfEachLevel(30),
            several_classes: true,
            suppression: Suppression::PerClass { overlap: 0.6 },
            limit: 100,
        },
    };
    let mut detections = Detections::default();
    let all = LevelTensors {
        boxes: case.get("boxes"),
        scores: case.get("scores"),
        centerness: Some(case.get("centerness")),
    };
    head.decode(&[all], &mut detections).unwrap();
    case.expect(&detections);
    // The same level by level.
    let places = detections.places().to_vec();
    let mut first = 0;
    let levels: Vec<LevelTensors> = head
        .levels
        .iter()
        .map(|level| {
            let cells = first..first + level.rows * level.columns;
            first = cells.end;
            LevelTensors {
                boxes: &all.boxes[4 * cells.start..4 * cells.end],
                scores: &all.scores[5 * cells.start..5 * cells.end],
                centerness: all.centerness.map(|all| &all[cells]),
            }
        })
        .collect();
    head.decode(&levels, &mut detections).unwrap();
    case.expect(&detections);
    assert_eq!(detections.places(), places);
}

/// As the reference of YOLO's heads chooses.
const YOLO_KEEP: Keep = Keep {
    threshold: 0.35,
    candidates: Candidates::OfEachLevel(1000),
    several_classes: false,
    suppression: Suppression::PerClass { overlap: 0.5 },
    limit: 300,
};

#[test]
fn distributions_over_distances_are_as_written_from_the_papers() {
    let case = Case::read("yolo");
    let input = size(64, 96);
    let head = DistributionHead {
        levels: DistributionHead::levels(input, &[8, 16, 32]),
        bins: 16,
        classes: 5,
        activation: Activation::Sigmoid,
        layout: Layout::Channels,
        centre: 0.5,
        input,
        keep: YOLO_KEEP,
    };
    let level = |boxes, scores| LevelTensors {
        boxes: case.get(boxes),
        scores: case.get(scores),
        centerness: None,
    };
    let levels = [
        level("boxes0", "scores0"),
        level("boxes1", "scores1"),
        level("boxes2", "scores2"),
    ];
    let mut detections = Detections::default();
    head.decode(&levels, &mut detections).unwrap();
    case.expect(&detections);
}

#[test]
fn boxes_that_the_network_decodes_are_as_written_from_the_papers() {
    let case = Case::read("yolo");
    let head = BoxHead {
        places: 126,
        form: BoxForm::Centre,
        classes: 5,
        activation: Activation::None,
        background: None,
        layout: Layout::Channels,
        input: size(64, 96),
        keep: YOLO_KEEP,
    };
    let mut detections = Detections::default();
    let (boxes, scores) = (case.get("decoded"), case.get("probabilities"));
    head.decode(boxes, scores, &mut detections).unwrap();
    case.expect(&detections);
}

#[test]
fn sets_are_as_transformers() {
    for (name, scores) in [
        ("detr", SetScores::Softmax),
        ("rt-detr", SetScores::Sigmoid { most: 30 }),
        ("deformable-detr", SetScores::Sigmoid { most: 50 }),
    ] {
        let case = Case::read(name);
        let head = SetHead {
            queries: 30,
            classes: 7,
            scores,
            threshold: 0.4,
            input: size(120, 200),
        };
        let mut detections = Detections::default();
        let (boxes, logits) = (case.get("boxes"), case.get("logits"));
        head.decode(boxes, logits, &mut detections).unwrap();
        case.expect(&detections);
    }
}

#[test]
fn peaks_are_as_written_from_the_paper() {
    let case = Case::read("peaks");
    let head = PeakHead {
        classes: 3,
        rows: 16,
        columns: 20,
        stride: 4.0,
        logits: true,
        threshold: 0.3,
        limit: 25,
    };
    let mut detections = Detections::default();
    let (heat, sizes) = (case.get("heat"), case.get("sizes"));
    let offsets = Some(case.get("offsets"));
    head.decode(heat, sizes, offsets, &mut detections).unwrap();
    case.expect(&detections);
}

const POSE: HeatMaps = HeatMaps {
    points: 6,
    rows: 32,
    columns: 24,
    refinement: Refinement::Quarter,
    alignment: Alignment::Areas,
    input: size(256, 192),
};

#[test]
fn key_points_are_as_vitposes() {
    let case = Case::read("vitpose");
    let maps = HeatMaps {
        refinement: Refinement::Dark { kernel: 11 },
        alignment: Alignment::Corners,
        ..POSE
    };
    let mut points = Vec::new();
    maps.decode(case.get("maps"), &mut points).unwrap();
    // VitPose stretches its region so that the centres of the outermost pixels are on the region's sides.
    let &[left, top, width, height] = case.get("region") else {
        panic!("a region has four numbers");
    };
    let ours: Vec<f32> = points
        .iter()
        .flat_map(|point| {
            let x = left + (point.x - 0.5) * width / 191.0;
            let y = top + (point.y - 0.5) * height / 255.0;
            [x, y, point.score]
        })
        .collect();
    all_near(&ours, case.get("expected"));
}

#[test]
fn key_points_a_quarter_aside_or_at_the_mean_are_as_written_from_the_papers() {
    let (maps, case) = (Case::read("vitpose"), Case::read("quarter"));
    let mut points: Vec<KeyPoint> = Vec::new();
    POSE.decode(maps.get("maps"), &mut points).unwrap();
    let numbers = points
        .iter()
        .flat_map(|point| [point.x, point.y, point.score]);
    all_near(&numbers.collect::<Vec<f32>>(), case.get("expected"));
    let mean = HeatMaps {
        refinement: Refinement::Mean,
        ..POSE
    };
    mean.decode(maps.get("maps"), &mut points).unwrap();
    let numbers = points.iter().flat_map(|point| [point.x, point.y]);
    all_near(&numbers.collect::<Vec<f32>>(), case.get("means"));
}

#[test]
fn masks_are_as_torchs_interpolation() {
    let case = Case::read("masks");
    let head = Prototypes {
        count: 6,
        rows: 20,
        columns: 24,
        input: size(80, 96),
    };
    let mut mask = Mask::default();
    for (view, rect, expected, (width, height)) in [
        (
            View::new(0, 0, head.input, head.input, false).unwrap(),
            [20.0, 10.0, 70.0, 50.0],
            "plain",
            (50, 40),
        ),
        (
            View::new(30, 20, size(120, 192), head.input, true).unwrap(),
            [49.7, 25.4, 130.2, 84.9],
            "view",
            (80, 60),
        ),
    ] {
        let [left, top, right, bottom] = rect;
        let rect = Rect {
            left,
            top,
            right,
            bottom,
        };
        let (prototypes, coefficients) = (case.get("prototypes"), case.get("coefficients"));
        head.mask(prototypes, coefficients, &rect, &view, &mut mask)
            .unwrap();
        assert_eq!((mask.width, mask.height), (width, height));
        all_near(&mask.probabilities, case.get(expected));
    }
}

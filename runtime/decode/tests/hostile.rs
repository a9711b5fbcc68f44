//! Whatever a network gives, and whatever sizes it is said to have: detections of finite numbers, or a typed error.

use proptest::prelude::*;
use punctual_decode::{
    Activation, Alignment, AnchorHead, Anchors, BoxForm, BoxHead, Candidates, DecodeError,
    Detections, DistributionHead, GridAnchors, HeatMaps, Keep, Layout, Level, LevelTensors, Mask,
    PeakHead, Prototypes, Rect, Refinement, Rows, SetHead, SetScores, Size, Suppression, View,
};

const INPUT: Size = Size {
    width: 64,
    height: 48,
};

/// Any number: small ones mostly, and every special one.
fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => -4.0_f32..4.0,
        1 => proptest::num::f32::ANY,
        1 => prop_oneof![Just(f32::NAN), Just(f32::INFINITY), Just(f32::NEG_INFINITY), Just(f32::MAX)],
    ]
}

fn numbers(count: usize) -> impl Strategy<Value = Vec<f32>> {
    proptest::collection::vec(number(), count)
}

/// Mostly a small size; sometimes 0, or more than memory has.
fn side() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 1_usize..4, 1 => Just(0), 1 => Just(usize::MAX), 1 => Just(1 << 33)]
}

fn keep() -> impl Strategy<Value = Keep> {
    let suppression = prop_oneof![
        Just(Suppression::None),
        number().prop_map(|overlap| Suppression::PerClass { overlap }),
        number().prop_map(|overlap| Suppression::AcrossClasses { overlap }),
    ];
    let candidates = prop_oneof![
        (0_usize..9).prop_map(Candidates::OfEachClass),
        (0_usize..9).prop_map(Candidates::OfEachLevel),
        Just(Candidates::OfEachLevel(usize::MAX)),
    ];
    (number(), candidates, any::<bool>(), suppression, 0_usize..9).prop_map(
        |(threshold, candidates, several_classes, suppression, limit)| Keep {
            threshold,
            candidates,
            several_classes,
            suppression,
            limit,
        },
    )
}

fn activation() -> impl Strategy<Value = Activation> {
    prop_oneof![
        Just(Activation::Softmax),
        Just(Activation::Sigmoid),
        Just(Activation::None)
    ]
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![Just(Layout::Places), Just(Layout::Channels)]
}

/// What holds of all detections, whether there was an error or not.
fn are_sound(detections: &Detections, result: &Result<(), DecodeError>) {
    assert_eq!(detections.len(), detections.places().len());
    if result.is_err() {
        assert!(detections.is_empty());
    }
    for found in detections.iter() {
        let Rect {
            left,
            top,
            right,
            bottom,
        } = found.rect;
        let all = [left, top, right, bottom, found.score];
        assert!(all.iter().all(|value| value.is_finite()));
    }
    let scores = detections.iter().map(|found| found.score);
    assert!(scores.is_sorted_by(|one, other| one >= other));
}

proptest! {
    #[test]
    fn anchors_boxes_and_rows(
        keep in keep(), activation in activation(), layout in layout(), classes in side(),
        places in 0_usize..6, boxes in numbers(24), scores in numbers(18), cut in 0_usize..3,
        background in proptest::option::of(0_u16..4), count in any::<i32>(),
    ) {
        let mut detections = Detections::default();
        let boxes = &boxes[..(4 * places).saturating_sub(cut / 2)];
        let length = places.saturating_mul(classes).min(18);
        let scores = &scores[..length.saturating_sub(cut / 2)];
        let rects = vec![Rect { left: 1.0, top: 2.0, right: 9.0, bottom: 8.0 }; places];
        let head = AnchorHead {
            anchors: &Anchors::new(rects, vec![places / 2, places - places / 2]).unwrap(),
            classes, weights: [10.0, 0.0, 5.0, f32::NAN], activation, background, layout, input: INPUT, keep,
        };
        let result = head.decode(boxes, scores, &mut detections);
        are_sound(&detections, &result);
        let form = BoxForm::Centre;
        let head = BoxHead {
            places, form, classes, activation, background, layout, input: INPUT, keep,
        };
        let result = head.decode(boxes, scores, &mut detections);
        are_sound(&detections, &result);
        let scores_of = SetScores::Sigmoid { most: keep.limit };
        for scores_of in [SetScores::Softmax, scores_of] {
            let head = SetHead {
                queries: places, classes, scores: scores_of, threshold: keep.threshold, input: INPUT,
            };
            let result = head.decode(boxes, scores, &mut detections);
            are_sound(&detections, &result);
        }
        let rows = Rows { threshold: keep.threshold };
        let result = rows.decode(&boxes.repeat(2)[..boxes.len() * 3 / 2], count, &mut detections);
        are_sound(&detections, &result);
    }

    #[test]
    fn distances_and_peaks(
        keep in keep(), activation in activation(), layout in layout(), stride in number(),
        sides in (side(), side(), side(), side()), maps in numbers(600), levels in 0_usize..3, given in 0_usize..3,
    ) {
        let (rows, columns, classes, bins) = sides;
        let cells = rows.saturating_mul(columns);
        let part = |length: usize| &maps[..length.min(600)];
        let level = LevelTensors {
            boxes: part(cells.saturating_mul(4).saturating_mul(bins)),
            scores: part(cells.saturating_mul(classes)),
            centerness: (given == 1).then(|| part(cells)),
        };
        let head = DistributionHead {
            levels: vec![Level { rows, columns, stride }; levels], bins, classes, activation, layout,
            centre: 0.5, input: INPUT, keep,
        };
        let mut detections = Detections::default();
        let result = head.decode(&vec![level; given], &mut detections);
        are_sound(&detections, &result);
        let head = PeakHead {
            classes, rows, columns, stride, logits: activation == Activation::Sigmoid,
            threshold: keep.threshold, limit: keep.limit,
        };
        let two = part(cells.saturating_mul(2));
        let heat = part(cells.saturating_mul(classes));
        let result = head.decode(heat, two, (given == 1).then_some(two), &mut detections);
        are_sound(&detections, &result);
    }

    #[test]
    fn key_points_and_masks(
        sides in (side(), side(), side()), maps in numbers(64), kernel in side(), rect in numbers(4),
        corners in any::<bool>(),
    ) {
        let (points, rows, columns) = sides;
        let cells = rows.saturating_mul(columns);
        let maps = &maps[..points.saturating_mul(cells).min(64)];
        let alignment = if corners { Alignment::Corners } else { Alignment::Areas };
        let mut found = Vec::new();
        for refinement in [
            Refinement::None, Refinement::Quarter, Refinement::Dark { kernel }, Refinement::Mean,
        ] {
            let head = HeatMaps { points, rows, columns, refinement, alignment, input: INPUT };
            if head.decode(maps, &mut found).is_ok() {
                prop_assert_eq!(found.len(), points);
                prop_assert!(found.iter().all(|point| point.x.is_finite() && point.y.is_finite()));
            }
        }
        let view = View::new(3, 4, INPUT, INPUT, false).unwrap();
        let rect = Rect { left: rect[0], top: rect[1], right: 9.0 * rect[2], bottom: 9.0 * rect[3] };
        let mut mask = Mask::default();
        let head = Prototypes { count: points, rows, columns, input: INPUT };
        let coefficients = vec![0.5; points.min(9)];
        if head.mask(maps, &coefficients, &rect, &view, &mut mask).is_ok() {
            let pixels = mask.width as usize * mask.height as usize;
            prop_assert_eq!(mask.probabilities.len(), pixels);
            prop_assert!(mask.x + mask.width <= 67 && mask.y + mask.height <= 52);
        }
    }
}

#[test]
fn errors_name_the_tensor_and_its_length() {
    let head = SetHead {
        queries: 3,
        classes: 2,
        scores: SetScores::Softmax,
        threshold: 0.5,
        input: INPUT,
    };
    let mut detections = Detections::default();
    let error = head.decode(&[0.0; 12], &[0.0; 5], &mut detections);
    let text = error.unwrap_err().to_string();
    assert!(
        text.starts_with("logits: 5 values, 6 were specified;"),
        "{text}"
    );
    let huge = GridAnchors {
        input: INPUT,
        maps: &[Size {
            width: u32::MAX,
            height: u32::MAX,
        }],
        sizes: &[&[1.0]],
        aspect_ratios: &[1.0],
    };
    assert!(matches!(huge.anchors(), Err(DecodeError::TooMany { .. })));
    let none = GridAnchors {
        maps: &[Size {
            width: 0,
            height: 1,
        }],
        ..huge
    };
    assert!(matches!(none.anchors(), Err(DecodeError::Zero { .. })));
}

#[test]
fn rows_behind_the_count_and_of_no_class_are_left_out() {
    let row = |score: f32, class: f32| [1.0, 2.0, 3.0, 4.0, score, class];
    let rows = [
        row(0.9, 3.0),
        row(f32::NAN, 1.0),
        row(0.7, -1.0),
        row(0.6, 65535.0),
        row(0.2, 0.0),
        row(0.5, 2.0),
    ];
    let head = Rows { threshold: 0.3 };
    let mut detections = Detections::default();
    let mut found = |count: i32| {
        head.decode(rows.as_flattened(), count, &mut detections)
            .unwrap();
        let pair = |(place, found): (&u32, &punctual_decode::Detection)| (*place, found.class);
        let places = detections.places().iter();
        places.zip(detections.iter()).map(pair).collect::<Vec<_>>()
    };
    assert_eq!(found(6), [(0, 3), (3, 65535), (5, 2)]);
    assert_eq!(found(5), [(0, 3), (3, 65535)]);
    assert_eq!(found(-1), []);
    assert_eq!(found(i32::MAX), [(0, 3), (3, 65535), (5, 2)]);
}

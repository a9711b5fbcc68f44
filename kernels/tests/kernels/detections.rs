//! The operators of a detector's end equal their references on every instruction set, whatever the values are.

use crate::support::{blocked, check_output, isa, meaning, noise, run_in_parts};
use proptest::prelude::*;
use punctual_kernels::{
    BestScore, BestScoreSpec, BlockedLayout, Detections, DetectionsSpec, Isa, KernelError,
};
use punctual_model as model;
use punctual_types::{BoxForm, DETECTION_VALUES, Decoder, Scoring};

/// Values that no network should compute.
const HOSTILE: [f32; 8] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::MAX,
    f32::MIN,
    -0.0,
    1e-40,
    3.0,
];

fn layout(isa: Isa, [channels, height, width]: [usize; 3], halo: usize) -> BlockedLayout {
    BlockedLayout::new(isa, channels, height, width, halo).unwrap()
}

/// Values rounded to multiples of 1 / `levels`, so that some are equal, then times `scale`; every third is hostile if that
/// is asked for.
fn values(seed: u64, len: usize, scale: f32, levels: f32, hostile: bool) -> Vec<f32> {
    let mut values = noise(seed, len);
    for (at, value) in values.iter_mut().enumerate() {
        *value = (*value * levels).round() / levels * scale;
        if hostile && at % 3 == 0 {
            *value = HOSTILE[(at / 3 + seed as usize % 8) % HOSTILE.len()];
        }
    }
    values
}

fn scoring(classes: usize, first: bool, logits: bool) -> Scoring {
    let first = usize::from(first && classes > 1);
    Scoring {
        first: first as u32,
        classes: (classes - first) as u32,
        logits,
    }
}

fn form() -> impl Strategy<Value = BoxForm> {
    prop::sample::select(vec![
        BoxForm::Corners,
        BoxForm::CornerAndSize,
        BoxForm::CentreAndSize,
    ])
}

proptest! {
    #![proptest_config(crate::support::cases(400))]

    #[test]
    fn the_best_scores_equal_their_reference(
        isa in isa(),
        (classes, height, width) in (1..=50usize, 1..=5usize, 1..=40usize),
        (background, logits, has_objectness, hostile) in any::<(bool, bool, bool, bool)>(),
        (halo, output_halo, parts, seed) in (0..=2usize, 0..=1usize, 1..=5usize, any::<u64>()),
    ) {
        let scoring = scoring(classes, background, logits);
        let places = height * width;
        let scores = layout(isa, [classes, height, width], halo);
        let vector = layout(isa, [places, 1, 1], output_halo);
        let objectness = has_objectness.then_some(vector);
        let spec = BestScoreSpec { scores, objectness, output: vector, scoring };
        let kernel = BestScore::new(isa, &spec).unwrap();
        let of_classes = values(seed, classes * places, 6.0, 1e6, hostile);
        let factors = values(seed ^ 1, places, 2.0, 1e6, hostile);
        // Neither the halo nor the surplus lanes may count.
        let mut memory = vec![blocked(&scores, &of_classes, 9.0, 1e9)];
        memory.extend(has_objectness.then(|| blocked(&vector, &factors, 9.0, 1e9)));
        let found = run_in_parts(parts, &vector, &[memory], &kernel, &[]);
        let factors = has_objectness.then_some((&vector, &factors));
        let read = [(&scores, &of_classes)].into_iter().chain(factors);
        let expected = meaning(model::BestScore { scoring }, read).run();
        check_output(&vector, &found[0], &expected, 1e-6);
    }

    #[test]
    fn detections_equal_their_reference(
        isa in isa(),
        (classes, height, width, other_width) in (1..=20usize, 1..=4usize, 1..=60usize, any::<bool>()),
        (rows, candidates, averaged) in (1..=40u32, prop_oneof![1..=8u32, 1..=300u32], 1..=10u32),
        (form, by_class, background, hostile) in (form(), any::<bool>(), any::<bool>(), any::<bool>()),
        (threshold, overlap) in (0.0..0.9f32, prop::option::of(0.0..=1.0f32)),
        (halos, parts) in (prop::array::uniform4(0..=2usize), 1..=5usize),
        (seed, levels) in (any::<u64>(), prop_oneof![Just(1e6_f32), Just(8.0)]),
    ) {
        let places = height * width;
        let candidates = candidates.min(places as u32);
        let decoder = Decoder {
            form,
            unit: [40.0, 30.0],
            size: [30, 20],
            threshold,
            rows,
            candidates,
            overlap,
            by_class,
            averaged: averaged.min(candidates),
        };
        let scoring = scoring(classes, background, true);
        let pixels = if other_width { [1, places] } else { [width, height] };
        let best = layout(isa, [places, 1, 1], halos[0]);
        let boxes = layout(isa, [4, pixels[0], pixels[1]], halos[1]);
        let scores = layout(isa, [classes, height, width], halos[2]);
        let output = layout(isa, [DETECTION_VALUES as usize, 1, rows as usize + 1], halos[3]);
        let spec = DetectionsSpec { best, boxes, scores, output, scoring, decoder };
        let kernel = Detections::new(isa, &spec).unwrap();
        let of_places = values(seed, places, 1.0, levels, hostile);
        let of_boxes = values(seed ^ 1, 4 * places, 1.0, levels, hostile);
        let of_classes = values(seed ^ 2, classes * places, 6.0, levels, hostile);
        let memory = vec![
            blocked(&best, &of_places, 9.0, 1e9),
            blocked(&boxes, &of_boxes, 9.0, 1e9),
            blocked(&scores, &of_classes, 1e9, 1e9),
        ];
        let found = run_in_parts(parts, &output, &[memory], &kernel, &[]);
        let read = [(&best, &of_places), (&boxes, &of_boxes), (&scores, &of_classes)];
        let expected = meaning(model::Detections { scoring, decoder }, read).run();
        check_output(&output, &found[0], &expected, 0.0);
    }
}

type Change = fn(&mut DetectionsSpec, Isa);

/// A decoder of three places in a row, for a picture of 10x10.
fn three_places() -> (Scoring, Decoder) {
    let decoder = Decoder {
        form: BoxForm::Corners,
        unit: [1.0, 1.0],
        size: [10, 10],
        threshold: 0.25,
        rows: 3,
        candidates: 3,
        overlap: Some(0.5),
        by_class: true,
        averaged: 2,
    };
    let scoring = Scoring {
        first: 0,
        classes: 2,
        logits: false,
    };
    (scoring, decoder)
}

#[test]
fn decoders_that_do_not_fit_are_refused() {
    let isa = Isa::detect();
    let (scoring, decoder) = three_places();
    let spec = DetectionsSpec {
        best: layout(isa, [3, 1, 1], 0),
        boxes: layout(isa, [4, 1, 3], 0),
        scores: layout(isa, [2, 1, 3], 0),
        output: layout(isa, [6, 1, 4], 0),
        scoring,
        decoder,
    };
    let what = |spec: DetectionsSpec| match Detections::new(isa, &spec) {
        Err(KernelError::Mismatch { what, .. } | KernelError::Figure { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let with = |change: Change| {
        let mut spec = spec;
        change(&mut spec, isa);
        what(spec)
    };
    assert!(Detections::new(isa, &spec).is_ok());
    let cases: [(Change, &str); 6] = [
        (|it, _| it.decoder.candidates = 4, "candidates"),
        (|it, _| it.scoring.first = 1, "the end of the classes"),
        (|it, _| it.decoder.rows = 4, "the output's width"),
        (
            |it, isa| it.boxes = layout(isa, [5, 1, 3], 0),
            "the numbers of a box",
        ),
        (|it, isa| it.boxes = layout(isa, [4, 2, 3], 0), "the boxes"),
        (
            |it, isa| it.scores = layout(isa, [2, 3, 3], 0),
            "the places",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(with(change), expected);
    }
    let spec = BestScoreSpec {
        scores: spec.scores,
        objectness: Some(layout(isa, [4, 1, 1], 0)),
        output: spec.best,
        scoring,
    };
    let refused = BestScore::new(isa, &spec).unwrap_err();
    assert!(refused.to_string().contains("the places"), "{refused}");
}

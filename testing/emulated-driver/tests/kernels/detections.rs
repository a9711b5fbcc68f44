//! What a detector's places become. Values are halves, so that both sides choose the same places; the best scores of a
//! list are given, so that its rows equal the reference to the last bit.
use crate::buffer::Buffer;
use crate::error;
use crate::launch::launch;
use crate::tensor::{Tensor, halves, pitch, shape};
use punctual_conformance::Alone;
use punctual_cuda_kernels::Arguments;
use punctual_cuda_kernels::params::{BestScore, Detections, Kept};
use punctual_kernels::Shape;
use punctual_model as model;
use punctual_types::{BoxForm, DETECTION_VALUES, Decoder, Random, Scoring};

const IMAGES: usize = 2;

/// Values that no network should compute.
const HOSTILE: [f32; 6] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    -0.0,
    3.0,
    65504.0,
];

/// Two images, of whose values every third is hostile if that is asked for.
fn images(of: Shape, largest: f32, hostile: bool, random: &mut Random) -> Vec<Vec<f32>> {
    let mut image = || {
        let mut values = halves(random, of.elements(), largest);
        for (at, value) in values.iter_mut().enumerate().step_by(3) {
            if hostile {
                *value = HOSTILE[at / 3 % HOSTILE.len()];
            }
        }
        values
    };
    (0..IMAGES).map(|_| image()).collect()
}

#[test]
fn the_best_scores_of_places() {
    let mut random = Random::new(41);
    for (of, first, classes) in [
        (shape(19, 5, 9), 1, 18),
        (shape(3, 1, 300), 0, 2),
        (shape(1, 4, 4), 0, 1),
    ] {
        for (logits, has_objectness, hostile) in [
            (true, false, false),
            (true, true, true),
            (false, true, false),
            (false, false, true),
        ] {
            let scoring = Scoring {
                first,
                classes,
                logits,
            };
            let vector = shape(of.height * of.width, 1, 1);
            let scores = images(of, 4.0, hostile, &mut random);
            let factors = images(vector, 2.0, hostile, &mut random);
            let mut input = Tensor::of(of, &scores);
            let mut objectness = Tensor::of(vector, &factors);
            let mut output = Buffer::of_bytes(IMAGES * pitch(vector) * 4);
            let mut view = objectness.view();
            let objectness = view.address;
            view.address = output.address();
            launch(
                "best_score",
                Arguments::BestScore(BestScore {
                    scores: input.view(),
                    output: view,
                    objectness: if has_objectness { objectness } else { 0 },
                    images: IMAGES as u32,
                    first,
                    classes,
                    logits: u32::from(logits),
                }),
            );
            let found = output.f32s();
            for (at, scores) in scores.iter().enumerate() {
                let alone = Alone::new(model::BestScore { scoring }).reads(of.sides(), scores);
                let expected = if has_objectness {
                    alone.reads(vector.sides(), &factors[at]).run()
                } else {
                    alone.run()
                };
                let found = &found[at * pitch(vector)..][..pitch(vector)];
                let (found, padding) = found.split_at(expected.len());
                assert!(padding.iter().all(|value| *value == 0.0));
                let what = format!("{of:?} {scoring:?}");
                error::check(&what, found, &expected, 4, &vec![1.0; expected.len()]);
            }
        }
    }
}

/// The list of an image, `[value][row]` as the reference has it.
fn planar(list: &[f32], rows: usize) -> Vec<f32> {
    let value = |value: usize| (0..=rows).map(move |row| list[row * 8 + value]);
    (0..DETECTION_VALUES as usize).flat_map(value).collect()
}

struct Case {
    classes: usize,
    pixels: [usize; 2],
    decoder: Decoder,
    scoring: Scoring,
    hostile: bool,
}

fn check(case: &Case, random: &mut Random) {
    let Case {
        classes,
        pixels: [height, width],
        decoder,
        scoring,
        hostile,
    } = *case;
    let places = height * width;
    let (vector, four, scores) = (
        shape(places, 1, 1),
        shape(4, 1, places),
        shape(classes, height, width),
    );
    let best = images(vector, 1.0, hostile, random);
    let of_boxes = images(four, 1.0, hostile, random);
    let of_scores = images(scores, 4.0, hostile, random);
    let floats: Vec<f32> = best
        .iter()
        .flat_map(|image| {
            let padding = vec![0.0; pitch(vector) - places];
            image.iter().copied().chain(padding).collect::<Vec<f32>>()
        })
        .collect();
    let mut as_floats = Buffer::of_f32(&floats);
    let mut as_halves = Tensor::of(vector, &best);
    let (mut boxes, mut classes) = (Tensor::of(four, &of_boxes), Tensor::of(scores, &of_scores));
    let rows = decoder.rows as usize;
    for kept in [Kept::Floats, Kept::Halves] {
        let mut output = Buffer::of_bytes(IMAGES * (rows + 1) * 8 * 4);
        let mut best_view = as_halves.view();
        if kept == Kept::Floats {
            best_view.address = as_floats.address();
        }
        launch(
            "detections",
            Arguments::Detections(Detections {
                best: best_view,
                boxes: boxes.view(),
                scores: classes.view(),
                output: output.address(),
                images: IMAGES as u32,
                kept: kept as u32,
                boxes_kept: Kept::Halves as u32,
                first: scoring.first,
                classes: scoring.classes,
                form: match decoder.form {
                    BoxForm::Corners => 0,
                    BoxForm::CornerAndSize => 1,
                    BoxForm::CentreAndSize => 2,
                },
                unit_x: decoder.unit[0],
                unit_y: decoder.unit[1],
                width: decoder.size[0] as f32,
                height: decoder.size[1] as f32,
                threshold: decoder.threshold,
                overlap: decoder.overlap.unwrap_or(0.0),
                suppresses: u32::from(decoder.overlap.is_some()),
                by_class: u32::from(decoder.by_class),
                averaged: decoder.averaged,
                rows: decoder.rows,
                candidates: decoder.candidates,
                gap: 0,
            }),
        );
        let found = output.f32s();
        for image in 0..IMAGES {
            let read = [(vector, &best), (four, &of_boxes), (scores, &of_scores)];
            let meant = Alone::new(model::Detections { scoring, decoder });
            let meant = read.into_iter().fold(meant, |meant, (of, images)| {
                meant.reads(of.sides(), &images[image])
            });
            let expected = meant.run();
            let list = &found[image * (rows + 1) * 8..][..(rows + 1) * 8];
            assert_eq!(planar(list, rows), expected, "{decoder:?}");
            assert!(list.chunks(8).all(|row| row[6..] == [0.0; 2]));
        }
    }
}

#[test]
fn lists_of_detections() {
    let mut random = Random::new(42);
    for (pixels, rows, candidates, averaged) in [
        ([1, 3], 4, 2, 1),
        ([13, 17], 20, 60, 3),
        ([40, 50], 100, 700, 5),
        ([50, 50], 1000, 2048, 2048),
    ] {
        for (form, overlap, by_class, hostile) in [
            (BoxForm::Corners, Some(0.25), true, false),
            (BoxForm::CornerAndSize, None, true, true),
            (BoxForm::CentreAndSize, Some(0.5), false, true),
        ] {
            let decoder = Decoder {
                form,
                unit: [40.0, 30.0],
                size: [30, 20],
                threshold: 0.2,
                rows,
                candidates,
                overlap,
                by_class,
                averaged,
            };
            let scoring = Scoring {
                first: 1,
                classes: 9,
                logits: true,
            };
            let case = Case {
                classes: 11,
                pixels,
                decoder,
                scoring,
                hostile,
            };
            check(&case, &mut random);
        }
    }
}

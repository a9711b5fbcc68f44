//! Time of a detector's end, picture by picture: it should not depend on what is seen.
//!
//! `cargo bench -p punctual-kernels --bench detections` prints milliseconds of one core, the least of several rounds in
//! which the pictures take turns. Under `cargo test` the smallest case runs once.

use std::hint::black_box;
#[allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]
use std::time::Instant;

use punctual_kernels::{
    BestScore, BestScoreSpec, BlockedLayout, Detections, DetectionsSpec, Image, Inputs, Isa,
    Kernel, Part,
};
use punctual_types::{BoxForm, DETECTION_VALUES, Decoder, Random, Scoring};

/// Places, classes, rows, candidates.
const CASES: [[usize; 4]; 3] = [
    // RetinaNet and YOLO for 640 x 640, SSDlite for 320 x 320.
    [76_725, 91, 100, 400],
    [8400, 80, 300, 1200],
    [3234, 91, 1000, 2048],
];

const PICTURES: [&str; 4] = ["noise", "empty", "one box everywhere", "NaN"];

/// Scores in 0 to 1 and boxes of a picture.
fn picture(name: &str, places: usize) -> [Vec<f32>; 2] {
    let mut random = Random::new(3);
    let mut noise = |len: usize| (0..len).map(|_| random.unit_f32()).collect::<Vec<f32>>();
    match name {
        "noise" => [noise(places), noise(4 * places)],
        "empty" => [vec![0.0; places], noise(4 * places)],
        "NaN" => [vec![f32::NAN; places], vec![f32::NAN; 4 * places]],
        _ => [vec![0.9; places], vec![0.5; 4 * places]],
    }
}

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let (rounds, cases) = if measure {
        (20, &CASES[..])
    } else {
        (1, &CASES[2..])
    };
    for isa in Isa::available() {
        for &[places, classes, rows, candidates] in cases {
            println!(
                "{isa}: {places} places, {classes} classes, {candidates} candidates, {rows} rows"
            );
            let case = Case::new(isa, [places, classes, rows, candidates]);
            let pictures = PICTURES.map(|name| picture(name, places));
            let mut least = [[f64::INFINITY; 2]; PICTURES.len()];
            for _ in 0..rounds {
                for (picture, least) in pictures.iter().zip(&mut least) {
                    let times = case.times(picture);
                    least
                        .iter_mut()
                        .zip(times)
                        .for_each(|(least, time)| *least = least.min(time));
                }
            }
            for (name, [best, list]) in PICTURES.iter().zip(least) {
                println!("  {name:20} best score {best:7.3} ms, list {list:7.3} ms");
            }
        }
    }
}

struct Case {
    best: BestScore,
    list: Detections,
    classes: usize,
}

impl Case {
    fn new(isa: Isa, [places, classes, rows, candidates]: [usize; 4]) -> Self {
        let layout = |channels, width| BlockedLayout::new(isa, channels, 1, width, 0);
        let [vector, boxes, scores, output] = [
            layout(places, 1),
            layout(4, places),
            layout(classes, places),
            layout(DETECTION_VALUES as usize, rows + 1),
        ]
        .map(|layout| layout.expect("it fits"));
        let scoring = Scoring {
            first: 1,
            classes: classes as u32 - 1,
            logits: false,
        };
        let decoder = Decoder {
            form: BoxForm::CentreAndSize,
            unit: [640.0; 2],
            size: [640; 2],
            threshold: 0.05,
            rows: rows as u32,
            candidates: candidates as u32,
            overlap: Some(0.5),
            by_class: false,
            averaged: 5,
        };
        let best = BestScoreSpec {
            scores,
            objectness: None,
            output: vector,
            scoring,
        };
        let list = DetectionsSpec {
            best: vector,
            boxes,
            scores,
            output,
            scoring,
            decoder,
        };
        Self {
            best: BestScore::new(isa, &best).expect("the case is sound"),
            list: Detections::new(isa, &list).expect("the case is sound"),
            classes,
        }
    }

    /// Milliseconds of the best scores and of the list.
    #[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    fn times(&self, [of_places, of_boxes]: &[Vec<f32>; 2]) -> [f64; 2] {
        let DetectionsSpec {
            best,
            boxes,
            scores,
            output,
            ..
        } = self.list.spec();
        let all = of_places.repeat(self.classes);
        let packed = |layout: &BlockedLayout, values: &[f32]| {
            let mut memory = vec![0.0; layout.len()];
            layout.pack(values, &mut memory);
            memory
        };
        let (boxes, scores) = (packed(boxes, of_boxes), packed(scores, &all));
        let (mut found, mut list) = (vec![0.0; best.len()], vec![0.0; output.len()]);
        let image = Image {
            inputs: Inputs::one(&scores),
            output: &mut found,
        };
        let start = Instant::now();
        self.best.run(&[], Part::WHOLE, black_box(&mut [image]));
        let of_best = start.elapsed().as_secs_f64() * 1e3;
        let image = Image {
            inputs: Inputs::new([&found[..], &boxes, &scores]),
            output: &mut list,
        };
        let start = Instant::now();
        self.list.run(&[], Part::WHOLE, black_box(&mut [image]));
        [of_best, start.elapsed().as_secs_f64() * 1e3]
    }
}

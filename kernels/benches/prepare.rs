//! How long the preparation of a frame takes: convert, crop, resize, normalise.
//!
//! `cargo bench -p punctual-kernels --bench prepare [-- FILTER]` prints microseconds a frame, the best of several short
//! samples, and nanoseconds a pixel of the crop. Under `cargo test` each case runs once.

use std::hint::black_box;
#[allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]
use std::time::Instant;

use punctual_kernels::preprocess::{PlanarOutput, PreprocessSpec, Preprocessor};
use punctual_types::{Fit, FrameLayout, PixelFormat, Size};

/// Frame, crop and the network's input, width and height.
const CASES: [([u32; 2], [u32; 2], [u32; 2]); 5] = [
    ([640, 480], [192, 192], [64, 64]),
    ([640, 480], [640, 480], [320, 240]),
    ([640, 480], [640, 480], [640, 480]),
    ([1280, 720], [1280, 720], [640, 640]),
    ([1920, 1080], [1920, 1080], [512, 288]),
];

const FORMATS: [PixelFormat; 3] = [PixelFormat::Nv12, PixelFormat::Rgb8, PixelFormat::Yuyv];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measure = arguments.iter().any(|argument| argument == "--bench");
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    for (frame, crop, output) in CASES {
        for format in FORMATS {
            let [from, part, to] = [frame, crop, output].map(|[x, y]| format!("{x}x{y}"));
            let name = format!("{} {from}, {part} -> {to}", format.name());
            if filter.is_none_or(|filter| name.contains(filter.as_str())) {
                let seconds = prepared(format, frame, crop, output, measure);
                let pixel_ns = seconds * 1e9 / f64::from(crop[0] * crop[1]);
                println!(
                    "{name:42} {:8.1} us, {pixel_ns:5.2} ns a pixel",
                    seconds * 1e6
                );
            }
        }
    }
}

/// Seconds a frame.
fn prepared(
    format: PixelFormat,
    frame: [u32; 2],
    crop: [u32; 2],
    output: [u32; 2],
    measure: bool,
) -> f64 {
    let size = |[width, height]: [u32; 2]| Size { width, height };
    let layout = FrameLayout::packed(format, frame[0], frame[1]);
    let spec = PreprocessSpec {
        frame: layout,
        crop: size(crop),
        output: size(output),
        channels: 3,
        fit: Fit::Stretch,
        mean: [0.5; 4],
        std: [0.25; 4],
    };
    let mut preprocessor = Preprocessor::new(&spec).expect("the case is sound");
    let pixels: Vec<u8> = (0..layout.len()).map(|at| (at * 7 % 256) as u8).collect();
    let rows = preprocessor.crop_rows(0, 0).expect("it fits");
    let mut copy = vec![0; preprocessor.copy_len_max()];
    rows.copy_from(&pixels, &mut copy);
    let [width, height] = output.map(|side| side as usize);
    let mut planes = vec![0.0; 3 * width * height];
    let mut once = || {
        let output = PlanarOutput::packed(black_box(&mut planes), width, height);
        let ran = preprocessor.run(&rows, black_box(&copy), output);
        ran.expect("pictures have no numbers that are not finite");
    };
    let rounds = if measure { 60 } else { 1 };
    (0..rounds)
        .map(|_| seconds(measure, &mut once))
        .fold(f64::INFINITY, f64::min)
}

/// Of one call, among as many as fill a few milliseconds.
#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn seconds(measure: bool, mut call: impl FnMut()) -> f64 {
    let calls = if measure { 5 } else { 1 };
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed().as_secs_f64() / f64::from(calls)
}

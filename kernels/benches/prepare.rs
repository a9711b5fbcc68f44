//! How long the preparation of a frame takes, where it lies and from a copy: convert, crop, resize, normalise.
//!
//! `cargo bench -p punctual-kernels --bench prepare [-- FILTER]` prints microseconds a frame, p50, p99, p99.9 and the most, and
//! nanoseconds a pixel of the crop. The two ways alternate, frame by frame, over frames that do not fit into the caches together.
//! Then how long the change to crops of another size takes.
//! Under `cargo test` each case runs once.

use std::hint::black_box;
#[allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]
use std::time::Instant;

use punctual_kernels::preprocess::{PlanarOutput, PreprocessSpec, Preprocessor};
use punctual_types::{Fit, FrameLayout, PixelFormat, Size};

/// Frame, crop and the network's input, width and height.
const CASES: [([u32; 2], [u32; 2], [u32; 2]); 7] = [
    ([640, 480], [192, 192], [64, 64]),
    ([640, 480], [640, 480], [320, 240]),
    ([640, 480], [640, 480], [640, 480]),
    ([1280, 720], [1280, 720], [640, 640]),
    ([1920, 1080], [1920, 1080], [512, 288]),
    ([1920, 1080], [1920, 1080], [640, 640]),
    ([3840, 2160], [3840, 2160], [640, 640]),
];

const FORMATS: [PixelFormat; 3] = [PixelFormat::Nv12, PixelFormat::Rgb8, PixelFormat::Yuyv];

/// Frames in memory at a time, as in a channel's slots.
const SLOTS: usize = 4;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measure = arguments.iter().any(|argument| argument == "--bench");
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    for (frame, crop, output) in CASES {
        for format in FORMATS {
            let [from, part, to] = [frame, crop, output].map(|[x, y]| format!("{x}x{y}"));
            let name = format!("{} {from}, {part} -> {to}", format.name());
            if filter.is_none_or(|filter| name.contains(filter.as_str())) {
                let mut preparation = Preparation::new(format, frame, crop, output);
                let mut took = preparation.took(measure);
                for (way, took) in ["copied", "in place", "another size"]
                    .into_iter()
                    .zip(&mut took)
                {
                    print(&format!("{name}, {way}"), crop, took);
                }
            }
        }
    }
}

fn print(name: &str, crop: [u32; 2], took: &mut [f64]) {
    took.sort_by(f64::total_cmp);
    let quantile = |share: f64| took[((took.len() - 1) as f64 * share) as usize] * 1e6;
    let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(quantile);
    let pixel_ns = p50 * 1e3 / f64::from(crop[0] * crop[1]);
    println!("{name:48} {p50:8.1} {p99:8.1} {p999:8.1} {max:8.1} us, {pixel_ns:5.2} ns a pixel");
}

/// One case, with its frames.
struct Preparation {
    preprocessor: Preprocessor,
    crop: Size,
    frames: Vec<Vec<u8>>,
    copy: Vec<u8>,
    planes: Vec<f32>,
}

impl Preparation {
    fn new(format: PixelFormat, frame: [u32; 2], crop: [u32; 2], output: [u32; 2]) -> Self {
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
        let preprocessor = Preprocessor::new(&spec).expect("the case is sound");
        let pixels = |slot: usize| (0..layout.len()).map(move |at| ((at * 7 + slot) % 256) as u8);
        Self {
            frames: (0..SLOTS).map(|slot| pixels(slot).collect()).collect(),
            copy: vec![0; preprocessor.copy_len_max()],
            planes: vec![0.0; (3 * output[0] * output[1]) as usize],
            preprocessor,
            crop: spec.crop,
        }
    }

    /// Seconds of each frame: by a copy, and in place. And of each change of the crop's size.
    fn took(&mut self, measure: bool) -> [Vec<f64>; 3] {
        let rounds = if measure { 1000 } else { 1 };
        let (mut copied, mut in_place, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            let frame = 2 * round % SLOTS;
            copied.push(self.seconds(frame, true));
            in_place.push(self.seconds(frame + 1, false));
        }
        for round in 0..rounds {
            changed.push(self.seconds_of_change(1 - round as u32 % 2));
        }
        [copied, in_place, changed]
    }

    /// To crops whose sides are shorter than those of the case, by as much.
    #[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    fn seconds_of_change(&mut self, smaller: u32) -> f64 {
        let crop = Size {
            width: self.crop.width - smaller,
            height: self.crop.height - smaller,
        };
        let begun = Instant::now();
        self.preprocessor
            .cut(black_box(crop))
            .expect("it is smaller");
        begun.elapsed().as_secs_f64()
    }

    #[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    fn seconds(&mut self, frame: usize, copied: bool) -> f64 {
        let rows = self.preprocessor.crop_rows(0, 0).expect("it fits");
        let frame = black_box(&self.frames[frame]);
        let Size { width, height } = self.preprocessor.output();
        let output =
            PlanarOutput::packed(black_box(&mut self.planes), width as usize, height as usize);
        let begun = Instant::now();
        let ran = if copied {
            rows.copy_from(frame, &mut self.copy);
            self.preprocessor.run(&rows, black_box(&self.copy), output)
        } else {
            self.preprocessor
                .run_in_place(&rows, frame[..].into(), output)
        };
        ran.expect("pictures have no numbers that are not finite");
        begun.elapsed().as_secs_f64()
    }
}

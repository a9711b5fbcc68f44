//! Throughput of resizes in bytes written, against a plain copy of as many, sample by sample in turn.
//!
//! `cargo bench -p punctual-kernels --bench resize [-- FILTER]` prints GB/s, the best of several
//! short samples. Under `cargo test` each case runs once.

use std::hint::black_box;
#[allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]
use std::time::Instant;

use punctual_kernels::{
    AlignedBuffer, BlockedLayout, Image, Inputs, Isa, Kernel, Part, Resize, ResizeSpec,
};
use punctual_types::{Coordinates, Extent, Filter, Resampling, Rounding};

/// Channels, and the sides of the square images.
const CASES: [(usize, usize, usize); 6] = [
    (21, 65, 513),
    (256, 28, 224),
    (128, 40, 80),
    (256, 16, 32),
    (64, 112, 224),
    (256, 56, 28),
];

const LINEAR: (&str, Coordinates, Filter) = ("linear", Coordinates::HalfPixel, Filter::Linear);
const NEAREST: (&str, Coordinates, Filter) = (
    "nearest",
    Coordinates::Asymmetric,
    Filter::Nearest(Rounding::Floor),
);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measure = arguments.iter().any(|argument| argument == "--bench");
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    for isa in Isa::available() {
        for (channels, from, to) in CASES {
            for how in [LINEAR, NEAREST] {
                let name = format!("{isa} {} {channels}x{from}x{from} -> {to}x{to}", how.0);
                if filter.is_none_or(|filter| name.contains(filter.as_str())) {
                    let [resize, copy] = throughput(isa, channels, from, to, how, measure);
                    let share = 100.0 * resize / copy;
                    println!("{name:42} {resize:6.1} GB/s, a copy {copy:6.1} GB/s, {share:3.0}%");
                }
            }
        }
    }
}

/// Of the resize, and of a copy.
fn throughput(
    isa: Isa,
    channels: usize,
    from: usize,
    to: usize,
    (_, coordinates, filter): (&str, Coordinates, Filter),
    measure: bool,
) -> [f64; 2] {
    let layout = |side| BlockedLayout::new(isa, channels, side, side, 0).expect("it fits");
    let resampling = Resampling {
        size: Extent::square(to as u32),
        scale: [to as f32 / from as f32; 2],
        coordinates,
        filter,
    };
    let (input, output) = (layout(from), layout(to));
    let spec = ResizeSpec {
        input,
        output,
        resampling,
    };
    let kernel = Resize::new(isa, &spec).expect("the case is sound");
    let mut image = AlignedBuffer::zeroed(input.len());
    image.fill(0.5);
    let mut source = AlignedBuffer::zeroed(output.len());
    source.fill(0.5);
    let mut result = AlignedBuffer::zeroed(output.len());
    let mut least = [f64::INFINITY; 2];
    for _ in 0..if measure { 60 } else { 1 } {
        let seconds = seconds(measure, || {
            let inputs = Inputs::one(&image);
            let output = &mut result;
            kernel.run(&[], Part::WHOLE, black_box(&mut [Image { inputs, output }]));
        });
        least[0] = least[0].min(seconds);
        let seconds = self::seconds(measure, || {
            black_box(&mut result[..]).copy_from_slice(&source);
        });
        least[1] = least[1].min(seconds);
    }
    let bytes = (output.len() * size_of::<f32>()) as f64;
    least.map(|seconds| bytes / seconds / 1e9)
}

/// Of one call, among as many as fill a millisecond.
#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn seconds(measure: bool, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    call();
    let first = start.elapsed().as_secs_f64();
    if !measure {
        return first;
    }
    let calls = (1e-3 / first).ceil().max(1.0) as u32;
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed().as_secs_f64() / f64::from(calls)
}

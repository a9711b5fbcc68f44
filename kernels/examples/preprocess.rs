//! How long preprocessing takes on this machine, one thread:
//! `cargo run --release -p punctual-kernels --example preprocess`

use punctual_kernels::preprocess::{PlanarOutput, PreprocessError, PreprocessSpec, Preprocessor};
use punctual_types::{Fit, FrameLayout, PixelFormat, Size};

const ROUNDS: usize = 2000;

#[allow(clippy::disallowed_methods)] // A measurement, and the kernels may not depend on the clock.
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

fn main() -> Result<(), PreprocessError> {
    let fits = [Fit::Stretch, Fit::Letterbox { fill: Fit::FILL }];
    for format in PixelFormat::ALL {
        for channels in [3, 1, 4] {
            for fit in fits.into_iter().filter(|_| format.gives(channels)) {
                measure(format, channels, fit)?;
            }
        }
    }
    Ok(())
}

/// A crop of 192 x 192 at odd positions, letterboxed 192 x 128.
fn measure(format: PixelFormat, channels: u32, fit: Fit) -> Result<(), PreprocessError> {
    let frame = FrameLayout::packed(format, 640, 480);
    let height = if fit.is_stretch() { 192 } else { 128 };
    let crop = Size { width: 192, height };
    let output = Size {
        width: 64,
        height: 64,
    };
    let mut preprocessor = Preprocessor::new(&PreprocessSpec {
        frame,
        crop,
        output,
        channels,
        fit,
        mean: [0.45; 4],
        std: [0.25; 4],
    })?;
    let pixels: Vec<u8> = (0..frame.len())
        .map(|byte| (byte * 31 % 251) as u8)
        .collect();
    let mut copy = vec![0; preprocessor.copy_len_max()];
    let mut planes = vec![0.0; preprocessor.channels() * 64 * 64];
    let rows = preprocessor.crop_rows(101, 101)?;
    let mut micros: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = now();
            rows.copy_from(&pixels, &mut copy);
            let planes = PlanarOutput::packed(&mut planes, 64, 64);
            preprocessor.run(&rows, &copy, planes).expect("a picture");
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    micros.sort_by(f64::total_cmp);
    println!(
        "{} {crop} -> {channels} x {output}{}: p50 {:.1} us, p99 {:.1} us",
        format.name(),
        if fit.is_stretch() { "" } else { " letterboxed" },
        micros[ROUNDS / 2],
        micros[ROUNDS * 99 / 100],
    );
    Ok(())
}

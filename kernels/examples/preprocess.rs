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
    for format in [
        PixelFormat::Rgb8,
        PixelFormat::Nv12,
        PixelFormat::Gray8,
        PixelFormat::Yuyv,
        PixelFormat::Bgr8,
    ] {
        for (x, y) in [(100, 100), (101, 101)] {
            let frame = FrameLayout::packed(format, 640, 480);
            let mut preprocessor = Preprocessor::new(&PreprocessSpec {
                frame,
                crop: Size {
                    width: 192,
                    height: 192,
                },
                output: Size {
                    width: 64,
                    height: 64,
                },
                channels: 3,
                fit: Fit::Stretch,
                mean: [0.45; 4],
                std: [0.25; 4],
            })?;
            let pixels: Vec<u8> = (0..frame.len())
                .map(|byte| (byte * 31 % 251) as u8)
                .collect();
            let mut copy = vec![0; preprocessor.copy_len_max()];
            let mut planes = vec![0.0; 3 * 64 * 64];
            let rows = preprocessor.crop_rows(x, y)?;
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
                "{format:?} 192x192 at ({x}, {y}) -> 64x64: p50 {:.1} us, p99 {:.1} us",
                micros[ROUNDS / 2],
                micros[ROUNDS * 99 / 100],
            );
        }
    }
    Ok(())
}

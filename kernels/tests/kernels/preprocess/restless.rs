//! Frames that somebody writes to while they are prepared.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use punctual_kernels::preprocess::{NotFinite, PlanarOutput, PreprocessSpec, Preprocessor};
use punctual_types::{FrameLayout, PixelFormat, SharedBytes, Size};

use super::{PICTURES, size, spec};

const ROUNDS: usize = if cfg!(miri) { 2 } else { 200 };

/// Prepares the frame again and again while another thread writes to each of its bytes.
fn prepare_restless(
    spec: &PreprocessSpec,
    writes: impl Fn(usize, u8) -> u8 + Sync,
    mut seen: impl FnMut(Result<(), NotFinite>, &[f32]),
) {
    let frame: Vec<AtomicU8> = (0..spec.frame.len()).map(|_| AtomicU8::new(0)).collect();
    let done = AtomicBool::new(false);
    let mut preprocessor = Preprocessor::new(spec).expect("valid");
    let rows = preprocessor.crop_rows(0, 0).expect("inside");
    let Size { width, height } = spec.output;
    let (width, height) = (width as usize, height as usize);
    let mut planes = vec![0.0; preprocessor.channels() * width * height];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0_u8;
            while !done.load(Ordering::Relaxed) {
                round = round.wrapping_add(83);
                for (at, byte) in frame.iter().enumerate() {
                    byte.store(writes(at, round), Ordering::Relaxed);
                }
            }
        });
        for _ in 0..ROUNDS {
            let start = NonNull::from(&frame[..]).cast();
            // SAFETY: the frame lives, and every other access to it is atomic.
            let shared = unsafe { SharedBytes::new(start, frame.len()) };
            let output = PlanarOutput::packed(&mut planes, width, height);
            let prepared = preprocessor.run_in_place(&rows, shared, output);
            seen(prepared, &planes);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn pixels_that_change_meanwhile_are_pixels_all_the_same() {
    for (format, channels) in PICTURES {
        let layout = FrameLayout::packed(format, 70, 46);
        let spec = PreprocessSpec {
            channels,
            ..spec(layout, size(66, 45), size(20, 31))
        };
        prepare_restless(
            &spec,
            |at, round| (at as u8).wrapping_mul(round),
            |prepared, planes| {
                prepared.expect("a picture");
                let within = |value: &f32| (-1e-5..=1.0 + 1e-5).contains(value);
                assert!(planes.iter().all(within), "{format:?} {channels}");
            },
        );
    }
}

#[test]
fn a_tensor_that_was_taken_is_finite_whatever_is_written_meanwhile() {
    let layout = FrameLayout::packed(PixelFormat::Tensor, 21, 3 * 9);
    let spec = spec(layout, size(21, 9), size(21, 9));
    // The upper two bytes are those of an infinite number, or of 1.
    let number = |at: usize, round: u8| match (at % 4, round % 4) {
        (3, 0) => 0x7f,
        (3, _) => 0x3f,
        (2, _) => 0x80,
        _ => 0,
    };
    prepare_restless(&spec, number, |taken, values| {
        let all_finite = values.iter().all(|value| value.is_finite());
        assert!(all_finite || taken == Err(NotFinite));
    });
}

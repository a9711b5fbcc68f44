//! What the property tests share: values, tensors in memory, comparison.

#![allow(
    dead_code,
    reason = "each test file is a program of its own and uses some of these"
)]

pub mod convolution;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use punctual_conformance::Alone;
use punctual_kernels::{BlockedLayout, Image, Inputs, Isa, Kernel, Part, Shape};
use punctual_model::OperatorKind;
use punctual_types::{Activation, Random, Window};

/// That many cases, the same on each run; no more than `PROPTEST_CASES`, where that is set.
pub fn cases(cases: u32) -> ProptestConfig {
    let set = std::env::var("PROPTEST_CASES").ok();
    let limit = set.map_or(u32::MAX, |set| set.parse().expect("a number of cases"));
    ProptestConfig {
        cases: cases.min(limit),
        rng_seed: RngSeed::Fixed(0x5EED),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Any instruction set of this machine.
pub fn isa() -> impl Strategy<Value = Isa> {
    prop::sample::select(Isa::available().collect::<Vec<_>>())
}

pub fn activation() -> impl Strategy<Value = Activation> {
    prop::sample::select(vec![
        Activation::None,
        Activation::Relu,
        Activation::Clip {
            low: -0.5,
            high: 0.25,
        },
        Activation::Sigmoid,
        Activation::Silu,
        Activation::HardSigmoid,
        Activation::HardSwish,
        Activation::Gelu,
        Activation::Tanh,
        Activation::LeakyRelu { slope: 0.1 },
        Activation::Elu {
            above: 1.1,
            below: 0.7,
            rate: 0.5,
        },
        Activation::Mish,
        Activation::Softplus,
        Activation::Softsign,
        Activation::TanhGelu,
    ])
}

/// `len` values in [-1, 1) that follow from `seed`.
pub fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.signed_unit()).collect()
}

/// Whether the window fits an image of these sides.
pub fn fits(window: &Window, height: usize, width: usize) -> bool {
    shape(1, height, width).windowed(window, 1).is_ok()
}

/// An image in blocked memory, with `surplus` in the surplus lanes and `halo` around it.
pub fn blocked(layout: &BlockedLayout, image: &[f32], surplus: f32, halo: f32) -> Vec<f32> {
    let mut memory = vec![halo; layout.len()];
    let lanes = layout.lanes();
    let mut i = 0;
    for channel in 0..layout.blocks() * lanes {
        for row in 0..layout.height() {
            for column in 0..layout.width() {
                let first = layout.index(channel / lanes * lanes, row, column);
                memory[first + channel % lanes] = if channel < layout.channels() {
                    i += 1;
                    image[i - 1]
                } else {
                    surplus
                };
            }
        }
    }
    memory
}

/// What an operator means, for these images of what it reads.
pub fn meaning<'a>(
    kind: impl Into<OperatorKind>,
    reads: impl IntoIterator<Item = (&'a BlockedLayout, &'a Vec<f32>)>,
) -> Alone {
    let reads = reads.into_iter();
    reads.fold(Alone::new(kind), |alone, (layout, image)| {
        alone.reads(layout.shape().sides(), image)
    })
}

/// What one member of a batch reads.
pub trait Member {
    fn inputs(&self) -> Inputs<'_>;
}

impl Member for (Vec<f32>, Option<Vec<f32>>) {
    fn inputs(&self) -> Inputs<'_> {
        Inputs::new([Some(&self.0[..]), self.1.as_deref()].into_iter().flatten())
    }
}

impl Member for Vec<Vec<f32>> {
    fn inputs(&self) -> Inputs<'_> {
        Inputs::new(self.iter().map(Vec::as_slice))
    }
}

/// Runs a kernel on a batch with its work cut into `parts`, into memory full of NaN.
pub fn run_in_parts(
    parts: usize,
    output: &BlockedLayout,
    batch: &[impl Member],
    kernel: &dyn Kernel,
    packed: &[f32],
) -> Vec<Vec<f32>> {
    by_parts(parts, output, batch, |part, images| {
        kernel.run(packed, part, images)
    })
}

/// The same of anything that runs a part.
pub fn by_parts(
    parts: usize,
    output: &BlockedLayout,
    batch: &[impl Member],
    run: impl Fn(Part, &mut [Image<'_>]),
) -> Vec<Vec<f32>> {
    let mut memory = vec![vec![f32::NAN; output.len()]; batch.len()];
    let mut end = 0;
    for index in 0..parts {
        let part = Part::new(index, parts);
        let range = output.part(part);
        assert_eq!(range.start, end, "parts follow each other");
        end = range.end;
        let mut images: Vec<_> = memory
            .iter_mut()
            .zip(batch)
            .map(|(memory, member)| Image {
                inputs: member.inputs(),
                output: &mut memory[range.clone()],
            })
            .collect();
        run(part, &mut images);
    }
    assert_eq!(end, output.len(), "parts cover the tensor");
    memory
}

/// Checks a kernel's output: the image within `tolerance`, zeros in the halo, finite surplus lanes.
pub fn check_output(layout: &BlockedLayout, memory: &[f32], expected: &[f32], tolerance: f32) {
    let mut image = vec![0.0; layout.shape().elements()];
    layout.unpack(memory, &mut image);
    assert_eq!(image.len(), expected.len(), "as many values as expected");
    for (i, (&found, &expected)) in image.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        assert!(
            error <= tolerance,
            "value {i}: {found}, not {expected} within {tolerance}"
        );
    }
    assert!(
        memory.iter().all(|value| value.is_finite()),
        "every element is written"
    );
    let inside = blocked(layout, &vec![1.0; layout.shape().elements()], 1.0, 0.0);
    for (value, inside) in memory.iter().zip(inside) {
        assert!(inside == 1.0 || *value == 0.0, "the halo is zero");
    }
}

pub fn shape(channels: usize, height: usize, width: usize) -> Shape {
    Shape {
        channels,
        height,
        width,
    }
}

/// How far a sum of `terms` products of values below 1 may be off, summed in f32 in any order:
/// generous for roundings that add up, far below what one wrong term makes.
pub fn tolerance(terms: usize) -> f32 {
    2e-7 * (terms + 8) as f32
}

//! Arithmetic throughput of the convolutions, shape by shape, against the most that one core can
//! do, measured in the same run.
//!
//! `cargo bench -p punctual-kernels [-- FILTER...]`, filters being parts of names, prints GFLOP/s (a multiplication with addition
//! counts two) and the share of the peak; the best of several short samples, since neighbours on
//! the machine only ever slow a sample down. Under `cargo test` shapes of few products run once.

use std::hint::black_box;
#[allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]
use std::time::Instant;

use punctual_kernels::{
    AlignedBuffer, BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Image, Inputs, Isa, Kernel, Part,
    PlanarLayout, Shape, Weights,
};
use punctual_types::{Activation, Extent, Padding, Random, Window};

/// A convolution to measure: square images and kernels.
struct Case {
    inputs: usize,
    outputs: usize,
    side: usize,
    kernel: usize,
    stride: usize,
    groups: usize,
    dilation: usize,
}

const fn dense(inputs: usize, outputs: usize, side: usize, kernel: usize, stride: usize) -> Case {
    Case {
        inputs,
        outputs,
        side,
        kernel,
        stride,
        groups: 1,
        dilation: 1,
    }
}

const fn depthwise(channels: usize, side: usize) -> Case {
    Case {
        groups: channels,
        ..dense(channels, channels, side, 3, 1)
    }
}

/// Padded by its dilation, so that the image keeps its size.
const fn dilated(case: Case, dilation: usize) -> Case {
    Case { dilation, ..case }
}

const CASES: [Case; 32] = [
    dense(3, 16, 64, 3, 1),
    dense(3, 32, 64, 3, 2),
    dense(16, 16, 64, 3, 1),
    dense(16, 32, 64, 3, 2),
    dense(32, 32, 32, 3, 1),
    dense(64, 64, 32, 3, 1),
    dense(32, 64, 32, 3, 2),
    dense(48, 48, 16, 3, 1),
    dense(64, 64, 16, 3, 1),
    dense(64, 96, 16, 3, 2),
    dense(96, 96, 16, 3, 1),
    dense(64, 64, 8, 3, 1),
    dense(128, 128, 8, 3, 1),
    dense(160, 160, 8, 3, 1),
    dense(128, 128, 4, 3, 1),
    dense(256, 256, 14, 3, 1),
    dense(512, 512, 7, 3, 1),
    dense(64, 64, 16, 1, 1),
    dense(96, 160, 8, 1, 1),
    dense(64, 128, 16, 1, 2),
    dense(64, 256, 56, 1, 1),
    depthwise(96, 32),
    // Each next to the same convolution without dilation: those of DeepLab's heads, and of the layers before them.
    dense(256, 256, 65, 3, 1),
    dilated(dense(256, 256, 65, 3, 1), 2),
    dilated(dense(256, 256, 65, 3, 1), 12),
    dilated(dense(256, 256, 65, 3, 1), 24),
    dense(512, 256, 28, 3, 1),
    dilated(dense(512, 256, 28, 3, 1), 12),
    dilated(dense(512, 256, 28, 3, 1), 36),
    depthwise(256, 65),
    dilated(depthwise(256, 65), 2),
    dilated(depthwise(256, 65), 12),
];

/// Most multiply-accumulates of an image of a shape that `cargo test` runs.
const TEST_PRODUCTS_MAX: usize = 150_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measure = arguments.iter().any(|argument| argument == "--bench");
    let filters = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'));
    let filters: Vec<&str> = filters.map(String::as_str).collect();
    let wanted = |isa: Isa, case: &Case| {
        let name = format!("{isa} {}", case.name());
        (measure || case.products() <= TEST_PRODUCTS_MAX)
            && filters.iter().all(|filter| name.contains(filter))
    };
    for isa in Isa::available() {
        let cases = CASES.iter().filter(|case| wanted(isa, case));
        let cases: Vec<&Case> = cases.collect();
        if cases.is_empty() {
            continue;
        }
        let peak = peak_gflops(isa, measure);
        println!("{isa}: peak {peak:.1} GFLOP/s");
        for case in cases {
            let one = case.gflops(isa, 1, measure);
            let eight = case.gflops(isa, 8, measure);
            println!(
                "  {:31} batch 1 {one:6.1} GFLOP/s {:3.0}%   batch 8 {eight:6.1} GFLOP/s {:3.0}%",
                case.name(),
                100.0 * one / peak,
                100.0 * eight / peak
            );
        }
    }
}

impl Case {
    fn name(&self) -> String {
        let Case {
            inputs,
            outputs,
            side,
            kernel,
            stride,
            groups,
            dilation,
        } = self;
        let kind = if *groups > 1 { " depthwise" } else { "" };
        let apart = match dilation {
            1 => String::new(),
            apart => format!(" d{apart}"),
        };
        format!("{inputs}->{outputs} {side}x{side} k{kernel} s{stride}{apart}{kind}")
    }

    /// Multiply-accumulates of an image.
    fn products(&self) -> usize {
        let taps = self.kernel * self.kernel * self.inputs / self.groups;
        self.side.div_ceil(self.stride).pow(2) * self.outputs * taps
    }

    fn gflops(&self, isa: Isa, batch: usize, measure: bool) -> f64 {
        let (conv, packed, output) = self.build(isa);
        let input = conv.spec().input;
        let mut memory: Vec<_> = (0..batch)
            .map(|_| (noise(input.len()), AlignedBuffer::zeroed(output.len())))
            .collect();
        let mut images: Vec<_> = memory
            .iter_mut()
            .map(|(input, output)| Image {
                inputs: Inputs::one(input),
                output,
            })
            .collect();
        let products = self.products() * batch;
        let seconds = least_seconds(measure, || {
            conv.run(&packed, Part::WHOLE, black_box(&mut images))
        });
        2.0 * products as f64 / seconds / 1e9
    }

    fn build(&self, isa: Isa) -> (Conv2d, AlignedBuffer, BlockedLayout) {
        let padding = self.kernel / 2 * self.dilation;
        let window = Window {
            dilation: Extent::square(self.dilation as u32),
            ..Window::new(
                Extent::square(self.kernel as u32),
                Extent::square(self.stride as u32),
                Padding::uniform(padding as u32),
            )
        };
        let halo = window.halo();
        let input = if self.inputs == 3 {
            PlanarLayout::new(3, self.side, self.side, halo).map(ConvInput::Planar)
        } else {
            BlockedLayout::new(isa, self.inputs, self.side, self.side, halo).map(ConvInput::Blocked)
        };
        let image = Shape {
            channels: self.inputs,
            height: self.side,
            width: self.side,
        };
        let result = image
            .windowed(&window, self.outputs)
            .expect("the window fits");
        let output = BlockedLayout::new(isa, self.outputs, result.height, result.width, 1)
            .expect("the output fits");
        let spec = Conv2dSpec {
            input: input.expect("the input fits"),
            output,
            residual: None,
            window,
            groups: self.groups,
            activation: Activation::Relu,
        };
        let weights = noise(self.outputs * self.inputs / self.groups * self.kernel.pow(2));
        let bias = noise(self.outputs);
        let conv = Conv2d::new(isa, &spec).expect("the case is sound");
        let packed = conv
            .packed(&Weights::floats(&[&weights, &bias]))
            .expect("the weights fit");
        (conv, packed, output)
    }
}

/// Values in [-1, 1), the same on each run.
fn noise(len: usize) -> AlignedBuffer {
    let mut random = Random::new(1);
    let mut buffer = AlignedBuffer::zeroed(len);
    buffer.fill_with(|| random.signed_unit());
    buffer
}

/// The least time of one call among samples of about a millisecond.
#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn least_seconds(measure: bool, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    call();
    let first = start.elapsed().as_secs_f64();
    if !measure {
        return first;
    }
    let calls = (1e-3 / first).ceil().max(1.0) as u32;
    let mut least = f64::INFINITY;
    for _ in 0..60 {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        least = least.min(start.elapsed().as_secs_f64() / f64::from(calls));
    }
    least
}

/// What independent multiply-adds on registers reach.
fn peak_gflops(isa: Isa, measure: bool) -> f64 {
    const ROUNDS: u64 = 200_000;
    let seconds = least_seconds(measure, || match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa` is available.
        Isa::Avx512 => unsafe { peak::avx512(ROUNDS) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa` is available.
        Isa::Avx2Fma => unsafe { peak::avx2_fma(ROUNDS) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: `isa` is available.
        Isa::Neon => unsafe { peak::neon(ROUNDS) },
        _ => peak::plain(ROUNDS),
    });
    2.0 * (ROUNDS as usize * peak::CHAINS * isa.lanes()) as f64 / seconds / 1e9
}

mod peak {
    use std::hint::black_box;

    /// Independent sums: enough to hide the latency of a multiply-add on any of the machines.
    pub const CHAINS: usize = 12;

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    pub fn avx512(rounds: u64) {
        use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_set1_ps};
        let (a, b) = (
            _mm512_set1_ps(black_box(0.5)),
            _mm512_set1_ps(black_box(0.25)),
        );
        let mut sums = [a; CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, a, b);
            }
        }
        black_box(sums);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    pub fn avx2_fma(rounds: u64) {
        use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps};
        let (a, b) = (
            _mm256_set1_ps(black_box(0.5)),
            _mm256_set1_ps(black_box(0.25)),
        );
        let mut sums = [a; CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, a, b);
            }
        }
        black_box(sums);
    }

    #[cfg(target_arch = "aarch64")]
    #[target_feature(enable = "neon")]
    pub fn neon(rounds: u64) {
        use std::arch::aarch64::{vdupq_n_f32, vfmaq_f32};
        let (a, b) = (vdupq_n_f32(black_box(0.5)), vdupq_n_f32(black_box(0.25)));
        let mut sums = [a; CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = vfmaq_f32(*sum, a, b);
            }
        }
        black_box(sums);
    }

    /// Of four lanes, left to the compiler.
    pub fn plain(rounds: u64) {
        let (a, b) = (black_box([0.5f32; 4]), black_box([0.25f32; 4]));
        let mut sums = [a; CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                for i in 0..4 {
                    sum[i] = sum[i] * a[i] + b[i];
                }
            }
        }
        black_box(sums);
    }
}

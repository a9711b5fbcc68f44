//! Convolutions: the general kernels and each tile of tensor cores, by the same cases.
use crate::buffer::Buffer;
use crate::error;
use crate::launch::launch;
use crate::tensor::{Numbers, Tensor, pitch, shape};
use punctual_kernels::cuda::params::{Conv, Pattern};
use punctual_kernels::cuda::{Arguments, KERNELS, half, padded};
use punctual_kernels::reference::{self, Shape};
use punctual_kernels::{Activation, Extent, Padding, Window};

/// A convolution, and how it is launched.
#[derive(Clone, Debug)]
pub struct Case {
    pub images: usize,
    pub input: Shape,
    pub outputs: usize,
    pub groups: usize,
    pub window: Window,
    pub residual: bool,
    pub activation: Activation,
    /// More than one go through `partial` and `conv_reduce`.
    pub splits: u32,
    /// Output channels of each launch.
    pub pieces: Vec<u32>,
}

impl Case {
    /// 3x3 with padding on 20 channels.
    pub fn plain() -> Self {
        Self {
            images: 2,
            input: shape(20, 7, 9),
            outputs: 40,
            groups: 1,
            window: window((3, 3), (1, 1), (1, 1, 1, 1)),
            residual: false,
            activation: Activation::None,
            splits: 1,
            pieces: vec![40],
        }
    }

    fn pattern(&self) -> Pattern {
        match self.groups {
            1 => Pattern::Dense,
            groups if groups == self.input.channels && groups == self.outputs => Pattern::Depthwise,
            _ => Pattern::Grouped,
        }
    }

    fn output(&self) -> Shape {
        let extent = self
            .window
            .output_extent(self.input.height, self.input.width);
        let extent = extent.expect("the window fits");
        shape(self.outputs, extent.height, extent.width)
    }
}

/// Kernel and stride as `(height, width)`, padding as `(top, left, bottom, right)`.
pub fn window(
    kernel: (usize, usize),
    stride: (usize, usize),
    (top, left, bottom, right): (usize, usize, usize, usize),
) -> Window {
    let extent = |(height, width)| Extent { height, width };
    Window {
        kernel: extent(kernel),
        stride: extent(stride),
        padding: Padding {
            top,
            left,
            bottom,
            right,
        },
    }
}

/// A case with its operands, and what it must give.
pub struct Prepared {
    case: Case,
    input: Tensor,
    addend: Option<Tensor>,
    pub output: Tensor,
    partial: Buffer,
    /// Weights and bias of each launch.
    packed: Vec<(Buffer, Buffer)>,
    expected: Vec<Vec<f32>>,
    magnitudes: Vec<Vec<f32>>,
}

impl Prepared {
    pub fn new(case: &Case) -> Self {
        let mut numbers = Numbers::seeded(11);
        let (input, images) = Tensor::random(case.input, case.images, &mut numbers);
        let taps = case.window.kernel.height * case.window.kernel.width;
        let inputs = case.input.channels / case.groups;
        let weights = numbers.halves(case.outputs * inputs * taps, 0.25);
        let bias = numbers.halves(case.outputs, 1.0);
        let (addend, addends) = if case.residual {
            let (tensor, images) = Tensor::random(case.output(), case.images, &mut numbers);
            (Some(tensor), images)
        } else {
            (None, Vec::new())
        };
        let absolute = |values: &[f32]| values.iter().map(|v| v.abs()).collect::<Vec<f32>>();
        let expected = |activation, of: &dyn Fn(&[f32]) -> Vec<f32>| {
            let image = |(at, image): (usize, &Vec<f32>)| {
                reference::conv2d(
                    case.input,
                    &case.window,
                    case.groups,
                    activation,
                    &of(&weights),
                    &of(&bias),
                    &of(image),
                    addends.get(at).map(|a| of(a)).as_deref(),
                )
            };
            images.iter().enumerate().map(image).collect()
        };
        let output = Tensor::unwritten(case.output(), case.images);
        let sums = case.splits as usize * output.buffer.bytes().len() / 2;
        Self {
            case: case.clone(),
            expected: expected(case.activation, &<[f32]>::to_vec),
            magnitudes: expected(Activation::None, &absolute),
            packed: pieces(case)
                .map(|(first, count)| pack(case, &weights, &bias, first, count))
                .collect(),
            partial: Buffer::of_bytes(if case.splits > 1 { sums * 4 } else { 0 }),
            input,
            addend,
            output,
        }
    }

    /// The arguments of each launch.
    pub fn arguments(&mut self) -> Vec<Arguments> {
        let case = self.case.clone();
        let Window {
            kernel,
            stride,
            padding,
        } = case.window;
        let common = Conv {
            input: self.input.view(),
            output: self.output.view(),
            residual: self.addend.as_mut().map_or(0, |a| a.buffer.address()),
            partial: if case.splits > 1 {
                self.partial.address()
            } else {
                0
            },
            images: case.images as u32,
            kernel_height: kernel.height as u32,
            kernel_width: kernel.width as u32,
            stride_height: stride.height as u32,
            stride_width: stride.width as u32,
            pad_top: padding.top as u32,
            pad_left: padding.left as u32,
            groups: case.groups as u32,
            splits: case.splits,
            epilogue: case.activation.into(),
            ..Conv::default()
        };
        let launches = pieces(&case).zip(&mut self.packed);
        launches
            .map(|((first_channel, channel_count), (weights, bias))| {
                Arguments::Conv(Conv {
                    weights: weights.address(),
                    bias: bias.address(),
                    first_channel,
                    channel_count,
                    ..common
                })
            })
            .collect()
    }

    /// All of its memory, the output first. Its arguments stay valid.
    pub fn into_memory(self) -> Vec<Buffer> {
        let mut memory = vec![self.output.buffer, self.input.buffer, self.partial];
        memory.extend(self.addend.map(|addend| addend.buffer));
        memory.extend(self.packed.into_iter().flat_map(|(w, b)| [w, b]));
        memory
    }

    fn check(&self, kernel: &str) {
        let what = format!("{kernel} {:?}", self.case);
        let taps = self.case.window.kernel.height * self.case.window.kernel.width;
        let steps =
            taps * self.case.input.channels / self.case.groups + self.case.splits as usize + 2;
        for (image, found) in self.output.planar().iter().enumerate() {
            let (expected, magnitudes) = (&self.expected[image], &self.magnitudes[image]);
            error::check(&what, found, expected, steps, magnitudes);
        }
    }
}

/// First channel and channels, padding included, of each launch.
fn pieces(case: &Case) -> impl Iterator<Item = (u32, u32)> {
    let firsts = case.pieces.iter().scan(0, |next, &count| {
        let first = *next;
        *next += count;
        Some(first)
    });
    firsts.zip(case.pieces.iter().map(|&count| padded(count)))
}

/// The weights of the pattern and the bias for channels `first..first + count`, some of which may be
/// padding.
fn pack(case: &Case, weights: &[f32], bias: &[f32], first: u32, count: u32) -> (Buffer, Buffer) {
    let Extent { height, width } = case.window.kernel;
    let (taps, inputs) = (height * width, case.input.channels / case.groups);
    let weight = |channel: usize, tap: usize, input: usize| {
        if channel < case.outputs && input < inputs {
            half::from_f32(weights[(channel * inputs + input) * taps + tap])
        } else {
            0
        }
    };
    let channels = first as usize..(first + count) as usize;
    let mut packed = Vec::new();
    match case.pattern() {
        Pattern::Depthwise => {
            for tap in 0..taps {
                packed.extend(channels.clone().map(|channel| weight(channel, tap, 0)));
            }
        }
        pattern => {
            let dense = pattern == Pattern::Dense;
            let inputs = if dense { pitch(case.input) } else { inputs };
            for channel in channels.clone() {
                for tap in 0..taps {
                    packed.extend((0..inputs).map(|input| weight(channel, tap, input)));
                }
            }
        }
    }
    // The bias of padding is not zero: kernels write zeros there in any case.
    let bias: Vec<f32> = channels
        .map(|c| bias.get(c).copied().unwrap_or(3.0))
        .collect();
    (Buffer::of_halves(&packed), Buffer::of_f32(&bias))
}

/// Runs a case on a kernel and compares.
fn check(kernel: &str, case: &Case) {
    let mut prepared = Prepared::new(case);
    for arguments in prepared.arguments() {
        launch(kernel, arguments);
        if case.splits > 1 {
            launch("conv_reduce", arguments);
        }
    }
    prepared.check(kernel);
}

fn check_dense(case: &Case) {
    for kernel in KERNELS.iter().filter(|k| k.pattern == Some(Pattern::Dense)) {
        check(kernel.name, case);
    }
}

#[test]
fn dense_with_padding_and_channels_that_fill_no_vector() {
    check_dense(&Case::plain());
}

#[test]
fn dense_with_residual_and_activation() {
    check_dense(&Case {
        images: 3,
        residual: true,
        activation: Activation::Relu,
        outputs: 37,
        pieces: vec![37],
        ..Case::plain()
    });
}

#[test]
fn dense_first_layer_of_three_channels_and_a_wide_window() {
    check_dense(&Case {
        images: 1,
        input: shape(3, 17, 15),
        outputs: 24,
        window: window((7, 7), (2, 2), (3, 3, 3, 3)),
        activation: Activation::Clip {
            low: 0.0,
            high: 6.0,
        },
        pieces: vec![24],
        ..Case::plain()
    });
}

#[test]
fn dense_single_taps_of_more_pixels_and_channels_than_the_largest_tile() {
    check_dense(&Case {
        input: shape(72, 9, 8),
        outputs: 136,
        window: window((1, 1), (1, 1), (0, 0, 0, 0)),
        activation: Activation::Silu,
        pieces: vec![136],
        ..Case::plain()
    });
}

#[test]
fn dense_single_taps_with_strides() {
    check_dense(&Case {
        input: shape(64, 9, 8),
        window: window((1, 1), (2, 2), (0, 0, 0, 0)),
        ..Case::plain()
    });
}

#[test]
fn dense_windows_strides_and_paddings_that_are_not_square() {
    check_dense(&Case {
        window: window((3, 2), (2, 1), (0, 1, 2, 0)),
        ..Case::plain()
    });
    check_dense(&Case {
        window: window((1, 5), (1, 3), (0, 2, 0, 1)),
        ..Case::plain()
    });
}

#[test]
fn dense_sums_cut_into_splits() {
    for splits in [2, 3, 7] {
        check_dense(&Case {
            splits,
            residual: true,
            activation: Activation::Relu,
            ..Case::plain()
        });
    }
}

#[test]
fn dense_sums_cut_into_more_splits_than_there_are_tiles() {
    check_dense(&Case {
        input: shape(8, 3, 3),
        window: window((1, 1), (1, 1), (0, 0, 0, 0)),
        splits: 4,
        ..Case::plain()
    });
}

#[test]
fn dense_operators_in_pieces() {
    check_dense(&Case {
        outputs: 93,
        residual: true,
        pieces: vec![16, 72, 5],
        ..Case::plain()
    });
    check_dense(&Case {
        outputs: 93,
        splits: 2,
        pieces: vec![40, 53],
        ..Case::plain()
    });
}

#[test]
fn every_activation_with_zeros_in_the_padding() {
    for activation in [
        Activation::Sigmoid,
        Activation::Silu,
        Activation::HardSigmoid,
        Activation::HardSwish,
        Activation::Gelu,
        Activation::Tanh,
        Activation::Clip {
            low: 0.5,
            high: 1.0,
        },
    ] {
        check_dense(&Case {
            images: 1,
            input: shape(8, 4, 4),
            outputs: 12,
            activation,
            pieces: vec![12],
            ..Case::plain()
        });
    }
}

#[test]
fn depthwise_of_odd_widths_strides_and_pieces() {
    let plain = Case {
        input: shape(20, 7, 9),
        outputs: 20,
        groups: 20,
        pieces: vec![20],
        activation: Activation::HardSwish,
        ..Case::plain()
    };
    check("conv_depthwise_general", &plain);
    check(
        "conv_depthwise_general",
        &Case {
            window: window((5, 3), (2, 2), (2, 0, 1, 1)),
            residual: true,
            pieces: vec![8, 12],
            ..plain.clone()
        },
    );
    check(
        "conv_depthwise_general",
        &Case {
            input: shape(20, 6, 8),
            window: window((3, 3), (1, 2), (1, 1, 1, 1)),
            ..plain
        },
    );
}

#[test]
fn groups_of_any_size() {
    // (inputs, outputs, groups): vectors and no vectors of inputs, groups within a vector and
    // across, one input a group with two outputs.
    for (inputs, outputs, groups) in [
        (32, 16, 2),
        (48, 24, 6),
        (15, 10, 5),
        (12, 24, 12),
        (64, 64, 4),
    ] {
        check(
            "conv_grouped_general",
            &Case {
                input: shape(inputs, 6, 5),
                outputs,
                groups,
                window: window((3, 3), (2, 1), (1, 1, 1, 0)),
                pieces: vec![8, outputs as u32 - 8],
                activation: Activation::Relu,
                ..Case::plain()
            },
        );
    }
}

#[test]
fn dense_of_any_shape() {
    let mut numbers = Numbers::seeded(14);
    let mut upto = |limit: u64| (numbers.next() % limit) as usize;
    for _ in 0..8 {
        let outputs = 1 + upto(140);
        let kernel = (1 + upto(4), 1 + upto(4));
        let padding = (
            upto(kernel.0 as u64),
            upto(kernel.1 as u64),
            upto(2),
            upto(2),
        );
        check_dense(&Case {
            images: 1 + upto(3),
            input: shape(1 + upto(70), 4 + upto(8), 4 + upto(8)),
            outputs,
            window: window(kernel, (1 + upto(3), 1 + upto(3)), padding),
            residual: upto(2) == 1,
            splits: 1 + upto(4) as u32,
            pieces: vec![outputs as u32],
            ..Case::plain()
        });
    }
}

#[test]
fn an_input_that_is_no_number_spoils_the_windows_that_hold_it_and_no_others() {
    let case = Case::plain();
    let (row, column) = (3, 4);
    for kernel in KERNELS.iter().filter(|k| k.pattern == Some(Pattern::Dense)) {
        let mut prepared = Prepared::new(&case);
        let mut images = prepared.input.planar();
        images[1][(5 * 7 + row) * 9 + column] = f32::NAN;
        prepared.input = Tensor::of(case.input, &images);
        launch(kernel.name, prepared.arguments()[0]);
        for (image, found) in prepared.output.planar().iter().enumerate() {
            for (at, found) in found.iter().enumerate() {
                let near = (at / 9 % 7).abs_diff(row) <= 1 && (at % 9).abs_diff(column) <= 1;
                let spoilt = image == 1 && near;
                assert_eq!(
                    found.is_nan(),
                    spoilt,
                    "{} image {image} at {at}",
                    kernel.name
                );
            }
        }
    }
}

#[test]
fn a_result_beyond_the_largest_half_becomes_infinite_and_no_number_stays_none() {
    let case = Case {
        input: shape(8, 3, 3),
        outputs: 8,
        pieces: vec![8],
        images: 1,
        ..Case::plain()
    };
    for kernel in KERNELS.iter().filter(|k| k.pattern == Some(Pattern::Dense)) {
        let mut prepared = Prepared::new(&case);
        let mut bias = vec![0.0; 8];
        (bias[0], bias[1]) = (1e6, f32::NAN);
        prepared.packed[0].1 = Buffer::of_f32(&bias);
        launch(kernel.name, prepared.arguments()[0]);
        let found = &prepared.output.planar()[0];
        assert_eq!(found[0], f32::INFINITY, "{}", kernel.name);
        assert!(found[9].is_nan(), "{}", kernel.name);
    }
}

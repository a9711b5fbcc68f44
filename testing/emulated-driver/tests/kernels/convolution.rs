//! Convolutions, their operands, and what they must give.
use crate::buffer::Buffer;
use crate::error;
use crate::launch::launch;
use crate::tensor::{Tensor, halves, pitch, shape};
use punctual_conformance::Alone;
use punctual_cuda_kernels::params::{Conv, Pattern};
use punctual_cuda_kernels::{Arguments, padded};
use punctual_kernels::Shape;
use punctual_model::Conv2d;
use punctual_types::{Activation, Extent, Padding, Random, Window, half};

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
        let output = self.input.windowed(&self.window, self.outputs);
        output.expect("the window fits")
    }
}

/// Kernel and stride as `(height, width)`, padding as `(top, left, bottom, right)`.
pub fn window(
    kernel: (u32, u32),
    stride: (u32, u32),
    (top, left, bottom, right): (u32, u32, u32, u32),
) -> Window {
    let extent = |(height, width)| Extent { height, width };
    Window::new(
        extent(kernel),
        extent(stride),
        Padding {
            top,
            left,
            bottom,
            right,
        },
    )
}

/// A case with its operands, and what it must give.
pub struct Prepared {
    case: Case,
    pub input: Tensor,
    addend: Option<Tensor>,
    pub output: Tensor,
    partial: Buffer,
    /// Weights and bias of each launch.
    pub packed: Vec<(Buffer, Buffer)>,
    expected: Vec<Vec<f32>>,
    magnitudes: Vec<Vec<f32>>,
}

impl Prepared {
    pub fn new(case: &Case) -> Self {
        let mut random = Random::new(11);
        let (input, images) = Tensor::random(case.input, case.images, &mut random);
        let taps = case.window.kernel.area();
        let inputs = case.input.channels / case.groups;
        let weights = halves(&mut random, case.outputs * inputs * taps, 0.25);
        let bias = halves(&mut random, case.outputs, 1.0);
        let (addend, addends) = if case.residual {
            let (tensor, images) = Tensor::random(case.output(), case.images, &mut random);
            (Some(tensor), images)
        } else {
            (None, Vec::new())
        };
        let absolute = |values: &[f32]| values.iter().map(|v| v.abs()).collect::<Vec<f32>>();
        let expected = |activation, of: &dyn Fn(&[f32]) -> Vec<f32>| {
            let meant = Conv2d {
                window: case.window,
                groups: case.groups as u32,
                activation,
            };
            let image = |(at, image): (usize, &Vec<f32>)| {
                let alone = Alone::new(meant).reads(case.input.sides(), &of(image));
                let alone = alone.weights(&of(&weights)).weights(&of(&bias));
                match addends.get(at) {
                    Some(addend) => alone.reads(case.output().sides(), &of(addend)).run(),
                    None => alone.run(),
                }
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

    pub fn arguments(&mut self) -> Vec<Arguments> {
        let case = self.case.clone();
        let Window {
            kernel,
            stride,
            padding,
            dilation,
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
            kernel_height: kernel.height,
            kernel_width: kernel.width,
            stride_height: stride.height,
            stride_width: stride.width,
            pad_top: padding.top,
            pad_left: padding.left,
            dilation_height: dilation.height,
            dilation_width: dilation.width,
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
        let taps = self.case.window.kernel.area();
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

/// The weights of the pattern and the bias for channels `first..first + count`, some of which may be padding.
fn pack(case: &Case, weights: &[f32], bias: &[f32], first: u32, count: u32) -> (Buffer, Buffer) {
    let (taps, inputs) = (case.window.kernel.area(), case.input.channels / case.groups);
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
pub fn check(kernel: &str, case: &Case) {
    let mut prepared = Prepared::new(case);
    for arguments in prepared.arguments() {
        launch(kernel, arguments);
        if case.splits > 1 {
            launch("conv_reduce", arguments);
        }
    }
    prepared.check(kernel);
}

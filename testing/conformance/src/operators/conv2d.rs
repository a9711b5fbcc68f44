//! Convolutions of floats, and what those of bytes have in common with them.

use punctual_model::{Conv2d, Tensor, TensorId};
use punctual_types::{Activation, Extent, Padding, Window};

use super::attributes::{activation, rewindow, window};
use super::{Builder, Mutable, Operator, Random, Reads, Site, pick};

impl Builder {
    /// A convolution padded by half its kernel.
    pub fn conv(
        &mut self,
        input: TensorId,
        channels: u32,
        kernel: u32,
        stride: u32,
        groups: u32,
        residual: Option<TensorId>,
    ) -> TensorId {
        self.conv_over(input, channels, centred(kernel, stride), groups, residual)
    }

    /// A convolution of 3 x 3 taps, padded by its dilation.
    pub fn dilated(
        &mut self,
        input: TensorId,
        channels: u32,
        dilation: u32,
        groups: u32,
    ) -> TensorId {
        let window = Window {
            dilation: Extent::square(dilation),
            padding: Padding::uniform(dilation),
            ..centred(3, 1)
        };
        self.conv_over(input, channels, window, groups, None)
    }

    fn conv_over(
        &mut self,
        input: TensorId,
        channels: u32,
        window: Window,
        groups: u32,
        residual: Option<TensorId>,
    ) -> TensorId {
        let shape = self.shape(input);
        let fan_in = shape.channels / groups * window.kernel.area() as u32;
        let weights = self.draw(channels * fan_in, fan_in);
        let bias = self.draw(channels, 16);
        let conv = Conv2d {
            window,
            groups,
            activation: Activation::Relu,
        };
        let reads: Vec<TensorId> = [input].into_iter().chain(residual).collect();
        self.push_weighted(&reads, conv, &[weights, bias])
    }

    /// A convolution with one tap, and another activation than the others.
    pub fn mix(&mut self, input: TensorId, channels: u32, activation: Activation) -> TensorId {
        let output = self.conv(input, channels, 1, 1, 1, None);
        self.activate(activation);
        output
    }
}

/// A window padded by half its kernel.
pub(super) fn centred(kernel: u32, stride: u32) -> Window {
    let padding = Padding::uniform(kernel / 2);
    Window::new(Extent::square(kernel), Extent::square(stride), padding)
}

/// Dense or depthwise.
pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let window = window(random);
    let is_depthwise = random.one_in(3);
    let conv = Conv2d {
        window,
        groups: if is_depthwise { site.shape.channels } else { 1 },
        activation: activation(random),
    };
    site.operator(&[], conv)
}

/// Changes the window or the groups of a convolution.
pub(super) fn vary(window: &mut Window, groups: &mut u32, random: &mut Random) {
    match random.below(6) {
        0 => *groups = pick(&[1, 2, 3, 4, 5, 16, 20], random),
        _ => rewindow(window, random),
    }
}

/// Groups that do not divide the input's channels are one.
pub(super) fn fit_groups(groups: &mut u32, input: Tensor) {
    if *groups == 0 || !input.channels.is_multiple_of(*groups) {
        *groups = 1;
    }
}

impl Mutable for Conv2d {
    fn vary(&mut self, random: &mut Random) {
        vary(&mut self.window, &mut self.groups, random);
    }

    /// A residual of other rows or columns is left out.
    fn fit(&mut self, reads: &mut Reads<'_>) {
        let output = self.window.output(reads.shape.extent()).ok();
        let is_unlike = |other: &Tensor| Some(other.extent()) != output;
        if reads.shapes().first().is_some_and(is_unlike) {
            reads.others.clear();
        }
        fit_groups(&mut self.groups, reads.shape);
    }

    /// A depthwise convolution stays one.
    fn lengths(&self, input: Tensor, before: u32) -> Option<Vec<u32>> {
        let is_depthwise = self.groups == input.channels;
        Some(vec![0, if is_depthwise { self.groups } else { before }])
    }
}

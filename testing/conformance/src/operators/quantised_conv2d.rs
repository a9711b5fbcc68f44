//! Convolutions of bytes.

use punctual_model::{QuantisedConv2d, Tensor, TensorId};
use punctual_types::{Activation, Quantisation, Window};

use super::{Builder, Bytes, Mutable, Random, Reads, conv2d};

impl Builder {
    /// A convolution of bytes padded by half its kernel.
    pub fn quantised_conv(
        &mut self,
        input: TensorId,
        channels: u32,
        kernel: u32,
        stride: u32,
        groups: u32,
        to: Option<Quantisation>,
    ) -> TensorId {
        let conv = QuantisedConv2d {
            window: conv2d::centred(kernel, stride),
            groups,
            activation: Activation::Relu,
        };
        self.push_quantised(input, conv, channels, to)
    }

    fn push_quantised(
        &mut self,
        input: TensorId,
        conv: QuantisedConv2d,
        channels: u32,
        to: Option<Quantisation>,
    ) -> TensorId {
        let taps = conv.window.kernel.area() as u32;
        let fan_in = self.shape(input).channels / conv.groups * taps;
        let weights = self.integers(channels * fan_in);
        let scales = self.steps(channels, fan_in);
        let bias = self.draw(channels, 16);
        let output = self.push_weighted(&[input], conv, &[weights, scales, bias]);
        self.keep(output, to);
        output
    }

    /// A fully connected layer of bytes.
    pub fn quantised_conv_over(
        &mut self,
        input: TensorId,
        outputs: u32,
        to: Option<Quantisation>,
    ) -> TensorId {
        let conv = QuantisedConv2d {
            window: Window::whole(self.shape(input).extent()),
            groups: 1,
            activation: Activation::None,
        };
        self.push_quantised(input, conv, outputs, to)
    }
}

impl Mutable for QuantisedConv2d {
    fn vary(&mut self, random: &mut Random) {
        conv2d::vary(&mut self.window, &mut self.groups, random);
    }

    fn fit(&mut self, reads: &mut Reads<'_>) {
        conv2d::fit_groups(&mut self.groups, reads.shape);
    }

    fn lengths(&self, _: Tensor, before: u32) -> Option<Vec<u32>> {
        Some(vec![0, 0, before])
    }

    fn bytes(&self, _: Bytes, before: Bytes) -> Bytes {
        before
    }
}

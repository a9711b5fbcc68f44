//! Operators on bytes.

use punctual_model::{Convert, QuantisedConv2d, TensorId, WeightRange};
use punctual_types::{Activation, Extent, Padding, Quantisation, Window};

use super::Builder;

impl Builder {
    /// Makes a tensor one of bytes.
    pub fn keep(&mut self, tensor: TensorId, of: Option<Quantisation>) {
        if let Some(of) = of {
            self.quantised.tensors.insert(tensor, of);
        }
    }

    pub fn convert(&mut self, input: TensorId, to: Option<Quantisation>) -> TensorId {
        let output = self.push(&[input], Convert);
        self.keep(output, to);
        output
    }

    /// Any integers, the extremes among them.
    fn integers(&mut self, len: u32) -> WeightRange {
        let start = self.quantised.weights.len() as u32;
        for _ in 0..len {
            let value = (self.random.signed_unit() * 130.0) as i8;
            self.quantised.weights.push(value);
        }
        WeightRange { start, len }
    }

    /// Steps of weights that keep the scale of activations.
    fn steps(&mut self, channels: u32, fan_in: u32) -> WeightRange {
        let start = self.weights.len() as u32;
        let step = (3.0 / fan_in as f32).sqrt() / 127.0;
        for _ in 0..channels {
            let factor = 1.0 + 0.3 * self.random.signed_unit();
            self.weights.push(step * factor);
        }
        WeightRange {
            start,
            len: channels,
        }
    }

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
        let shape = self.shape(input);
        let fan_in = shape.channels / groups * kernel * kernel;
        let window = Window::new(
            Extent::square(kernel),
            Extent::square(stride),
            Padding::uniform(kernel / 2),
        );
        let conv = QuantisedConv2d {
            window,
            groups,
            activation: Activation::Relu,
        };
        self.push_quantised(input, conv, (channels, fan_in), to)
    }

    fn push_quantised(
        &mut self,
        input: TensorId,
        conv: QuantisedConv2d,
        (channels, fan_in): (u32, u32),
        to: Option<Quantisation>,
    ) -> TensorId {
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
        let shape = self.shape(input);
        let conv = QuantisedConv2d {
            window: Window::whole(shape.extent()),
            groups: 1,
            activation: Activation::None,
        };
        self.push_quantised(input, conv, (outputs, shape.elements() as u32), to)
    }

    /// Ends a stage with a layer of bytes whose scores are floats.
    pub fn quantised_head(&mut self, input: TensorId) {
        let logits = self.quantised_conv_over(input, self.classes as u32, None);
        self.end(logits);
    }
}

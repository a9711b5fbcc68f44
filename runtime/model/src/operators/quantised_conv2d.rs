//! Convolution of bytes.

use punctual_types::{Activation, Quantisation, Window};
use serde::{Deserialize, Serialize};

use super::Conv2d;
use super::meaning::{Held, Meaning, Operands, Site, check_clip, check_sum};
use crate::reference::Operation;
use crate::reference::noise::{Form, Rounding};
use crate::reference::quantised::{ratio, round};
use crate::reference::windows::visit;
use crate::{OperatorError, ShapeError, Tensor};

/// `activation(conv(input) + bias)` of bytes and i8 weights, to bytes or floats as the output is. A fully connected layer
/// is one whose kernel covers the whole input.
///
/// Weights: i8, `[output channels][input channels / groups][kernel height][kernel width]`; then scales, what a step of
/// each output channel's weights is worth; then biases, which count as the nearest whole number of what a step of the
/// channel's sums is worth, the input's scale times the weights'.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantisedConv2d {
    pub window: Window,
    /// 1 is dense; equal to the channels is depthwise.
    pub groups: u32,
    /// Applied last; a clip.
    pub activation: Activation,
}

impl Meaning for QuantisedConv2d {
    fn label(&self, input: Tensor) -> String {
        Conv2d::label_of(&self.window, self.groups, input.channels)
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        of.no_others()?;
        Conv2d::shape_of(&self.window, self.groups, of.input, of.held(2))
    }

    fn weights(&self, of: &Operands<'_>, output: Tensor) -> Vec<Held> {
        let outputs = u64::from(output.channels);
        let terms = Conv2d::terms_of(&self.window, self.groups, of.input);
        vec![
            Held::new("quantised weights", outputs.saturating_mul(terms)),
            Held::new("scales", outputs),
            Held::new("bias", outputs),
        ]
    }

    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        let input = site.quantisation(site.operator.input);
        let input = input.ok_or(OperatorError::Elements)?.scale;
        check_clip(self.activation)?;
        check_sum(Conv2d::terms_of(&self.window, self.groups, site.input()))?;
        let mut scales = site.weights(1).iter();
        match scales.find(|&&scale| !Quantisation::is_step(scale * input)) {
            Some(&scale) => Err(OperatorError::Scale { scale, input }),
            None => Ok(()),
        }
    }

    fn multiplications(&self, site: Site<'_>) -> u64 {
        let terms = Conv2d::terms_of(&self.window, self.groups, site.input());
        site.output().elements().saturating_mul(terms)
    }

    /// Its kernels read all of their zeros.
    fn border(&self) -> u32 {
        self.window.padding.largest() as u32
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let (input, output) = (of.input(), of.output());
        let from = of.quantisation(of.operator.input).expect("it reads bytes");
        let to = of.quantisation(of.operator.output);
        let (weights, scales, biases) = (of.integers(0), of.weights(1), of.weights(2));
        let inputs = (input.shape.channels / self.groups) as usize;
        let outputs = (output.channels / self.groups) as usize;
        let area = self.window.kernel.area();
        let mut result = Vec::with_capacity(output.elements() as usize);
        for channel in 0..output.channels as usize {
            let kernel = &weights[channel * inputs * area..][..inputs * area];
            let first = channel / outputs * inputs;
            let step = scales[channel] * from.scale;
            let bias = f64::from(biases[channel]) / f64::from(step);
            for row in 0..output.height as usize {
                for column in 0..output.width as usize {
                    let mut sum = bias.round_ties_even() as i32;
                    visit(&self.window, row, column, |position, y, x| {
                        for inside in 0..inputs {
                            // Padding means zero.
                            if let Some(value) = input.at(first + inside, y, x) {
                                let value = value as i32 - i32::from(from.zero);
                                let weight = i32::from(kernel[inside * area + position]);
                                sum = sum.wrapping_add(value * weight);
                            }
                        }
                    });
                    result.push(match to {
                        Some(to) => round(sum as f32 * ratio(step, to), to, self.activation),
                        None => self.activation.of(sum as f32 * step),
                    });
                }
            }
        }
        result
    }

    /// Bytes are exact; floats are rounded once.
    fn rounding(&self, _of: &Operation<'_>, _result: &[f32]) -> Rounding {
        Rounding::once(Form::Plain, 0.0)
    }
}

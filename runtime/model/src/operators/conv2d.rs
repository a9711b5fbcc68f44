//! Convolution of floats.

use punctual_types::{Activation, Window};
use serde::{Deserialize, Serialize};

use super::meaning::{Held, Meaning, Operands, Site, check_activation};
use crate::reference::noise::{Form, Rounding};
use crate::reference::windows::{Line, lines};
use crate::reference::{Operation, Planar};
use crate::shape::window_output;
use crate::{OperatorError, ShapeError, Tensor};

/// `activation(conv(input) + bias [+ residual])`, batch normalisation folded in. The residual, if there is one, is its
/// other operand, and has the output's shape.
///
/// Weights: `[output channels][input channels / groups][kernel height][kernel width]`, then biases, `[output channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conv2d {
    pub window: Window,
    /// 1 is dense; equal to the channels is depthwise.
    pub groups: u32,
    /// Applied last.
    pub activation: Activation,
}

impl Conv2d {
    /// What a convolution is called.
    pub(super) fn label_of(window: &Window, groups: u32, channels: u32) -> String {
        let form = match groups {
            1 => "convolution",
            groups if groups == channels => "depthwise convolution",
            _ => "grouped convolution",
        };
        let apart = if window.is_dilated() { "dilated " } else { "" };
        format!(
            "{apart}{form} {}x{}",
            window.kernel.height, window.kernel.width
        )
    }

    /// The shape of a convolution with `outputs` output channels.
    pub(super) fn shape_of(
        window: &Window,
        groups: u32,
        input: Tensor,
        outputs: u32,
    ) -> Result<Tensor, ShapeError> {
        let inputs = input.channels;
        if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
            return Err(ShapeError::Groups {
                groups,
                inputs,
                outputs,
            });
        }
        window_output(input, outputs, window)
    }

    /// Weights of an output channel.
    pub(super) fn terms_of(window: &Window, groups: u32, input: Tensor) -> u64 {
        u64::from(input.channels / groups.max(1)).saturating_mul(window.kernel.area() as u64)
    }
}

impl Meaning for Conv2d {
    fn label(&self, input: Tensor) -> String {
        Self::label_of(&self.window, self.groups, input.channels)
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        let output = Self::shape_of(&self.window, self.groups, of.input, of.held(1))?;
        match of.at_most(1)? {
            Some(other) if other != output => Err(ShapeError::Addend {
                first: output,
                other,
            }),
            _ => Ok(output),
        }
    }

    fn weights(&self, of: &Operands<'_>, output: Tensor) -> Vec<Held> {
        let outputs = u64::from(output.channels);
        let terms = Self::terms_of(&self.window, self.groups, of.input);
        vec![
            Held::new("weights", outputs.saturating_mul(terms)),
            Held::new("bias", outputs),
        ]
    }

    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        site.has_floats()?;
        check_activation(self.activation)
    }

    fn multiplications(&self, site: Site<'_>) -> u64 {
        let terms = Self::terms_of(&self.window, self.groups, site.input());
        site.output().elements().saturating_mul(terms)
    }

    fn border(&self) -> u32 {
        self.window.halo() as u32
    }

    fn activation(&self) -> Option<Activation> {
        Some(self.activation)
    }

    fn set_activation(&mut self, activation: Activation) {
        self.activation = activation;
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let residual = of.others().next().map(|residual| residual.data);
        let sums = self.convolve(of.input(), of.output(), of.weights(0), of.weights(1));
        let sums = sums.into_iter().enumerate();
        sums.map(|(at, sum)| self.activation.of(sum + residual.map_or(0.0, |r| r[at])))
            .collect()
    }

    fn rounding(&self, of: &Operation<'_>, _result: &[f32]) -> Rounding {
        let terms = Self::terms_of(&self.window, self.groups, of.input().shape);
        of.weighted_sums(
            terms as usize,
            self.groups,
            Form::of_weighted(of, self.activation),
        )
    }
}

impl Conv2d {
    fn convolve(&self, input: Planar, output: Tensor, kernels: &[f32], bias: &[f32]) -> Vec<f32> {
        let inputs = (input.shape.channels / self.groups) as usize;
        let outputs = (output.channels / self.groups) as usize;
        let area = self.window.kernel.area();
        let mut result = Vec::with_capacity(output.elements() as usize);
        for channel in 0..output.channels as usize {
            let kernel = &kernels[channel * inputs * area..][..inputs * area];
            let first = channel / outputs * inputs;
            let mut sums = vec![f64::from(bias[channel]); (output.height * output.width) as usize];
            for (at, weight) in kernel.iter().enumerate() {
                let (weight, step) = (f64::from(*weight), self.window.stride.width as usize);
                for Line { from, to, count } in lines(&self.window, at % area, input, output) {
                    let values = &input.data[(first + at / area) * input.plane() + from..];
                    let sums = sums[to..][..count].iter_mut();
                    match step {
                        // The same, but the compiler makes vectors of it.
                        1 => sums
                            .zip(values)
                            .for_each(|(sum, v)| *sum += weight * f64::from(*v)),
                        _ => {
                            let values = values.iter().step_by(step);
                            sums.zip(values)
                                .for_each(|(sum, v)| *sum += weight * f64::from(*v));
                        }
                    }
                }
            }
            result.extend(sums.into_iter().map(|sum| sum as f32));
        }
        result
    }
}

//! Pixels brought to mean 0 and variance 1.

use serde::{Deserialize, Serialize};

use super::meaning::{Held, Meaning, Operands, Site, check_figure};
use crate::reference::noise::{Form, Rounding, typical};
use crate::reference::{Operation, Planar, pixel};
use crate::{OperatorError, ShapeError, Tensor};

/// The channels of each pixel brought to mean 0 and variance 1, then `scale * x + bias`.
///
/// Weights: scales, then biases, `[channels]` each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerNorm {
    /// Added to the variance; positive.
    pub epsilon: f32,
}

impl Meaning for LayerNorm {
    fn label(&self, _input: Tensor) -> String {
        "layer norm".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        of.no_others().map(|()| of.input)
    }

    fn weights(&self, _of: &Operands<'_>, output: Tensor) -> Vec<Held> {
        ["scale", "bias"]
            .map(|what| Held::new(what, output.channels.into()))
            .to_vec()
    }

    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        site.has_floats()?;
        let epsilon = self.epsilon;
        check_figure("epsilon", epsilon, epsilon.is_normal() && epsilon > 0.0)
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        self.normalised(of.input().data, of.weights(0), of.weights(1))
    }

    fn rounding(&self, of: &Operation<'_>, result: &[f32]) -> Rounding {
        let input = of.input();
        let factor = typical(of.weights(0)) * self.steepest(&input);
        let size = 4.0 * typical(result) + factor;
        Rounding::of_all(Form::Curve, input.shape.channels as usize, size)
    }
}

impl LayerNorm {
    fn normalised(&self, data: &[f32], scale: &[f32], bias: &[f32]) -> Vec<f32> {
        let channels = scale.len();
        let pixels = data.len() / channels;
        let mut result = vec![0.0; data.len()];
        for at in 0..pixels {
            let values = pixel(data, pixels, at);
            let mean = values.clone().sum::<f64>() / channels as f64;
            let squares = values.clone().map(|value| (value - mean).powi(2));
            let variance = squares.sum::<f64>() / channels as f64;
            let deviation = (variance + f64::from(self.epsilon)).sqrt();
            for (channel, value) in values.enumerate() {
                let normal = (value - mean) / deviation;
                let scaled = normal * f64::from(scale[channel]) + f64::from(bias[channel]);
                result[channel * pixels + at] = scaled as f32;
            }
        }
        result
    }

    /// The largest share that a pixel's values have of their own deviation: what a normalisation makes of a rounded mean is
    /// as many times as large. Of equal values it takes the differences that rounding makes.
    fn steepest(&self, input: &Planar<'_>) -> f64 {
        let pixels = input.plane();
        let channels = f64::from(input.shape.channels);
        let share = |at: usize| {
            let values = || pixel(input.data, pixels, at);
            let mean = values().sum::<f64>() / channels;
            let squares = |from: f64| values().map(move |value| (value - from).powi(2));
            let variance = squares(mean).sum::<f64>() / channels;
            let size = (squares(0.0).sum::<f64>() / channels).sqrt();
            size / (variance + f64::from(self.epsilon)).sqrt()
        };
        let finite = (0..pixels).map(share).filter(|share| share.is_finite());
        finite.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pixel_is_normalised_by_itself() {
        // Two channels, two pixels: (1, 3) and (5, 5).
        let norm = LayerNorm { epsilon: 1e-12 };
        let result = norm.normalised(&[1.0, 5.0, 3.0, 5.0], &[2.0, 2.0], &[0.5, 1.0]);
        for (found, expected) in result.iter().zip([-1.5, 0.5, 3.0, 1.0]) {
            assert!((found - expected).abs() < 1e-6, "{result:?}");
        }
    }
}

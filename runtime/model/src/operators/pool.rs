//! The largest or the mean of windows.

use punctual_types::{Activation, Extent, Padding, PoolKind, Window};
use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Operands, Plain, Site, check_sum};
use crate::reference::noise::{Form, Rounding, typical};
use crate::reference::quantised::{ratio, round};
use crate::reference::windows::visit;
use crate::reference::{Operation, sum};
use crate::shape::window_output;
use crate::{OperatorError, ShapeError, Tensor};

/// Largest or mean of a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    pub kind: PoolKind,
    pub kernel: Extent,
    pub stride: Extent,
    /// Around the input. Padding never wins a maximum.
    pub padding: Padding,
}

impl Pool {
    /// The mean of each channel of an image of this extent.
    #[must_use]
    pub fn mean_of_all(extent: Extent) -> Self {
        let Window {
            kernel,
            stride,
            padding,
            ..
        } = Window::whole(extent);
        let kind = PoolKind::Average {
            counts_padding: false,
        };
        Self {
            kind,
            kernel,
            stride,
            padding,
        }
    }

    #[must_use]
    pub fn window(&self) -> Window {
        Window::new(self.kernel, self.stride, self.padding)
    }

    /// Whether it is the mean of all of the image. Unlike other windows this one may be of any size.
    #[must_use]
    pub fn is_mean_of_all(&self, image: Extent) -> bool {
        *self == Self::mean_of_all(image)
    }
}

impl Meaning for Pool {
    fn label(&self, input: Tensor) -> String {
        if self.is_mean_of_all(input.extent()) {
            return "global average pool".to_owned();
        }
        let form = match self.kind {
            PoolKind::Max => "max pool",
            PoolKind::Average { .. } => "average pool",
        };
        format!("{form} {}x{}", self.kernel.height, self.kernel.width)
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        of.no_others()?;
        if self.is_mean_of_all(of.input.extent()) {
            return Ok(Tensor::features(of.input.channels));
        }
        window_output(of.input, of.input.channels, &self.window())
    }

    /// Its windows sum bytes as a convolution does.
    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        site.has_one_kind()?;
        match site.quantisations() {
            Some(_) => check_sum(u64::from(self.kernel.height) * u64::from(self.kernel.width)),
            None => Ok(()),
        }
    }

    fn plain(&self, input: Tensor) -> Plain {
        Plain {
            reads: false,
            writes: self.is_mean_of_all(input.extent()),
        }
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let (input, output, window) = (of.input(), of.output(), self.window());
        let quantised = of.quantisations();
        let mut result = Vec::with_capacity(output.elements() as usize);
        let mut seen = Vec::new();
        for channel in 0..output.channels as usize {
            for row in 0..output.height as usize {
                for column in 0..output.width as usize {
                    seen.clear();
                    visit(&window, row, column, |_, y, x| {
                        seen.extend(input.at(channel, y, x));
                    });
                    result.push(match quantised {
                        None => self.of_floats(&seen),
                        Some((from, to)) => {
                            let zero = f32::from(from.zero);
                            let steps = self.of_bytes(&seen, zero, ratio(from.scale, to));
                            round(steps, to, Activation::None)
                        }
                    });
                }
            }
        }
        result
    }

    fn rounding(&self, of: &Operation<'_>, _result: &[f32]) -> Rounding {
        match self.kind {
            PoolKind::Max => Rounding::exact(),
            PoolKind::Average { .. } => {
                let size = typical(of.input().data);
                Rounding::of_all(Form::Average, self.kernel.area(), size)
            }
        }
    }
}

impl Pool {
    /// Of the values that a window sees.
    fn of_floats(&self, seen: &[f32]) -> f32 {
        match self.kind {
            PoolKind::Max => seen.iter().copied().fold(f32::NEG_INFINITY, f32::max),
            PoolKind::Average { .. } => (sum(seen) / self.count(seen) as f64) as f32,
        }
    }

    /// Of the bytes that a window sees: steps of the result, of which a step of theirs is worth `ratio`.
    fn of_bytes(&self, seen: &[f32], zero: f32, ratio: f32) -> f32 {
        match self.kind {
            PoolKind::Max => {
                let largest = seen.iter().copied().fold(0.0, f32::max);
                (largest - zero) * ratio
            }
            PoolKind::Average { .. } => {
                // Whole numbers below 2^24: the sum is exact.
                let sum: f32 = seen.iter().map(|value| value - zero).sum();
                sum * (ratio / self.count(seen) as f32)
            }
        }
    }

    /// What a mean divides by.
    fn count(&self, seen: &[f32]) -> usize {
        match self.kind {
            PoolKind::Average {
                counts_padding: true,
            } => self.kernel.area(),
            _ => seen.len(),
        }
    }
}

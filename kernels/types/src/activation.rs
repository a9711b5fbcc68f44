//! What is applied last to a result.

use serde::{Deserialize, Serialize};

/// What is applied last to each value of a result. A NaN stays a NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Activation {
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, low), high)`, e.g. ReLU6.
    Clip {
        /// Lower bound, not above `high`.
        low: f32,
        high: f32,
    },
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `x / (1 + e^-x)`, also called swish.
    Silu,
    /// `min(max(x / 6 + 1/2, 0), 1)`.
    HardSigmoid,
    /// `x * min(max(x / 6 + 1/2, 0), 1)`.
    HardSwish,
    /// `x * (1 + erf(x / sqrt 2)) / 2`: the exact form, not the one with tanh.
    Gelu,
    Tanh,
}

impl Activation {
    /// `self` of `x`, computed in f64: what devices and kernels are tested against.
    #[must_use]
    pub fn of(self, x: f32) -> f32 {
        let wide = f64::from(x);
        let sigmoid = 1.0 / (1.0 + (-wide).exp());
        let hard_sigmoid = (wide / 6.0 + 0.5).clamp(0.0, 1.0);
        let wide = match self {
            Self::None | Self::Relu | Self::Clip { .. } => {
                let (low, high) = self.bounds();
                // Written so that NaN falls through both comparisons.
                let x = if x < low { low } else { x };
                return if x > high { high } else { x };
            }
            Self::Sigmoid => sigmoid,
            Self::Silu => wide * sigmoid,
            Self::HardSigmoid => hard_sigmoid,
            Self::HardSwish => wide * hard_sigmoid,
            Self::Gelu => wide * (1.0 + libm::erf(wide * core::f64::consts::FRAC_1_SQRT_2)) / 2.0,
            Self::Tanh => wide.tanh(),
        };
        wide as f32
    }

    /// What each value is clipped to; without bounds for what [is no clip](Self::is_clip).
    #[must_use]
    pub const fn bounds(self) -> (f32, f32) {
        match self {
            Self::Relu => (0.0, f32::INFINITY),
            Self::Clip { low, high } => (low, high),
            _ => (f32::NEG_INFINITY, f32::INFINITY),
        }
    }

    /// Whether its [`bounds`](Self::bounds) are all of it.
    #[must_use]
    pub const fn is_clip(self) -> bool {
        matches!(self, Self::None | Self::Relu | Self::Clip { .. })
    }
}

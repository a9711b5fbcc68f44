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
    /// `slope * x` below 0.
    LeakyRelu {
        slope: f32,
    },
    /// `above * x` above 0, `below * (e^(rate * x) - 1)` below: ELU, SELU and CELU.
    Elu {
        above: f32,
        below: f32,
        rate: f32,
    },
    /// `x * tanh(ln(1 + e^x))`.
    Mish,
    /// `ln(1 + e^x)`.
    Softplus,
    /// `x / (1 + |x|)`.
    Softsign,
    /// An approximation of [`Gelu`](Self::Gelu) by a tanh: `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2`.
    TanhGelu,
}

impl Activation {
    /// `self` of `x`, computed in f64: what devices and kernels are tested against.
    #[must_use]
    pub fn of(self, x: f32) -> f32 {
        let wide = f64::from(x);
        let sigmoid = 1.0 / (1.0 + (-wide).exp());
        let hard_sigmoid = (wide / 6.0 + 0.5).clamp(0.0, 1.0);
        let softplus = wide.max(0.0) + (-wide.abs()).exp().ln_1p();
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
            Self::LeakyRelu { slope } if x < 0.0 => wide * f64::from(slope),
            Self::LeakyRelu { .. } => wide,
            Self::Elu { below, rate, .. } if x < 0.0 => {
                f64::from(below) * (f64::from(rate) * wide).exp_m1()
            }
            Self::Elu { above, .. } => f64::from(above) * wide,
            Self::Mish => wide * softplus.tanh(),
            Self::Softplus => softplus,
            Self::Softsign if x.is_infinite() => wide.signum(),
            Self::Softsign => wide / (1.0 + wide.abs()),
            Self::TanhGelu => {
                let inner = 0.044_715_f64.mul_add(wide.powi(3), wide);
                wide * (1.0 + (inner * (2.0 / core::f64::consts::PI).sqrt()).tanh()) / 2.0
            }
        };
        wide as f32
    }

    /// The activation's parameters with their names.
    pub fn figures(self) -> impl Iterator<Item = (&'static str, f32)> {
        let figures: [Option<(&'static str, f32)>; 3] = match self {
            Self::Clip { low, high } => [Some(("low", low)), Some(("high", high)), None],
            Self::LeakyRelu { slope } => [Some(("slope", slope)), None, None],
            Self::Elu { above, below, rate } => [
                Some(("above", above)),
                Some(("below", below)),
                Some(("rate", rate)),
            ],
            _ => [None; 3],
        };
        figures.into_iter().flatten()
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

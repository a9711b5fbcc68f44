//! What is computed of one value or of two.

use serde::{Deserialize, Serialize};

/// Of two values, `a` and `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BinaryFunction {
    Add,
    /// `a - b`.
    Subtract,
    Multiply,
    /// `a / b`.
    Divide,
    Minimum,
    Maximum,
}

impl BinaryFunction {
    pub const ALL: [Self; 6] = [
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Divide,
        Self::Minimum,
        Self::Maximum,
    ];

    #[must_use]
    pub fn of(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide => a / b,
            Self::Minimum => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Self::Maximum => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

/// Of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnaryFunction {
    Absolute,
    /// `e^x`, for `x` clipped to where neither 0 nor infinity comes of it.
    Exponential,
    /// `1 / x`.
    Reciprocal,
    SquareRoot,
}

impl UnaryFunction {
    pub const ALL: [Self; 4] = [
        Self::Absolute,
        Self::Exponential,
        Self::Reciprocal,
        Self::SquareRoot,
    ];

    /// Computed in f64: what devices and kernels are tested against.
    #[must_use]
    pub fn of(self, x: f32) -> f32 {
        let wide = f64::from(x);
        let result = match self {
            Self::Absolute => wide.abs(),
            Self::Exponential => wide.clamp(-87.3, 88.3).exp(),
            Self::Reciprocal => 1.0 / wide,
            Self::SquareRoot => wide.sqrt(),
        };
        result as f32
    }
}

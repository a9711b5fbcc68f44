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
    /// `b` if it is less than `a`, else `a`, also where either is a NaN.
    Minimum,
    /// `b` if it is more than `a`, else `a`, also where either is a NaN.
    Maximum,
    /// 1 if `a = b`, else 0. A NaN equals nothing and is less than nothing.
    Equal,
    /// 1 unless `a = b`.
    NotEqual,
    /// 1 if `a < b`.
    Less,
    /// 1 if `a <= b`.
    LessOrEqual,
    /// `a` where `b` is not 0, else 0, whatever `a` is there.
    KeepWhere,
    /// `a` where `b` is 0, else 0, whatever `a` is there.
    KeepUnless,
    /// `a` above 0, `a * b` below.
    Slope,
    /// `a` to the power of `b`, computed in f64.
    Power,
    /// The remainder of `a` divided by `b`, with the sign of `b`. Exact; NaN if `b` is 0.
    Modulo,
    /// The remainder of `a` divided by `b`, with the sign of `a`. Exact; NaN if `b` is 0.
    Remainder,
}

impl BinaryFunction {
    pub const ALL: [Self; 16] = [
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Divide,
        Self::Minimum,
        Self::Maximum,
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::LessOrEqual,
        Self::KeepWhere,
        Self::KeepUnless,
        Self::Slope,
        Self::Power,
        Self::Modulo,
        Self::Remainder,
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
            Self::Equal => truth(a == b),
            Self::NotEqual => truth(a != b),
            Self::Less => truth(a < b),
            Self::LessOrEqual => truth(a <= b),
            Self::KeepWhere => {
                if b == 0.0 {
                    0.0
                } else {
                    a
                }
            }
            Self::KeepUnless => {
                if b == 0.0 {
                    a
                } else {
                    0.0
                }
            }
            Self::Slope => {
                if a > 0.0 {
                    a
                } else {
                    a * b
                }
            }
            Self::Power => f64::from(a).powf(f64::from(b)) as f32,
            Self::Modulo => {
                let rest = a % b;
                // Where the signs differ, the next multiple of `b` lies on the other side.
                if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
                    rest + b
                } else {
                    rest
                }
            }
            Self::Remainder => a % b,
        }
    }
}

const fn truth(is_true: bool) -> f32 {
    if is_true { 1.0 } else { 0.0 }
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
    /// The natural logarithm: minus infinity at 0, NaN below.
    Logarithm,
    /// -1 below 0, 1 above; 0 and NaN stay as they are.
    Sign,
    /// The largest integer not above the value.
    Floor,
    /// The smallest integer not below the value.
    Ceiling,
    /// The nearest integer, halves to the even one.
    Round,
    /// Rounds towards zero.
    Truncate,
    Sine,
    Cosine,
    Tangent,
    ArcSine,
    ArcCosine,
    ArcTangent,
    HyperbolicSine,
    HyperbolicCosine,
    ArcHyperbolicSine,
    ArcHyperbolicCosine,
    ArcHyperbolicTangent,
    /// The error function, `erf(x)`.
    ErrorFunction,
}

impl UnaryFunction {
    pub const ALL: [Self; 22] = [
        Self::Absolute,
        Self::Exponential,
        Self::Reciprocal,
        Self::SquareRoot,
        Self::Logarithm,
        Self::Sign,
        Self::Floor,
        Self::Ceiling,
        Self::Round,
        Self::Truncate,
        Self::Sine,
        Self::Cosine,
        Self::Tangent,
        Self::ArcSine,
        Self::ArcCosine,
        Self::ArcTangent,
        Self::HyperbolicSine,
        Self::HyperbolicCosine,
        Self::ArcHyperbolicSine,
        Self::ArcHyperbolicCosine,
        Self::ArcHyperbolicTangent,
        Self::ErrorFunction,
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
            Self::Logarithm => wide.ln(),
            // A NaN, and 0 with its sign, fall through both comparisons.
            Self::Sign if x > 0.0 => 1.0,
            Self::Sign if x < 0.0 => -1.0,
            Self::Sign => wide,
            Self::Floor => wide.floor(),
            Self::Ceiling => wide.ceil(),
            Self::Round => wide.round_ties_even(),
            Self::Truncate => wide.trunc(),
            Self::Sine => wide.sin(),
            Self::Cosine => wide.cos(),
            Self::Tangent => wide.tan(),
            Self::ArcSine => wide.asin(),
            Self::ArcCosine => wide.acos(),
            Self::ArcTangent => wide.atan(),
            Self::HyperbolicSine => wide.sinh(),
            Self::HyperbolicCosine => wide.cosh(),
            Self::ArcHyperbolicSine => wide.asinh(),
            Self::ArcHyperbolicCosine => wide.acosh(),
            Self::ArcHyperbolicTangent => wide.atanh(),
            Self::ErrorFunction => libm::erf(wide),
        };
        result as f32
    }
}

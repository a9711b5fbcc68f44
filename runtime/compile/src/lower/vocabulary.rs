//! The operators of ONNX, a row each in the table of its family: how it is lowered, how it is folded where all its
//! operands are known when compiling, which kind of numbers it makes.

use super::lowering::Lowering;
use crate::fold::{SizesRule, ValuesRule};
use crate::graph::Node;
use crate::problem::Problem;

pub(crate) type LoweringRule = fn(&mut Lowering<'_>, &Node) -> Result<(), Problem>;

/// What the compiler does with an operator of ONNX.
pub(crate) struct OnnxOperator {
    pub name: &'static str,
    /// Nothing for those that are only folded or composed.
    pub lower: Option<LoweringRule>,
    /// Lowers other nodes in its place, whatever its operands are.
    pub compose: Option<LoweringRule>,
    /// Computes the results of known operands.
    pub fold: Option<ValuesRule>,
    /// Computes the result of the first operand's dimensions alone.
    pub measure: Option<SizesRule>,
    pub makes: Makes,
}

/// The kind of numbers of an operator's results.
#[derive(Clone, Copy, Default)]
pub(crate) enum Makes {
    /// As of its first operand.
    #[default]
    First,
    /// As of its second operand.
    Second,
    /// As of its third operand.
    Third,
    Truths,
    Integers,
    /// Its second result consists of positions, its first is as its first operand.
    Positions,
    /// As its attribute `to` says.
    AttributeTo,
}

/// A family's rows: `"Name" => [lower method()] [compose method()] [fold module::rule] [measure module::rule] [makes Kind],`.
/// `lower` and `compose` name a method of [`Lowering`], whose further argument may follow; `fold` and `measure` a function
/// of [`crate::fold`].
macro_rules! family {
    ($($name:literal =>
        $(lower $method:ident($($argument:expr)?))?
        $(compose $composed:ident($($part:expr)?))?
        $(fold $fold:ident::$rule:ident)?
        $(measure $measure:ident::$size:ident)?
        $(makes $kind:ident)?
    ,)*) => {
        &[$(crate::lower::vocabulary::OnnxOperator {
            name: $name,
            $(lower: Some(|lowering, node| lowering.$method(node $(, $argument)?)),)?
            $(compose: Some(|lowering, node| lowering.$composed(node $(, $part)?)),)?
            $(fold: Some(|folding| crate::fold::$fold::$rule(folding).map(Into::into)),)?
            $(measure: Some(crate::fold::$measure::$size),)?
            $(makes: crate::lower::vocabulary::Makes::$kind,)?
            ..crate::lower::vocabulary::OnnxOperator::BLANK
        }),*]
    };
}
pub(crate) use family;

impl OnnxOperator {
    /// What a row leaves out.
    pub(crate) const BLANK: Self = Self {
        name: "",
        lower: None,
        compose: None,
        fold: None,
        measure: None,
        makes: Makes::First,
    };
}

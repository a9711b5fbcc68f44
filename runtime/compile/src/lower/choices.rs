//! Comparisons, booleans, and the choice between two values. A boolean is 1 or 0.

use std::rc::Rc;

use punctual_model::OperatorKind;
use punctual_types::{BinaryFunction, UnaryFunction};

use super::arithmetic::Operand;
use super::lowering::Lowering;
use super::numbers::Numbers;
use super::value::Value;
use super::view_algebra::View;
use super::views::expanded;
use super::vocabulary::{Makes, OnnxOperator, family};
use crate::fold::arithmetic::may_be_truths;
use crate::fold::layout::broadcast;
use crate::fold::{Folding, fold, made};
use crate::graph::{Attribute, Attributes, Constant, Data, Floats, Node, ValueId};
use crate::integer::Dim;
use crate::problem::Problem;
use crate::schema::data_type;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "And" => lower truths() fold arithmetic::binary makes Truths,
    "Cast" => lower cast() fold arithmetic::cast makes AttributeTo,
    "CastLike" => lower cast() fold arithmetic::cast_like makes Second,
    "IsInf" => lower is_infinite() fold arithmetic::is_infinite makes Truths,
    "IsNaN" => lower is_nan() fold arithmetic::unary makes Truths,
    "Not" => lower not() fold arithmetic::unary makes Truths,
    "Or" => lower truths() fold arithmetic::binary makes Truths,
    "Trilu" => lower triangle() fold made::triangle,
    "Where" => lower choose() fold arithmetic::choose makes Second,
    "Xor" => lower truths() fold arithmetic::binary makes Truths,
};

impl Lowering<'_> {
    /// The kind of numbers that an operand has.
    pub(super) fn numbers(&self, node: &Node, at: usize) -> Numbers {
        match node.inputs.get(at).copied().flatten() {
            Some(id) => self.numbers_of(id),
            None => Numbers::Floats,
        }
    }

    fn numbers_of(&self, id: ValueId) -> Numbers {
        match self.value(id) {
            Value::Constant(constant) => match constant.data {
                Data::Floats(_) => Numbers::Floats,
                _ => Numbers::Integers,
            },
            _ => self.numbers[id.0],
        }
    }

    /// Records the kind of numbers that a node's results have.
    pub(super) fn note_numbers(&mut self, node: &Node, makes: Makes) {
        let first = self.numbers(node, 0);
        let numbers = match (makes, node.attributes.get("to")) {
            (Makes::Truths, _) => Numbers::Truths,
            (Makes::Integers, _) => Numbers::Integers,
            (Makes::Second, _) => self.numbers(node, 1),
            (Makes::Third, _) => self.numbers(node, 2),
            (Makes::AttributeTo, Some(Attribute::Int(to))) => Numbers::of_type(*to),
            (Makes::First | Makes::Positions | Makes::AttributeTo, _) => first,
        };
        for (at, output) in node.outputs.iter().enumerate() {
            if let Some(output) = output {
                self.numbers[output.0] = match (makes, at) {
                    (Makes::Positions, 1) => Numbers::Integers,
                    _ => numbers,
                };
            }
        }
    }

    /// Converts to floats, integers or booleans.
    pub(super) fn cast(&mut self, node: &Node) -> Result<(), Problem> {
        let mut attributes = Attributes::of(node);
        let like = node.operator == "CastLike";
        let to = if like {
            None
        } else {
            Some(attributes.int("to", 0)?)
        };
        self.limit(node, 1 + usize::from(like), 1)?;
        for of_small_floats in ["saturate", "round_mode"] {
            attributes.ignore(of_small_floats); // Of eight bits.
        }
        attributes.finish()?;
        let view = self.view(node, 0)?.clone();
        if let (true, Some(Value::Constant(constant))) = (like, self.operand(node, 1))
            && let Data::Ints(values) = &constant.data
            && may_be_truths(values)
        {
            let found = Value::Constant(Rc::clone(constant));
            let expected =
                "of a type that is known: integers other than 0 and 1, floats, or computed";
            return Err(self.wrong(1, "target type", &found, expected));
        }
        let target = to.map_or_else(|| self.numbers(node, 1), Numbers::of_type);
        // A boolean is 0 or 1 in every type.
        let from = self.numbers(node, 0);
        let holds = |to: i64| from == Numbers::Truths || self.is_held_by(to, &view);
        if let Some(to) = to.filter(|to| !holds(*to)) {
            let supported = "float32, float16, float64, int32, int64 or bool; int8 or uint8 of positions that fit";
            return Err(Problem::attribute("to", &Attribute::Int(to), supported));
        }
        let view = match (from, target) {
            (Numbers::Floats, Numbers::Integers) => {
                let view = self.covering(node, &view)?;
                self.unary_of(node, &view, UnaryFunction::Truncate)?
            }
            (Numbers::Floats | Numbers::Integers, Numbers::Truths) => {
                self.compared_with_zero(node, &view, BinaryFunction::NotEqual)?
            }
            _ => view,
        };
        self.set(node, Value::View(view))
    }

    /// Zeros above or below a diagonal of computed matrices.
    pub(super) fn triangle(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let sizes = self.view(node, 0)?.sizes();
        let [.., Dim::Known(rows), Dim::Known(columns)] = sizes[..] else {
            let found = self.required(node, 0, "data")?;
            return Err(self.wrong(0, "data", found, "matrices of known sizes"));
        };
        let count = (rows as usize).saturating_mul(columns as usize);
        self.room.take(count)?;
        let ones = Constant::new(
            vec![rows as usize, columns as usize],
            Data::Ints(vec![1; count]),
        );
        let diagonal = match node.inputs.get(1) {
            Some(Some(_)) => match self.constant_integers(node, 1) {
                Some(diagonal) => Some(diagonal.clone()),
                None => {
                    let found = self.required(node, 1, "k")?;
                    return Err(self.wrong(1, "k", found, "an integer known when compiling"));
                }
            },
            _ => None,
        };
        let rule = |folding: &mut Folding<'_>| made::triangle(folding).map(Into::into);
        let kept = fold(
            rule,
            node,
            &[Some(&ones), diagonal.as_ref()],
            &mut self.room,
        )?;
        let kept = kept.into_iter().next().ok_or(Problem::MissingOutput)?;
        let kept = self.temporary(Value::Constant(Rc::new(kept)));
        let nothing = self.nodes_of(node).number(0.0);
        let chosen = vec![Some(kept), node.inputs[0], Some(nothing)];
        let result = self
            .nodes_of(node)
            .of_node(node.standing_in("Where"), chosen)?;
        self.nodes_of(node).give(0, result);
        Ok(())
    }

    /// Whether a type has all values of a tensor that is computed from the input: of bytes that is known of positions.
    fn is_held_by(&self, to: i64, view: &View) -> bool {
        let wide = [data_type::INT32, data_type::INT64, data_type::BOOL].map(i64::from);
        let most = match i32::try_from(to) {
            Ok(data_type::UINT8) => 1 << 8,
            Ok(data_type::INT8) => 1 << 7,
            _ => return wide.contains(&to) || data_type::FLOATS.map(i64::from).contains(&to),
        };
        let mut operators = self.draft.operators.iter();
        let writer = operators.find(|operator| operator.output == view.tensor);
        writer.is_some_and(|writer| match &writer.kind {
            OperatorKind::TopK(top) => top
                .axis
                .index()
                .is_some_and(|axis| self.shape(writer.input).sides()[axis] <= most),
            _ => false,
        })
    }

    /// 1 where the values equal 0, or where they do not.
    fn compared_with_zero(
        &mut self,
        node: &Node,
        view: &View,
        function: BinaryFunction,
    ) -> Result<View, Problem> {
        let view = self.covering(node, view)?;
        self.with_number(node, function, &view, 0.0, false)
    }

    pub(super) fn not(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        Attributes::of(node).finish()?;
        let view = self.view(node, 0)?.clone();
        let result = self.compared_with_zero(node, &view, BinaryFunction::Equal)?;
        self.set(node, Value::View(result))
    }

    /// Only NaN differs from itself.
    pub(super) fn is_nan(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        Attributes::of(node).finish()?;
        let view = Operand::Tensor(self.view(node, 0)?.clone());
        let operands = [view.clone(), view];
        let result = self.combined(node, BinaryFunction::NotEqual, operands)?;
        self.set(node, Value::View(result))
    }

    /// Only infinities lie beyond the largest number.
    pub(super) fn is_infinite(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let negative = attributes.int("detect_negative", 1)? != 0;
        let positive = attributes.int("detect_positive", 1)? != 0;
        attributes.finish()?;
        let view = self.elementwise(node, 0)?;
        let less = BinaryFunction::Less;
        let result = match (negative, positive) {
            (true, true) => {
                let size = self.unary_of(node, &view, UnaryFunction::Absolute)?;
                self.with_number(node, less, &size, f32::MAX, true)?
            }
            (false, true) => self.with_number(node, less, &view, f32::MAX, true)?,
            (true, false) => self.with_number(node, less, &view, f32::MIN, false)?,
            (false, false) => self.with_number(node, less, &view, f32::MIN, true)?,
        };
        let result = match (negative, positive) {
            // Neither sign of infinity is looked for.
            (false, false) => self.scaled(node, &result, 0.0)?,
            _ => result,
        };
        self.set(node, Value::View(result))
    }

    /// `And` is a product, `Or` the larger one, and `Xor` whether they differ.
    pub(super) fn truths(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        let operands = [self.two_sided(node, 0)?, self.two_sided(node, 1)?];
        if let Some(same) = neutral(&node.operator, &operands) {
            return self.set(node, Value::View(same));
        }
        let function = match node.operator.as_str() {
            "And" => BinaryFunction::Minimum,
            "Or" => BinaryFunction::Maximum,
            _ => BinaryFunction::NotEqual,
        };
        let result = self.combined(node, function, operands)?;
        self.set(node, Value::View(result))
    }

    /// The second operand where the first is true, else the third. The side that is not chosen has no influence, even
    /// if it is NaN.
    pub(super) fn choose(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        Attributes::of(node).finish()?;
        let condition = self.two_sided(node, 0)?;
        let sides = [self.two_sided(node, 1)?, self.two_sided(node, 2)?];
        if let Operand::Constant(truths) = &condition
            && let Some(&first) = truths.data.first()
            && truths
                .data
                .iter()
                .all(|truth| (*truth != 0.0) == (first != 0.0))
        {
            // The condition is the same everywhere, so one side is the result.
            let at = usize::from(first == 0.0);
            let all = [&condition, &sides[0], &sides[1]].map(Operand::sizes);
            let sizes = broadcast(&all[0], &all[1]).and_then(|both| broadcast(&both, &all[2]));
            if let Operand::Tensor(view) = &sides[at]
                && let Some(view) = sizes.and_then(|sizes| expanded(view.clone(), &sizes))
            {
                return self.set(node, Value::View(view));
            }
        }
        let known = |operand: &Operand| matches!(operand, Operand::Constant(_));
        if known(&condition) && sides.iter().any(known) {
            return self.overlaid(node, condition, sides);
        }
        let [yes, no] = sides;
        let keep = BinaryFunction::KeepWhere;
        let yes = self.kept(node, keep, yes, condition.clone())?;
        let no = self.kept(node, BinaryFunction::KeepUnless, no, condition)?;
        let result = match (yes, no) {
            (Some(yes), Some(no)) => {
                let both = [yes, no].map(Operand::Tensor);
                self.combined(node, BinaryFunction::Add, both)?
            }
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => {
                let condition = self.view(node, 0)?.clone();
                self.scaled(node, &condition, 0.0)?
            }
        };
        self.set(node, Value::View(result))
    }

    /// A choice between a tensor and a constant where which of them is taken is known: the sum of the tensor with zeros
    /// and of the constant with zeros, which is folded.
    fn overlaid(
        &mut self,
        node: &Node,
        condition: Operand,
        sides: [Operand; 2],
    ) -> Result<(), Problem> {
        let (tensor, keep) = match &sides {
            [Operand::Tensor(_), _] => (0, BinaryFunction::KeepWhere),
            _ => (1, BinaryFunction::KeepUnless),
        };
        let mut rest = node.clone();
        rest.inputs[1 + tensor] = Some(match self.numbers(node, 2 - tensor) {
            Numbers::Floats => self.nodes_of(node).number(0.0),
            _ => self.nodes_of(node).constant(vec![], Data::Ints(vec![0])),
        });
        let inputs = rest.inputs.clone();
        let rest = self.nodes_of(node).of_node(rest, inputs)?;
        let rest = Node {
            inputs: vec![Some(rest)],
            ..node.standing_in("Add")
        };
        let mut rest = self.figures(&rest, 0)?;
        let halved = halve_infinite(&mut rest);
        let [yes, no] = sides;
        let view = if tensor == 0 { yes } else { no };
        let mut kept = self.combined(node, keep, [view, condition])?;
        if halved {
            kept = self.scaled(node, &kept, 0.5)?;
        }
        let both = [Operand::Tensor(kept), Operand::Constant(rest)];
        let mut result = self.combined(node, BinaryFunction::Add, both)?;
        if halved {
            result = self.scaled(node, &result, 2.0)?;
        }
        self.set(node, Value::View(result))
    }

    /// One side where it is chosen and 0 elsewhere; `None` for a side that is a single 0.
    fn kept(
        &mut self,
        node: &Node,
        function: BinaryFunction,
        side: Operand,
        condition: Operand,
    ) -> Result<Option<View>, Problem> {
        let Operand::Constant(mut constant) = side else {
            let operands = [side, condition];
            return self.combined(node, function, operands).map(Some);
        };
        if constant.data == [0.0] {
            return Ok(None);
        }
        let halved = halve_infinite(&mut constant);
        let operands = [Operand::Constant(constant), condition];
        let kept = self.combined(node, function, operands)?;
        if halved {
            self.scaled(node, &kept, 2.0).map(Some)
        } else {
            Ok(Some(kept))
        }
    }
}

/// Constants must be finite, so those among which some are not are halved, to be doubled afterwards: an infinite one
/// becomes the largest number. Returns whether they are.
fn halve_infinite(constant: &mut Floats) -> bool {
    let halved = constant.data.iter().any(|value| value.is_infinite());
    if halved {
        for value in &mut constant.data {
            let largest = f32::MAX.copysign(*value);
            *value = if value.is_infinite() {
                largest
            } else {
                *value / 2.0
            };
        }
    }
    halved
}

/// The operand that is the result, if the other one is a constant that does not affect it.
fn neutral(operator: &str, operands: &[Operand; 2]) -> Option<View> {
    let (view, truths) = match operands {
        [Operand::Tensor(view), Operand::Constant(truths)]
        | [Operand::Constant(truths), Operand::Tensor(view)] => (view, truths),
        _ => return None,
    };
    let decides_nothing = match operator {
        "And" => truths.data.iter().all(|truth| *truth != 0.0),
        _ => truths.data.iter().all(|truth| *truth == 0.0),
    };
    let both = operands.each_ref().map(Operand::sizes);
    let sizes = broadcast(&both[0], &both[1]).filter(|_| decides_nothing)?;
    expanded(view.clone(), &sizes)
}

//! Functions of two tensors, or of one and a constant, whatever is repeated; functions of each value.

use punctual_model::{Binary, Operator, Softmax, Tensor, TensorId, Unary};
use punctual_types::{Activation, BinaryFunction, UnaryFunction};

use super::lowering::Lowering;
use super::numbers::Numbers;
use super::value::Value;
use super::view_algebra::{Axis, Factor, View};
use super::views::expanded;
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::fold::layout::broadcast;
use crate::graph::{Attribute, Attributes, Constant, Data, Floats, Node, ValueId};
use crate::integer::Dim;
use crate::problem::Problem;
use crate::schema::attribute::int;
use crate::schema::data_type;
use crate::write::{Writer, Written, tensor_name};

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Abs" => lower unary(UnaryFunction::Absolute) fold arithmetic::unary,
    "Acos" => lower unary(UnaryFunction::ArcCosine) fold arithmetic::unary,
    "Acosh" => lower unary(UnaryFunction::ArcHyperbolicCosine) fold arithmetic::unary,
    "Add" => lower binary(BinaryFunction::Add) fold arithmetic::binary,
    "Asin" => lower unary(UnaryFunction::ArcSine) fold arithmetic::unary,
    "Asinh" => lower unary(UnaryFunction::ArcHyperbolicSine) fold arithmetic::unary,
    "Atan" => lower unary(UnaryFunction::ArcTangent) fold arithmetic::unary,
    "Atanh" => lower unary(UnaryFunction::ArcHyperbolicTangent) fold arithmetic::unary,
    "Ceil" => lower unary(UnaryFunction::Ceiling) fold arithmetic::unary,
    "Cos" => lower unary(UnaryFunction::Cosine) fold arithmetic::unary,
    "Cosh" => lower unary(UnaryFunction::HyperbolicCosine) fold arithmetic::unary,
    "Div" => lower divide() fold arithmetic::binary,
    "Equal" => lower binary(BinaryFunction::Equal) fold arithmetic::binary makes Truths,
    "Erf" => lower unary(UnaryFunction::ErrorFunction) fold arithmetic::unary,
    "Exp" => lower unary(UnaryFunction::Exponential) fold arithmetic::unary,
    "Floor" => lower unary(UnaryFunction::Floor) fold arithmetic::unary,
    "Greater" => lower reversed_binary(BinaryFunction::Less) fold arithmetic::binary makes Truths,
    "GreaterOrEqual" => lower reversed_binary(BinaryFunction::LessOrEqual) fold arithmetic::binary makes Truths,
    "Less" => lower binary(BinaryFunction::Less) fold arithmetic::binary makes Truths,
    "LessOrEqual" => lower binary(BinaryFunction::LessOrEqual) fold arithmetic::binary makes Truths,
    "Log" => lower unary(UnaryFunction::Logarithm) fold arithmetic::unary,
    "LogSoftmax" => lower softmax(true),
    "Max" => lower variadic(BinaryFunction::Maximum) fold arithmetic::binary,
    "Mean" => lower variadic(BinaryFunction::Add),
    "Min" => lower variadic(BinaryFunction::Minimum) fold arithmetic::binary,
    "Mod" => lower modulo() fold arithmetic::binary,
    "Mul" => lower multiply() fold arithmetic::binary,
    "Neg" => lower negate() fold arithmetic::unary,
    "Pow" => lower pow() fold arithmetic::binary,
    "Reciprocal" => lower unary(UnaryFunction::Reciprocal) fold arithmetic::unary,
    "Round" => lower unary(UnaryFunction::Round) fold arithmetic::unary,
    "Sign" => lower unary(UnaryFunction::Sign) fold arithmetic::unary,
    "Sin" => lower unary(UnaryFunction::Sine) fold arithmetic::unary,
    "Sinh" => lower unary(UnaryFunction::HyperbolicSine) fold arithmetic::unary,
    "Softmax" => lower softmax(false),
    "Sqrt" => lower unary(UnaryFunction::SquareRoot) fold arithmetic::unary,
    "Sub" => lower binary(BinaryFunction::Subtract) fold arithmetic::binary,
    "Sum" => lower variadic(BinaryFunction::Add) fold arithmetic::binary,
    "Tan" => lower unary(UnaryFunction::Tangent) fold arithmetic::unary,
};

/// Most operands of `Sum`, `Mean`, `Min` and `Max`.
const OPERANDS_MAX: usize = 255;

/// An operand of a function of two values.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Tensor(View),
    Constant(Floats),
}

impl Operand {
    pub fn sizes(&self) -> Vec<Dim> {
        match self {
            Self::Tensor(view) => view.sizes(),
            Self::Constant(constant) => {
                let sizes = constant.dims.iter();
                sizes.map(|&size| Dim::Known(size as i64)).collect()
            }
        }
    }
}

/// Whether f32 holds an integer and its neighbours exactly.
fn is_exact(known: &i64) -> bool {
    known.unsigned_abs() <= 1 << f32::MANTISSA_DIGITS
}

impl Lowering<'_> {
    fn multiply(&mut self, node: &Node) -> Result<(), Problem> {
        match self.scale_heads(node) {
            Some(scaled) => self.set(node, scaled),
            None => self.binary(node, BinaryFunction::Multiply),
        }
    }

    pub(super) fn binary(&mut self, node: &Node, function: BinaryFunction) -> Result<(), Problem> {
        self.of_two(node, function, [0, 1])
    }

    /// As [`binary`](Self::binary), of the operands in the other order.
    pub(super) fn reversed_binary(
        &mut self,
        node: &Node,
        function: BinaryFunction,
    ) -> Result<(), Problem> {
        self.of_two(node, function, [1, 0])
    }

    fn of_two(
        &mut self,
        node: &Node,
        function: BinaryFunction,
        [first, second]: [usize; 2],
    ) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        let operands = [self.two_sided(node, first)?, self.two_sided(node, second)?];
        let result = self.combined(node, function, operands)?;
        self.set(node, Value::View(result))
    }

    /// A function of all operands, one after the other; `Mean` is the sum divided by their number.
    pub(super) fn variadic(
        &mut self,
        node: &Node,
        function: BinaryFunction,
    ) -> Result<(), Problem> {
        self.limit(node, OPERANDS_MAX, 1)?;
        Attributes::of(node).finish()?;
        let mut result = self.two_sided(node, 0)?;
        for at in 1..node.inputs.len() {
            let next = self.two_sided(node, at)?;
            result = match (result, next) {
                // A constant is combined with the first tensor that follows.
                (constant @ Operand::Constant(_), Operand::Tensor(view)) => {
                    let operands = [Operand::Tensor(view), constant];
                    Operand::Tensor(self.combined(node, function, operands)?)
                }
                (first, next) => Operand::Tensor(self.combined(node, function, [first, next])?),
            };
        }
        let Operand::Tensor(mut view) = result else {
            return Err(self.operands(node));
        };
        if node.operator == "Mean" {
            view = self.scaled(node, &view, 1.0 / node.inputs.len() as f32)?;
        }
        self.set(node, Value::View(view))
    }

    /// A quotient; of integers it is rounded towards zero.
    pub(super) fn divide(&mut self, node: &Node) -> Result<(), Problem> {
        let whole = (0..2).all(|at| self.numbers(node, at) != Numbers::Floats);
        if !whole {
            return self.binary(node, BinaryFunction::Divide);
        }
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        let quotient = match [self.two_sided(node, 0)?, self.two_sided(node, 1)?] {
            // Divided, as multiplying by the reciprocal may round to the wrong integer.
            [Operand::Tensor(view), Operand::Constant(constant)] => {
                let view = self.covering(node, &view)?;
                self.with_table(node, BinaryFunction::Divide, &view, &constant, false)?
            }
            operands => self.combined(node, BinaryFunction::Divide, operands)?,
        };
        let result = self.unary_of(node, &quotient, UnaryFunction::Truncate)?;
        self.set(node, Value::View(result))
    }

    /// The remainder of a division.
    pub(super) fn modulo(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let as_in_c = attributes.int("fmod", 0)? != 0;
        attributes.finish()?;
        let function = if as_in_c {
            BinaryFunction::Remainder
        } else {
            BinaryFunction::Modulo
        };
        let operands = [self.two_sided(node, 0)?, self.two_sided(node, 1)?];
        let result = self.combined(node, function, operands)?;
        self.set(node, Value::View(result))
    }

    /// That integers are computed in reals only where that is exact.
    pub(super) fn no_integers(&self, position: usize, what: &'static str) -> Problem {
        Problem::Input {
            position,
            what,
            found: "integers that are computed from the input".to_owned(),
            expected: "floats: cast them before",
        }
    }

    /// Reads an operand of a function of two values.
    pub(super) fn two_sided(&self, node: &Node, at: usize) -> Result<Operand, Problem> {
        match self.required(node, at, "operand")? {
            Value::View(view) => Ok(Operand::Tensor(view.clone())),
            Value::Constant(_) => self.figures(node, at).map(Operand::Constant),
            _ => Err(self.operands(node)),
        }
    }

    /// A constant of floats, integers or booleans.
    pub(super) fn figures(&self, node: &Node, at: usize) -> Result<Floats, Problem> {
        let Value::Constant(constant) = self.required(node, at, "constant")? else {
            return Err(self.operands(node));
        };
        if matches!(constant.data, Data::Floats(_)) {
            return self.floats(node, at, "constant");
        }
        let known = constant.integers().and_then(|integers| {
            let known = integers.iter().map(|integer| integer.known());
            let exact = known.map(|known| known.filter(is_exact).map(|known| known as f32));
            exact.collect::<Option<Vec<f32>>>()
        });
        match known {
            Some(data) => Ok(Floats {
                dims: constant.dims.clone(),
                data,
            }),
            None => {
                let expected = "whole numbers up to 2^24 that are known when compiling";
                let found = self.required(node, at, "constant")?;
                Err(self.wrong(at, "constant", found, expected))
            }
        }
    }

    /// A function of two values, of which at least one is a tensor.
    pub(super) fn combined(
        &mut self,
        node: &Node,
        function: BinaryFunction,
        operands: [Operand; 2],
    ) -> Result<View, Problem> {
        match operands {
            [Operand::Tensor(a), Operand::Tensor(b)] => self.two_tensors(node, function, [a, b]),
            [Operand::Tensor(view), Operand::Constant(constant)] => {
                self.with_constant(node, function, &view, &constant, false)
            }
            [Operand::Constant(constant), Operand::Tensor(view)] => {
                self.with_constant(node, function, &view, &constant, true)
            }
            [Operand::Constant(_), Operand::Constant(_)] => Err(self.operands(node)),
        }
    }

    fn operands(&self, node: &Node) -> Problem {
        let describe = |at| {
            self.operand(node, at)
                .map_or_else(String::new, |value| self.describe(value))
        };
        Problem::Operands {
            first: describe(0),
            second: describe(1),
        }
    }

    fn two_tensors(
        &mut self,
        node: &Node,
        function: BinaryFunction,
        views: [View; 2],
    ) -> Result<View, Problem> {
        let sizes = views.each_ref().map(View::sizes);
        if broadcast(&sizes[0], &sizes[1]).is_none() {
            return Err(self.operands(node));
        }
        let [a, b] = &views;
        let views = [self.covering(node, a)?, self.covering(node, b)?];
        let (views, dims) = self.aligned(node, views)?;
        let [a, b] = views.map(|view| view.tensor);
        let (of_a, of_b) = (self.shape(a), self.shape(b));
        let factors_come_first = of_a == Tensor::features(of_b.channels) && of_a != of_b;
        // Factors of channels come second, as exporters mostly write them.
        let (a, b) = match function {
            BinaryFunction::Multiply if factors_come_first => (b, a),
            _ => (a, b),
        };
        let tensor = self.emit(node, Binary::new(function), a, &[b])?;
        let start = [0; 3];
        Ok(View {
            tensor,
            start,
            dims,
        })
    }

    /// The operands with their values at the same places, moved there if they are not, and what both make together.
    fn aligned(&mut self, node: &Node, views: [View; 2]) -> Result<([View; 2], Dims), Problem> {
        if let Some(merged) = self.merged(&views) {
            return Ok((views, merged));
        }
        let mut moved = views.clone();
        let is_shuffled = |view: &View| view.channel_runs(self.shape(view.tensor)).is_some();
        if views.iter().all(is_shuffled) {
            for view in &mut moved {
                *view = self.as_itself(node, view)?;
            }
        } else if views[0].sizes() == views[1].sizes() {
            moved[1] = match self.copied_like(node, &views[1], &views[0])? {
                Some(copy) => copy,
                None => {
                    moved[0] = self.straightened(node, &views[0])?;
                    let copy = self.copied_like(node, &views[1], &moved[0])?;
                    copy.unwrap_or_else(|| views[1].clone())
                }
            };
        } else if let Some(repeated) = self.repeated(node, &views)? {
            moved = repeated;
        } else {
            let axes = common_axes(&views).ok_or_else(|| self.operands(node))?;
            for view in &mut moved {
                let own = &axes[axes.len() - view.dims.len()..];
                *view = self.copied_on(node, view, own)?;
            }
        }
        let merged = self.merged(&moved).ok_or_else(|| self.operands(node))?;
        Ok((moved, merged))
    }

    /// The larger operand as it lies, and the other one repeated to lie in the same way.
    fn repeated(&mut self, node: &Node, views: &[View; 2]) -> Result<Option<[View; 2]>, Problem> {
        for (larger, smaller) in [(0, 1), (1, 0)] {
            let to = views[larger].sizes();
            let all = expanded(views[smaller].clone(), &to).filter(|all| all.sizes() == to);
            let Some(all) = all else { continue };
            if let Some(copy) = self.copied_like(node, &all, &views[larger])? {
                let mut moved = views.clone();
                moved[smaller] = copy;
                return Ok(Some(moved));
            }
        }
        Ok(None)
    }

    fn merged(&self, views: &[View; 2]) -> Option<Dims> {
        let shapes = views.each_ref().map(|view| self.shape(view.tensor));
        merged(views, shapes)
    }

    /// A function of a view and a constant, which is the first operand if they are swapped.
    fn with_constant(
        &mut self,
        node: &Node,
        function: BinaryFunction,
        view: &View,
        constant: &Floats,
        swapped: bool,
    ) -> Result<View, Problem> {
        let mut view = self.covering(node, view)?;
        while !view.has_one_batch() && view.dims.len() < constant.dims.len() {
            view = view.unsqueeze(0);
        }
        if let Some(values) = self.per_channel(&view, constant) {
            let line = |scale: fn(f32) -> f32, shift: fn(f32) -> f32| {
                let scale = values.iter().copied().map(scale).collect();
                (scale, values.iter().copied().map(shift).collect())
            };
            let line: Option<(Vec<f32>, Vec<f32>)> = match (function, swapped) {
                (BinaryFunction::Add, _) => Some(line(|_| 1.0, |value| value)),
                (BinaryFunction::Subtract, false) => Some(line(|_| 1.0, |value| -value)),
                (BinaryFunction::Subtract, true) => Some(line(|_| -1.0, |value| value)),
                (BinaryFunction::Multiply, _) => Some(line(|value| value, |_| 0.0)),
                (BinaryFunction::Divide, false) => Some(line(|value| 1.0 / value, |_| 0.0)),
                _ => None,
            };
            if let Some((scale, shift)) = line {
                return self.affine_of(node, &view, scale, shift);
            }
        }
        if let [bound] = constant.data[..]
            && !bound.is_nan()
        {
            let bound = bound.clamp(f32::MIN, f32::MAX);
            let activation = match function {
                BinaryFunction::Maximum if bound == 0.0 => Some(Activation::Relu),
                BinaryFunction::Maximum => Some(clip(bound, f32::MAX)),
                BinaryFunction::Minimum => Some(clip(f32::MIN, bound)),
                _ => None,
            };
            if let Some(activation) = activation
                && constant.dims.len() <= view.dims.len()
            {
                return self.activated(node, &view, activation);
            }
        }
        if function == BinaryFunction::Add
            && let Some(sum) = self.add_to_tokens(node, &view, constant)?
        {
            return Ok(sum);
        }
        self.with_table(node, function, &view, constant, swapped)
    }

    /// A function of a view and one number.
    pub(super) fn with_number(
        &mut self,
        node: &Node,
        function: BinaryFunction,
        view: &View,
        number: f32,
        swapped: bool,
    ) -> Result<View, Problem> {
        let constant = Floats {
            dims: Vec::new(),
            data: vec![number],
        };
        self.with_table(node, function, view, &constant, swapped)
    }

    /// A function of a view and a constant.
    pub(super) fn with_table(
        &mut self,
        node: &Node,
        function: BinaryFunction,
        view: &View,
        constant: &Floats,
        swapped: bool,
    ) -> Result<View, Problem> {
        let mut view = view.clone();
        let mut together = table(&view, self.shape(view.tensor), constant);
        if together.is_none() && view.dims.len() >= constant.dims.len() {
            // Flattened to channels, the view leaves rows and columns free for the constant's further dimensions.
            view = self.flattened(node, &view)?;
            together = table(&view, self.shape(view.tensor), constant);
        }
        let Some((dims, values, shape)) = together else {
            return self.with_tensor_of(node, function, &view, constant, swapped);
        };
        let binary = Binary {
            constant: Some(shape),
            swapped,
            ..Binary::new(function)
        };
        let binary = Computation::new(binary, [values]);
        let tensor = self.emit(node, binary, view.tensor, &[])?;
        let start = [0; 3];
        Ok(View {
            tensor,
            start,
            dims,
        })
    }

    /// A function of a view and of a constant whose dimensions lie crosswise to its own: as of two tensors.
    fn with_tensor_of(
        &mut self,
        node: &Node,
        function: BinaryFunction,
        view: &View,
        constant: &Floats,
        swapped: bool,
    ) -> Result<View, Problem> {
        let behind = view.dims.len().checked_sub(constant.dims.len());
        let of_batch = |behind: usize| behind > 0 || constant.dims.first() == Some(&1);
        let Some(behind) = behind.filter(|behind| of_batch(*behind) && view.is_batch(0)) else {
            return Err(self.operands(node));
        };
        let dims = [&vec![1; behind][..], &constant.dims].concat();
        let constant = Constant::new(dims, Data::Floats(constant.data.clone()));
        let constant = self.of_images(node, &constant, 0)?;
        let views = if swapped {
            [constant, view.clone()]
        } else {
            [view.clone(), constant]
        };
        self.two_tensors(node, function, views)
    }

    pub(super) fn negate(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        Attributes::of(node).finish()?;
        let view = self.elementwise(node, 0)?;
        let channels = self.shape(view.tensor).channels as usize;
        self.affine(node, &view, vec![-1.0; channels], vec![0.0; channels])
    }

    pub(super) fn unary(&mut self, node: &Node, function: UnaryFunction) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        Attributes::of(node).finish()?;
        let view = self.elementwise(node, 0)?;
        let view = self.unary_of(node, &view, function)?;
        self.set(node, Value::View(view))
    }

    pub(super) fn unary_of(
        &mut self,
        node: &Node,
        view: &View,
        function: UnaryFunction,
    ) -> Result<View, Problem> {
        let output = self.emit(node, Unary { function }, view.tensor, &[])?;
        Ok(view.of(output))
    }

    /// A power. A few constant exponents become products, a root or a reciprocal.
    pub(super) fn pow(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        // Their powers are cut to integers, which reals may miss by one.
        let is_of_integers = self.numbers(node, 0) != Numbers::Floats;
        Attributes::of(node).finish()?;
        let operands = [self.two_sided(node, 0)?, self.two_sided(node, 1)?];
        let (view, exponent) = match &operands {
            [Operand::Tensor(view), Operand::Constant(exponent)] => match exponent.data[..] {
                [exponent] => (view.clone(), exponent),
                _ => (view.clone(), f32::NAN),
            },
            _ if is_of_integers => return Err(self.no_integers(0, "base")),
            _ => {
                let result = self.combined(node, BinaryFunction::Power, operands)?;
                return self.set(node, Value::View(result));
            }
        };
        if is_of_integers && ![1.0, 2.0, 3.0, 4.0].contains(&exponent) {
            return Err(self.no_integers(0, "base"));
        }
        let view = self.covering(node, &view)?;
        let (root, reciprocal) = (UnaryFunction::SquareRoot, UnaryFunction::Reciprocal);
        let times = |lowering: &mut Self, other: &View| {
            let product = Binary::new(BinaryFunction::Multiply);
            let output = lowering.emit(node, product, other.tensor, &[view.tensor])?;
            Ok::<_, Problem>(view.of(output))
        };
        let result = match exponent {
            1.0 => view,
            0.5 => self.unary_of(node, &view, root)?,
            -1.0 => self.unary_of(node, &view, reciprocal)?,
            -0.5 => {
                let root = self.unary_of(node, &view, root)?;
                self.unary_of(node, &root, reciprocal)?
            }
            2.0 | 3.0 | 4.0 => {
                let mut power = times(self, &view)?;
                for _ in 2..exponent as u32 {
                    power = times(self, &power)?;
                }
                power
            }
            _ => self.combined(node, BinaryFunction::Power, operands)?,
        };
        self.set(node, Value::View(result))
    }

    /// Along one dimension. Of (N, features) along the features it waits until something reads it: before an exit
    /// it is left out.
    pub(super) fn softmax(&mut self, node: &Node, logarithm: bool) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let flattens = node.opset < 13;
        let axis = attributes.int("axis", if flattens { 1 } else { -1 })?;
        attributes.finish()?;
        let view = self.view(node, 0)?.clone();
        let rank = view.dims.len();
        let at = super::views::position("axis", axis, rank)?;
        // Before opset 13 all dimensions from the axis on were taken together.
        if flattens && view.dims[at + 1..].iter().any(|dim| !dim.is_empty()) {
            let found = Attribute::Int(axis);
            return Err(Problem::attribute(
                "axis",
                &found,
                "the last dimension before opset 13",
            ));
        }
        if rank == 2 && at == 1 && !logarithm {
            return self.set(node, Value::Softmax(view));
        }
        let view = self.softmax_of(node, &view, at, logarithm)?;
        self.set(node, Value::View(view))
    }

    /// The softmax of a view along a dimension.
    pub(super) fn softmax_of(
        &mut self,
        node: &Node,
        view: &View,
        at: usize,
        logarithm: bool,
    ) -> Result<View, Problem> {
        const EXPECTED: &str =
            "a tensor with one axis, or a part of one, along which the softmax goes";
        let view = match view.dims[at].len() {
            0 | 1 => self.covering(node, view)?,
            _ => self.straightened(node, view)?,
        };
        let nothing = Factor {
            axis: Axis::Channel,
            step: 1,
            extent: 1,
        };
        let digit = match view.dims[at][..] {
            [] => Some(nothing),
            [digit] => Some(digit),
            _ => None,
        };
        let digit = digit.filter(|digit| digit.axis.index().is_some());
        let Some(digit) = digit.and_then(|digit| digit.digit()) else {
            let found = Value::View(view);
            return Err(self.wrong(0, "data", &found, EXPECTED));
        };
        let output = self.emit(node, Softmax { digit, logarithm }, view.tensor, &[])?;
        Ok(view.of(output))
    }

    /// Makes a tensor of an output that is on the way to one.
    pub(crate) fn compute_output(&mut self, exit: &str, id: ValueId) -> Result<(), Problem> {
        let value = self.value(id).clone();
        let computed = match (&value, self.softmaxes.get(&id)) {
            (Value::Softmax(_), Some(computed)) => computed.clone(),
            (Value::Softmax(_) | Value::Scores(_) | Value::Scaled(..) | Value::Stacked(_), _) => {
                self.tensor_of(&Node::of_exit(exit), &value)?
            }
            // A part of the input is copied, as an exit's outputs are written by operators.
            (Value::View(view), _) if view.tensor.index() < self.draft.inputs => {
                self.copied_whole(&Node::of_exit(exit), view)?
            }
            (Value::Constant(_), _) => {
                let node = Node {
                    inputs: vec![Some(id)],
                    ..Node::of_exit(exit)
                };
                match self.constant_of_images(&node, 0)? {
                    Some(view) => view,
                    None => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        self.values[id.0] = Value::View(computed);
        Ok(())
    }

    /// The tensor of a value that may be on the way to one.
    pub(super) fn tensor_of(&mut self, node: &Node, value: &Value) -> Result<View, Problem> {
        match value {
            Value::View(view) => Ok(view.clone()),
            Value::Softmax(view) => self.softmax_of(node, view, 1, false),
            Value::Scores(scores) => self.computed_scores(node, scores),
            Value::Scaled(view, factor) => self.scaled(node, view, *factor),
            Value::Stacked(stack) => self.together(node, stack),
            other => Err(self.wrong(0, "data", other, "a tensor computed from the input")),
        }
    }

    /// Gives a node that reads a softmax its values. Returns what was there, to be put back: for an exit the softmax
    /// stays left out.
    pub(super) fn compute_softmax(
        &mut self,
        node: &Node,
    ) -> Result<Vec<(ValueId, Value)>, Problem> {
        let mut before = Vec::new();
        if matches!(
            node.operator.as_str(),
            "Identity" | "Dropout" | "Shape" | "Size"
        ) {
            return Ok(before);
        }
        for id in node.inputs.iter().copied().flatten() {
            let Value::Softmax(view) = self.value(id) else {
                continue;
            };
            let view = view.clone();
            let computed = match self.softmaxes.get(&id) {
                Some(computed) => computed.clone(),
                None => self.softmax_of(node, &view, 1, false)?,
            };
            self.softmaxes.insert(id, computed.clone());
            let value = Value::View(computed);
            before.push((id, std::mem::replace(&mut self.values[id.0], value)));
        }
        Ok(before)
    }
}

const fn clip(low: f32, high: f32) -> Activation {
    Activation::Clip { low, high }
}

type Dims = Vec<Vec<Factor>>;

/// An axis for each dimension, for two tensors of which one or the other is repeated along some: neighbours along which
/// the same ones are repeated share one. `None` if there are more of these than axes.
fn common_axes(views: &[View; 2]) -> Option<Vec<Axis>> {
    let rank = views.iter().map(|view| view.dims.len()).max()?;
    let has = |view: &View, at: usize| {
        let at = (at + view.dims.len()).checked_sub(rank);
        let dim = at.map_or(&[][..], |at| &view.dims[at]);
        dim.iter().any(|digit| digit.axis != Axis::Batch)
    };
    let kinds: Vec<[bool; 2]> = (0..rank)
        .map(|at| [has(&views[0], at), has(&views[1], at)])
        .collect();
    let mut runs: Vec<[bool; 2]> = kinds.clone();
    runs.retain(|kind| *kind != [false; 2]);
    runs.dedup();
    let axes: &[Axis] = match runs.len() {
        0 | 1 => &[Axis::Channel],
        2 => &[Axis::Column, Axis::Channel],
        3 => &[Axis::Row, Axis::Column, Axis::Channel],
        _ => return None,
    };
    let mut run = 0;
    let axis = |kind: &[bool; 2]| {
        if *kind != [false; 2] && *kind != runs[run] {
            run += 1;
        }
        axes[run]
    };
    Some(kinds.iter().map(axis).collect())
}

/// The dimensions of what two tensors make together: on each axis both have the same digits, or one has one position.
fn merged(views: &[View; 2], shapes: [Tensor; 2]) -> Option<Dims> {
    let rank = views.iter().map(|view| view.dims.len()).max()?;
    let dim = |view: &View, at: usize| -> Vec<Factor> {
        let at = (at + view.dims.len()).checked_sub(rank);
        at.map_or_else(Vec::new, |at| view.dims[at].clone())
    };
    let dims = (0..rank).map(|at| match (dim(&views[0], at), dim(&views[1], at)) {
        (a, b) if a == b || b.is_empty() => Some(a),
        (a, b) if a.is_empty() => Some(b),
        _ => None,
    });
    let dims: Vec<Vec<Factor>> = dims.collect::<Option<_>>()?;
    let sides = shapes.map(Tensor::sides);
    let shape = Tensor::of_sides([0, 1, 2].map(|axis| sides[0][axis].max(sides[1][axis])));
    let all = dims.concat();
    let axes = [Axis::Channel, Axis::Row, Axis::Column];
    for (view, sides) in views.iter().zip(&sides) {
        let own = view.dims.concat();
        for (at, axis) in axes.into_iter().enumerate() {
            let of = |digits: &[Factor]| -> Vec<Factor> {
                digits
                    .iter()
                    .copied()
                    .filter(|digit| digit.axis == axis)
                    .collect()
            };
            if !(sides[at] == 1 || of(&own) == of(&all)) {
                return None;
            }
        }
    }
    let whole = View {
        tensor: TensorId(0),
        start: [0; 3],
        dims,
    };
    whole.covers(shape).then_some(whole.dims)
}

/// Of a view with a constant: the result's dimensions, and the constant as a tensor that is repeated to the result's
/// shape. `None` where the dimensions do not fit.
fn table(view: &View, shape: Tensor, constant: &Floats) -> Option<(Dims, Vec<f32>, Tensor)> {
    let before = view.dims.len().checked_sub(constant.dims.len())?;
    let mut dims = view.dims.clone();
    let mut sides = shape.sides();
    let mut own = [1; 3];
    for (at, &size) in constant.dims.iter().enumerate() {
        if size == 1 {
            continue;
        }
        let dim = &mut dims[before + at];
        if dim.is_empty() {
            // One position, which the constant repeats: on the axis where an image has it, or on any other.
            let axis = [Axis::Channel, Axis::Row, Axis::Column];
            let own = (before + at).checked_sub(1);
            let own = own.filter(|_| view.dims.len() == 4).into_iter();
            let free = own.chain([1, 2, 0]).find(|&free| sides[free] == 1)?;
            let extent = u32::try_from(size).ok()?;
            sides[free] = extent;
            let extent = extent.into();
            dim.push(Factor {
                axis: axis[free],
                step: 1,
                extent,
            });
        }
        let extent: u64 = dim.iter().map(|digit| digit.extent).product();
        if extent != size as u64 || dim.iter().any(|digit| digit.axis.index().is_none()) {
            return None;
        }
        for axis in dim.iter().filter_map(|digit| digit.axis.index()) {
            own[axis] = sides[axis];
        }
    }
    let own = Tensor::of_sides(own);
    if own.elements() > punctual_model::TENSOR_ELEMENTS_MAX {
        return None;
    }
    let place = |position: [u32; 3]| {
        let mut place = 0;
        for (dim, &size) in dims[before..].iter().zip(&constant.dims) {
            let digits = dim.iter().filter(|_| size != 1);
            let index = digits.fold(0, |index, digit| {
                let along = digit
                    .axis
                    .index()
                    .map_or(0, |axis| u64::from(position[axis]));
                index * digit.extent + along / digit.step % digit.extent
            });
            place = place * size + index as usize;
        }
        place
    };
    let values = own.places().map(|at| constant.data[place(at)]).collect();
    Some((dims, values, own))
}

impl Written for Binary {
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let input = tensor_name(operator.input);
        let other = match self.constant {
            None => tensor_name(operator.others[0]),
            Some(shape) => writer.weights(operator.weights[0], &shape.sides().map(i64::from)),
        };
        let mut operands = [input.as_str(), &other];
        if self.swapped {
            operands.reverse();
        }
        let result = written(writer, self.function, operands);
        writer.activate(self.activation, &result, operator.output)
    }
}

fn written(writer: &mut Writer<'_>, function: BinaryFunction, operands: [&str; 2]) -> String {
    let [first, second] = operands;
    let truth = |writer: &mut Writer<'_>, name: &str| {
        let found = writer.node(name, &operands, Vec::new());
        writer.cast(&found, data_type::FLOAT)
    };
    let fmod = || vec![int("fmod", 1)];
    let name = match function {
        BinaryFunction::Add => "Add",
        BinaryFunction::Subtract => "Sub",
        BinaryFunction::Multiply => "Mul",
        BinaryFunction::Divide => "Div",
        BinaryFunction::Minimum => "Min",
        BinaryFunction::Maximum => "Max",
        BinaryFunction::Power => "Pow",
        BinaryFunction::Slope => "PRelu",
        BinaryFunction::Equal => return truth(writer, "Equal"),
        BinaryFunction::Less => return truth(writer, "Less"),
        BinaryFunction::LessOrEqual => return truth(writer, "LessOrEqual"),
        BinaryFunction::NotEqual => {
            let equal = writer.node("Equal", &operands, Vec::new());
            let not = writer.node("Not", &[&equal], Vec::new());
            return writer.cast(&not, data_type::FLOAT);
        }
        BinaryFunction::KeepWhere | BinaryFunction::KeepUnless => {
            let chosen = writer.cast(second, data_type::BOOL);
            let mut sides = [first, &writer.scalar(0.0)];
            if function == BinaryFunction::KeepUnless {
                sides.reverse();
            }
            return writer.node("Where", &[&chosen, sides[0], sides[1]], Vec::new());
        }
        BinaryFunction::Modulo => {
            // For floats ONNX only has the remainder with the sign of `a`.
            let rest = writer.node("Mod", &operands, fmod());
            let more = writer.node("Add", &[&rest, second], Vec::new());
            return writer.node("Mod", &[&more, second], fmod());
        }
        BinaryFunction::Remainder => return writer.node("Mod", &operands, fmod()),
    };
    writer.node(name, &operands, Vec::new())
}

impl Written for Unary {
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let input = tensor_name(operator.input);
        let name = match self.function {
            UnaryFunction::Absolute => "Abs",
            UnaryFunction::Exponential => "Exp",
            UnaryFunction::Reciprocal => "Reciprocal",
            UnaryFunction::SquareRoot => "Sqrt",
            UnaryFunction::Logarithm => "Log",
            UnaryFunction::Sign => "Sign",
            UnaryFunction::Floor => "Floor",
            UnaryFunction::Ceiling => "Ceil",
            UnaryFunction::Round => "Round",
            UnaryFunction::Truncate => {
                let size = writer.node("Abs", &[&input], Vec::new());
                let size = writer.node("Floor", &[&size], Vec::new());
                let sign = writer.node("Sign", &[&input], Vec::new());
                return writer.node_into("Mul", &[&size, &sign], operator.output, Vec::new());
            }
            UnaryFunction::Sine => "Sin",
            UnaryFunction::Cosine => "Cos",
            UnaryFunction::Tangent => "Tan",
            UnaryFunction::ArcSine => "Asin",
            UnaryFunction::ArcCosine => "Acos",
            UnaryFunction::ArcTangent => "Atan",
            UnaryFunction::HyperbolicSine => "Sinh",
            UnaryFunction::HyperbolicCosine => "Cosh",
            UnaryFunction::ArcHyperbolicSine => "Asinh",
            UnaryFunction::ArcHyperbolicCosine => "Acosh",
            UnaryFunction::ArcHyperbolicTangent => "Atanh",
            UnaryFunction::ErrorFunction => "Erf",
        };
        writer.node_into(name, &[&input], operator.output, Vec::new())
    }
}

impl Written for Softmax {
    /// The axis cut in three, the digit in the middle.
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let &Softmax { digit, logarithm } = self;
        let sides = writer.sides(operator.input);
        let axis = digit.axis.index().unwrap_or(0);
        let (step, extent) = (i64::from(digit.step), i64::from(digit.extent));
        let digits = [sides[axis] / (step * extent), extent, step];
        let cut = [&[-1][..], &sides[..axis], &digits, &sides[axis + 1..]].concat();
        let cut = writer.integers(&cut);
        let whole = writer.integers(&[&[-1][..], &sides].concat());
        let cut = writer.node("Reshape", &[&tensor_name(operator.input), &cut], Vec::new());
        let name = if logarithm { "LogSoftmax" } else { "Softmax" };
        let result = writer.node(name, &[&cut], vec![int("axis", axis as i64 + 2)]);
        writer.node_into("Reshape", &[&result, &whole], operator.output, Vec::new())
    }
}

//! Operators that are a few others in a row.

use std::rc::Rc;

use super::lowering::Lowering;
use super::value::Value;
use super::views::{position, positions};
use super::vocabulary::{OnnxOperator, family};
use crate::graph::{Attribute, Attributes, Constant, Data, Node, ValueId};
use crate::integer::Dim;
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "CenterCropPad" => lower center_crop_pad(),
    "Compress" => lower compress(),
    "GlobalLpPool" => lower global_norm_pool(),
    "Hardmax" => lower hardmax(),
    "LRN" => lower local_response(),
    "LpPool" => lower norm_pool(),
    "MeanVarianceNormalization" => lower mean_variance(),
    "ReverseSequence" => lower reverse_sequence(),
    "Shrink" => lower shrink(),
};

type Named = (&'static str, Attribute);

impl Lowering<'_> {
    /// A result of another operator in a node's place.
    pub(super) fn apply(
        &mut self,
        node: &Node,
        operator: &str,
        inputs: impl IntoIterator<Item = ValueId>,
        attributes: impl IntoIterator<Item = Named>,
    ) -> Result<ValueId, Problem> {
        let mut other = node.standing_in(operator);
        let attributes = attributes.into_iter();
        other.attributes = attributes
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        self.lowered(&other, inputs.into_iter().map(Some).collect())
    }

    /// Makes a value the node's first result.
    pub(super) fn hand_on(&mut self, node: &Node, id: ValueId) -> Result<(), Problem> {
        let value = self.value(id).clone();
        self.set(node, value)
    }

    /// A constant of floats.
    pub(super) fn floats_of(&mut self, dims: Vec<usize>, values: Vec<f32>) -> ValueId {
        let constant = Constant::new(dims, Data::Floats(values));
        self.temporary(Value::Constant(Rc::new(constant)))
    }

    /// A list of integers.
    pub(super) fn listed(&mut self, integers: Vec<i64>) -> ValueId {
        let list = Constant::new(vec![integers.len()], Data::Ints(integers));
        self.temporary(Value::Constant(Rc::new(list)))
    }

    /// The node's first operand, a tensor, and its dimensions.
    fn data(&self, node: &Node) -> Result<(ValueId, Vec<Dim>), Problem> {
        let sizes = self.view(node, 0)?.sizes();
        let missing = Problem::MissingInput {
            position: 0,
            what: "data",
        };
        let id = node.inputs.first().copied().flatten();
        Ok((id.ok_or(missing)?, sizes))
    }

    /// Each value divided by a power of a sum over channels near its own: a convolution of the squares.
    fn local_response(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let size = attributes.int("size", 0)?;
        let alpha = attributes.float("alpha", 1e-4)?;
        let beta = attributes.float("beta", 0.75)?;
        let bias = attributes.float("bias", 1.0)?;
        attributes.finish()?;
        let (data, sizes) = self.data(node)?;
        let (Some(Dim::Known(channels)), true) = (sizes.get(1).copied(), size > 0) else {
            let found = Attribute::Int(size);
            return Err(Problem::attribute(
                "size",
                &found,
                "a positive number, of images",
            ));
        };
        let channels = channels as usize;
        self.room.take(channels.saturating_mul(channels))?;
        let (before, after) = ((size - 1) / 2, size / 2);
        let near = |at: usize| {
            let away = (at % channels) as i64 - (at / channels) as i64;
            if (-before..=after).contains(&away) {
                alpha / size as f32
            } else {
                0.0
            }
        };
        let weights = (0..channels * channels).map(near).collect();
        let mut dims = vec![channels, channels];
        dims.resize(sizes.len(), 1);
        let weights = self.floats_of(dims, weights);
        let bias = self.floats_of(vec![channels], vec![bias; channels]);
        let beta = self.floats_of(vec![], vec![beta]);
        let squares = self.apply(node, "Mul", [data, data], [])?;
        let sums = self.apply(node, "Conv", [squares, weights, bias], [])?;
        let powers = self.apply(node, "Pow", [sums, beta], [])?;
        let result = self.apply(node, "Div", [data, powers], [])?;
        self.hand_on(node, result)
    }

    /// The first or the second power of each value's size; others are refused.
    fn powers(&mut self, node: &Node, power: i64, data: ValueId) -> Result<ValueId, Problem> {
        match power {
            1 => self.apply(node, "Abs", [data], []),
            2 => self.apply(node, "Mul", [data, data], []),
            _ => Err(Problem::attribute("p", &Attribute::Int(power), "1 or 2")),
        }
    }

    fn norm_pool(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let power = attributes.int("p", 2)?;
        attributes.only("ceil_mode", 0, "0")?;
        let kernel = attributes.ints("kernel_shape")?.unwrap_or_default();
        let area = kernel.iter().map(|side| *side as f32).product();
        let (data, _) = self.data(node)?;
        let powers = self.powers(node, power, data)?;
        // A mean that counts the padding is the sum but for a factor.
        let mut mean = node.standing_in("AveragePool");
        mean.attributes.clone_from(&node.attributes);
        mean.attributes.remove("p");
        mean.attributes
            .insert("count_include_pad".to_owned(), Attribute::Int(1));
        let means = self.lowered(&mean, vec![Some(powers)])?;
        let area = self.floats_of(vec![], vec![area]);
        let mut result = self.apply(node, "Mul", [means, area], [])?;
        if power == 2 {
            result = self.apply(node, "Sqrt", [result], [])?;
        }
        self.hand_on(node, result)
    }

    fn global_norm_pool(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let power = attributes.int("p", 2)?;
        attributes.finish()?;
        let (data, sizes) = self.data(node)?;
        let operator = match power {
            1 => "ReduceL1",
            2 => "ReduceL2",
            _ => return Err(Problem::attribute("p", &Attribute::Int(power), "1 or 2")),
        };
        let axes = Attribute::Ints((2..sizes.len() as i64).collect());
        let result = self.apply(node, operator, [data], [("axes", axes)])?;
        self.hand_on(node, result)
    }

    fn mean_variance(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let axes = attributes.ints("axes")?.unwrap_or(&[0, 2, 3]).to_vec();
        attributes.finish()?;
        let (data, sizes) = self.data(node)?;
        let mut kept = positions("axes", &axes, sizes.len())?;
        if self.fixed == Some(1) {
            // The mean over one image is the image.
            kept.retain(|axis| matches!(sizes[*axis], Dim::Known(_)));
        }
        let axes = || {
            (
                "axes",
                Attribute::Ints(kept.iter().map(|axis| *axis as i64).collect()),
            )
        };
        let mean = self.apply(node, "ReduceMean", [data], [axes()])?;
        let away = self.apply(node, "Sub", [data, mean], [])?;
        let squares = self.apply(node, "Mul", [away, away], [])?;
        let variance = self.apply(node, "ReduceMean", [squares], [axes()])?;
        let deviation = self.apply(node, "Sqrt", [variance], [])?;
        let little = self.floats_of(vec![], vec![1e-9]);
        let deviation = self.apply(node, "Add", [deviation, little], [])?;
        let result = self.apply(node, "Div", [away, deviation], [])?;
        self.hand_on(node, result)
    }

    fn hardmax(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let old = self.graph.opset < 13;
        let axis = attributes.int("axis", if old { 1 } else { -1 })?;
        attributes.finish()?;
        let (data, sizes) = self.data(node)?;
        let at = position("axis", axis, sizes.len())?;
        let fits = !old || at + 1 == sizes.len();
        let (Dim::Known(depth), true) = (sizes[at], fits) else {
            let supported = "a dimension of known size; before operator set 13 the last one";
            return Err(Problem::attribute("axis", &Attribute::Int(axis), supported));
        };
        let axis = || ("axis", Attribute::Int(at as i64));
        let best = self.apply(
            node,
            "ArgMax",
            [data],
            [axis(), ("keepdims", Attribute::Int(0))],
        )?;
        let depth = self.floats_of(vec![], vec![depth as f32]);
        let values = self.floats_of(vec![2], vec![0.0, 1.0]);
        let result = self.apply(node, "OneHot", [best, depth, values], [axis()])?;
        self.hand_on(node, result)
    }

    fn shrink(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let limit = attributes.float("lambd", 0.5)?;
        let bias = attributes.float("bias", 0.0)?;
        attributes.finish()?;
        let (data, _) = self.data(node)?;
        let mut result = self.floats_of(vec![], vec![0.0]);
        for (operator, limit, bias) in [("Greater", limit, -bias), ("Less", -limit, bias)] {
            let [limit, bias] = [limit, bias].map(|figure| self.floats_of(vec![], vec![figure]));
            let beyond = self.apply(node, operator, [data, limit], [])?;
            let moved = self.apply(node, "Add", [data, bias], [])?;
            result = self.apply(node, "Where", [beyond, moved, result], [])?;
        }
        self.hand_on(node, result)
    }

    fn center_crop_pad(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let axes = attributes.ints("axes")?.map(<[i64]>::to_vec);
        attributes.finish()?;
        let (mut result, sizes) = self.data(node)?;
        let wanted = self.sizes(node, 1, "shape")?;
        let axes = axes.unwrap_or_else(|| (0..sizes.len() as i64).collect());
        let axes = positions("axes", &axes, sizes.len())?;
        if wanted.len() != axes.len() {
            let found = self.required(node, 1, "shape")?;
            return Err(self.wrong(1, "shape", found, "one size for each axis"));
        }
        for (&axis, wanted) in axes.iter().zip(wanted) {
            let (own, wanted) = match (sizes[axis], wanted) {
                (own, wanted) if own == wanted => continue,
                (Dim::Batches(1), Dim::Known(_)) if Some(wanted) == self.fixed.map(Dim::Known) => {
                    continue;
                }
                (Dim::Known(own), Dim::Known(wanted)) => (own, wanted),
                _ => return Err(self.no_slice(node)),
            };
            let axes = self.listed(vec![axis as i64]);
            result = if wanted < own {
                let first = (own - wanted) / 2;
                let [first, end] = [first, first + wanted].map(|at| self.listed(vec![at]));
                self.apply(node, "Slice", [result, first, end, axes], [])?
            } else {
                let before = (wanted - own) / 2;
                let pads = self.listed(vec![before, wanted - own - before]);
                let zero = self.floats_of(vec![], vec![0.0]);
                self.apply(node, "Pad", [result, pads, zero, axes], [])?
            };
        }
        self.hand_on(node, result)
    }

    /// Positions of an axis for which a constant is true.
    fn compress(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.take("axis").cloned();
        attributes.finish()?;
        let axis = axis.ok_or(Problem::MissingAttribute { name: "axis" })?;
        let (data, _) = self.data(node)?;
        let Some(condition) = self.optional_ints(node, 1, "condition")? else {
            return Err(Problem::MissingInput {
                position: 1,
                what: "condition",
            });
        };
        let kept = (0..condition.len()).filter(|at| condition[*at] != 0);
        let kept = kept.map(|at| at as i64).collect();
        let kept = self.listed(kept);
        let result = self.apply(node, "Gather", [data, kept], [("axis", axis)])?;
        self.hand_on(node, result)
    }

    /// Sequences of one length that is known when compiling, their first steps in the opposite order.
    fn reverse_sequence(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let time = attributes.int("time_axis", 0)?;
        let images = attributes.int("batch_axis", 1)?;
        attributes.finish()?;
        let (data, sizes) = self.data(node)?;
        let lengths = self
            .optional_ints(node, 1, "sequence_lens")?
            .unwrap_or_default();
        let time = position("time_axis", time, sizes.len())?;
        let images = position("batch_axis", images, sizes.len())?;
        let same = lengths.windows(2).all(|pair| pair[0] == pair[1]);
        let (Some(&length), Dim::Known(steps), Dim::Batches(1), true) =
            (lengths.first(), sizes[time], sizes[images], same)
        else {
            let found = self.required(node, 1, "sequence_lens")?;
            return Err(self.wrong(1, "sequence_lens", found, "one length, of all images"));
        };
        let order = (0..length.min(steps))
            .rev()
            .chain(length.min(steps)..steps)
            .collect();
        let order = self.listed(order);
        let axis = ("axis", Attribute::Int(time as i64));
        let result = self.apply(node, "Gather", [data, order], [axis])?;
        self.hand_on(node, result)
    }
}

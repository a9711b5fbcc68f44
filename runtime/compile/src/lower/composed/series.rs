//! Operators that are a few arithmetic ones in a row.

use super::Row;
use crate::graph::{Attribute, Data, Node, ValueId};
use crate::integer::Dim;
use crate::lower::lowering::Lowering;
use crate::lower::views::{position, positions};
use crate::lower::vocabulary::{OnnxOperator, family};
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "CenterCropPad" => compose center_crop_pad(),
    "Compress" => compose compress(),
    "GlobalLpPool" => compose global_norm_pool(),
    "Hardmax" => compose hardmax(),
    "LRN" => compose local_response(),
    "LpPool" => compose norm_pool(),
    "MeanVarianceNormalization" => compose mean_variance(),
    "ReverseSequence" => compose reverse_sequence(),
    "Shrink" => compose shrink(),
};

impl Lowering<'_> {
    /// Each value divided by a power of a sum over channels near its own: a convolution of the squares.
    fn local_response(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 1, 1)?;
        let mut attributes = row.attributes();
        let size = attributes.int("size", 0)?;
        let alpha = attributes.float("alpha", 1e-4)?;
        let beta = attributes.float("beta", 0.75)?;
        let bias = attributes.float("bias", 1.0)?;
        attributes.finish()?;
        let (data, sizes) = (row.operand(0, "data")?, row.sizes(0, "data")?);
        let (Some(Dim::Known(channels)), true) = (sizes.get(1).copied(), size > 0) else {
            let found = Attribute::Int(size);
            return Err(Problem::attribute(
                "size",
                &found,
                "a positive number, of images",
            ));
        };
        let channels = channels as usize;
        row.lowering.room.take(channels.saturating_mul(channels))?;
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
        let weights = row.constant(dims, Data::Floats(weights));
        let bias = row.constant(vec![channels], Data::Floats(vec![bias; channels]));
        let beta = row.number(beta);
        let squares = row.of("Mul", &[data, data])?;
        let sums = row.of("Conv", &[squares, weights, bias])?;
        let powers = row.of("Pow", &[sums, beta])?;
        let result = row.of("Div", &[data, powers])?;
        row.give(0, result);
        Ok(())
    }

    fn norm_pool(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 1, 1)?;
        let mut attributes = row.attributes();
        let power = attributes.int("p", 2)?;
        attributes.only("ceil_mode", 0, "0")?;
        let kernel = attributes.ints("kernel_shape")?.unwrap_or_default();
        let area = kernel.iter().map(|side| *side as f32).product();
        let data = row.operand(0, "data")?;
        let powers = row.powers(power, data)?;
        // A mean that counts the padding is the sum but for a factor.
        let mut mean = node.standing_in("AveragePool");
        mean.attributes.clone_from(&node.attributes);
        mean.attributes.remove("p");
        mean.attributes
            .insert("count_include_pad".to_owned(), Attribute::Int(1));
        let means = row.of_node(mean, [Some(powers)])?;
        let area = row.number(area);
        let mut result = row.of("Mul", &[means, area])?;
        if power == 2 {
            result = row.of("Sqrt", &[result])?;
        }
        row.give(0, result);
        Ok(())
    }

    fn global_norm_pool(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 1, 1)?;
        let mut attributes = row.attributes();
        let power = attributes.int("p", 2)?;
        attributes.finish()?;
        let (data, sizes) = (row.operand(0, "data")?, row.sizes(0, "data")?);
        let operator = match power {
            1 => "ReduceL1",
            2 => "ReduceL2",
            _ => return Err(Problem::attribute("p", &Attribute::Int(power), "1 or 2")),
        };
        let axes = Attribute::Ints((2..sizes.len() as i64).collect());
        let result = row.with(operator, &[data], [("axes", axes)])?;
        row.give(0, result);
        Ok(())
    }

    fn mean_variance(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 1, 1)?;
        let mut attributes = row.attributes();
        let axes = attributes.ints("axes")?.unwrap_or(&[0, 2, 3]).to_vec();
        attributes.finish()?;
        let (data, sizes) = (row.operand(0, "data")?, row.sizes(0, "data")?);
        let mut kept = positions("axes", &axes, sizes.len())?;
        if row.lowering.fixed == Some(1) {
            // The mean over one image is the image.
            kept.retain(|axis| sizes[*axis] != Dim::Batches(1));
        }
        let axes = || {
            (
                "axes",
                Attribute::Ints(kept.iter().map(|axis| *axis as i64).collect()),
            )
        };
        let mean = row.with("ReduceMean", &[data], [axes()])?;
        let away = row.of("Sub", &[data, mean])?;
        let squares = row.of("Mul", &[away, away])?;
        let variance = row.with("ReduceMean", &[squares], [axes()])?;
        let deviation = row.of("Sqrt", &[variance])?;
        let little = row.number(1e-9);
        let deviation = row.of("Add", &[deviation, little])?;
        let result = row.of("Div", &[away, deviation])?;
        row.give(0, result);
        Ok(())
    }

    fn hardmax(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 1, 1)?;
        let mut attributes = row.attributes();
        let old = node.opset < 13;
        let axis = attributes.int("axis", if old { 1 } else { -1 })?;
        attributes.finish()?;
        let (data, sizes) = (row.operand(0, "data")?, row.sizes(0, "data")?);
        let at = position("axis", axis, sizes.len())?;
        let fits = !old || at + 1 == sizes.len();
        let (Dim::Known(depth), true) = (sizes[at], fits) else {
            let supported = "a dimension of known size; before operator set 13 the last one";
            return Err(Problem::attribute("axis", &Attribute::Int(axis), supported));
        };
        let axis = || ("axis", Attribute::Int(at as i64));
        let best = row.with("ArgMax", &[data], [axis(), ("keepdims", Attribute::Int(0))])?;
        let depth = row.number(depth as f32);
        let values = row.constant(vec![2], Data::Floats(vec![0.0, 1.0]));
        let result = row.with("OneHot", &[best, depth, values], [axis()])?;
        row.give(0, result);
        Ok(())
    }

    fn shrink(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 1, 1)?;
        let mut attributes = row.attributes();
        let limit = attributes.float("lambd", 0.5)?;
        let bias = attributes.float("bias", 0.0)?;
        attributes.finish()?;
        let data = row.operand(0, "data")?;
        let mut result = row.number(0.0);
        for (operator, limit, bias) in [("Greater", limit, -bias), ("Less", -limit, bias)] {
            let [limit, bias] = [limit, bias].map(|figure| row.number(figure));
            let beyond = row.of(operator, &[data, limit])?;
            let moved = row.of("Add", &[data, bias])?;
            result = row.of("Where", &[beyond, moved, result])?;
        }
        row.give(0, result);
        Ok(())
    }

    fn center_crop_pad(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 2, 1)?;
        let mut attributes = row.attributes();
        let axes = attributes.ints("axes")?.map(<[i64]>::to_vec);
        attributes.finish()?;
        let (mut result, sizes) = (row.operand(0, "data")?, row.sizes(0, "data")?);
        let wanted = row.lowering.sizes(node, 1, "shape")?;
        let axes = axes.unwrap_or_else(|| (0..sizes.len() as i64).collect());
        let axes = positions("axes", &axes, sizes.len())?;
        if wanted.len() != axes.len() {
            return Err(row.wrong(1, "shape", "one size for each axis"));
        }
        for (&axis, wanted) in axes.iter().zip(wanted) {
            let (own, wanted) = match (sizes[axis], wanted) {
                (own, wanted) if own == wanted => continue,
                (Dim::Batches(1), Dim::Known(_))
                    if Some(wanted) == row.lowering.fixed.map(Dim::Known) =>
                {
                    continue;
                }
                (Dim::Known(own), Dim::Known(wanted)) => (own, wanted),
                _ => return Err(row.lowering.no_slice(node)),
            };
            let axes = row.integers(vec![axis as i64]);
            result = if wanted < own {
                let first = (own - wanted) / 2;
                let [first, end] = [first, first + wanted].map(|at| row.integers(vec![at]));
                row.of("Slice", &[result, first, end, axes])?
            } else {
                let before = (wanted - own) / 2;
                let pads = row.integers(vec![before, wanted - own - before]);
                let zero = row.number(0.0);
                row.of("Pad", &[result, pads, zero, axes])?
            };
        }
        row.give(0, result);
        Ok(())
    }

    /// Positions of an axis for which a constant is true.
    fn compress(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 2, 1)?;
        let mut attributes = row.attributes();
        let axis = attributes.take("axis").cloned();
        attributes.finish()?;
        let axis = axis.ok_or(Problem::MissingAttribute { name: "axis" })?;
        let data = row.operand(0, "data")?;
        let Some(condition) = row.lowering.optional_ints(node, 1, "condition")? else {
            return Err(Problem::MissingInput {
                position: 1,
                what: "condition",
            });
        };
        let kept = (0..condition.len()).filter(|at| condition[*at] != 0);
        let kept: Vec<i64> = kept.map(|at| at as i64).collect();
        let kept = row.integers(kept);
        let result = row.with("Gather", &[data, kept], [("axis", axis)])?;
        row.give(0, result);
        Ok(())
    }

    /// Sequences of one length that is known when compiling, their first steps in the opposite order.
    fn reverse_sequence(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 2, 1)?;
        let mut attributes = row.attributes();
        let time = attributes.int("time_axis", 0)?;
        let images = attributes.int("batch_axis", 1)?;
        attributes.finish()?;
        let (data, sizes) = (row.operand(0, "data")?, row.sizes(0, "data")?);
        let lengths = row
            .lowering
            .optional_ints(node, 1, "sequence_lens")?
            .unwrap_or_default();
        let time = position("time_axis", time, sizes.len())?;
        let images = position("batch_axis", images, sizes.len())?;
        let same = lengths.windows(2).all(|pair| pair[0] == pair[1]);
        let (Some(&length @ 0..), Dim::Known(steps), Dim::Batches(1), true) =
            (lengths.first(), sizes[time], sizes[images], same)
        else {
            return Err(row.wrong(1, "sequence_lens", "one length, of all images"));
        };
        let order: Vec<i64> = (0..length.min(steps))
            .rev()
            .chain(length.min(steps)..steps)
            .collect();
        let order = row.integers(order);
        let axis = ("axis", Attribute::Int(time as i64));
        let result = row.with("Gather", &[data, order], [axis])?;
        row.give(0, result);
        Ok(())
    }
}

impl Row<'_, '_, '_> {
    /// The first or the second power of each value's size; others are refused.
    fn powers(&mut self, power: i64, data: ValueId) -> Result<ValueId, Problem> {
        match power {
            1 => self.of("Abs", &[data]),
            2 => self.of("Mul", &[data, data]),
            _ => Err(Problem::attribute("p", &Attribute::Int(power), "1 or 2")),
        }
    }
}

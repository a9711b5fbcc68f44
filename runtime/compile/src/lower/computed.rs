//! Operators on computed positions: sampling by a grid, the positions of the largest values, the values at such
//! positions.
//!
//! On devices positions are floats, which are exact up to 2^24: more than any axis has.

use punctual_model::{GridSample, Operator, Take, TensorId, TopK};
use punctual_types::{Interpolation, Outside, Ranking, Sampling};

use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, BATCH, Factor, View};
use super::views::position;
use super::vocabulary::{OnnxOperator, family};
use crate::graph::{Attribute, Attributes, Node};
use crate::integer::Dim;
use crate::problem::Problem;
use crate::schema::attribute::{int, ints, text};
use crate::schema::data_type;
use crate::write::{Writer, Written, tensor_name};

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "ArgMax" => lower arg_max() fold reduced::extreme makes Integers,
    "ArgMin" => lower arg_max() fold reduced::extreme makes Integers,
    "GatherElements" => lower gather_elements() fold matched::gather_elements,
    "GatherND" => lower gather_nd() fold matched::gather_nd,
    "GridSample" => lower grid_sample(),
    "TopK" => lower top_k() fold reduced::largest makes Positions,
};

impl Lowering<'_> {
    /// Pixels of an image at the positions of a grid: (N, channels, rows, columns) at (N, rows, columns, 2). Each image
    /// of a batch may consist of several in both, such as heads: these become groups of channels.
    pub(super) fn grid_sample(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let sampling = sampling(node)?;
        self.materialise(node)?;
        self.materialise_images(node, 1)?;
        let (image, grid) = (self.view(node, 0)?.clone(), self.view(node, 1)?.clone());
        let is_grid = grid.dims.len() == 4 && grid.sizes()[3] == Dim::Known(2);
        let same_images = image.dims.len() == 4 && is_grid && images(&image, 0) == images(&grid, 0);
        if !same_images || images(&image, 0).is_none() {
            return Err(self.operands_at(node, [0, 1]));
        }
        let image = self.channelwise(node)?;
        // The channels of the grid are (group, column or row).
        let axes = [Axis::Channel, Axis::Row, Axis::Column, Axis::Channel];
        let grid = self.copied_on(node, &grid, &axes)?;
        let sample = GridSample {
            groups: self.shape(grid.tensor).channels / 2,
            sampling,
        };
        let output = self.emit(node, sample, image.tensor, &[grid.tensor])?;
        self.set_channelwise(node, &image, output)
    }

    /// The first values along a dimension, and their positions.
    pub(super) fn top_k(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 2)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", -1)?;
        let largest = attributes.int("largest", 1)? != 0;
        attributes.ignore("sorted"); // They are, whether or not that is asked for.
        attributes.finish()?;
        let view = self.view(node, 0)?.clone();
        let dim = position("axis", axis, view.dims.len())?;
        let counts = self.optional_ints(node, 1, "k")?;
        let size = view.sizes()[dim];
        let count = match (counts.as_deref(), size) {
            (Some(&[count]), Dim::Known(size)) if (1..=size).contains(&count) => count as u64,
            _ => {
                let found = self.required(node, 1, "k")?;
                let expected =
                    "a number from 1 to the positions of the axis, which is not the batch";
                return Err(self.wrong(1, "k", found, expected));
            }
        };
        let last = false;
        let values = self.in_columns(node, &view, dim)?;
        let chosen = self.best_columns(node, &values, dim, count, Ranking { largest, last })?;
        if let Some(Some(positions)) = node.outputs.get(1) {
            self.values[positions.0] = Value::View(chosen.clone());
        }
        if let Some(Some(first)) = node.outputs.first() {
            let taken = self.taken_at(node, values.tensor, chosen.tensor)?;
            self.values[first.0] = Value::View(chosen.of(taken));
        }
        Ok(())
    }

    /// The position of the largest or the smallest value along a dimension.
    pub(super) fn arg_max(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 0)?;
        let keeps = attributes.int("keepdims", 1)? != 0;
        let ranking = Ranking {
            largest: node.operator == "ArgMax",
            last: attributes.int("select_last_index", 0)? != 0,
        };
        attributes.finish()?;
        let view = self.view(node, 0)?.clone();
        let dim = position("axis", axis, view.dims.len())?;
        if view.dims[dim].contains(&BATCH) {
            let supported = "a dimension that is not the batch";
            return Err(Problem::attribute("axis", &Attribute::Int(axis), supported));
        }
        let mut best = self.best_position(node, &view, dim, ranking)?;
        if !keeps {
            best.dims.remove(dim);
        }
        self.set(node, Value::View(best))
    }

    /// The position of the value that comes first along a dimension, which has one position then.
    pub(super) fn best_position(
        &mut self,
        node: &Node,
        view: &View,
        dim: usize,
        ranking: Ranking,
    ) -> Result<View, Problem> {
        let shape = self.shape(view.tensor);
        let of_channels = view.is_whole(dim, Axis::Channel, shape.channels)
            && view.covers(shape)
            && shape.channels > 1;
        if !of_channels {
            let values = self.in_columns(node, view, dim)?;
            return self.best_columns(node, &values, dim, 1, ranking);
        }
        let top = TopK {
            axis: punctual_types::Axis::Channel,
            count: 1,
            ranking,
        };
        let output = self.emit(node, top, view.tensor, &[])?;
        let mut best = view.of(output);
        best.dims[dim].clear();
        Ok(best)
    }

    /// Values at computed positions of a dimension; the indices have the dimensions of the data.
    pub(super) fn gather_elements(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 0)?;
        attributes.finish()?;
        if let Some(table) = self.constant_of_images(node, 0)? {
            self.replace(node, 0, &table);
        }
        let dim = position("axis", axis, self.view(node, 0)?.dims.len())?;
        if let Some(taken) = self.gathered_elements(node, dim)? {
            return self.set(node, Value::View(taken));
        }
        let (data, indices) = (self.view(node, 0)?.clone(), self.view(node, 1)?.clone());
        if data.dims.len() != indices.dims.len() {
            return Err(self.operands_at(node, [0, 1]));
        }
        let taken = self.taken_along(node, &data, &indices, dim)?;
        self.set(node, Value::View(taken))
    }

    /// Whole slices: at (N, positions, 1) of the dimension behind the batch, or at constant positions of the first
    /// dimension.
    pub(super) fn gather_nd(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let by_batch = Attributes::of(node).int("batch_dims", 0)? != 0;
        if let Some(indices) = self.of_table(node).filter(|_| !by_batch) {
            return self.embedding_of(node, 0, &indices);
        }
        if let Some(taken) = self.gathered_tuples(node, by_batch)? {
            return self.set(node, Value::View(taken));
        }
        let mut attributes = Attributes::of(node);
        let batch_dims = attributes.int("batch_dims", 0)?;
        if batch_dims != 1 {
            return Err(Problem::attribute("batch_dims", &batch_dims, "1"));
        }
        attributes.finish()?;
        let (data, indices) = (self.view(node, 0)?.clone(), self.view(node, 1)?.clone());
        let fits = data.dims.len() >= 2 && indices.dims.len() == 3;
        let squeezed = if fits { indices.squeeze(2) } else { None };
        let Some(mut indices) = squeezed else {
            let found = Value::View(indices);
            let expected = "(N, count, 1): positions of the dimension behind the batch";
            return Err(self.wrong(1, "indices", &found, expected));
        };
        for at in 2..data.dims.len() {
            indices = indices.unsqueeze(at);
            let Dim::Known(size) = data.sizes()[at] else {
                return Err(self.operands_at(node, [0, 1]));
            };
            let repeated = indices.repeat(at, size.unsigned_abs());
            indices = repeated.ok_or_else(|| self.operands_at(node, [0, 1]))?;
        }
        let taken = self.taken_along(node, &data, &indices, 1)?;
        self.set(node, Value::View(taken))
    }

    /// The computed positions of slices of a constant, if the node reads these: (..., 1) of its first dimension.
    fn of_table(&self, node: &Node) -> Option<View> {
        match (self.operand(node, 0)?, self.operand(node, 1)?) {
            (Value::Constant(_), Value::View(indices)) => {
                indices.squeeze(indices.dims.len().checked_sub(1)?)
            }
            _ => None,
        }
    }

    /// The view with the same dimensions, copied if needed so that `dim` is the columns of a tensor.
    pub(super) fn in_columns(
        &mut self,
        node: &Node,
        view: &View,
        dim: usize,
    ) -> Result<View, Problem> {
        let axes = [Axis::Column, Axis::Row, Axis::Channel];
        self.copied_on(node, view, &super::reduce::spread(view, &[dim], axes))
    }

    /// Positions of the first values along a dimension that is the columns.
    pub(super) fn best_columns(
        &mut self,
        node: &Node,
        values: &View,
        dim: usize,
        count: u64,
        ranking: Ranking,
    ) -> Result<View, Problem> {
        let top = TopK {
            axis: punctual_types::Axis::Column,
            count: count as u32,
            ranking,
        };
        let output = self.emit(node, top, values.tensor, &[])?;
        let mut chosen = values.of(output);
        chosen.dims[dim] = View::image(output, self.shape(output)).dims[3].clone();
        Ok(chosen)
    }

    /// Values at positions of one dimension, for each position of the others.
    pub(super) fn taken_along(
        &mut self,
        node: &Node,
        data: &View,
        indices: &View,
        dim: usize,
    ) -> Result<View, Problem> {
        let mut data = data.clone();
        for at in (0..data.dims.len()).filter(|&at| at != dim) {
            match (data.sizes()[at], indices.sizes()[at]) {
                (Dim::Known(size), Dim::Known(fewer)) if fewer < size => {
                    data = self.sliced(node, &data, at, [0, fewer, 1])?;
                }
                _ if data.sizes()[at] == indices.sizes()[at] => {}
                _ => return Err(self.operands_at(node, [0, 1])),
            }
        }
        let images_differ = (0..data.dims.len())
            .filter(|&at| data.dims[at].contains(&BATCH) || indices.dims[at].contains(&BATCH))
            .any(|at| at == dim || images(&data, at) != images(indices, at));
        if images_differ || !data.has_one_batch() {
            return Err(self.operands_at(node, [0, 1]));
        }
        // Dimensions whose positions share their indices become channels, which are taken together.
        let repeats = |digits: &Vec<Factor>| {
            !digits.is_empty() && digits.iter().all(|digit| digit.axis == Axis::Repeat)
        };
        let shared: Vec<bool> = indices.dims.iter().map(repeats).collect();
        let other = |at: &usize| *at != dim && !data.dims[*at].is_empty() && !data.is_batch(*at);
        let any_shared = shared.iter().any(|shared| *shared);
        let own_channels = (0..data.dims.len()).rfind(other).filter(|_| !any_shared);
        let axis = |at: usize| match at {
            _ if at == dim => Axis::Column,
            _ if shared[at] || own_channels == Some(at) => Axis::Channel,
            _ => Axis::Row,
        };
        let axes: Vec<Axis> = (0..data.dims.len()).map(axis).collect();
        let data = self.copied_on(node, &data, &axes)?;
        let mut indices = indices.clone();
        for (dim, _) in indices
            .dims
            .iter_mut()
            .zip(&shared)
            .filter(|(_, shared)| **shared)
        {
            dim.clear();
        }
        let indices = self.copied_on(node, &indices, &axes)?;
        let output = self.taken_at(node, data.tensor, indices.tensor)?;
        let mut seen = data.of(output);
        seen.dims[dim].clone_from(&indices.dims[dim]);
        Ok(seen)
    }

    /// Values at positions of the columns.
    pub(super) fn taken_at(
        &mut self,
        node: &Node,
        data: TensorId,
        indices: TensorId,
    ) -> Result<TensorId, Problem> {
        let axis = punctual_types::Axis::Column;
        self.emit(node, Take { axis }, data, &[indices])
    }

    fn operands_at(&self, node: &Node, positions: [usize; 2]) -> Problem {
        let describe = |at| {
            self.operand(node, at)
                .map_or_else(String::new, |value| self.describe(value))
        };
        let [first, second] = positions.map(describe);
        Problem::Positions { first, second }
    }
}

/// How many positions are before and behind the images of the batch, in a dimension that has the batch.
fn images(view: &View, dim: usize) -> Option<[u64; 2]> {
    let digits = &view.dims[dim];
    let batch = digits.iter().position(|digit| *digit == BATCH)?;
    let count = |digits: &[Factor]| digits.iter().map(|digit| digit.extent).product();
    Some([count(&digits[..batch]), count(&digits[batch + 1..])])
}

fn sampling(node: &Node) -> Result<Sampling, Problem> {
    let mut attributes = Attributes::of(node);
    let align_corners = attributes.int("align_corners", 0)? != 0;
    let refused = |name, found: &str, supported| {
        Problem::attribute(name, &Attribute::Text(found.to_owned()), supported)
    };
    let interpolation = match attributes.text("mode", "linear")? {
        // `bilinear` is its name before opset 20.
        "bilinear" | "linear" => Interpolation::Linear,
        "nearest" => Interpolation::Nearest,
        other => return Err(refused("mode", other, "bilinear, linear or nearest")),
    };
    let outside = match attributes.text("padding_mode", "zeros")? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => {
            return Err(refused(
                "padding_mode",
                other,
                "zeros, border or reflection",
            ));
        }
    };
    attributes.finish()?;
    Ok(Sampling {
        interpolation,
        outside,
        align_corners,
    })
}

impl Written for GridSample {
    /// Groups become images of the batch.
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let (input, grid) = (operator.input, operator.others[0]);
        let [channels, height, width] = writer.sides(input);
        let [_, rows, columns] = writer.sides(grid);
        let apart = [-1, channels / i64::from(self.groups), height, width];
        let apart = writer.integers(&apart);
        let positions = writer.integers(&[-1, 2, rows, columns]);
        let whole = writer.integers(&[-1, channels, rows, columns]);
        let input = writer.node("Reshape", &[&tensor_name(input), &apart], Vec::new());
        let grid = writer.node("Reshape", &[&tensor_name(grid), &positions], Vec::new());
        let grid = writer.node("Transpose", &[&grid], vec![ints("perm", [0, 2, 3, 1])]);
        let mode = match self.sampling.interpolation {
            Interpolation::Nearest => "nearest",
            Interpolation::Linear => "bilinear",
        };
        let padding = match self.sampling.outside {
            Outside::Zeros => "zeros",
            Outside::Border => "border",
            Outside::Reflection => "reflection",
        };
        let attributes = vec![
            int("align_corners", self.sampling.align_corners.into()),
            text("mode", mode),
            text("padding_mode", padding),
        ];
        let result = writer.node("GridSample", &[&input, &grid], attributes);
        writer.node_into("Reshape", &[&result, &whole], operator.output, Vec::new())
    }
}

impl Written for TopK {
    /// The positions, which are integers in ONNX. Its `TopK` chooses the first of equal values.
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let Ranking { largest, last, .. } = self.ranking;
        let input = tensor_name(operator.input);
        let axis = int("axis", self.axis.index().map_or(0, |axis| axis as i64 + 1));
        let found = if self.count == 1 {
            let name = if largest { "ArgMax" } else { "ArgMin" };
            let last = int("select_last_index", last.into());
            writer.node(name, &[&input], vec![axis, last])
        } else if last {
            return false;
        } else {
            let count = writer.integers(&[self.count.into()]);
            let attributes = vec![axis, int("largest", largest.into())];
            writer.node("TopK", &[&input, &count], attributes);
            writer.second_result()
        };
        let to = vec![int("to", data_type::FLOAT.into())];
        writer.node_into("Cast", &[&found], operator.output, to)
    }
}

impl Written for Take {
    /// Indices clipped to the axis and repeated to the output.
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let along = self.axis.index().unwrap_or(0);
        let size = writer.sides(operator.input)[along];
        let input = tensor_name(operator.input);
        let whole = writer.cast(&tensor_name(operator.others[0]), data_type::INT64);
        let [low, high] = [-size, size - 1].map(|bound| writer.integer(bound));
        let whole = writer.node("Clip", &[&whole, &low, &high], Vec::new());
        let images = writer.node("Shape", &[&input], vec![int("end", 1)]);
        let sides = writer.integers(&writer.sides(operator.output));
        let sizes = writer.node("Concat", &[&images, &sides], vec![int("axis", 0)]);
        let whole = writer.node("Expand", &[&whole, &sizes], Vec::new());
        let axis = vec![int("axis", along as i64 + 1)];
        writer.node_into("GatherElements", &[&input, &whole], operator.output, axis)
    }
}

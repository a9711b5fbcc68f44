//! Values moved to other places: the last resort where a view does not lie as an operator needs it.

use std::rc::Rc;

use punctual_model::{Copy, Operator};
use punctual_types::{Piece, View as Plain};

use super::join::of_table;
use super::layout::Laid;
use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, BATCH, View};
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::graph::{Attribute, Attributes, Constant, Data, Floats, Node};
use crate::integer::Dim;
use crate::problem::Problem;
use crate::schema::attribute::int;
use crate::write::{Writer, Written, tensor_name};

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "DepthToSpace" => lower depth_to_space(),
    "SpaceToDepth" => lower space_to_depth(),
};

/// A view whose positions do not fit a tensor's sides.
const TOO_LARGE: Problem = Problem::Dimension { value: usize::MAX };

/// (N, channels, rows, columns).
const IMAGE: [Axis; 4] = [Axis::Batch, Axis::Channel, Axis::Row, Axis::Column];

impl Lowering<'_> {
    /// A tensor that is laid out so; the view's own if it lies so already.
    pub(super) fn copied(&mut self, node: &Node, view: &View, laid: Laid) -> Result<View, Problem> {
        if laid.is(self.shape(view.tensor)) {
            return Ok(laid.seen(view.tensor));
        }
        self.laid_out_as(node, view, laid)
    }

    /// A tensor of its own, also where the view is all of a tensor as it lies.
    pub(super) fn copied_whole(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        let laid = view.on_axes(&view.natural_axes()).ok_or(TOO_LARGE)?;
        self.laid_out_as(node, view, laid)
    }

    fn laid_out_as(&mut self, node: &Node, view: &View, laid: Laid) -> Result<View, Problem> {
        let piece = Piece::whole(laid.values.clone(), laid.shape.sides());
        let copy = Computation::copy(vec![piece], Vec::new());
        let output = self.emit(node, copy, view.tensor, &[])?;
        Ok(laid.seen(output))
    }

    /// A copy of a view that is (N, channels, rows, columns) or (N, features) and nothing else of the batch.
    pub(super) fn copied_as_it_is(
        &mut self,
        node: &Node,
        view: &View,
    ) -> Result<Option<View>, Problem> {
        let fits = matches!(view.dims.len(), 2 | 4) && view.of_one_image().is_some();
        if !fits {
            return Ok(None);
        }
        self.copied_on(node, view, &IMAGE[..view.dims.len()])
            .map(Some)
    }

    /// The same dimensions of a tensor that has only the view's values, each on its axis.
    pub(super) fn compacted(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        let laid = view.compact();
        self.copied(node, view, laid.ok_or(TOO_LARGE)?)
    }

    /// The same dimensions, each evenly spaced on one axis of a tensor.
    pub(super) fn straightened(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        self.copied_on(node, view, &view.natural_axes())
    }

    /// The same dimensions, each on the axis that is given for it.
    pub(super) fn copied_on(
        &mut self,
        node: &Node,
        view: &View,
        axes: &[Axis],
    ) -> Result<View, Problem> {
        let laid = view.on_axes(axes);
        self.copied(node, view, laid.ok_or(TOO_LARGE)?)
    }

    /// The same dimensions, the last one all channels of a tensor.
    pub(super) fn copied_as_tokens(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        self.copied_on(node, view, &view.token_axes())
    }

    /// All values of each image in one row, whatever the dimensions.
    pub(super) fn flattened(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        self.copied_on(node, view, &vec![Axis::Channel; view.dims.len()])
    }

    /// A tensor whose values lie as those at the same places of another view.
    pub(super) fn copied_like(
        &mut self,
        node: &Node,
        view: &View,
        other: &View,
    ) -> Result<Option<View>, Problem> {
        let Some(values) = view.in_order_of(other) else {
            return Ok(None);
        };
        let piece = Piece::whole(values, self.shape(other.tensor).sides());
        let copy = Computation::copy(vec![piece], Vec::new());
        let output = self.emit(node, copy, view.tensor, &[])?;
        Ok(Some(other.of(output)))
    }

    /// In a file of a fixed batch size, makes constants that are the same for each image those of one.
    pub(super) fn share_constants(&mut self, node: &Node) {
        let Some(images) = self.fixed_images().filter(|&images| images > 1) else {
            return;
        };
        // What follows the data of a convolution are weights.
        let operands = match node.operator.as_str() {
            "Conv" | "ConvTranspose" => 1,
            _ => node.inputs.len(),
        };
        for id in node.inputs.iter().take(operands).copied().flatten() {
            let Value::Constant(constant) = self.value(id) else {
                continue;
            };
            let Data::Floats(values) = &constant.data else {
                continue;
            };
            let is_of_images = constant.batch.is_none()
                && constant.dims.len() > 2
                && constant.dims[0] == images
                && values.len() >= images;
            let one = &values[..values.len() / images];
            if is_of_images && values.chunks_exact(one.len()).all(|image| image == one) {
                let mut dims = constant.dims.clone();
                dims[0] = 1;
                let mut shared = Constant::new(dims, Data::Floats(one.to_vec()));
                shared.batch = Some(0);
                self.values[id.0] = Value::Constant(Rc::new(shared));
            }
        }
    }

    /// Makes tensors of a node's operands that are constants for each image of the batch; whether there are any.
    pub(super) fn materialise(&mut self, node: &Node) -> Result<bool, Problem> {
        let mut any = false;
        for id in node.inputs.iter().copied().flatten() {
            let Value::Constant(constant) = self.value(id) else {
                continue;
            };
            let constant = Rc::clone(constant);
            let (Data::Floats(_), Some(batch)) = (&constant.data, constant.batch) else {
                continue;
            };
            let seen = self.of_images(node, &constant, batch)?;
            self.values[id.0] = Value::View(seen);
            any = true;
        }
        Ok(any)
    }

    /// A tensor of a constant operand that holds values of each image, as all of a file for one image do that have its
    /// dimension; `None` of any other operand.
    pub(super) fn constant_of_images(
        &mut self,
        node: &Node,
        at: usize,
    ) -> Result<Option<View>, Problem> {
        let Some(Value::Constant(constant)) = self.operand(node, at) else {
            return Ok(None);
        };
        let of_one = self.fixed == Some(1) && constant.dims.first() == Some(&1);
        let Some(batch) = constant.batch.or(of_one.then_some(0)) else {
            return Ok(None);
        };
        let constant = Rc::clone(constant);
        let Floats { data, .. } = self.figures(node, at)?;
        let floats = constant.with(Data::Floats(data));
        self.of_images(node, &floats, batch).map(Some)
    }

    /// Makes tensors of the constants of which each image has several positions of the batch: as a constant no operator
    /// takes them.
    pub(super) fn materialise_wide(&mut self, node: &Node) -> Result<(), Problem> {
        for at in 0..node.inputs.len() {
            let Some(Value::Constant(constant)) = self.operand(node, at) else {
                continue;
            };
            let (constant, true) = (Rc::clone(constant), constant.has_wide_batch()) else {
                continue;
            };
            let Floats { data, .. } = self.figures(node, at)?;
            // Zeros are how recurrent layers begin.
            let is_recurrent = matches!(node.operator.as_str(), "GRU" | "LSTM" | "RNN");
            if is_recurrent && data.iter().all(|value| *value == 0.0) {
                continue;
            }
            let constant = constant.with(Data::Floats(data));
            let seen = self.of_images(node, &constant, constant.batch.unwrap_or(0))?;
            self.replace(node, at, &seen);
        }
        Ok(())
    }

    /// A tensor of a constant for each image of the batch, which is in its dimension `batch`.
    pub(super) fn of_images(
        &mut self,
        node: &Node,
        constant: &Constant,
        batch: usize,
    ) -> Result<View, Problem> {
        let mut view = of_table(constant, 0);
        view.dims[batch].insert(0, BATCH);
        let laid = view.on_axes(&view.token_axes());
        let laid = laid.ok_or(Problem::Dimension { value: usize::MAX })?;
        self.tabled(node, constant, laid)
    }

    /// In a file of a fixed batch size, makes a tensor of an operand that holds the same values for each image, one copy
    /// after the other.
    pub(super) fn materialise_images(
        &mut self,
        node: &Node,
        position: usize,
    ) -> Result<(), Problem> {
        let (Some(Value::Constant(constant)), Some(images)) =
            (self.operand(node, position), self.fixed_images())
        else {
            return Ok(());
        };
        let mut one = Constant::clone(constant);
        let (Data::Floats(values), Some(first), None) =
            (&mut one.data, one.dims.first_mut(), one.batch)
        else {
            return Ok(());
        };
        let each = values.len() / images;
        let same = each > 0 && values.chunks(each).all(|image| *image == values[..each]);
        if !same || !first.is_multiple_of(images) {
            return Ok(());
        }
        *first /= images;
        values.truncate(each);
        let seen = self.of_images(node, &one, 0)?;
        self.replace(node, position, &seen);
        Ok(())
    }

    /// How many images a file was exported for, if that is fixed.
    fn fixed_images(&self) -> Option<usize> {
        let fixed = self.fixed?;
        usize::try_from(fixed).ok().filter(|&images| images > 0)
    }

    /// Lets later readers of an operand read its copy.
    pub(super) fn replace(&mut self, node: &Node, position: usize, copy: &View) {
        if let Some(Some(id)) = node.inputs.get(position) {
            self.values[id.0] = Value::View(copy.clone());
        }
    }

    pub(super) fn depth_to_space(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let mode = attributes.text("mode", "DCR")?;
        let side = block_size(&mut attributes)?;
        attributes.finish()?;
        let view = self.view(node, 0)?;
        let sizes = view.sizes();
        let (side, channels) = (Dim::Known(side), part(&sizes, 1, side * side)?);
        let (split, order) = match mode {
            "CRD" => ([channels, side, side], [0, 1, 4, 2, 5, 3]),
            "DCR" => ([side, side, channels], [0, 3, 4, 1, 5, 2]),
            other => {
                let found = Attribute::Text(other.to_owned());
                return Err(Problem::attribute("mode", &found, "DCR or CRD"));
            }
        };
        let split = [&sizes[..1], &split, &sizes[2..]].concat();
        let merged = |at: usize| times(sizes[at], side);
        let to = [sizes[0], channels, merged(2), merged(3)];
        self.shuffle(node, &split, &order, &to)
    }

    pub(super) fn space_to_depth(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let side = block_size(&mut attributes)?;
        let mode = attributes.text("mode", "DCR")?;
        if mode != "DCR" {
            let found = Attribute::Text(mode.to_owned());
            return Err(Problem::attribute("mode", &found, "DCR"));
        }
        attributes.finish()?;
        let sizes = self.view(node, 0)?.sizes();
        let (height, width) = (part(&sizes, 2, side)?, part(&sizes, 3, side)?);
        let side = Dim::Known(side);
        let split = [&sizes[..2], &[height, side, width, side]].concat();
        let to = [sizes[0], times(times(sizes[1], side), side), height, width];
        self.shuffle(node, &split, &[0, 3, 5, 1, 2, 4], &to)
    }

    /// Dimensions split, permuted and merged again.
    fn shuffle(
        &mut self,
        node: &Node,
        split: &[Dim],
        order: &[usize],
        to: &[Dim],
    ) -> Result<(), Problem> {
        let view = self.view(node, 0)?.clone();
        let view = self.reshaped(node, &view, split)?.permute(order);
        let view = self.reshaped(node, &view, to)?;
        self.set(node, Value::View(view))
    }
}

fn block_size(attributes: &mut Attributes) -> Result<i64, Problem> {
    match attributes.int("blocksize", 0)? {
        side @ 1..=1024 => Ok(side),
        side => {
            let found = Attribute::Int(side);
            Err(Problem::attribute("blocksize", &found, "1 to 1024"))
        }
    }
}

/// A dimension of an image divided by `by`.
fn part(sizes: &[Dim], at: usize, by: i64) -> Result<Dim, Problem> {
    match *sizes {
        [_, _, _, _] => match sizes[at] {
            Dim::Known(size) if size % by == 0 => Ok(Dim::Known(size / by)),
            _ => Err(Problem::Reshape {
                from: super::operands::describe_dims(sizes),
                to: format!("blocks of {by} along dimension {at}"),
            }),
        },
        _ => Err(Problem::Input {
            position: 0,
            what: "data",
            found: super::operands::describe_dims(sizes),
            expected: "an image",
        }),
    }
}

fn times(size: Dim, by: Dim) -> Dim {
    match (size, by) {
        (Dim::Known(a), Dim::Known(b)) => Dim::Known(a.saturating_mul(b)),
        (other, _) => other,
    }
}

impl Written for Copy {
    /// Each value by its position among those of all sources in a row.
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let mut rows = Vec::new();
        let mut sides = Vec::new();
        for source in operator.reads() {
            rows.push(writer.node("Flatten", &[&tensor_name(source)], vec![int("axis", 1)]));
            sides.push(writer.sides(source));
        }
        if let Some(&table) = operator.weights.first() {
            let length = i64::from(table.len);
            let constants = writer.weights(table, &[1, length]);
            // As many rows as there are images.
            let images = writer.node("Shape", &[&rows[0]], vec![int("start", 0), int("end", 1)]);
            let columns = writer.integers(&[length]);
            let shape = writer.node("Concat", &[&images, &columns], vec![int("axis", 0)]);
            rows.push(writer.node("Expand", &[&constants, &shape], Vec::new()));
            sides.push([length, 1, 1]);
        }
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let joined = writer.node("Concat", &rows, vec![int("axis", 1)]);
        let result = writer.sides(operator.output);
        let elements = |sides: &[i64; 3]| sides.iter().product::<i64>();
        let mut indices = vec![0_i64; elements(&result) as usize];
        let at = |[_, height, width]: [i64; 3], position: [u32; 3]| {
            let [channel, row, column] = position.map(i64::from);
            (channel * height + row) * width + column
        };
        for piece in &self.pieces {
            let source = usize::from(piece.source);
            let start: i64 = sides[..source].iter().map(elements).sum();
            let mut filled = Plain::plain(piece.sizes);
            filled.start = piece.at;
            for (to, from) in filled.positions().zip(piece.view.positions()) {
                indices[at(result, to) as usize] = start + at(sides[source], from);
            }
        }
        let indices = writer.integers(&indices);
        let picked = writer.node("Gather", &[&joined, &indices], vec![int("axis", 1)]);
        let sizes = writer.integers(&[&[-1], &result[..]].concat());
        writer.node_into("Reshape", &[&picked, &sizes], operator.output, Vec::new())
    }
}

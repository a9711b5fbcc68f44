//! A node's operands by role, with errors that say which operand is what.

use std::fmt::Write;
use std::ops::Range;

use punctual_model::{ChannelRun, Gather, Tensor, TensorId};

use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, BATCH, View};
use crate::fold::RANK_MAX;
use crate::graph::{Constant, Data, Floats, Node};
use crate::integer::Dim;
use crate::problem::Problem;
use crate::schema::data_type;

/// Most constant positions of a gather: each can become a piece of a copy.
const POSITIONS_MAX: usize = 4096;

impl Lowering<'_> {
    /// The operand at `position`, if it is there.
    pub(super) fn operand(&self, node: &Node, position: usize) -> Option<&Value> {
        let id = node.inputs.get(position).copied().flatten()?;
        Some(self.value(id))
    }

    pub(super) fn required(
        &self,
        node: &Node,
        position: usize,
        what: &'static str,
    ) -> Result<&Value, Problem> {
        self.operand(node, position)
            .ok_or(Problem::MissingInput { position, what })
    }

    /// A tensor computed from the input, however it is seen.
    pub(super) fn view(&self, node: &Node, position: usize) -> Result<&View, Problem> {
        match self.required(node, position, "data")? {
            Value::View(view) => Ok(view),
            other => Err(self.wrong(position, "data", other, "a tensor computed from the input")),
        }
    }

    /// The operand as a tensor of (N, channels, rows, columns), copied if needed; (N, channels, columns) becomes a
    /// tensor of one row.
    pub(super) fn image(&mut self, node: &Node) -> Result<TensorId, Problem> {
        const EXPECTED: &str = "an image computed from the input, or channels of one row";
        match self.required(node, 0, "data")? {
            Value::View(view) if view.dims.len() == 3 => {
                let view = view.clone();
                let wide = view.unsqueeze(2);
                if let Some(tensor) = self.gathered_as_it_is(node, &wide)? {
                    return Ok(tensor);
                }
                let Some(copy) = self.copied_as_it_is(node, &wide)? else {
                    return Err(self.wrong(0, "data", &Value::View(view), EXPECTED));
                };
                if let Some(copy) = copy.squeeze(2) {
                    self.replace(node, 0, &copy);
                }
                Ok(copy.tensor)
            }
            Value::View(view) if view.dims.len() == 4 => {
                let view = view.clone();
                self.arranged(node, 0, &view, EXPECTED)
            }
            other => Err(self.wrong(0, "data", other, EXPECTED)),
        }
    }

    /// An image for operators that treat each channel alone: where a position of the batch has several images, their
    /// channels become channels of one image.
    pub(super) fn channelwise(&mut self, node: &Node) -> Result<View, Problem> {
        if let Some(Value::View(view)) = self.operand(node, 0)
            && view.dims.len() == 4
            && view.dims[0].len() > 1
            && view.dims[0].contains(&BATCH)
        {
            let view = view.clone();
            let axes = [Axis::Channel, Axis::Channel, Axis::Row, Axis::Column];
            return self.copied_on(node, &view, &axes);
        }
        let tensor = self.image(node)?;
        Ok(View::image(tensor, self.shape(tensor)))
    }

    /// Makes the node's first result a tensor with the channels of such an image, and rows and columns of its own.
    pub(super) fn set_channelwise(
        &mut self,
        node: &Node,
        image: &View,
        tensor: TensorId,
    ) -> Result<(), Problem> {
        if self.is_series(node) {
            return self.set_image(node, tensor);
        }
        let mut seen = image.of(tensor);
        let own = View::image(tensor, self.shape(tensor));
        seen.dims[2..].clone_from_slice(&own.dims[2..]);
        self.set(node, Value::View(seen))
    }

    /// A tensor whose values are (N, features) in the order channel, row, column, moved if need be.
    pub(super) fn features(&mut self, node: &Node) -> Result<TensorId, Problem> {
        const EXPECTED: &str = "a vector of features for each image";
        match self.required(node, 0, "data")? {
            Value::View(view) if view.dims.len() == 2 => {
                let view = view.clone();
                self.arranged(node, 0, &view, EXPECTED)
            }
            other => Err(self.wrong(0, "data", other, EXPECTED)),
        }
    }

    /// A tensor of which each value is read once, and how it is seen: for operators that treat each value alone.
    pub(super) fn elementwise(&mut self, node: &Node, position: usize) -> Result<View, Problem> {
        let view = self.view(node, position)?.clone();
        self.covering(node, &view)
    }

    /// A view of the same values that goes through all of its tensor's once.
    pub(super) fn covering(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        if view.covers(self.shape(view.tensor)) {
            Ok(view.clone())
        } else {
            self.as_itself(node, view)
        }
    }

    /// The values of a view in a tensor that is seen as it lies.
    pub(super) fn as_itself(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        match self.gathered_as_it_is(node, view)? {
            None => self.compacted(node, view),
            Some(tensor) => {
                let shape = self.shape(tensor);
                Ok(match view.dims.len() {
                    2 => View::features(tensor, shape),
                    _ => View::image(tensor, shape),
                })
            }
        }
    }

    /// The tensor that lies as the view says, (N, channels, rows, columns) or (N, features): its own,
    /// one that takes channels from it, or a copy.
    fn arranged(
        &mut self,
        node: &Node,
        position: usize,
        view: &View,
        expected: &'static str,
    ) -> Result<TensorId, Problem> {
        if let Some(tensor) = self.gathered_as_it_is(node, view)? {
            return Ok(tensor);
        }
        if let Some(copy) = self.copied_as_it_is(node, view)? {
            self.replace(node, position, &copy);
            return Ok(copy.tensor);
        }
        let value = Value::View(view.clone());
        Err(self.wrong(position, "data", &value, expected))
    }

    /// The tensor that lies as the view says, if it is its own, one of its tokens or one that takes channels from it.
    pub(super) fn gathered_as_it_is(
        &mut self,
        node: &Node,
        view: &View,
    ) -> Result<Option<TensorId>, Problem> {
        let shape = self.shape(view.tensor);
        if view.is_image(shape) || view.is_features(shape) {
            return Ok(Some(view.tensor));
        }
        if let Some(token) = self.one_token(node, view)? {
            return Ok(Some(token));
        }
        let Some(runs) = view.channel_runs(shape) else {
            return Ok(None);
        };
        let run = |channels: Range<u32>| ChannelRun {
            source: 0,
            first: channels.start,
            count: channels.end - channels.start,
        };
        let runs: Vec<ChannelRun> = runs.into_iter().map(run).collect();
        self.emit(node, Gather { runs }, view.tensor, &[]).map(Some)
    }

    /// As [`image`](Self::image), for a view.
    pub(super) fn image_of(&mut self, node: &Node, view: &View) -> Result<TensorId, Problem> {
        let wide = match view.dims.len() {
            3 => view.unsqueeze(2),
            _ => view.clone(),
        };
        if let Some(tensor) = self.gathered_as_it_is(node, &wide)? {
            return Ok(tensor);
        }
        match self.copied_as_it_is(node, &wide)? {
            Some(copy) => Ok(copy.tensor),
            None => Err(self.wrong(0, "data", &Value::View(view.clone()), "an image")),
        }
    }

    /// A tensor whose channels are the values of (N, features).
    pub(super) fn vector_of(&mut self, node: &Node, view: &View) -> Result<TensorId, Problem> {
        const EXPECTED: &str = "a vector of features for each image";
        if let Some(tensor) = self.gathered_as_it_is(node, view)? {
            return Ok(tensor);
        }
        match self.copied_as_it_is(node, view)? {
            Some(copy) => Ok(copy.tensor),
            None => Err(self.wrong(0, "data", &Value::View(view.clone()), EXPECTED)),
        }
    }

    /// A tensor of one pixel whose channels are the values of a view, for an exit.
    pub(crate) fn gathered_vector(&mut self, exit: &str, view: &View) -> Option<TensorId> {
        let node = Node::of_exit(exit);
        let tensor = self.arranged(&node, 0, view, "").ok()?;
        let shape = self.shape(tensor);
        (shape == Tensor::features(shape.channels)).then_some(tensor)
    }

    /// The sizes, axes or positions that a constant lists.
    pub(super) fn sizes(
        &self,
        node: &Node,
        position: usize,
        what: &'static str,
    ) -> Result<Vec<Dim>, Problem> {
        let value = self.required(node, position, what)?;
        let listed = self.constant_integers(node, position).and_then(|constant| {
            let few = constant.dims.len() <= 1 && constant.elements() <= RANK_MAX;
            let integers = constant.integers().filter(|_| few)?;
            integers.iter().map(|integer| integer.dim()).collect()
        });
        listed.ok_or_else(|| self.wrong(position, what, value, "integers known when compiling"))
    }

    /// Integers known when compiling, but for the batch.
    pub(super) fn constant_integers(&self, node: &Node, position: usize) -> Option<&Constant> {
        match self.operand(node, position)? {
            Value::Constant(constant) => match constant.data {
                Data::Ints(_) | Data::Symbols(_) => Some(constant),
                _ => None,
            },
            _ => None,
        }
    }

    /// The dimensions and the values of constant positions on a dimension of `size`, if all of them are on it.
    pub(super) fn positions(
        &self,
        node: &Node,
        position: usize,
        size: i64,
    ) -> Option<(Vec<usize>, Vec<i64>)> {
        let constant = self.constant_integers(node, position)?;
        let few = constant.elements() <= POSITIONS_MAX;
        let from_start = |dim| match dim {
            Dim::Known(index @ ..0) => Some(index + size),
            Dim::Known(index) => Some(index),
            Dim::Batches(_) => None,
        };
        let integers = constant.integers().filter(|_| few)?;
        let found = integers.iter().map(|index| from_start(index.dim()?));
        let found = found.collect::<Option<Vec<i64>>>()?;
        let inside = found.iter().all(|index| (0..size).contains(index));
        inside.then(|| (constant.dims.clone(), found))
    }

    pub(super) fn floats(
        &self,
        node: &Node,
        position: usize,
        what: &'static str,
    ) -> Result<Floats, Problem> {
        let value = self.required(node, position, what)?;
        if let Value::Constant(constant) = value
            && let Data::Floats(data) = &constant.data
        {
            return Ok(Floats {
                dims: constant.dims.clone(),
                data: data.clone(),
            });
        }
        Err(self.wrong(position, what, value, "a float32 constant"))
    }

    pub(super) fn optional_floats(
        &self,
        node: &Node,
        position: usize,
        what: &'static str,
    ) -> Result<Option<Floats>, Problem> {
        match self.operand(node, position) {
            None => Ok(None),
            Some(_) => self.floats(node, position, what).map(Some),
        }
    }

    /// Integers known when compiling.
    pub(super) fn optional_ints(
        &self,
        node: &Node,
        position: usize,
        what: &'static str,
    ) -> Result<Option<Vec<i64>>, Problem> {
        let Some(value) = self.operand(node, position) else {
            return Ok(None);
        };
        let known = self.sizes(node, position, what).ok().and_then(|sizes| {
            let known = sizes.into_iter().map(|size| match size {
                Dim::Known(value) => Some(value),
                Dim::Batches(_) => None,
            });
            known.collect::<Option<Vec<i64>>>()
        });
        match known {
            Some(values) => Ok(Some(values)),
            None => Err(self.wrong(position, what, value, "constant integers")),
        }
    }

    /// No more operands or results than the operator is supported with.
    pub(super) fn limit(&self, node: &Node, inputs: usize, outputs: usize) -> Result<(), Problem> {
        let present = node
            .outputs
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        for (what, found, limit) in [
            ("inputs", node.inputs.len(), inputs),
            ("outputs", present, outputs),
        ] {
            if found > limit {
                return Err(Problem::TooMany { what, found, limit });
            }
        }
        Ok(())
    }

    pub(super) fn wrong(
        &self,
        position: usize,
        what: &'static str,
        found: &Value,
        expected: &'static str,
    ) -> Problem {
        Problem::Input {
            position,
            what,
            found: self.describe(found),
            expected,
        }
    }

    pub(crate) fn describe(&self, value: &Value) -> String {
        match value {
            Value::Nothing | Value::Unknown => "a result that is not computed".to_owned(),
            Value::View(view) => {
                let kind = match view.dims.len() {
                    2 => "a vector of features",
                    4 => "an image",
                    _ => "a tensor",
                };
                format!("{kind} {}", describe_dims(&view.sizes()))
            }
            Value::Scaled(view, _) => {
                format!("heads {}", describe_dims(&view.sizes()))
            }
            Value::Scores(scores) => {
                format!(
                    "a product of computed tensors {}",
                    describe_dims(&scores.sizes())
                )
            }
            Value::Counts(view) => {
                format!("a mask of tokens {}", describe_dims(&view.sizes()))
            }
            Value::Padding(_) => "what is added to scores for padding".to_owned(),
            Value::NoNumbers => "where weights are no numbers".to_owned(),
            Value::Softmax(view) => format!("a softmax {}", describe_dims(&view.sizes())),
            Value::Stacked(_) => {
                let sizes = value.sizes().unwrap_or_default();
                format!("batches one behind the other {}", describe_dims(&sizes))
            }
            Value::Places(view, _) | Value::Tuples(view) => {
                let sizes = describe_dims(&view.sizes());
                format!("positions among those of all images {sizes}")
            }
            Value::Sized(sizes) => format!("the mere dimensions {}", describe_dims(sizes)),
            Value::Constant(constant) => match &constant.data {
                Data::Floats(values) if constant.dims.is_empty() => {
                    format!("the constant {}", values[0])
                }
                Data::Floats(_) => format!("a float32 constant of shape {:?}", constant.dims),
                Data::Ints(_) => format!("an integer constant of shape {:?}", constant.dims),
                Data::Symbols(values) => {
                    match &values.iter().map(|v| v.dim()).collect::<Option<Vec<_>>>() {
                        Some(sizes) => format!("the shape {}", describe_dims(sizes)),
                        None => format!(
                            "integers {} that depend on the batch",
                            describe_dims(&constant.sizes())
                        ),
                    }
                }
                Data::Signed(_) | Data::Unsigned(_) => {
                    format!("a constant of bytes of shape {:?}", constant.dims)
                }
                Data::Short(_) | Data::UnsignedShort(_) => {
                    format!("a constant of 16-bit integers of shape {:?}", constant.dims)
                }
                Data::Other(kind) => {
                    let name = usize::try_from(*kind)
                        .ok()
                        .and_then(|at| data_type::NAMES.get(at));
                    match name {
                        Some(name) => format!("a {name} constant; convert the network to float32"),
                        None => format!("a constant of ONNX element type {kind}"),
                    }
                }
            },
        }
    }
}

/// E.g. `(N, 64, 1, 1)`.
pub(crate) fn describe_dims(dims: &[Dim]) -> String {
    let mut text = "(".to_owned();
    for (at, dim) in dims.iter().enumerate() {
        let comma = if at > 0 { ", " } else { "" };
        let written = match dim {
            Dim::Known(value) => write!(text, "{comma}{value}"),
            Dim::Batches(1) => write!(text, "{comma}N"),
            Dim::Batches(times) => write!(text, "{comma}{times} N"),
        };
        written.expect("writing to a String never fails");
    }
    text.push(')');
    text
}

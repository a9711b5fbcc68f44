//! Sequences of tokens: layers of each token, tables of them, constants joined before them or added to them. A token is a pixel.

use std::rc::Rc;

use punctual_model::{Copy, Embedding, LayerNorm, Tensor, TensorId, Tokens};
use punctual_types::{Extent, Window};

use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, Factor, View, normal};
use super::views::position;
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::fold::layout::product;
use crate::graph::{Attributes, Data, Floats, Node};
use crate::integer::Dim;
use crate::problem::Problem;
use crate::write::Written;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "LayerNormalization" => lower layer_normalization(),
    "OneHot" => lower one_hot() fold made::one_hot makes Third,
};

impl Written for LayerNorm {}
impl Written for Embedding {}
impl Written for Tokens {}

impl Lowering<'_> {
    pub(super) fn layer_normalization(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", -1)?;
        let epsilon = attributes.float("epsilon", 1e-5)?;
        attributes.ignore("stash_type"); // f32 throughout.
        attributes.finish()?;
        let view = self.view(node, 0)?.clone();
        let first = position("axis", axis, view.dims.len())?;
        let (sizes, last) = (view.sizes(), view.dims.len() - 1);
        let all = product(&sizes[first..]);
        let Some(all @ Dim::Known(_)) = all.filter(|_| view.has_one_batch()) else {
            let expected = "a tensor that is normalised along its last dimensions";
            return Err(self.wrong(0, "data", &Value::View(view), expected));
        };
        let view = if first == last {
            self.tokens_last(node, 0, &view)?
        } else {
            let flat = self.reshaped(node, &view, &[&sizes[..first], &[all]].concat())?;
            if self.are_tokens(&flat) {
                flat
            } else {
                self.copied_as_tokens(node, &flat)?
            }
        };
        let channels = self.shape(view.tensor).channels;
        let scale = self.floats(node, 1, "scale")?.data;
        let bias = self.optional_floats(node, 2, "bias")?;
        let bias = bias.map_or_else(|| vec![0.0; channels as usize], |bias| bias.data);
        for (position, what, found) in [(1, "scale", &scale), (2, "bias", &bias)] {
            if found.len() != channels as usize {
                let value = self.required(node, position, what)?;
                return Err(self.wrong(position, what, value, "one value a channel"));
            }
        }
        let norm = Computation::new(LayerNorm { epsilon }, [scale, bias]);
        let output = self.emit(node, norm, view.tensor, &[])?;
        let result = if first == last {
            view.of(output)
        } else {
            self.reshaped(node, &view.of(output), &sizes)?
        };
        self.set(node, Value::View(result))
    }

    /// A matrix applied to the channels of each token: how the tokens are seen, if the first
    /// operand is a tensor of tokens, moved if need be.
    pub(super) fn tokens_of(&mut self, node: &Node) -> Result<Option<View>, Problem> {
        let Some(Value::View(view)) = self.operand(node, 0) else {
            return Ok(None);
        };
        let view = view.clone();
        let is_vector = view.dims.len() == 2 && view.is_batch(0);
        let are_tokens = self.are_tokens(&view) && !view.is_features(self.shape(view.tensor));
        let supported = view.dims.len() == 2 || (view.dims.len() > 2 && node.operator == "MatMul");
        if !are_tokens && (is_vector || !supported || !view.has_one_batch()) {
            return Ok(None);
        }
        self.tokens_last(node, 0, &view).map(Some)
    }

    /// Whether each value is read once and the last dimension is all channels.
    pub(super) fn are_tokens(&self, view: &View) -> bool {
        let shape = self.shape(view.tensor);
        let last = view.dims.len().checked_sub(1);
        last.is_some_and(|last| view.is_whole(last, Axis::Channel, shape.channels))
            && view.covers(shape)
    }

    /// The same dimensions, the last one all channels of a tensor.
    fn tokens_last(&mut self, node: &Node, position: usize, view: &View) -> Result<View, Problem> {
        let tokens = self.as_tokens(node, view)?;
        if tokens.tensor != view.tensor {
            self.replace(node, position, &tokens);
        }
        Ok(tokens)
    }

    /// As [`tokens_last`](Self::tokens_last), for a view.
    pub(super) fn as_tokens(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        if self.are_tokens(view) {
            Ok(view.clone())
        } else {
            self.copied_as_tokens(node, view)
        }
    }

    /// `weights` are `[output][channel]`.
    pub(super) fn each_token(
        &mut self,
        node: &Node,
        view: &View,
        weights: Vec<f32>,
        bias: Vec<f32>,
    ) -> Result<(), Problem> {
        let result = self.of_each_token(node, view, weights, bias)?;
        self.set(node, Value::View(result))
    }

    /// As [`each_token`](Self::each_token), but returns the result instead of setting it.
    pub(super) fn of_each_token(
        &mut self,
        node: &Node,
        view: &View,
        weights: Vec<f32>,
        bias: Vec<f32>,
    ) -> Result<View, Problem> {
        let pixel = Window::whole(Extent::square(1));
        let matrix = Computation::convolution(pixel, 1, weights, bias);
        let output = self.emit(node, matrix, view.tensor, &[])?;
        let mut result = view.of(output);
        let last = result.dims.len() - 1;
        result.dims[last] = View::image(output, self.shape(output)).dims[1].clone();
        Ok(result)
    }

    /// Constant tokens joined before others, if that is what the node does.
    pub(super) fn join_tokens(&mut self, node: &Node) -> Result<bool, Problem> {
        let [Some(Value::Constant(constant)), Some(Value::View(view))] =
            [self.operand(node, 0), self.operand(node, 1)]
        else {
            return Ok(false);
        };
        let (constant, view) = (Rc::clone(constant), view.clone());
        let shape = self.shape(view.tensor);
        let mut attributes = Attributes::of(node);
        let axis = position("axis", attributes.int("axis", 1)?, view.dims.len())?;
        attributes.finish()?;
        let Data::Floats(values) = &constant.data else {
            return Ok(false);
        };
        let fits = node.inputs.len() == 2
            && axis == 1
            && is_sequence(&view, shape)
            && matches!(constant.dims[..], [1, _, channels] if channels == shape.channels as usize);
        if !fits {
            return Ok(false);
        }
        let prefix = super::convolution::dimension(constant.dims[1])?;
        let mut table = values.clone();
        let pixels = u64::from(shape.height) * u64::from(shape.width);
        table.resize(
            values.len() + (pixels * u64::from(shape.channels)) as usize,
            0.0,
        );
        let joined = self.emit_tokens(node, view.tensor, prefix, table)?;
        self.set(node, Value::View(joined))?;
        Ok(true)
    }

    /// Adds a constant that has a value for each channel of each token; `None` for any other constant.
    pub(super) fn add_to_tokens(
        &mut self,
        node: &Node,
        view: &View,
        addend: &Floats,
    ) -> Result<Option<View>, Problem> {
        let shape = self.shape(view.tensor);
        let expected = [shape.width, shape.channels].map(|size| size as usize);
        let fits = match addend.dims[..] {
            [1, tokens, channels] | [tokens, channels] => [tokens, channels] == expected,
            _ => false,
        };
        if !fits || shape.height != 1 || !is_sequence(view, shape) {
            return Ok(None);
        }
        let table = addend.data.clone();
        self.emit_tokens(node, view.tensor, 0, table).map(Some)
    }

    fn emit_tokens(
        &mut self,
        node: &Node,
        input: TensorId,
        prefix: u32,
        table: Vec<f32>,
    ) -> Result<View, Problem> {
        let shape = self.shape(input);
        let pixels = u64::from(shape.height) * u64::from(shape.width);
        let width = u32::try_from(pixels + u64::from(prefix)).unwrap_or(u32::MAX);
        let row = Tensor {
            height: 1,
            width,
            ..shape
        };
        let tokens = Computation::new(Tokens { prefix }, [table]);
        let output = self.emit(node, tokens, input, &[])?;
        let image = View::image(output, row);
        let dims = [0, 3, 1].map(|at| image.dims[at].clone()).to_vec();
        Ok(View { dims, ..image })
    }

    /// One token as features, if that is what the view is.
    pub(super) fn one_token(
        &mut self,
        node: &Node,
        view: &View,
    ) -> Result<Option<TensorId>, Problem> {
        let shape = self.shape(view.tensor);
        let is_token = view.dims.len() == 2
            && shape.height == 1
            && view.is_batch(0)
            && view.is_whole(1, Axis::Channel, shape.channels);
        let Ok(column) = u32::try_from(view.start[2]) else {
            return Ok(None);
        };
        if !is_token {
            return Ok(None);
        }
        let token = Copy::of_column(column, shape.channels);
        self.emit(node, token, view.tensor, &[]).map(Some)
    }

    /// A table's rows, or slices of a constant, looked up by numbers computed from the input.
    pub(super) fn embedding(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 0)?;
        attributes.finish()?;
        let indices = self.view(node, 1)?.clone();
        self.embedding_of(node, axis, &indices)
    }

    /// Slices of a constant along an axis.
    pub(super) fn embedding_of(
        &mut self,
        node: &Node,
        axis: i64,
        indices: &View,
    ) -> Result<(), Problem> {
        let Floats { dims, data } = self.figures(node, 0)?;
        let axis = position("axis", axis, dims.len())?;
        // Of tokens with a mask the numbers are one of two channels.
        let mut view = self.narrowed(node, indices)?;
        if self.shape(view.tensor).channels != 1 || !view.covers(self.shape(view.tensor)) {
            view = self.copied_on(node, &view, &vec![Axis::Column; view.dims.len()])?;
        }
        let inner: usize = dims[axis + 1..].iter().product();
        let rows = dims[axis];
        let channels = super::convolution::dimension(data.len() / rows.max(1))?;
        let table = if axis == 0 {
            data
        } else {
            // The slices one behind the other.
            let slice = |row: usize| {
                let runs = data.chunks(inner.max(1)).skip(row).step_by(rows);
                runs.flatten().copied().collect::<Vec<f32>>()
            };
            (0..rows).flat_map(slice).collect()
        };
        let embedding = Computation::new(Embedding { channels }, [table]);
        let output = self.emit(node, embedding, view.tensor, &[])?;
        let mut result = view.of(output);
        let (mut step, mut of_table) = (u64::from(channels), Vec::new());
        for (at, &size) in dims.iter().enumerate().filter(|(at, _)| *at != axis) {
            step /= size as u64;
            let digit = Factor {
                axis: Axis::Channel,
                step,
                extent: size as u64,
            };
            of_table.push((at, normal(vec![digit])));
        }
        let behind = result.dims.len();
        for (at, dim) in of_table {
            let place = if at < axis { at } else { behind + at - 1 };
            result.dims.insert(place, dim);
        }
        self.set(node, Value::View(result))
    }

    /// 1 at computed positions of a further dimension, or whatever two values are given.
    pub(super) fn one_hot(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", -1)?;
        attributes.finish()?;
        let view = self.view(node, 0)?.clone();
        let axis = position("axis", axis, view.dims.len() + 1)?;
        let depth = self.figures(node, 1)?;
        let values = self.figures(node, 2)?;
        let (&[depth], &[off, on]) = (&depth.data[..], &values.data[..]) else {
            let found = self.required(node, 1, "depth")?;
            return Err(self.wrong(1, "depth", found, "one number; the values are two"));
        };
        if !(1.0..=f32::from(u16::MAX)).contains(&depth) {
            let found = self.required(node, 1, "depth")?;
            return Err(self.wrong(1, "depth", found, "1 to 65,535"));
        }
        let mut dims = vec![1; view.dims.len() + 1];
        dims[axis] = depth as usize;
        let indices = self.temporary(Value::View(view.unsqueeze(axis)));
        // Negative ones count from the end.
        let mut found = Vec::with_capacity(2);
        for first in [0.0, -depth] {
            let places = (0..depth as usize).map(|at| at as f32 + first).collect();
            let places = self
                .nodes_of(node)
                .constant(dims.clone(), Data::Floats(places));
            found.push(self.nodes_of(node).of("Equal", &[indices, places])?);
        }
        let mut result = self.nodes_of(node).of("Add", &found)?;
        for (operator, figure, nothing) in [("Mul", on - off, 1.0), ("Add", off, 0.0)] {
            if figure != nothing {
                let figure = self.nodes_of(node).number(figure);
                result = self.nodes_of(node).of(operator, &[result, figure])?;
            }
        }
        self.nodes_of(node).give(0, result);
        Ok(())
    }
}

/// Whether the view is (N, all pixels, all channels).
fn is_sequence(view: &View, shape: Tensor) -> bool {
    let image = View::image(view.tensor, shape);
    let pixels = [&image.dims[2][..], &image.dims[3]].concat();
    view.dims.len() == 3 && view.dims == [image.dims[0].clone(), pixels, image.dims[1].clone()]
}

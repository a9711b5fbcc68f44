//! GRU, LSTM and RNN: one product of the input for all steps, then one operator that carries the state from step to
//! step.

use punctual_model::{ChannelRun, Copy, Gather, Linear, Recurrent, Tensor, TensorId};
use punctual_types::{Activation, Cell, Extent, Window};

use super::convolution::dimension;
use super::joined::Part;
use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, BATCH, Factor, View, normal};
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::graph::{Attribute, Attributes, Data, Node};
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "GRU" => lower recurrent(),
    "LSTM" => lower recurrent(),
    "RNN" => lower recurrent(),
};

/// Positions of the operands in the node's list of inputs.
const WEIGHTS: usize = 1;
const RECURRENT_WEIGHTS: usize = 2;
const BIAS: usize = 3;
const LENGTHS: usize = 4;
const STATE: usize = 5;
const CELLS: usize = 6;

/// A recurrent layer as its attributes describe it.
struct Layer {
    cell: Cell,
    /// For each direction, whether it goes backwards.
    directions: Vec<bool>,
    /// Whether the batch is the first dimension of all, not the second.
    batch_first: bool,
    hidden: u32,
}

impl crate::write::Written for Recurrent {}

impl Lowering<'_> {
    pub(super) fn recurrent(&mut self, node: &Node) -> Result<(), Problem> {
        let is_lstm = node.operator == "LSTM";
        let (inputs, outputs) = if is_lstm { (7, 3) } else { (6, 2) };
        self.limit(node, inputs, outputs)?;
        let layer = self.recurrent_layer(node)?;
        let (tokens, steps) = self.steps(node, &layer)?;
        self.check_lengths(node, steps)?;
        let mut states = Vec::with_capacity(layer.directions.len());
        for direction in 0..layer.directions.len() {
            states.push(self.direction(node, &layer, direction, tokens, steps)?);
        }
        let views = [
            Some(self.all_states(node, &layer, &states)?),
            self.last_states(node, &layer, &states, steps, 0)?,
            if is_lstm {
                self.last_states(node, &layer, &states, steps, layer.hidden)?
            } else {
                None
            },
        ];
        for (output, view) in node.outputs.iter().zip(views) {
            if let (Some(output), Some(view)) = (output, view) {
                self.values[output.0] = Value::View(view);
            }
        }
        Ok(())
    }

    fn recurrent_layer(&self, node: &Node) -> Result<Layer, Problem> {
        let mut attributes = Attributes::of(node);
        let hidden = self.floats(node, RECURRENT_WEIGHTS, "recurrent weights")?;
        let hidden = hidden.dims.last().copied().unwrap_or(0);
        let declared = attributes.int("hidden_size", hidden as i64)?;
        if usize::try_from(declared) != Ok(hidden) || hidden == 0 {
            let found = Attribute::Int(declared);
            let supported = "as many as the recurrent weights have columns";
            return Err(Problem::attribute("hidden_size", &found, supported));
        }
        let directions = match attributes.text("direction", "forward")? {
            "forward" => vec![false],
            "reverse" => vec![true],
            "bidirectional" => vec![false, true],
            other => {
                let found = Attribute::Text(other.to_owned());
                let supported = "forward, reverse or bidirectional";
                return Err(Problem::attribute("direction", &found, supported));
            }
        };
        let cell = match node.operator.as_str() {
            "GRU" => Cell::Gru {
                resets_product: attributes.int("linear_before_reset", 0)? != 0,
            },
            "LSTM" => Cell::Lstm,
            _ => Cell::Tanh,
        };
        let cell = activations(&mut attributes, cell, directions.len())?;
        attributes.only("input_forget", 0, "0")?;
        let batch_first = attributes.int("layout", 0)? != 0;
        attributes.finish()?;
        Ok(Layer {
            cell,
            directions,
            batch_first,
            hidden: dimension(hidden)?,
        })
    }

    /// The input as a tensor of one row with a column for each step, and the number of steps.
    fn steps(&mut self, node: &Node, layer: &Layer) -> Result<(TensorId, u32), Problem> {
        let view = self.view(node, 0)?.clone();
        let batch = usize::from(!layer.batch_first);
        if view.dims.len() != 3 || !view.is_batch(batch) || !view.has_one_batch() {
            let expected = if layer.batch_first {
                "(batch, steps, values)"
            } else {
                "(steps, batch, values)"
            };
            return Err(self.wrong(0, "data", &Value::View(view), expected));
        }
        let view = view.permute(&[batch, 1 - batch, 2]);
        let shape = self.shape(view.tensor);
        let is_it = shape.height == 1
            && view.covers(shape)
            && view.is_whole(1, Axis::Column, shape.width)
            && view.is_whole(2, Axis::Channel, shape.channels);
        let tensor = if is_it {
            view.tensor
        } else {
            self.copied_as_tokens(node, &view)?.tensor
        };
        Ok((tensor, self.shape(tensor).width))
    }

    /// Refuses sequences that are shorter than the number of steps.
    fn check_lengths(&self, node: &Node, steps: u32) -> Result<(), Problem> {
        let Some(lengths) = self.operand(node, LENGTHS) else {
            return Ok(());
        };
        let all = self.constant_integers(node, LENGTHS).and_then(|constant| {
            let known = constant
                .integers()?
                .iter()
                .map(|length| length.known())
                .collect();
            let known: Option<Vec<i64>> = known;
            known
        });
        match all {
            Some(all) if all.iter().all(|length| *length == i64::from(steps)) => Ok(()),
            _ => {
                let expected = "nothing, or as many as there are steps";
                Err(self.wrong(LENGTHS, "sequence_lens", lengths, expected))
            }
        }
    }

    /// The states of one direction.
    fn direction(
        &mut self,
        node: &Node,
        layer: &Layer,
        direction: usize,
        tokens: TensorId,
        steps: u32,
    ) -> Result<TensorId, Problem> {
        let shape = self.shape(tokens);
        let (gates, hidden) = (layer.cell.gates() as usize, layer.hidden as usize);
        let rows = gates * hidden;
        let count = layer.directions.len();
        let part = |lowering: &Self, at: usize, what, dims: &[usize]| {
            let all = lowering.floats(node, at, what)?;
            if all.dims[..] != *[&[count], dims].concat() {
                let found = lowering.required(node, at, what)?;
                return Err(lowering.wrong(at, what, found, "one set for each direction and gate"));
            }
            let each: usize = dims.iter().product();
            Ok(all.data[direction * each..][..each].to_vec())
        };
        let inputs = [rows, shape.channels as usize];
        let weights = part(self, WEIGHTS, "weights", &inputs)?;
        let recurrent = part(
            self,
            RECURRENT_WEIGHTS,
            "recurrent weights",
            &[rows, hidden],
        )?;
        let bias = match self.operand(node, BIAS) {
            None => vec![0.0; 2 * rows],
            Some(_) => part(self, BIAS, "bias", &[2 * rows])?,
        };
        let (bias, recurrent_bias) = bias.split_at(rows);
        let initial = self.initial_state(node, layer, direction)?;
        let activation = Activation::None;
        let of_input = match steps {
            1 => Computation::new(Linear { activation }, [weights, bias.to_vec()]),
            _ => {
                let pixel = Window::whole(Extent::square(1));
                Computation::convolution(pixel, 1, weights, bias.to_vec())
            }
        };
        let products = self.emit(node, of_input, tokens, &[])?;
        let layer = Recurrent {
            cell: layer.cell,
            backwards: layer.directions[direction],
        };
        let layer = Computation::new(layer, [recurrent, recurrent_bias.to_vec()]);
        self.emit(node, layer, products, initial.as_slice())
    }

    /// The state before the first step, for an LSTM with the cell states behind it; `None` for zeros.
    fn initial_state(
        &mut self,
        node: &Node,
        layer: &Layer,
        direction: usize,
    ) -> Result<Option<TensorId>, Problem> {
        let places: &[usize] = match layer.cell {
            Cell::Lstm => &[STATE, CELLS],
            _ => &[STATE],
        };
        let zero = |at: usize| match self.operand(node, at) {
            None => true,
            Some(Value::Constant(constant)) => match &constant.data {
                Data::Floats(values) => values.iter().all(|value| *value == 0.0),
                _ => false,
            },
            Some(_) => false,
        };
        if places.iter().all(|at| zero(*at)) {
            return Ok(None);
        }
        self.materialise(node)?;
        let parts: Vec<Part> = places
            .iter()
            .map(|&at| self.state_part(node, layer, direction, at))
            .collect::<Result<_, _>>()?;
        let state = match &parts[..] {
            [Part::View(only)] => only.clone(),
            _ => self.join_parts(node, 1, &parts)?,
        };
        let expected = "a state for each direction, (directions, batch, hidden)";
        let tensor = self.vector_of(node, &state)?;
        let found = self.shape(tensor);
        let count = layer.cell.values() * layer.hidden;
        if found != Tensor::features(count) {
            return Err(self.wrong(STATE, "initial state", &Value::View(state), expected));
        }
        Ok(Some(tensor))
    }

    /// One direction of an operand, as (batch, hidden).
    fn state_part(
        &mut self,
        node: &Node,
        layer: &Layer,
        direction: usize,
        at: usize,
    ) -> Result<Part, Problem> {
        let expected = "a state for each direction, (directions, batch, hidden)";
        let position = usize::from(layer.batch_first);
        let view = match self.required(node, at, "initial state")? {
            Value::View(view) if view.dims.len() == 3 => view.clone(),
            other => return Err(self.wrong(at, "initial state", other, expected)),
        };
        // In a file for one image a state of one layer has two dimensions that could be the batch.
        let other = view.dims[1 - position].is_empty();
        let view = if self.fixed == Some(1) && view.is_batch(position) && other {
            view.permute(&[1, 0, 2])
        } else {
            view
        };
        let first = direction as i64;
        let one = self.sliced(node, &view, position, [first, first + 1, 1])?;
        match one.squeeze(position) {
            Some(part) if part.is_batch(0) => Ok(Part::View(part)),
            _ => Err(self.wrong(at, "initial state", &Value::View(view), expected)),
        }
    }

    /// The states of all directions as (steps, directions, batch, hidden).
    fn all_states(
        &mut self,
        node: &Node,
        layer: &Layer,
        states: &[TensorId],
    ) -> Result<View, Problem> {
        let tensor = match *states {
            [only] => only,
            _ => self.both(node, layer, states, 0)?,
        };
        let view = self.of_directions(layer, tensor);
        Ok(if layer.batch_first {
            view.permute(&[2, 0, 1, 3])
        } else {
            view
        })
    }

    /// The values from `channel` on after each direction's last step, as (directions, batch, hidden).
    fn last_states(
        &mut self,
        node: &Node,
        layer: &Layer,
        states: &[TensorId],
        steps: u32,
        first: u32,
    ) -> Result<Option<View>, Problem> {
        let place = usize::from(first > 0) + 1;
        if node.outputs.get(place).copied().flatten().is_none() {
            return Ok(None);
        }
        let last = |backwards: bool| if backwards { 0 } else { steps - 1 };
        let mut view = match *states {
            [only] => {
                let mut view = self.of_directions(layer, only);
                view.start = [u64::from(first), 0, u64::from(last(layer.directions[0]))];
                view
            }
            _ => {
                let mut ends = Vec::with_capacity(states.len());
                for (&tensor, &backwards) in states.iter().zip(&layer.directions) {
                    let column = last(backwards);
                    let end = Copy::of_column(column, self.shape(tensor).channels);
                    ends.push(self.emit(node, end, tensor, &[])?);
                }
                let both = self.both(node, layer, &ends, first)?;
                self.of_directions(layer, both)
            }
        };
        view.dims.remove(0);
        Ok(Some(if layer.batch_first {
            view.permute(&[1, 0, 2])
        } else {
            view
        }))
    }

    /// The hidden units of both directions side by side, from a channel of each on.
    fn both(
        &mut self,
        node: &Node,
        layer: &Layer,
        states: &[TensorId],
        first: u32,
    ) -> Result<TensorId, Problem> {
        let run = |source| ChannelRun {
            source,
            first,
            count: layer.hidden,
        };
        let runs = vec![run(0), run(1)];
        self.emit(node, Gather { runs }, states[0], &states[1..])
    }

    /// A tensor with a column for each step as (steps, directions, batch, hidden).
    fn of_directions(&self, layer: &Layer, tensor: TensorId) -> View {
        let shape = self.shape(tensor);
        let digit = |axis, step: u64, extent: u64| normal(vec![Factor { axis, step, extent }]);
        let hidden = u64::from(layer.hidden);
        View {
            tensor,
            start: [0; 3],
            dims: vec![
                digit(Axis::Column, 1, shape.width.into()),
                digit(Axis::Channel, hidden, layer.directions.len() as u64),
                vec![BATCH],
                digit(Axis::Channel, 1, hidden),
            ],
        }
    }
}

/// The cell; activations other than the default ones are refused.
fn activations(
    attributes: &mut Attributes<'_>,
    cell: Cell,
    directions: usize,
) -> Result<Cell, Problem> {
    let Some(found) = attributes.texts("activations")? else {
        return Ok(cell);
    };
    let cell = match (cell, found.first().map(String::as_str)) {
        (Cell::Tanh, Some("Relu")) => Cell::Relu,
        _ => cell,
    };
    let usual: &[&str] = match cell {
        Cell::Gru { .. } => &["Sigmoid", "Tanh"],
        Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        Cell::Tanh => &["Tanh"],
        Cell::Relu => &["Relu"],
    };
    // The default of ONNX is that of two directions, of one too.
    let expected = usual.repeat(directions);
    if found.iter().take(expected.len()).eq(&expected) {
        return Ok(cell);
    }
    let found = Attribute::Texts(found.to_vec());
    let supported = "Sigmoid and Tanh, of an RNN Tanh or Relu, the same in both directions";
    Err(Problem::attribute("activations", &found, supported))
}

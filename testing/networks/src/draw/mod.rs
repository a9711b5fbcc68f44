//! Draws networks: from a seed a graph of ONNX operators, the same on every machine.
//!
//! A network grows by *moves*. A move takes values that are there, adds one operator or a small pattern of them, and leaves new
//! values. The weights of its moves, its sizes and how often it comes back to old values are drawn first, so that
//! networks differ in kind and not only in order. Weights are drawn as fractions of powers of two, since no machine may
//! round them otherwise.

mod copies;
mod dense;
mod elementwise;
mod moves;
mod normalised;
mod outputs;
mod pictures;
mod quantised;
mod recurrent;
mod vectors;
mod windows;

use std::collections::BTreeMap;

use prost::Message;
use punctual_compile::schema::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto, data_type,
};
use punctual_types::Random;

pub(crate) use pictures::PICTURE;
pub use pictures::Picture;

/// Most elements of a value, so that thousands of networks can be run.
const ELEMENTS_MAX: i64 = 3072;
/// Most products of one operator: the interpreter takes some milliseconds for them.
const PRODUCTS_MAX: i64 = 300_000;
/// Rows of an embedding's table: tokens are below this.
const TOKENS: u64 = 37;

/// A drawn network.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    pub seed: u64,
    pub model: ModelProto,
    pub inputs: Vec<Input>,
    /// Whether the answer is one of several classes.
    pub has_classes: bool,
    /// The dimensions behind the batch of the values in between that are floats.
    pub dims: BTreeMap<String, Vec<i64>>,
}

/// One of a network's inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    pub name: String,
    /// The dimensions behind the batch.
    pub dims: Vec<i64>,
    pub numbers: Numbers,
}

impl Input {
    #[must_use]
    pub fn elements(&self) -> usize {
        self.dims.iter().product::<i64>() as usize
    }
}

/// What numbers an input has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numbers {
    Floats,
    /// A picture's, as an exporter takes it.
    Picture(Picture),
    /// Whole numbers from zero to below this.
    Tokens(u64),
}

impl Drawn {
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Drawing::new(seed).finish()
    }

    /// The ONNX file.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.model.encode_to_vec()
    }

    /// # Panics
    /// Never: what is drawn has a graph.
    #[must_use]
    pub fn graph(&self) -> &GraphProto {
        self.model
            .graph
            .as_ref()
            .expect("what is drawn has a graph")
    }

    /// How many images the file says that there are, if it does.
    #[must_use]
    pub fn images(&self) -> Option<usize> {
        let first = self.graph().input.first()?.r#type.as_ref()?;
        let shape = first.tensor_type.as_ref()?.shape.as_ref()?;
        usize::try_from(shape.dim.first()?.dim_value?).ok()
    }
}

/// A value of the graph that moves may read.
#[derive(Clone, Debug)]
struct Value {
    name: String,
    /// The dimensions behind the batch.
    dims: Vec<i64>,
    /// A number of `data_type`. Moves read floats only.
    element: i32,
    /// How often it is read.
    reads: u32,
    /// Its position among the inputs, if it is one.
    input: Option<usize>,
}

impl Value {
    fn elements(&self) -> i64 {
        self.dims.iter().product()
    }
}

/// A value's position in [`Drawing::values`].
type Id = usize;

/// What is drawn of a network before its operators.
struct Settings {
    /// Channels are multiples of this, mostly.
    channel_unit: i64,
    /// How many operators it is to have.
    operators: usize,
    /// Of 8 choices of an operand, how many take one of the last values.
    recent: u64,
    /// Weight of each move, in the order of [`moves::ALL`].
    move_weights: Vec<u64>,
}

struct Drawing {
    seed: u64,
    random: Random,
    opset: i64,
    /// The batch as the file says it.
    batch: Option<i64>,
    graph: GraphProto,
    inputs: Vec<Input>,
    values: Vec<Value>,
    names: usize,
    settings: Settings,
}

impl Drawing {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed).stream("network", 0);
        let opsets = [13, 17, 17, 18, 20, 21, 23];
        let opset = opsets[random.below(opsets.len() as u64) as usize];
        let units = [1, 2, 3, 4, 4, 5, 8, 8, 8, 12, 16, 16, 16, 24, 32];
        let operators = match random.below(8) {
            0 | 1 => random.within(3, 6),
            2..=4 => random.within(6, 14),
            5 | 6 => random.within(14, 27),
            _ => random.within(26, 40),
        };
        let settings = Settings {
            channel_unit: units[random.below(units.len() as u64) as usize],
            operators: operators as usize,
            recent: random.within(2, 7),
            move_weights: moves::weights(&mut random),
        };
        let batch = random.one_in(4).then_some(1);
        let mut drawing = Self {
            seed,
            random,
            opset,
            batch,
            graph: GraphProto::default(),
            inputs: Vec::new(),
            values: Vec::new(),
            names: 0,
            settings,
        };
        drawing.draw_inputs();
        drawing
    }

    fn finish(mut self) -> Drawn {
        let mut attempts = 0;
        while self.graph.node.len() < self.settings.operators && attempts < 400 {
            self.one_move();
            attempts += 1;
        }
        let has_classes = self.draw_outputs();
        let floats = self
            .values
            .into_iter()
            .filter(|value| value.element == data_type::FLOAT);
        let dims = floats.map(|value| (value.name, value.dims)).collect();
        let model = ModelProto {
            ir_version: Some(8),
            graph: Some(self.graph),
            opset_import: vec![OperatorSetIdProto {
                domain: None,
                version: Some(self.opset),
            }],
            functions: Vec::new(),
        };
        Drawn {
            seed: self.seed,
            model,
            inputs: self.inputs,
            has_classes,
            dims,
        }
    }

    /// A picture, a series, features or tokens; with the first three perhaps vectors.
    fn draw_inputs(&mut self) {
        let channels = match self.random.below(3) {
            0 => 3,
            _ => self.channels(),
        };
        // Large enough, now and then, that an engine divides what it writes.
        let (least, most) = if self.random.one_in(24) {
            (20, 48)
        } else {
            (1, 12)
        };
        let (dims, tokens) = match self.random.below(20) {
            0 | 1 => (vec![self.side(3, 12)], true),
            2..=4 => (vec![channels, self.side(2, 24)], false),
            5 => (vec![self.channels() * self.side(1, 4)], false),
            _ => (
                vec![channels, self.side(least, most), self.side(least, most)],
                false,
            ),
        };
        if tokens {
            self.draw_tokens(dims);
            return;
        }
        if !self.draw_picture(&dims) {
            self.input(PICTURE, dims, Numbers::Floats);
        }
        let vectors = match self.random.below(8) {
            0..=4 => 0,
            5 | 6 => self.random.within(1, 2),
            _ => self.random.within(3, 4),
        };
        for vector in 0..vectors {
            let channels = self.channels();
            // The first input is the one with the most dimensions.
            let rank = self.values[0].dims.len();
            let dims = match self.random.below(4) {
                0 if rank > 2 => vec![channels, 1, 1],
                1 if rank > 1 => vec![self.side(1, 5), channels],
                _ => vec![channels],
            };
            self.input(&format!("v{vector}"), dims, Numbers::Floats);
        }
    }

    fn input(&mut self, name: &str, dims: Vec<i64>, numbers: Numbers) {
        let kind = match numbers {
            Numbers::Floats | Numbers::Picture(_) => data_type::FLOAT,
            Numbers::Tokens(_) => data_type::INT64,
        };
        let all = [self.batch]
            .into_iter()
            .chain(dims.iter().copied().map(Some));
        self.graph
            .input
            .push(ValueInfoProto::tensor(name, kind, all));
        if numbers == Numbers::Floats {
            self.values.push(Value {
                name: name.to_owned(),
                dims: dims.clone(),
                element: data_type::FLOAT,
                reads: 0,
                input: Some(self.inputs.len()),
            });
        }
        self.inputs.push(Input {
            name: name.to_owned(),
            dims,
            numbers,
        });
    }

    fn one_move(&mut self) {
        let all: u64 = self.settings.move_weights.iter().sum();
        let mut at = self.random.below(all);
        let weights = self.settings.move_weights.iter();
        let chosen = weights.take_while(|&&weight| {
            let goes_on = at >= weight;
            at = at.saturating_sub(weight);
            goes_on
        });
        let chosen = chosen.count();
        // A move that finds nothing to work on leaves everything as it was.
        let _ = (moves::ALL[chosen].draw)(self);
    }

    // Sizes.

    fn side(&mut self, low: u64, high: u64) -> i64 {
        self.random.within(low, high) as i64
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize].clone()
    }

    /// Channels: mostly multiples of the network's unit, sometimes anything.
    fn channels(&mut self) -> i64 {
        let unit = self.settings.channel_unit;
        match self.random.below(8) {
            0 => self.side(1, 20),
            1..=4 => unit,
            _ => (unit * self.side(1, 4)).min(48),
        }
    }

    // Operands.

    /// A value of floats for which `fits` holds: sometimes any, mostly one that nothing reads yet, or one of the last.
    fn pick(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Id> {
        let fitting = |value: &&Value| value.element == data_type::FLOAT && fits(value);
        let all = self.values.iter().enumerate();
        let all: Vec<(Id, &Value)> = all.filter(|(_, value)| fitting(value)).collect();
        let unread: Vec<Id> = all
            .iter()
            .filter(|(_, value)| value.reads == 0)
            .map(|(id, _)| *id)
            .collect();
        let all: Vec<Id> = all.into_iter().map(|(id, _)| id).collect();
        let wants_recent = self.random.below(8) < self.settings.recent;
        let wants_unread = self.random.one_in(2) && !unread.is_empty();
        let from = if wants_unread { unread } else { all };
        let count = from.len() as u64;
        let back = if wants_recent {
            self.random.below(count.min(2))
        } else {
            self.random.below(count)
        };
        from.len().checked_sub(1 + back as usize).map(|at| from[at])
    }

    fn any(&mut self) -> Option<Id> {
        self.pick(|_| true)
    }

    /// A value of (channels, rows, columns).
    fn image(&mut self) -> Option<Id> {
        self.pick(|value| value.dims.len() == 3)
    }

    /// A value with places: (channels, columns) or (channels, rows, columns).
    fn field(&mut self) -> Option<Id> {
        let flat = self.random.one_in(3);
        self.pick(|value| value.dims.len() == 3 || (flat && value.dims.len() == 2))
    }

    /// Another value of the same dimensions, or the same.
    fn same_as(&mut self, id: Id) -> Id {
        let dims = self.values[id].dims.clone();
        let other = self.pick(|value| value.dims == dims);
        other.unwrap_or(id)
    }

    fn dims(&self, id: Id) -> Vec<i64> {
        self.values[id].dims.clone()
    }

    fn read(&mut self, id: Id) -> String {
        self.values[id].reads += 1;
        self.values[id].name.clone()
    }

    // Nodes.

    fn name(&mut self) -> String {
        self.names += 1;
        format!("t{}", self.names)
    }

    /// Adds a node and gives the names of its results.
    fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        results: usize,
        attributes: Vec<AttributeProto>,
    ) -> Vec<String> {
        let outputs: Vec<String> = (0..results).map(|_| self.name()).collect();
        let names: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let node = NodeProto::of(operator, &outputs[0], inputs, &names, attributes);
        self.graph.node.push(node);
        outputs
    }

    /// Makes a result a value that moves may read.
    fn value(&mut self, name: String, dims: Vec<i64>) -> Id {
        debug_assert!(dims.iter().all(|side| *side > 0), "{dims:?}");
        self.values.push(Value {
            name,
            dims,
            element: data_type::FLOAT,
            reads: 0,
            input: None,
        });
        self.values.len() - 1
    }

    /// A node of one result, which is a value.
    fn apply(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
        dims: Vec<i64>,
    ) -> Id {
        let name = self.node(operator, inputs, 1, attributes).remove(0);
        self.value(name, dims)
    }

    // Constants.

    /// Weights from `-spread` to `spread`.
    fn weights(&mut self, dims: &[i64], spread: f32) -> String {
        let count = dims.iter().product::<i64>();
        let values: Vec<f32> = (0..count)
            .map(|_| self.random.signed_unit() * spread)
            .collect();
        self.floats(dims, &values)
    }

    /// Weights for sums of `terms` products, so that values neither vanish nor explode. Sometimes those of an earlier operator.
    fn kernel(&mut self, dims: &[i64], terms: i64) -> String {
        if self.random.one_in(6) {
            let mut tied = self.graph.initializer.iter();
            let tied = tied.find(|one| one.dims == dims && one.data_type == Some(data_type::FLOAT));
            if let Some(tied) = tied.and_then(|tied| tied.name.clone()) {
                return tied;
            }
        }
        // A power of two, so that the product is exact.
        let spread = (0..6).map(|power| 1.0 / (1 << power) as f32);
        let enough = |spread: &f32| spread * spread * terms as f32 <= 4.0;
        let spread = spread.into_iter().find(enough).unwrap_or(1.0 / 32.0);
        self.weights(dims, spread)
    }

    /// Positive numbers around one.
    fn gains(&mut self, dims: &[i64]) -> String {
        let count = dims.iter().product::<i64>();
        let values: Vec<f32> = (0..count).map(|_| 0.5 + self.random.unit_f32()).collect();
        self.floats(dims, &values)
    }

    fn floats(&mut self, dims: &[i64], values: &[f32]) -> String {
        let name = self.name();
        self.graph
            .initializer
            .push(TensorProto::floats(&name, dims, values));
        name
    }

    fn ints(&mut self, values: &[i64]) -> String {
        let name = self.name();
        self.graph
            .initializer
            .push(TensorProto::ints(&name, values));
        name
    }
}

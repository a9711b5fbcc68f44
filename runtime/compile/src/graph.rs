//! The graph of an ONNX file: nodes and values by position, constants decoded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::integer::{Dim, Integer};
use crate::problem::Problem;

/// Versions of the standard operators by which nodes are made here.
pub(crate) const OPSET: i64 = 21;

/// Position of a value in [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ValueId(pub usize);

/// A graph whose nodes are in topological order and whose values are each defined once.
#[derive(Debug)]
pub(crate) struct Graph {
    /// The type of floats that the file's constants were converted from, if that is not f32.
    pub converted: Option<&'static str>,
    pub nodes: Vec<Node>,
    pub values: Vec<String>,
    /// Initializers. The constants that nodes give are among their attributes.
    pub constants: BTreeMap<ValueId, Rc<Constant>>,
    /// The input that is no initializer, vector or mask: a picture, a prepared tensor, or the numbers of tokens.
    pub input: ValueId,
    /// Its declared dimensions; `None` is known only when running.
    pub input_dims: Vec<Option<i64>>,
    pub input_elements: Elements,
    /// The file's inputs that it stacks, if it does.
    pub layers: Vec<ValueId>,
    /// The input that says which tokens count, of the same dimensions.
    pub mask: Option<ValueId>,
    /// Whether the input is the numbers of tokens.
    pub tokens: bool,
    /// What comes with the input.
    pub vectors: Vec<Vector>,
    pub outputs: Vec<ValueId>,
    /// The dimensions of values that the file declares; `None` is known only when running.
    pub declared: BTreeMap<ValueId, Vec<Option<i64>>>,
    /// Their declared element types, by ONNX number.
    pub output_types: Vec<Option<i32>>,
    /// Whether the input has no batch in the file, which gives it one.
    pub is_unbatched: bool,
}

/// A further input: a vector of numbers for each image of the batch.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub id: ValueId,
    pub length: u32,
    /// Its dimensions without the batch; their product is the length.
    pub dims: Vec<i64>,
    /// Before which of them the batch is; nowhere if the file gives it none.
    pub batch: Option<usize>,
    pub elements: Elements,
}

/// What an input consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    Floats,
    Integers,
    Truths,
    Bytes,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// The node's own name, or that of the first output that it has.
    pub name: String,
    /// E.g. `Conv`.
    pub operator: String,
    /// The operator's, if that is not the standard one.
    pub domain: Option<String>,
    /// Version of the standard operators.
    pub opset: i64,
    /// `None` for an optional operand that is left out.
    pub inputs: Vec<Option<ValueId>>,
    pub outputs: Vec<Option<ValueId>>,
    pub attributes: BTreeMap<String, Attribute>,
}

impl Node {
    /// Another operator in its place, without attributes.
    pub fn standing_in(&self, operator: &str) -> Self {
        Self {
            operator: operator.to_owned(),
            domain: None,
            attributes: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Stands for what an exit has computed that no node of the file computes.
    pub fn of_exit(exit: &str) -> Self {
        Self {
            name: exit.to_owned(),
            operator: String::new(),
            domain: None,
            opset: OPSET,
            inputs: Vec::new(),
            outputs: Vec::new(),
            attributes: BTreeMap::new(),
        }
    }

    /// Makes a value known as another one, too.
    pub fn identity(name: &str, value: ValueId, result: ValueId) -> Self {
        Self {
            operator: "Identity".to_owned(),
            inputs: vec![Some(value)],
            outputs: vec![Some(result)],
            ..Self::of_exit(name)
        }
    }
}

/// The nodes of a branch of an `If`.
#[derive(Debug, PartialEq)]
pub(crate) struct Branch {
    pub nodes: Vec<Node>,
    pub outputs: Vec<ValueId>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Attribute {
    Float(f32),
    Int(i64),
    Text(String),
    Texts(Vec<String>),
    Tensor(Rc<Constant>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Branch(Rc<Branch>),
    /// A type that no supported operator takes, by its ONNX number.
    Other(i32),
}

/// A constant of floats.
#[derive(Clone, Debug)]
pub(crate) struct Floats {
    pub dims: Vec<usize>,
    pub data: Vec<f32>,
}

/// A constant tensor; the data are as many as the dimensions say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Constant {
    pub dims: Vec<usize>,
    /// The dimension that is the batch. It has the positions of one image here, most often one.
    pub batch: Option<usize>,
    pub data: Data,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    /// From float32, float16 and float64.
    Floats(Vec<f32>),
    /// From int64, int32 and bool.
    Ints(Vec<i64>),
    /// Some of them depend on the batch.
    Symbols(Vec<Integer>),
    Signed(Vec<i8>),
    Unsigned(Vec<u8>),
    Short(Vec<i16>),
    UnsignedShort(Vec<u16>),
    /// An element type that no supported operator takes, by its ONNX number.
    Other(i32),
}

impl Data {
    /// Results of arithmetic with values like these: those of 8 and 16 bits wrap.
    pub fn wrapped(&self, results: Vec<Integer>) -> Self {
        let known: Option<Vec<i64>> = results.iter().map(|result| result.known()).collect();
        let known = known.into_iter().flatten();
        let wrapped = match self {
            Self::Signed(_) => Self::Signed(known.map(|value| value as i8).collect()),
            Self::Unsigned(_) => Self::Unsigned(known.map(|value| value as u8).collect()),
            Self::Short(_) => Self::Short(known.map(|value| value as i16).collect()),
            Self::UnsignedShort(_) => Self::UnsignedShort(known.map(|v| v as u16).collect()),
            _ => return Self::of_integers(results),
        };
        if wrapped.len() == results.len() {
            wrapped
        } else {
            Self::of_integers(results)
        }
    }

    /// Without symbols where there are none.
    pub fn of_integers(integers: Vec<Integer>) -> Self {
        let known = integers.iter().map(|integer| integer.known());
        match known.collect() {
            Some(known) => Self::Ints(known),
            None => Self::Symbols(integers),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Ints(values) => values.len(),
            Self::Symbols(values) => values.len(),
            Self::Signed(bytes) => bytes.len(),
            Self::Unsigned(bytes) => bytes.len(),
            Self::Short(shorts) => shorts.len(),
            Self::UnsignedShort(shorts) => shorts.len(),
            Self::Other(_) => 0,
        }
    }
}

impl Constant {
    /// One that is the same for each image.
    pub fn new(dims: Vec<usize>, data: Data) -> Self {
        let batch = None;
        Self { dims, batch, data }
    }

    /// Other values of the same dimensions.
    pub fn with(&self, data: Data) -> Self {
        let (dims, batch) = (self.dims.clone(), self.batch);
        Self { dims, batch, data }
    }

    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    pub fn sizes(&self) -> Vec<Dim> {
        let size = |(at, &size)| {
            if self.batch == Some(at) {
                Dim::Batches(size as i64)
            } else {
                Dim::Known(size as i64)
            }
        };
        self.dims.iter().enumerate().map(size).collect()
    }

    /// Whether each image has several positions of the batch.
    pub fn has_wide_batch(&self) -> bool {
        self.batch.is_some_and(|batch| self.dims[batch] != 1)
    }

    /// Its values, if they are integers or bytes.
    pub fn integers(&self) -> Option<Cow<'_, [Integer]>> {
        Some(match &self.data {
            Data::Symbols(values) => Cow::Borrowed(values),
            Data::Ints(values) => values.iter().copied().map(Integer::of).collect(),
            Data::Signed(bytes) => bytes.iter().map(|&b| Integer::of(b.into())).collect(),
            Data::Unsigned(bytes) => bytes.iter().map(|&b| Integer::of(b.into())).collect(),
            Data::Short(shorts) => shorts.iter().map(|&s| Integer::of(s.into())).collect(),
            Data::UnsignedShort(shorts) => shorts.iter().map(|&s| Integer::of(s.into())).collect(),
            Data::Floats(_) | Data::Other(_) => return None,
        })
    }

    /// One position of a dimension, which stays; `None` for element types that no operator takes.
    pub fn position(&self, dim: usize, at: usize) -> Option<Self> {
        let inner: usize = self.dims[dim + 1..].iter().product();
        let mut dims = self.dims.clone();
        let size = std::mem::replace(&mut dims[dim], 1);
        macro_rules! taken {
            ($values:expr) => {
                $values
                    .chunks(inner.max(1))
                    .skip(at)
                    .step_by(size.max(1))
                    .flatten()
                    .copied()
                    .collect()
            };
        }
        let data = match &self.data {
            Data::Floats(values) => Data::Floats(taken!(values)),
            Data::Ints(values) => Data::Ints(taken!(values)),
            _ => return None,
        };
        Some(Self {
            dims,
            batch: self.batch,
            data,
        })
    }

    /// What it is in a batch of `size` images, if it is one constant there.
    pub fn at_batch(&self, size: i64) -> Option<Self> {
        let data = match &self.data {
            Data::Symbols(values) => {
                let values = values.iter().map(|value| value.at_batch(size));
                Data::Ints(values.collect::<Option<_>>()?)
            }
            data => data.clone(),
        };
        (self.batch.is_none() || size == 1).then(|| Self::new(self.dims.clone(), data))
    }
}

impl Attribute {
    /// The bytes that a copy of it needs apart from the value itself.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Texts(texts) => texts
                .iter()
                .map(|text| size_of::<String>() + text.len())
                .sum(),
            Self::Floats(values) => size_of_val(&values[..]),
            Self::Ints(values) => size_of_val(&values[..]),
            Self::Float(_) | Self::Int(_) => 0,
            Self::Tensor(_) | Self::Branch(_) | Self::Other(_) => 0,
        }
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Texts(texts) => write!(f, "{texts:?}"),
            Self::Tensor(tensor) => write!(f, "a tensor of shape {:?}", tensor.dims),
            Self::Floats(values) => write!(f, "{values:?}"),
            Self::Ints(values) => write!(f, "{values:?}"),
            Self::Branch(branch) => write!(f, "a graph of {} nodes", branch.nodes.len()),
            Self::Other(kind) => write!(f, "a value of ONNX attribute type {kind}"),
        }
    }
}

/// A node's attributes while its operator reads them. What is left in the end is something that
/// this program does not know and must not ignore.
pub(crate) struct Attributes<'a> {
    rest: BTreeMap<&'a str, &'a Attribute>,
}

impl<'a> Attributes<'a> {
    pub fn of(node: &'a Node) -> Self {
        let rest = node
            .attributes
            .iter()
            .map(|(name, value)| (name.as_str(), value));
        Self {
            rest: rest.collect(),
        }
    }

    pub fn int(&mut self, name: &'static str, default: i64) -> Result<i64, Problem> {
        match self.rest.remove(name) {
            None => Ok(default),
            Some(Attribute::Int(value)) => Ok(*value),
            Some(other) => Err(Problem::attribute(name, other, "an integer")),
        }
    }

    pub fn float(&mut self, name: &'static str, default: f32) -> Result<f32, Problem> {
        match self.rest.remove(name) {
            None => Ok(default),
            Some(Attribute::Float(value)) => Ok(*value),
            Some(other) => Err(Problem::attribute(name, other, "a float")),
        }
    }

    pub fn text(&mut self, name: &'static str, default: &'a str) -> Result<&'a str, Problem> {
        match self.rest.remove(name) {
            None => Ok(default),
            Some(Attribute::Text(text)) => Ok(text),
            Some(other) => Err(Problem::attribute(name, other, "a text")),
        }
    }

    pub fn texts(&mut self, name: &'static str) -> Result<Option<&'a [String]>, Problem> {
        match self.rest.remove(name) {
            None => Ok(None),
            Some(Attribute::Texts(texts)) => Ok(Some(texts)),
            Some(other) => Err(Problem::attribute(name, other, "a list of texts")),
        }
    }

    pub fn ints(&mut self, name: &'static str) -> Result<Option<&'a [i64]>, Problem> {
        match self.rest.remove(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(other) => Err(Problem::attribute(name, other, "a list of integers")),
        }
    }

    pub fn branch(&mut self, name: &'static str) -> Result<&'a Branch, Problem> {
        match self.rest.remove(name) {
            None => Err(Problem::MissingAttribute { name }),
            Some(Attribute::Branch(branch)) => Ok(branch),
            Some(other) => Err(Problem::attribute(name, other, "a graph")),
        }
    }

    /// `N` integers, or the default.
    pub fn int_array<const N: usize>(
        &mut self,
        name: &'static str,
        default: [i64; N],
        expected: &'static str,
    ) -> Result<[i64; N], Problem> {
        let Some(values) = self.ints(name)? else {
            return Ok(default);
        };
        let found = || Attribute::Ints(values.to_vec());
        values
            .try_into()
            .map_err(|_| Problem::attribute(name, &found(), expected))
    }

    /// An attribute of which only one value is supported.
    pub fn only(
        &mut self,
        name: &'static str,
        value: i64,
        supported: &'static str,
    ) -> Result<(), Problem> {
        match self.int(name, value)? {
            found if found == value => Ok(()),
            found => Err(Problem::attribute(name, &Attribute::Int(found), supported)),
        }
    }

    /// One that changes nothing when a trained network runs.
    pub fn ignore(&mut self, name: &'static str) {
        self.rest.remove(name);
    }

    pub fn take(&mut self, name: &'static str) -> Option<&'a Attribute> {
        self.rest.remove(name)
    }

    pub fn finish(self) -> Result<(), Problem> {
        match self.rest.into_iter().next() {
            None => Ok(()),
            Some((name, value)) => Err(Problem::UnknownAttribute {
                name: name.to_owned(),
                value: value.to_string(),
            }),
        }
    }
}

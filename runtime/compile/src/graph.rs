//! The graph of an ONNX file: nodes and values by position, constants decoded.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::problem::Problem;

/// Position of a value in [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ValueId(pub usize);

/// A graph whose nodes are in topological order and whose values are each defined once.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Version of the default operator set.
    pub opset: i64,
    pub nodes: Vec<Node>,
    pub values: Vec<String>,
    /// Initializers. The constants that nodes give are among their attributes.
    pub constants: BTreeMap<ValueId, Rc<Constant>>,
    /// The input that is no initializer, vector or mask: a picture, a prepared tensor, or the numbers of tokens.
    pub input: ValueId,
    /// Its declared dimensions; `None` is known only when running.
    pub input_dims: Vec<Option<i64>>,
    /// The input that says which tokens count, of the same dimensions.
    pub mask: Option<ValueId>,
    /// Whether the input is the numbers of tokens.
    pub tokens: bool,
    /// What comes with the input.
    pub vectors: Vec<Vector>,
    pub outputs: Vec<ValueId>,
    /// Their declared element types, by ONNX number.
    pub output_types: Vec<Option<i32>>,
}

/// An input of shape (batch, length).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vector {
    pub id: ValueId,
    pub length: u32,
}

#[derive(Debug)]
pub(crate) struct Node {
    /// The node's own name, or that of its first output.
    pub name: String,
    /// E.g. `Conv`.
    pub operator: String,
    /// `None` for an optional operand that is left out.
    pub inputs: Vec<Option<ValueId>>,
    pub outputs: Vec<Option<ValueId>>,
    pub attributes: BTreeMap<String, Attribute>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Attribute {
    Float(f32),
    Int(i64),
    Text(String),
    Tensor(Rc<Constant>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    /// A type that no supported operator takes, by its ONNX number.
    Other(i32),
}

/// A constant tensor; the data are as many as the dimensions say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Constant {
    pub dims: Vec<usize>,
    pub data: Data,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Floats(Vec<f32>),
    /// From int64, int32 and bool.
    Ints(Vec<i64>),
    Signed(Vec<i8>),
    Unsigned(Vec<u8>),
    /// An element type that no supported operator takes, by its ONNX number.
    Other(i32),
}

impl Constant {
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Tensor(tensor) => write!(f, "a tensor of shape {:?}", tensor.dims),
            Self::Floats(values) => write!(f, "{values:?}"),
            Self::Ints(values) => write!(f, "{values:?}"),
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

    pub fn ints(&mut self, name: &'static str) -> Result<Option<&'a [i64]>, Problem> {
        match self.rest.remove(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(other) => Err(Problem::attribute(name, other, "a list of integers")),
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

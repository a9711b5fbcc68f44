//! The kinds of numbers that values of a graph have: ONNX has types where the engine has f32.

use crate::graph::Elements;
use crate::schema::data_type;

/// The kind of numbers that a value has. Tensors hold all of them as f32, which is exact for integers up to 2^24.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Numbers {
    #[default]
    Floats,
    Integers,
    Truths,
}

impl Numbers {
    /// The kind of an ONNX element type.
    pub fn of_type(kind: i64) -> Self {
        if data_type::FLOATS.map(i64::from).contains(&kind) {
            Self::Floats
        } else if kind == i64::from(data_type::BOOL) {
            Self::Truths
        } else {
            Self::Integers
        }
    }
}

impl From<Elements> for Numbers {
    fn from(elements: Elements) -> Self {
        match elements {
            Elements::Floats => Self::Floats,
            Elements::Integers | Elements::Bytes => Self::Integers,
            Elements::Truths => Self::Truths,
        }
    }
}

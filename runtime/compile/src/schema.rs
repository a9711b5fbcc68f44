//! The part of the ONNX file format that a network file needs, for `prost`.
//!
//! Field numbers from [onnx.proto](https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), IR
//! version 10. Only graphs contain themselves, as branches of nodes: `prost` refuses messages nested more than 100 deep,
//! and so more than 33 graphs in each other. What is left out here is either documentation or belongs to an operator
//! that is refused by name.
//!
//! Code that writes a file (stages for other engines, tests, drawn networks) makes its parts by name.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// Which version of an operator set the file uses.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetIdProto {
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// An operator defined in the file.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    #[prost(string, optional, tag = "10")]
    pub domain: Option<String>,
    /// Attributes that a call may leave out, with their values then. Those that it must give have no more than a name.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    #[prost(string, optional, tag = "13")]
    pub overload: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
    /// Which one of several functions of this name.
    #[prost(string, optional, tag = "8")]
    pub overload: Option<String>,
}

/// A named constant of a node, or a branch of it.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<GraphProto>>,
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    #[prost(int32, optional, tag = "20")]
    pub r#type: Option<i32>,
    /// The attribute of the function around it that has the value.
    #[prost(string, optional, tag = "21")]
    pub ref_attr_name: Option<String>,
}

/// `AttributeProto.AttributeType`.
pub mod attribute_type {
    pub const FLOAT: i32 = 1;
    pub const INT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const TENSOR: i32 = 4;
    pub const GRAPH: i32 = 5;
    pub const FLOATS: i32 = 6;
    pub const INTS: i32 = 7;
    pub const STRINGS: i32 = 8;
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
}

/// One of the entries that say where external data lie: `location`, `offset`, `length`.
#[derive(Clone, PartialEq, Message)]
pub struct StringStringEntryProto {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// `TensorProto.DataType`.
pub mod data_type {
    pub const FLOAT: i32 = 1;
    pub const UINT8: i32 = 2;
    pub const INT8: i32 = 3;
    pub const UINT16: i32 = 4;
    pub const INT16: i32 = 5;
    pub const INT32: i32 = 6;
    pub const INT64: i32 = 7;
    pub const BOOL: i32 = 9;
    pub const FLOAT16: i32 = 10;
    pub const DOUBLE: i32 = 11;

    /// Those that are kept as f32.
    pub const FLOATS: [i32; 3] = [FLOAT, FLOAT16, DOUBLE];

    /// The names of all types, by their number.
    pub const NAMES: [&str; 17] = [
        "undefined",
        "float32",
        "uint8",
        "int8",
        "uint16",
        "int16",
        "int32",
        "int64",
        "string",
        "bool",
        "float16",
        "float64",
        "uint32",
        "uint64",
        "complex64",
        "complex128",
        "bfloat16",
    ];
}

/// `TensorProto.DataLocation`: the data lie in another file.
pub const DATA_LOCATION_EXTERNAL: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// Its type; of the alternatives only tensors are known.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    #[prost(int32, optional, tag = "1")]
    pub elem_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// One dimension: a value, or a name for what is known only when running.
#[derive(Clone, PartialEq, Message)]
pub struct DimensionProto {
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}

pub mod attribute {
    use super::{AttributeProto, attribute_type};

    fn of_type(name: &str, kind: i32) -> AttributeProto {
        AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(kind),
            ..AttributeProto::default()
        }
    }

    #[must_use]
    pub fn int(name: &str, value: i64) -> AttributeProto {
        AttributeProto {
            i: Some(value),
            ..of_type(name, attribute_type::INT)
        }
    }

    #[must_use]
    pub fn float(name: &str, value: f32) -> AttributeProto {
        AttributeProto {
            f: Some(value),
            ..of_type(name, attribute_type::FLOAT)
        }
    }

    #[must_use]
    pub fn floats(name: &str, values: &[f32]) -> AttributeProto {
        AttributeProto {
            floats: values.to_vec(),
            ..of_type(name, attribute_type::FLOATS)
        }
    }

    #[must_use]
    pub fn text(name: &str, value: &str) -> AttributeProto {
        bytes(name, value.as_bytes().to_vec())
    }

    #[must_use]
    pub fn bytes(name: &str, value: Vec<u8>) -> AttributeProto {
        AttributeProto {
            s: Some(value),
            ..of_type(name, attribute_type::STRING)
        }
    }

    #[must_use]
    pub fn ints(name: &str, values: impl Into<Vec<i64>>) -> AttributeProto {
        AttributeProto {
            ints: values.into(),
            ..of_type(name, attribute_type::INTS)
        }
    }
}

impl NodeProto {
    /// A node of the standard operators. An operand without a name is left out.
    #[must_use]
    pub fn of(
        operator: &str,
        name: &str,
        inputs: &[&str],
        outputs: &[&str],
        attribute: Vec<AttributeProto>,
    ) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            input: owned(inputs),
            output: owned(outputs),
            name: Some(name.to_owned()),
            op_type: Some(operator.to_owned()),
            attribute,
            ..Self::default()
        }
    }
}

impl TensorProto {
    /// A tensor of `data_type` whose elements are these bytes, the lowest of each first.
    #[must_use]
    pub fn raw(name: &str, data_type: i32, dims: &[i64], bytes: Vec<u8>) -> Self {
        Self {
            dims: dims.to_vec(),
            data_type: Some(data_type),
            raw_data: Some(bytes),
            name: Some(name.to_owned()),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn floats(name: &str, dims: &[i64], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        Self::raw(name, data_type::FLOAT, dims, bytes.collect())
    }

    #[must_use]
    pub fn ints(name: &str, values: &[i64]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let dims = [values.len() as i64];
        Self::raw(name, data_type::INT64, &dims, bytes.collect())
    }
}

impl ValueInfoProto {
    /// A value of which no more is said.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            r#type: None,
        }
    }

    /// A tensor; of a dimension that is none only running says the size.
    #[must_use]
    pub fn tensor(name: &str, data_type: i32, dims: impl IntoIterator<Item = Option<i64>>) -> Self {
        let dim = dims.into_iter();
        let dim = dim
            .map(|dim_value| DimensionProto {
                dim_value,
                dim_param: None,
            })
            .collect();
        let tensor_type = TensorTypeProto {
            elem_type: Some(data_type),
            shape: Some(TensorShapeProto { dim }),
        };
        Self {
            r#type: Some(TypeProto {
                tensor_type: Some(tensor_type),
            }),
            ..Self::named(name)
        }
    }
}

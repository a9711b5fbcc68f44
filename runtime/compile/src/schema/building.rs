//! Parts of an ONNX file, for code that writes one: stages for other engines, tests, drawn networks.

use super::{
    AttributeProto, DimensionProto, NodeProto, TensorProto, TensorShapeProto, TensorTypeProto,
    TypeProto, ValueInfoProto, attribute_type, data_type,
};

/// Attributes of nodes.
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
    pub fn text(name: &str, value: &str) -> AttributeProto {
        AttributeProto {
            s: Some(value.as_bytes().to_vec()),
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
            domain: None,
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

    /// A list of integers.
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
        let dim = dim.map(|dim_value| DimensionProto { dim_value }).collect();
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

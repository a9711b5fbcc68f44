//! ONNX bytes → [`Graph`]. Everything that a later step relies on is checked here: names are
//! defined once and before they are used, constants have as many elements as their shape says.

use std::collections::BTreeMap;
use std::rc::Rc;

use prost::Message;
use thiserror::Error;

use crate::graph::{Attribute, Constant, Data, Graph, Node, ValueId};
use crate::schema::{
    AttributeProto, DATA_LOCATION_EXTERNAL, GraphProto, ModelProto, NodeProto, TensorProto,
    ValueInfoProto, attribute_type, data_type,
};

/// Versions of the default operator set that this program was written for: from the one that
/// TorchScript's exporter has written for years to the newest whose changes were read.
const OPSETS: std::ops::RangeInclusive<i64> = 11..=23;

/// Why a file is not taken as an ONNX network.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ParseError {
    /// The bytes are no ONNX file.
    #[error("this is no ONNX file: {0}")]
    Protobuf(#[from] prost::DecodeError),
    /// No network inside.
    #[error("the ONNX file contains no graph")]
    NoGraph,
    /// An operator set that this program does not know.
    #[error(
        "the ONNX file uses operator set {found:?}; supported are {OPSETS:?}: export it with another opset_version"
    )]
    Opset {
        /// The version, if it has one.
        found: Option<i64>,
    },
    /// Functions in the file.
    #[error("the ONNX file defines the function {name:?}; inline functions when exporting")]
    Function {
        /// Its name.
        name: String,
    },
    /// Not exactly one input.
    #[error("the network has {found} inputs beside its weights; it must have one, the image")]
    Inputs {
        /// How many it has.
        found: usize,
    },
    /// The input is no float tensor with a declared shape.
    #[error("the input {name:?} must be a float32 tensor with a declared shape")]
    InputType {
        /// Its name.
        name: String,
    },
    /// A name that is defined twice.
    #[error("the value {name:?} is defined twice")]
    DefinedTwice {
        /// The name.
        name: String,
    },
    /// A name that is not defined where it is used.
    #[error("{user} uses the value {name:?}, which is not defined before")]
    Undefined {
        /// A node, or the graph's outputs.
        user: String,
        /// The name.
        name: String,
    },
    /// A constant whose data are elsewhere.
    #[error("the data of {name:?} lie in another file; export with the weights inside")]
    ExternalData {
        /// The constant.
        name: String,
    },
    /// A constant whose data do not fit its shape.
    #[error("the constant {name:?} has shape {dims:?} and {found} elements")]
    ConstantSize {
        /// The constant.
        name: String,
        /// Its shape.
        dims: Vec<i64>,
        /// Its number of elements.
        found: usize,
    },
    /// An operator from outside the standard set.
    #[error(
        "node {node:?} ({operator}): operators of the domain {domain:?} are not supported; export with standard operators only"
    )]
    Domain {
        /// The node.
        node: String,
        /// Its operator.
        operator: String,
        /// The operator's domain.
        domain: String,
    },
}

/// Parses a file. Memory is bounded by a multiple of `bytes.len()`.
pub(crate) fn parse(bytes: &[u8]) -> Result<Graph, ParseError> {
    let model = ModelProto::decode(bytes)?;
    let standard = |domain: Option<&str>| matches!(domain, None | Some("" | "ai.onnx"));
    let version = model
        .opset_import
        .iter()
        .find(|set| standard(set.domain.as_deref()));
    let version = version.and_then(|set| set.version);
    let Some(opset) = version.filter(|version| OPSETS.contains(version)) else {
        return Err(ParseError::Opset { found: version });
    };
    if let Some(function) = model.functions.first() {
        return Err(ParseError::Function {
            name: function.name.clone().unwrap_or_default(),
        });
    }
    let proto = model.graph.ok_or(ParseError::NoGraph)?;

    let mut names = Names::default();
    let mut constants = BTreeMap::new();
    for tensor in &proto.initializer {
        let name = tensor.name.clone().unwrap_or_default();
        let constant = constant(tensor, &name)?;
        constants.insert(names.define(&name)?, Rc::new(constant));
    }
    // Old files list the initializers among the inputs, too.
    let free: Vec<&ValueInfoProto> = proto
        .input
        .iter()
        .filter(|input| !names.is_defined(name_of(input)))
        .collect();
    let [declared] = free[..] else {
        return Err(ParseError::Inputs { found: free.len() });
    };
    let input = names.define(name_of(declared))?;
    let input_dims = input_dims(declared)?;

    let nodes = nodes(&proto, &mut names)?;
    let outputs = proto.output.iter().map(|output| {
        let undefined = || ParseError::Undefined {
            user: "the list of outputs".to_owned(),
            name: name_of(output).to_owned(),
        };
        names.find(name_of(output)).ok_or_else(undefined)
    });
    let outputs = outputs.collect::<Result<_, _>>()?;
    Ok(Graph {
        opset,
        nodes,
        values: names.list,
        constants,
        input,
        input_dims,
        outputs,
    })
}

fn name_of(info: &ValueInfoProto) -> &str {
    info.name.as_deref().unwrap_or_default()
}

/// The names of values, each with its position.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    positions: BTreeMap<String, ValueId>,
}

impl Names {
    fn is_defined(&self, name: &str) -> bool {
        self.positions.contains_key(name)
    }

    fn define(&mut self, name: &str) -> Result<ValueId, ParseError> {
        let id = ValueId(self.list.len());
        if self.positions.insert(name.to_owned(), id).is_some() {
            return Err(ParseError::DefinedTwice {
                name: name.to_owned(),
            });
        }
        self.list.push(name.to_owned());
        Ok(id)
    }

    fn find(&self, name: &str) -> Option<ValueId> {
        self.positions.get(name).copied()
    }
}

fn input_dims(declared: &ValueInfoProto) -> Result<Vec<Option<i64>>, ParseError> {
    let tensor = declared
        .r#type
        .as_ref()
        .and_then(|kind| kind.tensor_type.as_ref());
    let float = tensor.filter(|tensor| tensor.elem_type == Some(data_type::FLOAT));
    match float.and_then(|tensor| tensor.shape.as_ref()) {
        Some(shape) => Ok(shape.dim.iter().map(|dim| dim.dim_value).collect()),
        None => Err(ParseError::InputType {
            name: name_of(declared).to_owned(),
        }),
    }
}

fn nodes(proto: &GraphProto, names: &mut Names) -> Result<Vec<Node>, ParseError> {
    proto
        .node
        .iter()
        .map(|node| self::node(node, names))
        .collect()
}

fn node(proto: &NodeProto, names: &mut Names) -> Result<Node, ParseError> {
    let own = proto.name.as_deref().filter(|name| !name.is_empty());
    let name = own
        .or(proto.output.first().map(String::as_str))
        .unwrap_or("(unnamed)");
    let operator = proto.op_type.clone().unwrap_or_default();
    if let Some(domain) = proto
        .domain
        .as_deref()
        .filter(|d| !matches!(*d, "" | "ai.onnx"))
    {
        return Err(ParseError::Domain {
            node: name.to_owned(),
            operator,
            domain: domain.to_owned(),
        });
    }
    // An empty name stands for an optional operand that is left out.
    let inputs = proto.input.iter().map(|input| match input.as_str() {
        "" => Ok(None),
        input => match names.find(input) {
            Some(id) => Ok(Some(id)),
            None => Err(ParseError::Undefined {
                user: format!("node {name:?} ({operator})"),
                name: input.to_owned(),
            }),
        },
    });
    let inputs = inputs.collect::<Result<_, _>>()?;
    let outputs = proto.output.iter().map(|output| match output.as_str() {
        "" => Ok(None),
        output => names.define(output).map(Some),
    });
    let outputs = outputs.collect::<Result<_, _>>()?;
    let attributes = proto.attribute.iter().map(|attribute| {
        let key = attribute.name.clone().unwrap_or_default();
        Ok((key, self::attribute(attribute, name)?))
    });
    let attributes = attributes.collect::<Result<_, ParseError>>()?;
    Ok(Node {
        name: name.to_owned(),
        operator,
        inputs,
        outputs,
        attributes,
    })
}

fn attribute(proto: &AttributeProto, node: &str) -> Result<Attribute, ParseError> {
    let kind = proto.r#type.unwrap_or_default();
    // Protobuf leaves a field of zero out, so an absent scalar is zero.
    Ok(match kind {
        attribute_type::FLOAT => Attribute::Float(proto.f.unwrap_or_default()),
        attribute_type::INT => Attribute::Int(proto.i.unwrap_or_default()),
        attribute_type::STRING => {
            let bytes = proto.s.as_deref().unwrap_or_default();
            Attribute::Text(String::from_utf8_lossy(bytes).into_owned())
        }
        attribute_type::FLOATS => Attribute::Floats(proto.floats.clone()),
        attribute_type::INTS => Attribute::Ints(proto.ints.clone()),
        attribute_type::TENSOR => match &proto.t {
            Some(tensor) => Attribute::Tensor(Rc::new(constant(tensor, node)?)),
            None => Attribute::Other(kind),
        },
        _ => Attribute::Other(kind),
    })
}

fn constant(proto: &TensorProto, name: &str) -> Result<Constant, ParseError> {
    if proto.data_location == Some(DATA_LOCATION_EXTERNAL) {
        return Err(ParseError::ExternalData {
            name: name.to_owned(),
        });
    }
    let kind = proto.data_type.unwrap_or_default();
    let raw = proto.raw_data.as_deref();
    let data = match kind {
        data_type::FLOAT => Data::Floats(raw.map_or_else(
            || proto.float_data.clone(),
            |raw| words(raw, f32::from_le_bytes),
        )),
        data_type::INT64 => Data::Ints(raw.map_or_else(
            || proto.int64_data.clone(),
            |raw| words(raw, i64::from_le_bytes),
        )),
        data_type::INT32 => Data::Ints(match raw {
            Some(raw) => words(raw, |bytes| i64::from(i32::from_le_bytes(bytes))),
            None => proto.int32_data.iter().copied().map(i64::from).collect(),
        }),
        data_type::BOOL => Data::Ints(match raw {
            Some(raw) => raw.iter().copied().map(i64::from).collect(),
            None => proto.int32_data.iter().copied().map(i64::from).collect(),
        }),
        data_type::UINT8 => Data::Unsigned(match raw {
            Some(raw) => raw.to_vec(),
            None => proto.int32_data.iter().map(|&byte| byte as u8).collect(),
        }),
        data_type::INT8 => Data::Signed(match raw {
            Some(raw) => raw.iter().map(|byte| byte.cast_signed()).collect(),
            None => proto.int32_data.iter().map(|&byte| byte as i8).collect(),
        }),
        other => Data::Other(other),
    };
    let found = match &data {
        Data::Floats(values) => values.len(),
        Data::Ints(values) => values.len(),
        Data::Signed(bytes) => bytes.len(),
        Data::Unsigned(bytes) => bytes.len(),
        Data::Other(_) => {
            return Ok(Constant {
                dims: Vec::new(),
                data,
            });
        }
    };
    let dims: Option<Vec<usize>> = proto.dims.iter().map(|&dim| dim.try_into().ok()).collect();
    let elements = |dims: &Vec<usize>| {
        dims.iter()
            .try_fold(1_usize, |product, &dim| product.checked_mul(dim))
    };
    match dims.filter(|dims| elements(dims) == Some(found)) {
        Some(dims) => Ok(Constant { dims, data }),
        None => Err(ParseError::ConstantSize {
            name: name.to_owned(),
            dims: proto.dims.clone(),
            found,
        }),
    }
}

/// Little-endian words; bytes that fill no word count as none and so show up as a wrong size.
fn words<const N: usize, T>(raw: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (words, rest) = raw.as_chunks::<N>();
    if rest.is_empty() {
        words.iter().map(|&word| from(word)).collect()
    } else {
        Vec::new()
    }
}

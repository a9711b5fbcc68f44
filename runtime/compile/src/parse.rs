//! ONNX bytes → [`Graph`]. Everything that a later step relies on is checked here: names are
//! defined once and before they are used, constants have as many elements as their shape says.

mod constant;
mod error;
mod external;
mod inputs;

use std::collections::BTreeMap;
use std::rc::Rc;

use constant::constant;
use error::OPSETS;
pub use error::ParseError;
pub(crate) use external::External;
use prost::Message;

use crate::graph::{Attribute, Graph, Node, ValueId, Vector};
use crate::schema::{
    AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto, attribute_type, data_type,
};

/// Parses a file. Memory is bounded by a multiple of `bytes.len()` and of what is read from files next to it.
pub(crate) fn parse(bytes: &[u8], mut external: External) -> Result<Graph, ParseError> {
    let model = ModelProto::decode(bytes)?;
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
        let constant = constant(tensor, &name, &mut external)?;
        constants.insert(names.define(&name)?, Rc::new(constant));
    }
    // Old files list the initializers among the inputs, too.
    let free: Vec<&ValueInfoProto> = proto
        .input
        .iter()
        .filter(|input| !names.is_defined(name_of(input)))
        .collect();
    let found = inputs::inputs(&free)?;
    let input = names.define(found.first.name)?;
    let mask = found.mask.map(|mask| names.define(mask)).transpose()?;
    let vectors = found.vectors.into_iter().map(|vector| {
        Ok(Vector {
            id: names.define(vector.name)?,
            length: vector.dims.iter().product::<i64>() as u32,
            dims: vector.dims,
            batch: vector.batch,
            elements: vector.elements,
        })
    });
    let vectors = vectors.collect::<Result<_, ParseError>>()?;

    let nodes = nodes(&proto, &mut names)?;
    let outputs = proto.output.iter().map(|output| {
        let undefined = || ParseError::Undefined {
            user: "the list of outputs".to_owned(),
            name: name_of(output).to_owned(),
        };
        names.find(name_of(output)).ok_or_else(undefined)
    });
    let outputs = outputs.collect::<Result<_, _>>()?;
    let declared = proto.value_info.iter().filter_map(|info| {
        let shape = info.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref()?;
        let dims = shape.dim.iter().map(|dim| dim.dim_value);
        Some((names.find(name_of(info))?, dims.collect()))
    });
    let declared = declared.collect();
    let kinds = proto.initializer.iter().map(|tensor| tensor.data_type);
    let is_other_float = |kind: &i32| [data_type::FLOAT16, data_type::DOUBLE].contains(kind);
    let converted = kinds.flatten().find(is_other_float);
    let output_types = proto.output.iter().map(element_type).collect();
    Ok(Graph {
        opset,
        converted: converted.map(|kind| data_type::NAMES[kind as usize]),
        nodes,
        values: names.list,
        constants,
        input,
        input_dims: found.first.dims,
        input_elements: found.first.elements,
        tokens: found.tokens,
        mask,
        vectors,
        outputs,
        declared,
        output_types,
    })
}

/// Whether a domain is that of the standard operators.
fn standard(domain: Option<&str>) -> bool {
    matches!(domain, None | Some("" | "ai.onnx"))
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

fn element_type(declared: &ValueInfoProto) -> Option<i32> {
    let kind = declared.r#type.as_ref()?;
    kind.tensor_type.as_ref()?.elem_type
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
        domain: proto
            .domain
            .clone()
            .filter(|domain| !standard(Some(domain))),
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
        attribute_type::STRINGS => {
            let texts = proto.strings.iter();
            Attribute::Texts(
                texts
                    .map(|text| String::from_utf8_lossy(text).into_owned())
                    .collect(),
            )
        }
        attribute_type::FLOATS => Attribute::Floats(proto.floats.clone()),
        attribute_type::INTS => Attribute::Ints(proto.ints.clone()),
        attribute_type::TENSOR => match &proto.t {
            Some(tensor) => {
                let constant = constant(tensor, node, &mut External::refused())?;
                Attribute::Tensor(Rc::new(constant))
            }
            None => Attribute::Other(kind),
        },
        _ => Attribute::Other(kind),
    })
}

//! ONNX bytes → [`Graph`]. Everything that a later step relies on is checked here: names are
//! defined once and before they are used, constants have as many elements as their shape says.

mod batch;
mod constant;
mod error;
mod external;
mod inputs;
mod names;
mod nodes;

pub(crate) use error::OPSETS;
pub use error::ParseError;
pub(crate) use external::External;
use inputs::Layer;
use nodes::Reader;
use prost::Message;

use crate::graph::{Attribute, Branch, Graph, Node, ValueId, Vector};
use crate::schema::{ModelProto, OperatorSetIdProto, ValueInfoProto, data_type};

/// Parses a file. Memory is bounded by a multiple of `bytes.len()` and of what is read from files next to it.
pub(crate) fn parse(bytes: &[u8], external: External) -> Result<Graph, ParseError> {
    let model = ModelProto::decode(bytes)?;
    let opset = standard_version(&model.opset_import)?.ok_or(ParseError::Opset { found: None })?;
    let proto = model.graph.as_ref().ok_or(ParseError::NoGraph)?;

    let mut reader = Reader::new(&model, opset, external);
    reader.initializers(&proto.initializer)?;
    let names = &mut reader.names;
    // Old files list the initializers among the inputs, too.
    let free: Vec<&ValueInfoProto> = proto
        .input
        .iter()
        .filter(|input| names.find(name_of(input)).is_none())
        .collect();
    let found = inputs::inputs(&free)?;
    let layers = found.stacked.iter();
    let layers = layers.map(|layer| names.define(layer.name));
    let layers = layers.collect::<Result<Vec<_>, _>>()?;
    let input = match &found.stacked[..] {
        [] => names.define(found.first.name)?,
        stacked => {
            let all: Vec<&str> = stacked.iter().map(|layer| layer.name).collect();
            names.define(&all.join(", "))?
        }
    };
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

    let Branch { mut nodes, outputs } = reader.graph(proto, "the list of outputs")?;
    if !layers.is_empty() {
        nodes.insert(0, split(input, &layers, &found.stacked));
    }
    let kinds = proto.initializer.iter().map(|tensor| tensor.data_type);
    let is_other_float = |kind: &i32| [data_type::FLOAT16, data_type::DOUBLE].contains(kind);
    let converted = kinds.flatten().find(is_other_float);
    let output_types = proto.output.iter().map(element_type).collect();
    let mut graph = Graph {
        converted: converted.map(|kind| data_type::NAMES[kind as usize]),
        nodes,
        values: reader.names.list,
        constants: reader.constants,
        input,
        input_dims: found.first.dims,
        input_elements: found.first.elements,
        tokens: found.tokens,
        layers,
        mask,
        vectors,
        outputs,
        declared: reader.declared,
        output_types,
        is_unbatched: false,
    };
    graph.is_unbatched = batch::give(&mut graph);
    Ok(graph)
}

/// The node that takes stacked inputs apart.
fn split(input: ValueId, layers: &[ValueId], stacked: &[Layer<'_>]) -> Node {
    let sizes = stacked.iter().map(|layer| layer.channels).collect();
    let attributes = [
        ("axis", Attribute::Int(1)),
        ("split", Attribute::Ints(sizes)),
    ];
    Node {
        name: "the inputs".to_owned(),
        operator: "Split".to_owned(),
        domain: None,
        // The last with sizes among the attributes.
        opset: 11,
        inputs: vec![Some(input)],
        outputs: layers.iter().copied().map(Some).collect(),
        attributes: attributes
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    }
}

/// The version of the standard operators, if it is named.
fn standard_version(sets: &[OperatorSetIdProto]) -> Result<Option<i64>, ParseError> {
    let mut sets = sets.iter();
    let set = sets.find(|set| standard(set.domain.as_deref()));
    match set.map(|set| set.version) {
        None => Ok(None),
        Some(Some(version)) if OPSETS.contains(&version) => Ok(Some(version)),
        Some(found) => Err(ParseError::Opset { found }),
    }
}

/// Whether a domain is that of the standard operators.
fn standard(domain: Option<&str>) -> bool {
    matches!(domain, None | Some("" | "ai.onnx"))
}

fn name_of(info: &ValueInfoProto) -> &str {
    info.name.as_deref().unwrap_or_default()
}

fn element_type(declared: &ValueInfoProto) -> Option<i32> {
    let kind = declared.r#type.as_ref()?;
    kind.tensor_type.as_ref()?.elem_type
}

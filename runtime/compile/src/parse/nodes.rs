//! Nodes, the branches of an `If` among their attributes, and functions that the file defines: the nodes of a function
//! stand in the place of each call.
//!
//! A file may be hostile: branches and calls lie in each other only so deep, and what calls add is bounded.

use std::collections::BTreeMap;
use std::rc::Rc;

use prost::Message;

use super::constant::constant;
use super::error::{CALLED_MAX, NESTING_MAX, ParseError};
use super::external::External;
use super::names::Names;
use super::{name_of, standard, standard_version};
use crate::graph::{Attribute, Branch, Constant, Node, ValueId};
use crate::schema::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, attribute_type,
};

/// The bytes of a node apart from its names and attributes.
const NODE_BYTES: usize = size_of::<Node>();

/// Domain, name and overload of a function.
type FunctionName<'a> = [&'a str; 3];

pub(super) struct Reader<'a> {
    pub names: Names,
    pub constants: BTreeMap<ValueId, Rc<Constant>>,
    /// The dimensions of values that graphs declare.
    pub declared: BTreeMap<ValueId, Vec<Option<i64>>>,
    external: External<'a>,
    functions: BTreeMap<FunctionName<'a>, &'a FunctionProto>,
    /// Version of the standard operators.
    opset: i64,
    /// The attributes of the call that is read.
    arguments: BTreeMap<String, Attribute>,
    /// How many branches and calls the reader is in.
    depth: usize,
    /// Bytes that calls may still add.
    room: usize,
}

impl<'a> Reader<'a> {
    pub fn new(model: &'a ModelProto, opset: i64, external: External<'a>) -> Self {
        let function = |function: &'a FunctionProto| {
            let name = [&function.domain, &function.name, &function.overload];
            (function_name(name), function)
        };
        Self {
            names: Names::default(),
            constants: BTreeMap::new(),
            declared: BTreeMap::new(),
            external,
            functions: model.functions.iter().map(function).collect(),
            opset,
            arguments: BTreeMap::new(),
            depth: 0,
            room: CALLED_MAX,
        }
    }

    pub fn initializers(&mut self, tensors: &[TensorProto]) -> Result<(), ParseError> {
        for tensor in tensors {
            let name = tensor.name.as_deref().unwrap_or_default();
            let constant = constant(tensor, name, &mut self.external)?;
            let id = self.names.define(name)?;
            self.constants.insert(id, Rc::new(constant));
        }
        Ok(())
    }

    /// The nodes of a graph and the values that it gives, after its initializers and inputs.
    pub fn graph(&mut self, proto: &GraphProto, user: &str) -> Result<Branch, ParseError> {
        let nodes = self.nodes(&proto.node)?;
        let outputs = proto.output.iter().map(|output| {
            let undefined = || ParseError::Undefined {
                user: user.to_owned(),
                name: name_of(output).to_owned(),
            };
            self.names.value(name_of(output)).ok_or_else(undefined)
        });
        let outputs = outputs.collect::<Result<_, _>>()?;
        for info in &proto.value_info {
            let kind = info
                .r#type
                .as_ref()
                .and_then(|kind| kind.tensor_type.as_ref());
            let shape = kind.and_then(|kind| kind.shape.as_ref());
            if let (Some(shape), Some(id)) = (shape, self.names.value(name_of(info))) {
                let dims = shape.dim.iter().map(|dim| dim.dim_value);
                self.declared.insert(id, dims.collect());
            }
        }
        Ok(Branch { nodes, outputs })
    }

    fn nodes(&mut self, protos: &[NodeProto]) -> Result<Vec<Node>, ParseError> {
        let mut nodes = Vec::with_capacity(protos.len());
        for proto in ordered(protos) {
            let node = self.node(proto)?;
            let name = [&proto.domain, &proto.op_type, &proto.overload];
            match self.functions.get(&function_name(name)).copied() {
                Some(function) => nodes.append(&mut self.called(function, node)?),
                None => nodes.push(node),
            }
        }
        Ok(nodes)
    }

    fn node(&mut self, proto: &NodeProto) -> Result<Node, ParseError> {
        let own = proto.name.as_deref().filter(|name| !name.is_empty());
        let mut outputs = proto.output.iter().map(String::as_str);
        let name = own
            .or_else(|| outputs.find(|output| !output.is_empty()))
            .unwrap_or("(unnamed)");
        let operator = proto.op_type.clone().unwrap_or_default();
        // An empty name stands for an optional operand that is left out.
        let inputs = proto.input.iter().map(|input| match input.as_str() {
            "" => Ok(None),
            input => self.names.find(input).ok_or_else(|| ParseError::Undefined {
                user: format!("node {name:?} ({operator})"),
                name: input.to_owned(),
            }),
        });
        let inputs = inputs.collect::<Result<_, _>>()?;
        let mut attributes = BTreeMap::new();
        for attribute in &proto.attribute {
            let key = attribute.name.clone().unwrap_or_default();
            let value = match (&attribute.ref_attr_name, &attribute.g) {
                (Some(argument), _) if !argument.is_empty() => self.argument(argument, name)?,
                (_, Some(graph)) if operator == "If" => Some(self.branch(graph, &key, name)?),
                _ => Some(self::attribute(attribute, name)?),
            };
            attributes.extend(value.map(|value| (key, value)));
        }
        let outputs = proto.output.iter().map(|output| match output.as_str() {
            "" => Ok(None),
            output => self.names.define(output).map(Some),
        });
        let outputs = outputs.collect::<Result<_, _>>()?;
        let domain = proto.domain.clone();
        Ok(Node {
            name: name.to_owned(),
            operator,
            domain: domain.filter(|domain| !standard(Some(domain))),
            opset: self.opset,
            inputs,
            outputs,
            attributes,
        })
    }

    /// What the call of the function gives as this attribute, if it gives it.
    fn argument(&mut self, argument: &str, node: &str) -> Result<Option<Attribute>, ParseError> {
        let found = self.arguments.get(argument).cloned();
        self.take(found.as_ref().map_or(0, Attribute::bytes), node)?;
        Ok(found)
    }

    fn branch(
        &mut self,
        graph: &GraphProto,
        branch: &str,
        node: &str,
    ) -> Result<Attribute, ParseError> {
        self.deeper(node)?;
        self.names.enter_branch();
        self.initializers(&graph.initializer)?;
        let branch = self.graph(graph, &format!("the {branch} of node {node:?}"))?;
        self.names.leave_branch();
        self.depth -= 1;
        Ok(Attribute::Branch(Rc::new(branch)))
    }

    /// The nodes of a function in the place of a node that calls it.
    fn called(&mut self, function: &FunctionProto, call: Node) -> Result<Vec<Node>, ParseError> {
        let name = function.name.as_deref().unwrap_or_default();
        let [inputs, outputs] = [&call.inputs, &call.outputs].map(Vec::len);
        if inputs > function.input.len() || outputs > function.output.len() {
            return Err(ParseError::Call {
                node: call.name,
                function: name.to_owned(),
            });
        }
        self.deeper(&call.name)?;
        for node in &function.node {
            self.take(node.encoded_len().saturating_add(NODE_BYTES), &call.name)?;
        }
        let mut arguments = BTreeMap::new();
        for default in &function.attribute_proto {
            let key = default.name.clone().unwrap_or_default();
            arguments.insert(key, attribute(default, &call.name)?);
        }
        arguments.extend(call.attributes);
        let opset = standard_version(&function.opset_import)?.unwrap_or(self.opset);
        let arguments = std::mem::replace(&mut self.arguments, arguments);
        let opset = std::mem::replace(&mut self.opset, opset);
        let outside = self.names.enter_function();
        let given = call.inputs.into_iter().chain(std::iter::repeat(None));
        for (input, given) in function.input.iter().zip(given) {
            self.names.bind(input, given)?;
        }
        let mut nodes = self.nodes(&function.node)?;
        for (output, result) in function.output.iter().zip(call.outputs) {
            let undefined = || ParseError::Undefined {
                user: format!("the function {name:?}"),
                name: output.clone(),
            };
            let own = self.names.value(output).ok_or_else(undefined)?;
            nodes.extend(result.map(|result| Node::identity(&call.name, own, result)));
        }
        self.names.leave_function(outside);
        (self.arguments, self.opset) = (arguments, opset);
        self.depth -= 1;
        Ok(nodes)
    }

    fn deeper(&mut self, node: &str) -> Result<(), ParseError> {
        if self.depth == NESTING_MAX {
            return Err(ParseError::Nesting {
                node: node.to_owned(),
            });
        }
        self.depth += 1;
        Ok(())
    }

    fn take(&mut self, bytes: usize, node: &str) -> Result<(), ParseError> {
        let too_large = || ParseError::Called {
            node: node.to_owned(),
        };
        self.room = self.room.checked_sub(bytes).ok_or_else(too_large)?;
        Ok(())
    }
}

/// Each node behind those that it reads: some converters append nodes to the list, and onnxruntime takes them in any order.
/// A list that is in order stays as it is. Of nodes that read each other in a circle one comes too early.
fn ordered(protos: &[NodeProto]) -> Vec<&NodeProto> {
    let mut writers = BTreeMap::new();
    for (at, proto) in protos.iter().enumerate() {
        let named = proto.output.iter().filter(|name| !name.is_empty());
        writers.extend(named.map(|name| (name.as_str(), at)));
    }
    let mut entered = vec![false; protos.len()];
    let mut placed = vec![false; protos.len()];
    let mut order = Vec::with_capacity(protos.len());
    for first in 0..protos.len() {
        let mut open = vec![first];
        while let Some(&at) = open.last() {
            if entered[at] {
                open.pop();
                if !std::mem::replace(&mut placed[at], true) {
                    order.push(&protos[at]);
                }
                continue;
            }
            entered[at] = true;
            let mut read = Vec::new();
            names_read(&protos[at], &mut read);
            let writers = read.iter().rev().filter_map(|name| writers.get(*name));
            open.extend(writers.filter(|writer| !entered[**writer]));
        }
    }
    order
}

/// The names that a node and its branches read.
fn names_read<'a>(proto: &'a NodeProto, names: &mut Vec<&'a str>) {
    names.extend(proto.input.iter().map(String::as_str));
    let graphs = proto
        .attribute
        .iter()
        .filter_map(|attribute| attribute.g.as_ref());
    for graph in graphs {
        names.extend(graph.output.iter().map(name_of));
        graph.node.iter().for_each(|node| names_read(node, names));
    }
}

/// The standard domain has two names.
fn function_name([domain, name, overload]: [&Option<String>; 3]) -> FunctionName<'_> {
    let domain = domain.as_deref().filter(|domain| !standard(Some(domain)));
    let [name, overload] = [name, overload].map(|part| part.as_deref().unwrap_or_default());
    [domain.unwrap_or_default(), name, overload]
}

fn attribute(proto: &AttributeProto, node: &str) -> Result<Attribute, ParseError> {
    let kind = proto.r#type.unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Protobuf leaves a field of zero out, so an absent scalar is zero.
    Ok(match kind {
        attribute_type::FLOAT => Attribute::Float(proto.f.unwrap_or_default()),
        attribute_type::INT => Attribute::Int(proto.i.unwrap_or_default()),
        attribute_type::STRING => Attribute::Text(text(proto.s.as_deref().unwrap_or_default())),
        attribute_type::STRINGS => {
            Attribute::Texts(proto.strings.iter().map(|bytes| text(bytes)).collect())
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

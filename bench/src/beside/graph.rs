//! The demo's ONNX files, cut at their exits as `onnx.utils.extract_model` cuts: what a loop around ONNX Runtime runs.

use std::collections::BTreeSet;

use prost::Message as _;
use punctual_compile::schema::{
    GraphProto, ModelProto, NodeProto, TensorTypeProto, TypeProto, ValueInfoProto, data_type,
};

/// A network with early exits, whose outputs are called `exit_0`, or `exit_0/boxes`.
pub struct Graph(ModelProto);

impl Graph {
    /// # Panics
    /// If the file is not ONNX: ours are part of this program.
    pub fn of(onnx: &[u8]) -> Self {
        let model = ModelProto::decode(onnx).expect("an ONNX file");
        assert!(model.graph.is_some(), "an ONNX file has a graph");
        Self(model)
    }

    fn graph(&self) -> &GraphProto {
        self.0.graph.as_ref().expect("see `of`")
    }

    /// Everything up to an exit, with its outputs only.
    pub fn up_to(&self, exit: usize) -> Vec<u8> {
        self.file(&self.needed(exit), self.outputs(exit))
    }

    /// What an exit needs in addition to those before it. It takes what these leave for it, and leaves what the later ones take.
    pub fn stage(&self, exit: usize) -> Vec<u8> {
        let before: BTreeSet<usize> = (0..exit).flat_map(|exit| self.needed(exit)).collect();
        let after = (exit + 1..).map_while(|exit| self.exists(exit).then(|| self.needed(exit)));
        let after: BTreeSet<usize> = after.flatten().collect();
        let own: BTreeSet<usize> = self.needed(exit).difference(&before).copied().collect();
        let taken: BTreeSet<&String> = after
            .difference(&own)
            .filter(|node| !before.contains(node))
            .flat_map(|&node| &self.graph().node[node].input)
            .collect();
        let left = own.iter().flat_map(|&node| self.results(node));
        let left = left.filter(|name| taken.contains(name)).cloned();
        let outputs = left.chain(self.outputs(exit)).collect();
        self.file(&own, outputs)
    }

    fn exists(&self, exit: usize) -> bool {
        !self.outputs(exit).is_empty()
    }

    fn outputs(&self, exit: usize) -> Vec<String> {
        let names = self.graph().output.iter().filter_map(|of| of.name.clone());
        let prefix = format!("exit_{exit}");
        let is_of = |name: &String| name.split('/').next() == Some(&prefix);
        names.filter(is_of).collect()
    }

    /// What a node computes; constants belong to every part that takes them.
    fn results(&self, node: usize) -> &[String] {
        let node = &self.graph().node[node];
        if is_constant(node) { &[] } else { &node.output }
    }

    /// The nodes that an exit's outputs depend on.
    fn needed(&self, exit: usize) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        let mut wanted = self.outputs(exit);
        while let Some(name) = wanted.pop() {
            let nodes = self.graph().node.iter();
            let Some(node) = nodes.clone().position(|node| node.output.contains(&name)) else {
                continue;
            };
            if needed.insert(node) {
                wanted.extend(self.graph().node[node].input.clone());
            }
        }
        needed
    }

    /// A file of these nodes. What they take and do not compute are its inputs.
    fn file(&self, nodes: &BTreeSet<usize>, outputs: Vec<String>) -> Vec<u8> {
        let all = &self.graph().node;
        let taken: BTreeSet<&String> = nodes.iter().flat_map(|&node| &all[node].input).collect();
        let constant = |node: &&NodeProto| {
            is_constant(node) && node.output.iter().any(|name| taken.contains(name))
        };
        let of_nodes = (0..all.len()).filter(|node| nodes.contains(node));
        let own = of_nodes
            .map(|node| &all[node])
            .filter(|node| !is_constant(node));
        let node: Vec<NodeProto> = all.iter().filter(constant).chain(own).cloned().collect();
        let weights = self.graph().initializer.iter();
        let weights = weights.filter(|of| of.name.as_ref().is_some_and(|of| taken.contains(of)));
        let initializer: Vec<_> = weights.cloned().collect();
        let known: BTreeSet<&String> = node.iter().flat_map(|node| &node.output).collect();
        let is_weight = |name: &String| initializer.iter().any(|of| of.name.as_ref() == Some(name));
        let inputs = taken
            .iter()
            .filter(|name| !name.is_empty() && !known.contains(**name) && !is_weight(name));
        let input = inputs.map(|name| self.declared(name)).collect();
        let output = outputs.iter().map(|name| self.declared(name)).collect();
        let graph = GraphProto {
            node,
            initializer,
            input,
            output,
            value_info: Vec::new(),
        };
        let model = ModelProto {
            graph: Some(graph),
            ..self.0.clone()
        };
        model.encode_to_vec()
    }

    /// As the file declares it; what is in between are floats of a shape that the library finds out.
    fn declared(&self, name: &str) -> ValueInfoProto {
        let GraphProto { input, output, .. } = self.graph();
        let declared = input.iter().chain(output);
        let mut declared = declared.filter(|of| of.name.as_deref() == Some(name));
        declared.next().cloned().unwrap_or_else(|| {
            let floats = TensorTypeProto {
                elem_type: Some(data_type::FLOAT),
                shape: None,
            };
            ValueInfoProto {
                name: Some(name.to_owned()),
                r#type: Some(TypeProto {
                    tensor_type: Some(floats),
                }),
            }
        })
    }
}

fn is_constant(node: &NodeProto) -> bool {
    node.op_type.as_deref() == Some("Constant")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two exits: `image -> a -> exit_0`, `a -> b (with the constant c) -> exit_1`; `c` belongs to both.
    fn graph() -> Graph {
        let node = |operator: &str, inputs: &[&str], output: &str| {
            NodeProto::of(operator, output, inputs, &[output], Vec::new())
        };
        let names = |names: &[&str]| {
            let floats = |name: &&str| ValueInfoProto::tensor(name, data_type::FLOAT, [None]);
            names.iter().map(floats).collect()
        };
        let graph = GraphProto {
            node: vec![
                node("Constant", &[], "c"),
                node("Add", &["image", "c"], "a"),
                node("Relu", &["a"], "exit_0"),
                node("Add", &["a", "c"], "b"),
                node("Relu", &["b"], "exit_1/boxes"),
            ],
            initializer: Vec::new(),
            input: names(&["image"]),
            output: names(&["exit_0", "exit_1/boxes"]),
            value_info: Vec::new(),
        };
        Graph(ModelProto {
            ir_version: Some(8),
            graph: Some(graph),
            opset_import: Vec::new(),
            functions: Vec::new(),
        })
    }

    /// Inputs, nodes, outputs.
    fn parts(file: &[u8]) -> [Vec<String>; 3] {
        let graph = Graph::of(file).0.graph.expect("a graph");
        let names = |of: &[ValueInfoProto]| of.iter().filter_map(|of| of.name.clone()).collect();
        let nodes = graph.node.iter().filter_map(|node| node.name.clone());
        [names(&graph.input), nodes.collect(), names(&graph.output)]
    }

    #[test]
    fn a_file_up_to_an_exit_has_nothing_of_the_others() {
        let [inputs, nodes, outputs] = parts(&graph().up_to(0));
        assert_eq!(inputs, ["image"]);
        assert_eq!(nodes, ["c", "a", "exit_0"]);
        assert_eq!(outputs, ["exit_0"]);
        let [inputs, nodes, outputs] = parts(&graph().up_to(1));
        assert_eq!(inputs, ["image"]);
        assert_eq!(nodes, ["c", "a", "b", "exit_1/boxes"]);
        assert_eq!(outputs, ["exit_1/boxes"]);
    }

    #[test]
    fn a_stage_takes_what_the_one_before_leaves_and_has_its_own_constants() {
        let [inputs, nodes, outputs] = parts(&graph().stage(0));
        assert_eq!(inputs, ["image"]);
        assert_eq!(nodes, ["c", "a", "exit_0"]);
        assert_eq!(outputs, ["a", "exit_0"]);
        let [inputs, nodes, outputs] = parts(&graph().stage(1));
        assert_eq!(inputs, ["a"]);
        assert_eq!(nodes, ["c", "b", "exit_1/boxes"]);
        assert_eq!(outputs, ["exit_1/boxes"]);
    }
}

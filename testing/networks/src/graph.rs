//! What of a graph its outputs need.

use std::collections::BTreeSet;

use punctual_compile::schema::GraphProto;

/// The names of all values that these need, and their own.
#[must_use]
pub fn needed(graph: &GraphProto, mut names: BTreeSet<String>) -> BTreeSet<String> {
    for node in graph.node.iter().rev() {
        if node.output.iter().any(|output| names.contains(output)) {
            names.extend(node.input.iter().cloned());
        }
    }
    names
}

/// Leaves out nodes and constants that no output needs, and gives the names of what is needed.
pub fn keep_needed(graph: &mut GraphProto) -> BTreeSet<String> {
    let outputs = graph.output.iter().filter_map(|output| output.name.clone());
    let needed = needed(graph, outputs.collect());
    let is_needed = |name: &String| needed.contains(name);
    graph.node.retain(|node| node.output.iter().any(is_needed));
    graph
        .initializer
        .retain(|constant| constant.name.as_ref().is_some_and(is_needed));
    needed
}

/// Reads another value wherever this one is read.
pub fn read_instead(graph: &mut GraphProto, from: &str, to: &str) {
    let inputs = graph.node.iter_mut().flat_map(|node| &mut node.input);
    inputs
        .filter(|name| *name == from)
        .for_each(|name| to.clone_into(name));
}

//! A picture without a batch, to which the file gives one: (rows, columns, channels) or (channels, rows, columns) that go through an
//! `Unsqueeze`, after steps for each value at most. The input gets the dimension instead, and these steps are for a batch.

use std::rc::Rc;

use crate::graph::{Attribute, Constant, Data, Elements, Graph, Node, ValueId};

/// Gives the input a batch of one where the file does; whether it did.
pub(super) fn give(graph: &mut Graph) -> bool {
    if !is_picture(graph) {
        return false;
    }
    let Some(way) = way(graph) else {
        return false;
    };
    for at in way {
        let node = &mut graph.nodes[at];
        match node.operator.as_str() {
            "Unsqueeze" => {
                let picture = node.inputs[0];
                *node = Node {
                    inputs: vec![picture],
                    ..node.standing_in("Identity")
                };
            }
            "Transpose" => {
                if let Some(Attribute::Ints(order)) = node.attributes.get_mut("perm") {
                    let behind = order.iter().map(|from| from + 1);
                    *order = std::iter::once(0).chain(behind).collect();
                }
            }
            _ => {}
        }
        for output in node.outputs.iter().flatten() {
            graph.declared.remove(output);
        }
    }
    graph.input_dims.insert(0, Some(1));
    true
}

/// Whether it may be one, and no series of a batch.
fn is_picture(graph: &Graph) -> bool {
    let [first, _, last] = graph.input_dims[..] else {
        return false;
    };
    let are_channels = |size: Option<i64>| matches!(size, Some(1 | 3 | 4));
    match graph.input_elements {
        Elements::Bytes => are_channels(first) || are_channels(last),
        Elements::Floats => {
            matches!(first, Some(3 | 4)) || (are_channels(last) && first != Some(1))
        }
        Elements::Integers | Elements::Truths => false,
    }
}

/// The nodes from the input to the `Unsqueeze`, if each alone reads what the one before it gives, and they can be for a batch.
fn way(graph: &Graph) -> Option<Vec<usize>> {
    let is_branch = |attribute: &Attribute| matches!(attribute, Attribute::Branch(_));
    let mut attributes = graph.nodes.iter().flat_map(|node| node.attributes.values());
    if !graph.layers.is_empty() || attributes.any(is_branch) {
        return None;
    }
    let mut value = graph.input;
    let mut way = Vec::new();
    loop {
        let reads = |(_, node): &(usize, &Node)| node.inputs.contains(&Some(value));
        let mut readers = graph.nodes.iter().enumerate().filter(reads);
        let (at, node) = readers.next()?;
        if readers.next().is_some() || graph.outputs.contains(&value) {
            return None;
        }
        way.push(at);
        match node.operator.as_str() {
            "Unsqueeze" => return puts_one_first(graph, node).then_some(way),
            "Transpose" => node.attributes.get("perm").map(drop)?,
            "Cast" | "Clip" | "Identity" | "Neg" => {}
            "Add" | "Div" | "Mul" | "Sub" if has_a_figure(graph, node, value) => {}
            _ => return None,
        }
        let [Some(result)] = node.outputs[..] else {
            return None;
        };
        value = result;
    }
}

fn puts_one_first(graph: &Graph, node: &Node) -> bool {
    let axes = match node.attributes.get("axes") {
        Some(Attribute::Ints(axes)) => Some(axes.clone()),
        _ => match node
            .inputs
            .get(1)
            .and_then(|axes| constant(graph, (*axes)?))
        {
            Some(Constant {
                data: Data::Ints(axes),
                ..
            }) => Some(axes.clone()),
            _ => None,
        },
    };
    // From the back, of the dimensions of the result.
    axes.is_some_and(|axes| axes == [0] || axes == [-4])
}

/// Whether the other operand is a constant of no more dimensions than the picture has.
fn has_a_figure(graph: &Graph, node: &Node, picture: ValueId) -> bool {
    let mut others = node.inputs.iter().flatten().filter(|id| **id != picture);
    let figure = others.next().and_then(|id| constant(graph, *id));
    figure.is_some_and(|figure| figure.dims.len() <= 3)
}

/// A value that the file gives, as a weight or by a node.
fn constant(graph: &Graph, id: ValueId) -> Option<&Constant> {
    if let Some(constant) = graph.constants.get(&id) {
        return Some(constant);
    }
    let gives = |node: &&Node| node.operator == "Constant" && node.outputs.contains(&Some(id));
    match graph.nodes.iter().find(gives)?.attributes.get("value") {
        Some(Attribute::Tensor(constant)) => Some(Rc::as_ref(constant)),
        _ => None,
    }
}

//! Makes a network that fails smaller, as long as it fails in the same way.
//!
//! Each step proposes a smaller network and keeps it if it still fails: without an exit or an output, with a value in the
//! middle as the only output or as the input, with an operator left out whose result has the dimensions of a value
//! before it, with fewer rows and columns. Until no step helps.

use punctual_compile::schema::{GraphProto, ValueInfoProto, data_type};

use crate::compare::{FailureKind, Verdict, compare};
use crate::draw::{Drawn, Input, Numbers};
use crate::engines::Engine;
use crate::graph::{keep_needed, read_instead};

/// Most networks that are tried.
const TRIES_MAX: usize = 3000;

/// What must stay as it is: the engine and how it fails, or that the compiler or the interpreter panics.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Engine(Engine, FailureKind),
    Broken,
}

impl Fault {
    fn of(verdict: &Verdict) -> Option<Self> {
        match verdict {
            Verdict::Broken(_) => Some(Self::Broken),
            _ => {
                let (engine, failure) = verdict.failures().next()?;
                Some(Self::Engine(engine, failure.kind))
            }
        }
    }

    fn is_of(self, drawn: &Drawn) -> bool {
        let engines = match self {
            Self::Engine(engine, _) => vec![engine],
            Self::Broken => Vec::new(),
        };
        Self::of(&compare(drawn, &engines)) == Some(self)
    }
}

/// The smallest network that was found to fail as this one does, in its first failure. `None`: it does not fail.
#[must_use]
pub fn shrunk(drawn: &Drawn, verdict: &Verdict) -> Option<Drawn> {
    let fault = Fault::of(verdict)?;
    Some(smallest(drawn, |smaller| fault.is_of(smaller)))
}

/// The smallest network that was found for which `fails` holds, as it does for this one.
pub fn smallest(drawn: &Drawn, fails: impl Fn(&Drawn) -> bool) -> Drawn {
    let mut shrinking = Shrinking {
        smallest: drawn.clone(),
        fails,
        tries: 0,
    };
    loop {
        let before = shrinking.smallest.clone();
        for step in STEPS {
            shrinking.all_of(*step);
        }
        if shrinking.smallest == before || shrinking.tries >= TRIES_MAX {
            return shrinking.smallest;
        }
    }
}

/// The `at`th proposal of a kind; `None` behind the last, a network that is as it was where it makes no sense.
type Step = fn(&Drawn, usize) -> Option<Drawn>;

const STEPS: &[Step] = &[
    without_exit,
    without_output,
    ending_in,
    beginning_with,
    without_node,
    without_operand,
    without_classes,
    smaller,
];

struct Shrinking<F> {
    smallest: Drawn,
    fails: F,
    tries: usize,
}

impl<F: Fn(&Drawn) -> bool> Shrinking<F> {
    /// Tries all proposals of a kind, the last first.
    fn all_of(&mut self, step: Step) {
        let count = (0..)
            .take_while(|at| step(&self.smallest, *at).is_some())
            .count();
        for at in (0..count).rev() {
            let proposal = step(&self.smallest, at).and_then(tidied);
            let Some(proposal) = proposal.filter(|proposal| *proposal != self.smallest) else {
                continue;
            };
            self.tries += 1;
            if self.tries < TRIES_MAX && (self.fails)(&proposal) {
                self.smallest = proposal;
            }
        }
    }
}

/// Without what no output needs. `None` where nothing is left.
fn tidied(mut drawn: Drawn) -> Option<Drawn> {
    let graph = drawn.model.graph.as_mut()?;
    let needed = keep_needed(graph);
    let is_needed = |name: &str| needed.contains(name);
    graph
        .input
        .retain(|input| is_needed(input.name.as_deref().unwrap_or_default()));
    drawn.inputs.retain(|input| is_needed(&input.name));
    (!graph.node.is_empty() && !drawn.inputs.is_empty()).then_some(drawn)
}

fn graph(drawn: &mut Drawn) -> Option<&mut GraphProto> {
    drawn.model.graph.as_mut()
}

fn name(value: &ValueInfoProto) -> &str {
    value.name.as_deref().unwrap_or_default()
}

/// The names of exits and outputs, each once, in order.
fn names(drawn: &Drawn, part: fn(&str) -> &str) -> Vec<String> {
    let outputs = drawn.graph().output.iter();
    let mut names: Vec<String> = outputs
        .map(|output| part(name(output)).to_owned())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn exit_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(exit, _)| exit)
}

fn output_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, output)| output)
}

fn without(drawn: &Drawn, part: fn(&str) -> &str, at: usize) -> Option<Drawn> {
    let names = names(drawn, part);
    let leave_out = names.get(at).filter(|_| names.len() > 1)?;
    let mut less = drawn.clone();
    graph(&mut less)?
        .output
        .retain(|output| part(name(output)) != leave_out);
    Some(less)
}

fn without_exit(drawn: &Drawn, at: usize) -> Option<Drawn> {
    without(drawn, exit_of, at)
}

/// At every exit, since exits have the same outputs.
fn without_output(drawn: &Drawn, at: usize) -> Option<Drawn> {
    without(drawn, output_of, at)
}

/// With the result of a node as the only output.
fn ending_in(drawn: &Drawn, at: usize) -> Option<Drawn> {
    let nodes = drawn.graph().node.iter();
    let end = nodes.flat_map(|node| &node.output).nth(at)?.clone();
    let mut less = drawn.clone();
    let Some(dims) = drawn.dims.get(&end) else {
        return Some(less);
    };
    let dims = batch(drawn)
        .into_iter()
        .chain(dims.iter().copied().map(Some));
    let output = ValueInfoProto::tensor(&end, data_type::FLOAT, dims);
    graph(&mut less)?.output = vec![output];
    less.has_classes = false;
    Some(less)
}

fn batch(drawn: &Drawn) -> [Option<i64>; 1] {
    [drawn.images().map(|images| images as i64)]
}

/// With the result of a node in the place of the first input.
fn beginning_with(drawn: &Drawn, at: usize) -> Option<Drawn> {
    let node = drawn.graph().node.get(at)?;
    let mut less = drawn.clone();
    let (Some(begin), 1) = (node.output.first(), node.output.len()) else {
        return Some(less);
    };
    let Some(dims) = drawn.dims.get(begin) else {
        return Some(less);
    };
    let all = batch(drawn)
        .into_iter()
        .chain(dims.iter().copied().map(Some));
    let input = ValueInfoProto::tensor(begin, data_type::FLOAT, all);
    let is_output = drawn
        .graph()
        .output
        .iter()
        .any(|output| name(output) == begin);
    if is_output {
        return Some(less);
    }
    less.inputs[0] = Input {
        name: begin.clone(),
        dims: dims.clone(),
        numbers: Numbers::Floats,
    };
    let graph = graph(&mut less)?;
    graph.input[0] = input;
    graph.node.remove(at);
    Some(less)
}

/// Nodes that read a node's result then read what the node read, or any input, of the same dimensions.
fn without_node(drawn: &Drawn, at: usize) -> Option<Drawn> {
    let node = drawn.graph().node.get(at)?;
    let mut less = drawn.clone();
    let Some(result) = node.output.first() else {
        return Some(less);
    };
    let dims = dims_of(drawn, result);
    let inputs = drawn.inputs.iter().map(|input| &input.name);
    let mut others = node.input.iter().chain(inputs);
    let other = others.find(|other| dims.is_some() && dims_of(drawn, other) == dims);
    if let (Some(other), Some(graph)) = (other, graph(&mut less)) {
        read_instead(graph, result, other);
    }
    Some(less)
}

fn dims_of<'d>(drawn: &'d Drawn, name: &str) -> Option<&'d Vec<i64>> {
    let mut inputs = drawn.inputs.iter();
    let input = inputs.find(|input| input.name == name && input.numbers == Numbers::Floats);
    input
        .map(|input| &input.dims)
        .or_else(|| drawn.dims.get(name))
}

/// A node that takes several reads the first of them more often, if all have the same dimensions.
fn without_operand(drawn: &Drawn, at: usize) -> Option<Drawn> {
    let mut operands = drawn
        .graph()
        .node
        .iter()
        .enumerate()
        .flat_map(|(node, of)| {
            let behind_first = 1..of.input.len();
            behind_first.map(move |operand| (node, operand))
        });
    let (node, operand) = operands.nth(at)?;
    let mut less = drawn.clone();
    let inputs = &drawn.graph().node[node].input;
    let dims = dims_of(drawn, &inputs[operand]);
    let is_like = dims.is_some() && dims == dims_of(drawn, &inputs[0]);
    if let (true, Some(graph)) = (is_like, graph(&mut less)) {
        graph.node[node].input[operand] = inputs[0].clone();
    }
    Some(less)
}

fn without_classes(drawn: &Drawn, at: usize) -> Option<Drawn> {
    if !drawn.has_classes || at > 0 {
        return None;
    }
    Some(Drawn {
        has_classes: false,
        ..drawn.clone()
    })
}

/// With one row or column of the first input less, or half of them. Constants that count them make this fail.
fn smaller(drawn: &Drawn, at: usize) -> Option<Drawn> {
    let rank = drawn.inputs[0].dims.len();
    let (side, how) = (1 + at / 3, at % 3);
    if side >= rank {
        return None;
    }
    let mut less = drawn.clone();
    let old = drawn.inputs[0].dims[side];
    let new = [old - 1, old / 2, 1][how].max(1);
    less.inputs[0].dims[side] = new;
    let first = &less.inputs[0];
    let (first_name, dims) = (first.name.clone(), first.dims.clone());
    let all = batch(drawn).into_iter().chain(dims.into_iter().map(Some));
    let declared = ValueInfoProto::tensor(&first_name, data_type::FLOAT, all);
    if drawn.inputs[0].numbers != Numbers::Floats {
        return Some(drawn.clone());
    }
    let graph = graph(&mut less)?;
    graph.input[0] = declared;
    // Of the declared outputs, only the types count.
    for output in &mut graph.output {
        let shape = output
            .r#type
            .as_mut()
            .and_then(|kind| kind.tensor_type.as_mut());
        if let Some(shape) = shape.and_then(|tensor| tensor.shape.as_mut()) {
            shape.dim.iter_mut().for_each(|dim| dim.dim_value = None);
        }
    }
    less.dims.clear();
    Some(less)
}

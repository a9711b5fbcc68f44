//! Cutting a fused draft into stages at the exits.
//!
//! Stage k runs every operator that exit k depends on and no earlier stage has run: the next
//! segment of the backbone and head k. What later stages read of that is carried over.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{
    InputSpec, Network, Operator, OperatorKind, Quantised, Stage, Tensor, TensorId, WeightRange,
};
use punctual_types::Quantisation;

use crate::draft::{Draft, DraftKind, DraftOperator, Sequence};

/// An exit at which the network cannot be cut: its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutError {
    /// It adds no operator to the exits before it.
    Empty(usize),
    /// A later stage reads its class scores.
    ReadLater(usize),
}

/// Builds the staged network. The draft must be fused and its operators in topological order.
pub(crate) fn cut(
    draft: Draft,
    exits: &[TensorId],
    name: String,
    input: InputSpec,
    classes: Vec<String>,
) -> Result<Network, CutError> {
    let stage_of = assign(&draft, exits);
    let mut numbering = Numbering::new(&draft);
    let mut store = Store::default();
    let mut operators: Vec<Vec<Operator>> = exits.iter().map(|_| Vec::new()).collect();
    // The final numbers follow the order of execution: all of stage 0, then all of stage 1, ...
    let mut order: Vec<_> = draft.operators.into_iter().zip(stage_of).collect();
    order.sort_by_key(|(_, stage)| *stage);
    for (operator, stage) in order {
        let operator = finish(operator, &mut numbering, &mut store);
        operators[stage].push(operator);
    }
    if let Some(empty) = operators.iter().position(Vec::is_empty) {
        return Err(CutError::Empty(empty));
    }
    let logits: Vec<TensorId> = exits.iter().map(|exit| numbering.of(*exit)).collect();
    let stages = carry(operators, &logits);
    let read_later = |stage: &Stage| {
        stage
            .logits
            .is_some_and(|exit| stage.outputs.contains(&exit))
    };
    if let Some(exit) = stages.iter().position(read_later) {
        return Err(CutError::ReadLater(exit));
    }
    Ok(Network {
        name,
        input,
        classes,
        tensors: numbering.tensors,
        stages,
        weights: store.floats.into(),
        quantised: Quantised {
            tensors: numbering.quantised,
            weights: store.integers,
        },
    })
}

/// The stage of each operator: the first exit that depends on it.
fn assign(draft: &Draft, exits: &[TensorId]) -> Vec<usize> {
    let mut needed_by: Vec<usize> = vec![usize::MAX; draft.tensors.len()];
    for (stage, exit) in exits.iter().enumerate() {
        let first = &mut needed_by[exit.index()];
        *first = (*first).min(stage);
    }
    let mut stage_of = vec![0; draft.operators.len()];
    for (at, operator) in draft.operators.iter().enumerate().rev() {
        let stage = needed_by[operator.output.index()];
        assert!(
            stage < exits.len(),
            "dead operators are removed before staging"
        );
        stage_of[at] = stage;
        for read in operator.reads() {
            let first = &mut needed_by[read.index()];
            *first = (*first).min(stage);
        }
    }
    stage_of
}

/// Tensor numbers in the order in which tensors are written, the input being 0.
struct Numbering {
    new: Vec<Option<TensorId>>,
    shapes: Vec<Tensor>,
    tensors: Vec<Tensor>,
    /// What bytes stand for, by the old numbers and by the new.
    bytes: BTreeMap<TensorId, Quantisation>,
    quantised: BTreeMap<TensorId, Quantisation>,
}

impl Numbering {
    fn new(draft: &Draft) -> Self {
        let mut new = vec![None; draft.tensors.len()];
        new[0] = Some(TensorId(0));
        Self {
            new,
            shapes: draft.tensors.clone(),
            tensors: vec![draft.tensors[0]],
            bytes: draft.quantised.clone(),
            quantised: BTreeMap::new(),
        }
    }

    fn define(&mut self, old: TensorId) -> TensorId {
        let id = TensorId(self.tensors.len() as u32);
        self.tensors.push(self.shapes[old.index()]);
        self.new[old.index()] = Some(id);
        if let Some(&quantisation) = self.bytes.get(&old) {
            self.quantised.insert(id, quantisation);
        }
        id
    }

    fn of(&self, old: TensorId) -> TensorId {
        self.new[old.index()].expect("operators come after those that they read from")
    }
}

/// The operator with its final tensor numbers, its weights moved to the common list.
fn finish(draft: DraftOperator, numbering: &mut Numbering, store: &mut Store) -> Operator {
    let input = numbering.of(draft.input);
    let others = draft.others.iter().map(|id| numbering.of(*id)).collect();
    Operator {
        name: draft.name,
        input,
        output: numbering.define(draft.output),
        kind: finish_kind(draft.kind, others, store),
    }
}

#[derive(Default)]
struct Store {
    floats: Vec<f32>,
    integers: Vec<i8>,
}

impl Store {
    fn floats(&mut self, values: Vec<f32>) -> WeightRange {
        stored(&mut self.floats, values)
    }

    fn integers(&mut self, values: Vec<i8>) -> WeightRange {
        stored(&mut self.integers, values)
    }
}

fn stored<T>(all: &mut Vec<T>, values: Vec<T>) -> WeightRange {
    // Lowering counts: a network never has more weights than a u32 does.
    let (start, len) = (all.len() as u32, values.len() as u32);
    all.extend(values);
    WeightRange { start, len }
}

fn finish_kind(kind: DraftKind, others: Vec<TensorId>, store: &mut Store) -> OperatorKind {
    match kind {
        DraftKind::Conv {
            weights,
            bias,
            window,
            groups,
            activation,
        } => OperatorKind::Conv2d {
            weights: store.floats(weights),
            bias: store.floats(bias),
            window,
            groups,
            residual: others.first().copied(),
            activation,
        },
        DraftKind::Linear {
            weights,
            bias,
            activation,
        } => OperatorKind::Linear {
            weights: store.floats(weights),
            bias: store.floats(bias),
            activation,
        },
        DraftKind::Pool {
            kind,
            kernel,
            stride,
            padding,
        } => OperatorKind::Pool {
            kind,
            kernel,
            stride,
            padding,
        },
        DraftKind::GlobalAveragePool => OperatorKind::GlobalAveragePool,
        DraftKind::Convert => OperatorKind::Convert,
        DraftKind::Resize { resampling } => OperatorKind::Resize { resampling },
        DraftKind::QuantisedConv {
            weights,
            scales,
            bias,
            window,
            groups,
            activation,
        } => OperatorKind::QuantisedConv2d {
            weights: store.integers(weights),
            scales: store.floats(scales),
            bias: store.floats(bias),
            window,
            groups,
            activation,
        },
        DraftKind::Add { activation } => OperatorKind::Add {
            other: *others.first().expect("an addition has two operands"),
            activation,
        },
        DraftKind::Multiply { activation } => OperatorKind::Multiply {
            other: *others.first().expect("a multiplication has two operands"),
            activation,
        },
        DraftKind::Gather { runs } => OperatorKind::Gather { others, runs },
        DraftKind::Sequence(sequence) => finish_sequence(sequence, others, store),
        DraftKind::Affine { .. } | DraftKind::Activate { .. } => {
            unreachable!("fusing leaves no such operator")
        }
    }
}

fn finish_sequence(kind: Sequence, others: Vec<TensorId>, store: &mut Store) -> OperatorKind {
    match kind {
        Sequence::LayerNorm {
            scale,
            bias,
            epsilon,
        } => OperatorKind::LayerNorm {
            scale: store.floats(scale),
            bias: store.floats(bias),
            epsilon,
        },
        Sequence::Attention { heads, scale } => OperatorKind::Attention {
            others,
            heads,
            scale,
        },
        Sequence::Embedding { table } => OperatorKind::Embedding {
            table: store.floats(table),
        },
        Sequence::Tokens { prefix, table } => OperatorKind::Tokens {
            prefix,
            table: store.floats(table),
        },
        Sequence::Token { column } => OperatorKind::Token { column },
    }
}

/// Adds to each stage what it takes and what it carries over.
fn carry(operators: Vec<Vec<Operator>>, logits: &[TensorId]) -> Vec<Stage> {
    let reads = |operators: &[Operator]| -> BTreeSet<TensorId> {
        operators.iter().flat_map(Operator::reads).collect()
    };
    let written = |operators: &[Operator]| -> BTreeSet<TensorId> {
        operators.iter().map(|operator| operator.output).collect()
    };
    let mut later = BTreeSet::new();
    let mut stages = Vec::with_capacity(operators.len());
    for (operators, &logits) in operators.into_iter().zip(logits).rev() {
        let (read, local) = (reads(&operators), written(&operators));
        let inputs: Vec<TensorId> = read.difference(&local).copied().collect();
        let outputs = local.intersection(&later).copied().collect();
        later.extend(&inputs);
        stages.push(Stage {
            inputs,
            outputs,
            operators,
            logits: Some(logits),
        });
    }
    stages.reverse();
    stages
}

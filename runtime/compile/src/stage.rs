//! Cutting a fused draft into stages at the exits.
//!
//! Stage k runs every operator that exit k depends on and no earlier stage has run: the next
//! segment of the backbone and head k. What later stages read of that is carried over.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{
    AttentionBias, Exit, Network, Operator, OperatorKind, Quantised, SecondOperand, Stage, Tensor,
    TensorId, WeightRange,
};
use punctual_types::Quantisation;

use crate::draft::{Draft, DraftKind, DraftOperator, Sequence, Table};

/// The exit at this position adds no operator to the exits before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Empty(pub usize);

/// Builds the staged network around what `shell` says of it. The draft must be fused and its operators in topological
/// order.
pub(crate) fn cut(draft: Draft, exits: Vec<Exit>, shell: Network) -> Result<Network, Empty> {
    let stage_of = assign(&draft, &exits);
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
        return Err(Empty(empty));
    }
    let exits = exits.into_iter().map(|mut exit| {
        exit.reads_mut()
            .for_each(|tensor| *tensor = numbering.of(*tensor));
        exit
    });
    let stages = carry(operators, exits.collect());
    Ok(Network {
        tensors: numbering.tensors,
        stages,
        weights: store.floats.into(),
        quantised: Quantised {
            tensors: numbering.quantised,
            weights: store.integers,
        },
        ..shell
    })
}

/// The stage of each operator: the first exit that depends on it.
fn assign(draft: &Draft, exits: &[Exit]) -> Vec<usize> {
    let mut needed_by: Vec<usize> = vec![usize::MAX; draft.tensors.len()];
    for (stage, exit) in exits.iter().enumerate() {
        for tensor in exit.reads() {
            let first = &mut needed_by[tensor.index()];
            *first = (*first).min(stage);
        }
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

/// Tensor numbers in the order in which tensors are written, the inputs first.
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
        for (at, new) in (0..).zip(&mut new[..draft.inputs]) {
            *new = Some(TensorId(at));
        }
        Self {
            new,
            shapes: draft.tensors.clone(),
            tensors: draft.tensors[..draft.inputs].to_vec(),
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
        DraftKind::Copy { table, pieces } => OperatorKind::Copy {
            others,
            table: (!table.is_empty()).then(|| store.floats(table)),
            pieces,
        },
        DraftKind::Binary {
            function,
            table,
            activation,
        } => {
            let swapped = table.as_ref().is_some_and(|table| table.swapped);
            let second = match table {
                Some(Table { values, shape, .. }) => SecondOperand::Constant {
                    values: store.floats(values),
                    shape,
                },
                None => SecondOperand::Tensor(*others.first().expect("it has two operands")),
            };
            OperatorKind::Binary {
                function,
                second,
                swapped,
                activation,
            }
        }
        DraftKind::Unary { function } => OperatorKind::Unary { function },
        DraftKind::Softmax { digit, logarithm } => OperatorKind::Softmax { digit, logarithm },
        DraftKind::GridSample { groups, sampling } => OperatorKind::GridSample {
            grid: *others.first().expect("a grid sample reads a grid"),
            groups,
            sampling,
        },
        DraftKind::TopK {
            axis,
            count,
            ranking,
        } => OperatorKind::TopK {
            axis,
            count,
            ranking,
        },
        DraftKind::Take { axis } => OperatorKind::Take {
            indices: *others.first().expect("a take reads indices"),
            axis,
        },
        DraftKind::BestScore { scoring } => OperatorKind::BestScore {
            objectness: others.first().copied(),
            scoring,
        },
        DraftKind::Detections { scoring, decoder } => OperatorKind::Detections {
            others: *others.as_array().expect("detections have boxes and scores"),
            scoring,
            decoder,
        },
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
        Sequence::Attention {
            heads,
            scale,
            by_row,
            bias,
        } => OperatorKind::Attention {
            others,
            heads,
            scale,
            by_row,
            bias: bias.map(|bias| AttentionBias {
                values: store.floats(bias.values),
                by_row: bias.by_row,
                by_head: bias.by_head,
            }),
        },
        Sequence::Product => OperatorKind::Product {
            other: *others.first().expect("a product has two operands"),
        },
        Sequence::Embedding { table } => OperatorKind::Embedding {
            table: store.floats(table),
        },
        Sequence::Tokens { prefix, table } => OperatorKind::Tokens {
            prefix,
            table: store.floats(table),
        },
        Sequence::Token { column } => OperatorKind::Token { column },
        Sequence::Recurrent {
            cell,
            weights,
            bias,
            backwards,
        } => OperatorKind::Recurrent {
            cell,
            weights: store.floats(weights),
            bias: store.floats(bias),
            initial: others.first().copied(),
            backwards,
        },
    }
}

/// Adds to each stage what it takes and what it carries over.
fn carry(operators: Vec<Vec<Operator>>, exits: Vec<Exit>) -> Vec<Stage> {
    let mut later: BTreeSet<TensorId> = BTreeSet::new();
    let mut stages = Vec::with_capacity(operators.len());
    for (operators, exit) in operators.into_iter().zip(exits).rev() {
        let mut stage = Stage {
            inputs: Vec::new(),
            outputs: Vec::new(),
            operators,
            exit: Some(exit),
        };
        let read: BTreeSet<TensorId> = stage.reads().collect();
        let written = stage.operators.iter().map(|operator| operator.output);
        let local: BTreeSet<TensorId> = written.collect();
        stage.inputs = read.difference(&local).copied().collect();
        stage.outputs = local.intersection(&later).copied().collect();
        later.extend(&stage.inputs);
        stages.push(stage);
    }
    stages.reverse();
    stages
}

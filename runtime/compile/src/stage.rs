//! Cutting a fused draft into stages at the exits.
//!
//! Stage k runs every operator that exit k depends on and no earlier stage has run: the next
//! segment of the backbone and head k. What later stages read of that is carried over.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter::zip;

use punctual_model::{Exit, Network, Operator, Quantised, Stage, Tensor, TensorId, WeightRange};
use punctual_types::Quantisation;

use crate::draft::{Draft, DraftOperator};

/// The exit at this position adds no operator to the exits before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Empty(pub usize);

/// Builds the staged network around what `shell` gives for it. The draft must be fused and its operators in topological
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
        weights: store.floats.all.into(),
        quantised: Quantised {
            tensors: numbering.quantised,
            weights: store.integers.all,
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

/// The operator with its final tensor numbers, its weights in the common lists.
fn finish(draft: DraftOperator, numbering: &mut Numbering, store: &mut Store) -> Operator {
    let integers = draft.kind.integers();
    let weights = draft.weights.into_iter().enumerate();
    let weights = weights.map(|(at, values)| {
        if at < integers {
            store
                .integers
                .put(values.iter().map(|&value| value as i8).collect())
        } else {
            store.floats.put(values)
        }
    });
    Operator {
        name: draft.name,
        input: numbering.of(draft.input),
        others: draft.others.iter().map(|id| numbering.of(*id)).collect(),
        output: numbering.define(draft.output),
        weights: weights.collect(),
        kind: draft.kind,
    }
}

#[derive(Default)]
struct Store {
    floats: List<f32>,
    integers: List<i8>,
}

/// Weights one behind the other, equal ones once.
#[derive(Default)]
struct List<T> {
    all: Vec<T>,
    /// By a hash of their bits.
    known: BTreeMap<u64, Vec<WeightRange>>,
}

impl<T: Copy + Into<f64>> List<T> {
    fn put(&mut self, values: Vec<T>) -> WeightRange {
        let bits = |value: T| value.into().to_bits();
        let mut hasher = DefaultHasher::new();
        values
            .iter()
            .for_each(|&value| bits(value).hash(&mut hasher));
        let same = self.known.entry(hasher.finish()).or_default();
        let is_equal = |range: &&WeightRange| {
            let there = &self.all[range.start as usize..][..range.len as usize];
            there.len() == values.len() && zip(there, &values).all(|(&a, &b)| bits(a) == bits(b))
        };
        if let Some(known) = same.iter().find(is_equal) {
            return *known;
        }
        // Lowering counts: a network never has more weights than a u32 does.
        let (start, len) = (self.all.len() as u32, values.len() as u32);
        let range = WeightRange { start, len };
        same.push(range);
        self.all.extend(values);
        range
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

//! The reference interpreter: what a network means, in plain loops. It is the oracle that the compiler, the devices and,
//! operator by operator, the kernels are tested against; it shares no code with any of them and is no way to run
//! anything in earnest.
//!
//! Tensors are planar (channel, row, column), sums are made in f64; on bytes in integers. What an operator computes is said
//! next to its meaning, in [`operators`](crate::operators).

pub mod agreement;
pub(crate) mod noise;
pub(crate) mod quantised;
pub(crate) mod windows;

use std::collections::BTreeMap;

use punctual_types::Quantisation;

use crate::operators::meaning::{Meaning, Site};
use crate::{Network, Operator, Output, Stage, Tensor, TensorId, with_operator};
use noise::Noise;

/// One image's tensors while a network runs: at first the input, between stages what is carried.
pub type Values = BTreeMap<TensorId, Vec<f32>>;

/// What an exit gives for one image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exited {
    /// The elements of each output, before they are converted to its type: of bytes the bytes.
    pub outputs: Vec<Vec<f32>>,
    /// One a class; empty if its answer has none.
    pub scores: Vec<f32>,
    /// The network's own.
    pub confidence: Option<f32>,
}

/// Runs all stages for one image and returns each stage's class scores: nothing where it has none.
///
/// # Panics
/// When the network is not valid, takes further inputs, or `image` (planar, normalised) has another size than its input.
#[must_use]
pub fn run(network: &Network, image: &[f32]) -> Vec<Vec<f32>> {
    let exits = run_all(network, &[image]).into_iter();
    exits.map(|exit| exit.unwrap_or_default().scores).collect()
}

/// Runs all stages for one image and its vectors: what each stage's exit gives.
///
/// # Panics
/// When the network is not valid or an input has another size than it takes.
#[must_use]
pub fn run_all(network: &Network, inputs: &[&[f32]]) -> Vec<Option<Exited>> {
    run_disturbed(network, inputs, None)
}

/// As [`run_all`], with noise in the results of all operators.
fn run_disturbed(
    network: &Network,
    inputs: &[&[f32]],
    noise: Option<Noise>,
) -> Vec<Option<Exited>> {
    let mut values = Values::new();
    assert_eq!(
        inputs.len(),
        1 + network.vectors.len(),
        "the inputs' number"
    );
    for (tensor, input) in network.input_tensors().zip(inputs) {
        let elements = network.tensors[tensor.index()].elements();
        assert_eq!(input.len() as u64, elements, "the input's size");
        let mut input = input.to_vec();
        if let Some(noise) = noise {
            noise.read(tensor, &mut input);
        }
        values.insert(tensor, input);
    }
    let stages = network.stages.iter();
    stages
        .map(|stage| run_stage_disturbed(network, stage, &mut values, noise))
        .collect()
}

/// Runs one stage for one image: reads its inputs from `values`, leaves its outputs there and
/// nothing else of its own, and returns what its exit gives, if it ends in one.
///
/// # Panics
/// When the network is not valid or an input is missing.
#[must_use]
pub fn run_stage(network: &Network, stage: &Stage, values: &mut Values) -> Option<Exited> {
    run_stage_disturbed(network, stage, values, None)
}

fn run_stage_disturbed(
    network: &Network,
    stage: &Stage,
    values: &mut Values,
    noise: Option<Noise>,
) -> Option<Exited> {
    let mut local: Values = stage
        .inputs
        .iter()
        .map(|id| (*id, values[id].clone()))
        .collect();
    let last_reads = last_reads(stage);
    for (at, operator) in stage.operators.iter().enumerate() {
        let operation = Operation {
            network,
            operator,
            values: &local,
        };
        let mut result = with_operator!(&operator.kind, kind => kind.run(&operation));
        if let Some(noise) = noise {
            noise.disturb(&operation, &mut result);
        }
        local.insert(operator.output, result);
        local.retain(|tensor, _| last_reads.get(tensor) != Some(&at));
    }
    for output in &stage.outputs {
        values.insert(*output, local[output].clone());
    }
    let exit = stage.exit.as_ref()?;
    let viewed = |output: &Output| {
        let shape = network.tensors[output.tensor.index()];
        let data = &local[&output.tensor];
        let positions = output.view.positions();
        positions.map(|at| data[shape.position(at)]).collect()
    };
    Some(Exited {
        outputs: exit.outputs.iter().map(viewed).collect(),
        scores: exit
            .scores
            .map_or(vec![], |scores| local[&scores.tensor].clone()),
        confidence: exit.confidence.map(|tensor| local[&tensor][0]),
    })
}

/// The last operators that read tensors, by position; without what is needed after the stage's last operator.
fn last_reads(stage: &Stage) -> BTreeMap<TensorId, usize> {
    let operators = stage.operators.iter().enumerate();
    let mut last: BTreeMap<TensorId, usize> = operators
        .flat_map(|(at, operator)| operator.reads().map(move |tensor| (tensor, at)))
        .collect();
    let needed = stage.exit.iter().flat_map(|exit| exit.reads());
    for tensor in needed.chain(stage.outputs.iter().copied()) {
        last.remove(&tensor);
    }
    last
}

/// The softmax of `logits`: the class with the largest probability (the first of equals) and that probability.
///
/// # Panics
/// Without logits.
#[must_use]
pub fn classify(logits: &[f32]) -> (usize, f32) {
    let best = (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best });
    let largest = f64::from(logits[best]);
    let sum: f64 = logits
        .iter()
        .map(|&logit| (f64::from(logit) - largest).exp())
        .sum();
    (best, (1.0 / sum) as f32)
}

/// A planar tensor to read from.
#[derive(Clone, Copy)]
pub(crate) struct Planar<'a> {
    pub shape: Tensor,
    pub data: &'a [f32],
}

impl Planar<'_> {
    /// Values of a channel.
    pub fn plane(&self) -> usize {
        self.shape.pixels() as usize
    }

    /// The value at a place: channel, row, column.
    pub fn value(&self, place: [u32; 3]) -> f32 {
        self.data[self.shape.position(place)]
    }

    /// The value at a place that may lie in the padding.
    pub fn at(&self, channel: usize, row: i64, column: i64) -> Option<f32> {
        let (height, width) = (self.shape.height as usize, self.shape.width as usize);
        let row = usize::try_from(row).ok().filter(|&row| row < height)?;
        let column = usize::try_from(column)
            .ok()
            .filter(|&column| column < width)?;
        Some(self.data[(channel * height + row) * width + column])
    }
}

/// Channels of one pixel out of a planar tensor.
pub(crate) fn pixel(
    data: &[f32],
    pixels: usize,
    at: usize,
) -> impl Iterator<Item = f64> + Clone + '_ {
    data[at..].iter().step_by(pixels).copied().map(f64::from)
}

pub(crate) fn sum(values: &[f32]) -> f64 {
    values.iter().copied().map(f64::from).sum()
}

/// An operator with the tensors and weights that it reads.
pub(crate) struct Operation<'a> {
    pub network: &'a Network,
    pub operator: &'a Operator,
    values: &'a Values,
}

impl<'a> Operation<'a> {
    fn site(&self) -> Site<'a> {
        let (network, operator) = (self.network, self.operator);
        Site { network, operator }
    }

    pub fn planar(&self, tensor: TensorId) -> Planar<'a> {
        Planar {
            shape: self.network.tensors[tensor.index()],
            data: &self.values[&tensor],
        }
    }

    pub fn input(&self) -> Planar<'a> {
        self.planar(self.operator.input)
    }

    /// What it reads besides its input.
    pub fn others(&self) -> impl Iterator<Item = Planar<'a>> {
        self.operator.others.iter().map(|&other| self.planar(other))
    }

    pub fn output(&self) -> Tensor {
        self.site().output()
    }

    /// Its weights number `at`, which are floats.
    pub fn weights(&self, at: usize) -> &'a [f32] {
        self.site().weights(at)
    }

    /// Its weights number `at`, which are integers.
    pub fn integers(&self, at: usize) -> &'a [i8] {
        self.site().integers(at)
    }

    pub fn quantisation(&self, tensor: TensorId) -> Option<Quantisation> {
        self.network.quantisation(tensor)
    }

    /// The quantisations of input and output, if both are of bytes.
    pub fn quantisations(&self) -> Option<(Quantisation, Quantisation)> {
        self.site().quantisations()
    }
}

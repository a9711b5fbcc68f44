//! What an exit is expected to give, and how far an engine's answer may lie from it.
//!
//! The tolerance of each element is the network's own: the reference runs once exactly, and a few times with noise in the
//! results of all operators, as large as the arithmetic of an engine makes. An element may be wrong by a few times of what
//! it moved by then. So the tolerance is tight where the network is well-behaved, whatever its depth, and an element that
//! jumps (an argmax between equals, the order of detections) is *undecided*: it is counted, and not compared.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use punctual_types::Element;
use thiserror::Error;

use super::noise::Noise;
use super::{Exited, classify, run_disturbed};
use crate::{Exit, Network, ScoreForm};

/// How an engine keeps values between operators. Sums are made in f32 by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// In f32, as processors do.
    Single,
    /// In halves, as GPUs do.
    Half,
}

/// Half a step of f32, in relation to the value.
pub(super) const SINGLE_UNIT: f64 = 1.0 / (1_u64 << 24) as f64;
/// The largest half.
pub(super) const HALF_MAX: f32 = 65_504.0;

impl Precision {
    /// Half a step, in relation to the value.
    pub(super) const fn unit(self) -> f64 {
        match self {
            Self::Single => SINGLE_UNIT,
            Self::Half => 1.0 / (1_u64 << 11) as f64,
        }
    }

    /// An engine may have zero where a value is smaller: halves end there, and kernels' exponentials where their results are
    /// no normal numbers of f32.
    pub(super) const fn vanishing(self) -> f32 {
        match self {
            Self::Single => 1e-37,
            Self::Half => 1.0 / (1_u32 << 24) as f32,
        }
    }

    /// In what a curve may end instead of zero.
    pub(super) const fn least(self) -> f32 {
        match self {
            Self::Single => f32::MIN_POSITIVE,
            Self::Half => self.vanishing(),
        }
    }
}

/// Pairs of runs with noise, the second of each with that of the first turned round; in the last run what may vanish is zero.
const PAIRS: u64 = 2;
/// An engine may be wrong by this multiple of what noise did.
const FACTOR: f64 = 8.0;
/// And by this number of units of a tensor's typical value, where noise did nothing.
const FLOOR_UNITS: f64 = 8.0;
/// Neighbours in an output that noise moves alike: a few runs alone may by chance leave an element where it was.
const NEIGHBOURS: usize = 32;
/// How strong further draws of noise are before an answer counts as wrong. Four times as strong, each moves every value by as
/// much as an engine may be wrong by, one way and the other, so that whatever an engine may put on the other side of a
/// boundary, they do.
const REDRAWS: [f64; 7] = [1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 4.0];
/// An element whose tolerance is a larger share of its tensor's largest value is undecided.
const DECIDED_SHARE: f64 = 0.25;

/// What an exit is expected to give for one input.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedExit {
    /// In the order of the exit's outputs.
    pub outputs: Vec<ExpectedTensor>,
    /// Of the class scores; empty if its answer has none.
    pub scores: ExpectedTensor,
    /// The network's own confidence; empty without one.
    pub confidence: ExpectedTensor,
    /// How sure the answer is: the network's own confidence, or what the scores say; empty without either.
    pub sureness: ExpectedTensor,
}

/// The expected elements of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedTensor {
    /// An output's name, or what else it is.
    pub name: String,
    element: Element,
    values: Vec<f32>,
    /// How far an element may be wrong; infinite for one that is undecided.
    tolerances: Vec<f32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compared {
    /// Elements that had to agree, and did.
    pub values: u64,
    /// Elements that noise decides. With no other elements nothing was verified.
    pub undecided: u64,
    /// The largest error, in units of its element's tolerance.
    pub worst: f32,
}

#[derive(Clone, Debug, PartialEq, Error)]
pub enum Mismatch {
    #[error("element {position} of `{output}` is {found}, expected {expected} within {tolerance}")]
    Value {
        output: String,
        /// In the output as the client sees it.
        position: usize,
        found: f32,
        expected: f32,
        tolerance: f32,
    },
    #[error("the best class is {found}, expected {expected}")]
    Best { found: usize, expected: usize },
    #[error("`{output}` has {found} elements, expected {expected}")]
    Length {
        output: String,
        found: usize,
        expected: usize,
    },
    #[error("{found} outputs, expected {expected}")]
    Outputs { found: usize, expected: usize },
}

/// What each stage's exit is expected to give for an image and its vectors, if it ends in one. The same seed, the same
/// tolerances.
///
/// # Panics
/// When the network is not valid or an input has another size than it takes.
#[must_use]
pub fn expected(
    network: &Network,
    inputs: &[&[f32]],
    precision: Precision,
    seed: u64,
) -> Vec<Option<ExpectedExit>> {
    expected_by(network, inputs, precision, seed, 1.0)
}

fn expected_by(
    network: &Network,
    inputs: &[&[f32]],
    precision: Precision,
    seed: u64,
    strength: f64,
) -> Vec<Option<ExpectedExit>> {
    let noise = |pair: u64| {
        [strength, -strength].map(|strength| {
            Some(Noise {
                precision,
                seed: seed.wrapping_add(pair),
                strength,
                vanishing: pair + 1 == PAIRS && strength < 0.0,
            })
        })
    };
    let noises: Vec<Option<Noise>> = [None]
        .into_iter()
        .chain((0..PAIRS).flat_map(noise))
        .collect();
    let mut runs = all_runs(network, inputs, &noises);
    let stages = network.stages.iter().enumerate();
    stages
        .map(|(at, stage)| {
            let exit = stage.exit.as_ref()?;
            let of_runs = runs.iter_mut().map(|run| run[at].take());
            let of_runs: Vec<Exited> = of_runs.flatten().collect();
            Some(ExpectedExit::new(exit, &of_runs, precision))
        })
        .collect()
}

/// Whether an answer that does not agree does so with what more noise expects: of a few runs none may move an element that
/// others move, such as one of two equal ones. An element may be wrong by what any of the draws so far allows. `agrees`
/// compares the answer; a wrong one takes all draws.
///
/// # Panics
/// As [`expected`].
pub fn agrees_with_more_noise(
    network: &Network,
    inputs: &[&[f32]],
    precision: Precision,
    seed: u64,
    mut agrees: impl FnMut(&[Option<ExpectedExit>]) -> bool,
) -> bool {
    // Seeds of neighbouring inputs follow each other, and each takes some.
    let draw = |at: u64, strength: f64| {
        let seed = seed.wrapping_add(at << 32);
        expected_by(network, inputs, precision, seed, strength)
    };
    let mut all = expected(network, inputs, precision, seed);
    (1..).zip(REDRAWS).any(|(at, strength)| {
        let exits = all.iter_mut().zip(draw(at, strength));
        for (exit, drawn) in exits.filter_map(|(exit, drawn)| exit.as_mut().zip(drawn)) {
            exit.widen(&drawn);
        }
        agrees(&all)
    })
}

/// The runs with these noises, as many at a time as there are processors.
fn all_runs(
    network: &Network,
    inputs: &[&[f32]],
    noises: &[Option<Noise>],
) -> Vec<Vec<Option<Exited>>> {
    let next = AtomicUsize::new(0);
    let runs: Mutex<Vec<_>> = Mutex::new(vec![Vec::new(); noises.len()]);
    let work = || {
        // Relaxed: each number is taken once, whatever the order; the lock publishes the results.
        while let Some((at, noise)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            noises.get(at).map(|noise| (at, *noise))
        } {
            let run = run_disturbed(network, inputs, noise);
            runs.lock().unwrap_or_else(PoisonError::into_inner)[at] = run;
        }
    };
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 1..processors.min(noises.len()) {
            scope.spawn(work);
        }
        work();
    });
    runs.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl ExpectedExit {
    /// `runs` are the exact one, then those with noise.
    fn new(exit: &Exit, runs: &[Exited], precision: Precision) -> Self {
        let outputs = exit.outputs.iter().enumerate();
        let outputs = outputs.map(|(at, output)| {
            let of_runs: Vec<&[f32]> = runs.iter().map(|run| &run.outputs[at][..]).collect();
            ExpectedTensor::new(&output.name, output.element, &of_runs, precision)
        });
        let scores: Vec<&[f32]> = runs.iter().map(|run| &run.scores[..]).collect();
        let confidence: Vec<&[f32]> = runs.iter().map(|run| run.confidence.as_slice()).collect();
        let sure: Vec<Option<f32>> = runs.iter().map(|run| sureness(exit, run)).collect();
        let sure: Vec<&[f32]> = sure.iter().map(Option::as_slice).collect();
        Self {
            outputs: outputs.collect(),
            scores: ExpectedTensor::new("class scores", Element::F32, &scores, precision),
            confidence: ExpectedTensor::new("confidence", Element::F32, &confidence, precision),
            sureness: ExpectedTensor::new(
                "the answer's confidence",
                Element::F32,
                &sure,
                precision,
            ),
        }
    }

    /// Allows what another draw of noise allows as well.
    fn widen(&mut self, other: &Self) {
        let outputs = self.outputs.iter_mut().zip(&other.outputs);
        outputs.for_each(|(own, other)| own.widen(other));
        self.scores.widen(&other.scores);
        self.confidence.widen(&other.confidence);
        self.sureness.widen(&other.sureness);
    }

    /// Compares all that was found: class scores and confidence only if there are any, since an engine may not tell them.
    ///
    /// # Errors
    /// [`Mismatch`], the worst of the first output that does not agree.
    pub fn compare(&self, found: &Exited) -> Result<Compared, Mismatch> {
        if found.outputs.len() != self.outputs.len() {
            return Err(Mismatch::Outputs {
                found: found.outputs.len(),
                expected: self.outputs.len(),
            });
        }
        let mut compared = Compared::default();
        for (expected, found) in self.outputs.iter().zip(&found.outputs) {
            compared.add(expected.compare(found)?);
        }
        if !found.scores.is_empty() {
            compared.add(self.scores.compare(&found.scores)?);
        }
        if found.confidence.is_some() {
            compared.add(self.confidence.compare(found.confidence.as_slice())?);
        }
        Ok(compared)
    }

    /// Compares an answer: its class must be one that the scores do not put behind another, and it must be as sure within the
    /// tolerance, and within `step`, in which a device counts confidence.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub fn compare_answer(&self, class: u16, sure: f32, step: f32) -> Result<Compared, Mismatch> {
        let mut compared = Compared::default();
        if let Some(&expected) = self.sureness.values.first().filter(|e| e.is_finite()) {
            let found = expected.clamp(sure - step, sure + step);
            // A network's confidence may lie outside of what a device tells.
            let is_told = (0.0..=1.0).contains(&expected);
            compared.add(
                self.sureness
                    .compare(&[if is_told { found } else { expected }])?,
            );
        }
        if self.scores.values.is_empty() || self.scores.values.iter().any(|s| !s.is_finite()) {
            return Ok(compared);
        }
        compared.add(self.scores.compare_best(usize::from(class))?);
        Ok(compared)
    }
}

/// How sure a run was of its answer.
fn sureness(exit: &Exit, run: &Exited) -> Option<f32> {
    let of_scores = || {
        let largest = run.scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        Some(match exit.scores?.form {
            ScoreForm::Softmax => classify(&run.scores).1,
            ScoreForm::Sigmoid => 1.0 / (1.0 + (-largest).exp()),
            ScoreForm::Probability => largest,
        })
    };
    run.confidence.or_else(of_scores)
}

impl Compared {
    pub fn add(&mut self, other: Self) {
        self.values += other.values;
        self.undecided += other.undecided;
        self.worst = self.worst.max(other.worst);
    }
}

impl ExpectedTensor {
    fn new(name: &str, element: Element, runs: &[&[f32]], precision: Precision) -> Self {
        let read = |run: &&[f32]| -> Vec<f32> {
            run.iter().map(|&value| as_read(element, value)).collect()
        };
        let runs: Vec<Vec<f32>> = runs.iter().map(read).collect();
        let (values, disturbed) = runs.split_first().expect("there is an exact run");
        let moved = |(at, &value): (usize, &f32)| {
            let moves = disturbed.iter().map(|run| distance(run[at], value));
            moves.fold(0.0, f64::max)
        };
        let moved: Vec<f64> = values.iter().enumerate().map(moved).collect();
        let finite = || values.iter().filter(|v| v.is_finite());
        let largest = finite().fold(0.0_f64, |most, v| most.max(f64::from(v.abs())));
        let squares: f64 = finite().map(|&v| f64::from(v).powi(2)).sum();
        let typical = (squares / finite().count().max(1) as f64).sqrt();
        // The byte that an engine rounds to may be the next one.
        let step = if element.is_quantised() { 1.0 } else { 0.0 };
        let floor =
            FLOOR_UNITS * precision.unit() * typical + f64::from(precision.vanishing()) + step;
        let decided_below = (DECIDED_SHARE * largest).max(step);
        let tolerances = match element {
            // Of whole numbers one that no noise moves is exact.
            Element::I32 | Element::Bool => {
                let exact = |&moved: &f64| if moved > 0.0 { f32::INFINITY } else { 0.0 };
                moved.iter().map(exact).collect()
            }
            _ => tolerances(&moved, floor, decided_below),
        };
        Self {
            name: name.to_owned(),
            element,
            tolerances,
            values: values.clone(),
        }
    }

    fn widen(&mut self, other: &Self) {
        for (own, other) in self.tolerances.iter_mut().zip(&other.tolerances) {
            *own = own.max(*other);
        }
    }

    /// The elements, as a client reads them.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// How far each may be wrong; infinite for one that is undecided.
    #[must_use]
    pub fn tolerances(&self) -> &[f32] {
        &self.tolerances
    }

    /// Compares the position of the largest element, as which each may be taken whose value no other's exceeds by more than
    /// both may be wrong.
    fn compare_best(&self, found: usize) -> Result<Compared, Mismatch> {
        let best =
            (0..self.values.len()).max_by(|a, b| self.values[*a].total_cmp(&self.values[*b]));
        let best = best.expect("there are scores");
        let tolerance = match self.tolerances.get(found) {
            None => 0.0,
            Some(tolerance) => tolerance + self.tolerances[best],
        };
        let value = self.values.get(found).copied().unwrap_or(f32::NAN);
        if tolerance.is_infinite() {
            return Ok(Compared {
                undecided: 1,
                ..Compared::default()
            });
        }
        if value + tolerance >= self.values[best] {
            Ok(Compared {
                values: 1,
                ..Compared::default()
            })
        } else {
            Err(Mismatch::Best {
                found,
                expected: best,
            })
        }
    }

    /// # Errors
    /// [`Mismatch`], of the element that is wrong by most of its tolerance.
    pub fn compare(&self, found: &[f32]) -> Result<Compared, Mismatch> {
        if found.len() != self.values.len() {
            return Err(Mismatch::Length {
                output: self.name.clone(),
                found: found.len(),
                expected: self.values.len(),
            });
        }
        let mut compared = Compared::default();
        let mut worst_at = 0;
        for (at, &found) in found.iter().enumerate() {
            let tolerance = f64::from(self.tolerances[at]);
            if tolerance.is_infinite() {
                compared.undecided += 1;
                continue;
            }
            compared.values += 1;
            let error = distance(as_read(self.element, found), self.values[at]);
            // Of two that agree exactly there may be no tolerance to divide by.
            let error = if error == 0.0 {
                0.0
            } else {
                (error / tolerance) as f32
            };
            if error > compared.worst {
                (compared.worst, worst_at) = (error, at);
            }
        }
        if compared.worst <= 1.0 {
            return Ok(compared);
        }
        Err(Mismatch::Value {
            output: self.name.clone(),
            position: worst_at,
            found: found[worst_at],
            expected: self.values[worst_at],
            tolerance: self.tolerances[worst_at],
        })
    }
}

/// What elements may be wrong by that noise moved by `moved`.
fn tolerances(moved: &[f64], floor: f64, decided_below: f64) -> Vec<f32> {
    let of_neighbours = |moved: &[f64]| -> Vec<f32> {
        let is_decided = |moved: &f64| FACTOR * moved <= decided_below;
        let decided: Vec<f64> = moved.iter().copied().filter(is_decided).collect();
        let squares: f64 = decided.iter().map(|moved| moved.powi(2)).sum();
        let alike = (squares / decided.len().max(1) as f64).sqrt();
        let tolerance = |moved: &f64| {
            if is_decided(moved) {
                (FACTOR * moved.max(alike) + floor) as f32
            } else {
                f32::INFINITY
            }
        };
        moved.iter().map(tolerance).collect()
    };
    moved.chunks(NEIGHBOURS).flat_map(of_neighbours).collect()
}

/// A value as the client reads it, which changes nothing if it was read already. Of a quantised tensor it is the byte.
fn as_read(element: Element, value: f32) -> f32 {
    match element {
        Element::F32 => value,
        Element::I32 => value as i32 as f32,
        Element::Bool => f32::from(value != 0.0),
        Element::U8 { .. } | Element::I8 { .. } => f32::from(value as u8),
    }
}

/// Nothing between a NaN and another, or an infinity and its like; infinitely far from all else.
fn distance(a: f32, b: f32) -> f64 {
    let like = a == b || (a.is_nan() && b.is_nan());
    match (like, a.is_finite() && b.is_finite()) {
        (true, _) => 0.0,
        (false, true) => (f64::from(a) - f64::from(b)).abs(),
        (false, false) => f64::INFINITY,
    }
}

//! Verification: whether a device of this machine gives what the network means.
//!
//! Every stage runs at every batch size on every partition size, with the solutions that the profile keeps, and everything
//! that a client can have of its exits is compared with the reference interpreter's, within the tolerance that the network
//! itself justifies ([`agreement`](punctual_model::reference::agreement)). Before each run the device overwrites all memory
//! that the stage has to write before it reads it, and the areas of outputs are overwritten here. Members of a batch have
//! different inputs as far as there are some, and change their order from stage to stage, as requests do.
//!
//! The reference is slow, so its time is what is bounded ([`Request::budget`]): a large network is compared on fewer inputs.

mod inputs;
mod run;

use punctual_core::Nanos;
use punctual_model::reference::agreement::{Compared, ExpectedExit, expected};
use punctual_model::{Disagreement, SolutionChoice, Verified};
use punctual_platform::clock;

use crate::profile::{MeasureError, Phase, Progress, Subject};
use crate::provider::Provider;
use run::Bench;

/// What to compare, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Batch sizes, rising from 1.
    pub batches: Vec<u8>,
    /// Partition sizes, in compute units.
    pub units: Vec<u8>,
    /// After this time the reference takes no further input, as soon as it had [enough](ENOUGH).
    pub budget: Nanos,
    /// Which inputs are drawn.
    pub seed: u64,
}

/// Inputs that are compared however long the reference takes: two members of a batch that are exchanged show only if their
/// inputs differ.
pub const ENOUGH: u32 = 2;
/// No more inputs than this: as many of each kind, and different ones for all members of usual batches.
pub const INPUTS_MAX: u32 = 12;

/// An input with what is expected of it.
struct Case {
    inputs: Vec<Vec<f32>>,
    /// Of the noise.
    seed: u64,
    /// By stage.
    expected: Vec<Option<ExpectedExit>>,
}

/// Compares a network's stages on the devices of `provider` with the reference; `progress` is called on this thread. What is
/// wrong is no error: it is in the result.
///
/// # Errors
/// [`MeasureError`].
pub fn verify<P: Provider>(
    provider: &P,
    subject: Subject<'_>,
    request: &Request,
    progress: &mut dyn FnMut(Progress),
) -> Result<Verified, MeasureError<P::Error>> {
    if request.units.is_empty() {
        return Err(MeasureError::NoUnits);
    }
    let begun_ns = clock::now_ns();
    let cases = cases::<P>(subject, request, progress);
    let mut compared = Compared::default();
    let mut failure = None;
    for (done, &units) in (0..).zip(&request.units) {
        let unit = P::UNIT;
        progress(Progress {
            done,
            total: request.units.len() as u32,
            what: Phase::Compared { units, unit },
        });
        match on_units(provider, subject, &cases, &request.batches, units)? {
            Ok(more) => compared.add(more),
            Err(found) => {
                failure = Some(blamed(provider, subject, &cases, found)?);
                break;
            }
        }
    }
    Ok(Verified {
        inputs: cases.len() as u32,
        batches: request.batches.clone(),
        units: request.units.clone(),
        solutions: subject.solutions.len() as u32,
        values: compared.values,
        undecided: compared.undecided,
        worst_permille: (compared.worst * 1_000.0).ceil() as u32,
        poisoned: P::POISONS,
        took_ms: (clock::now_ns() - begun_ns) / 1_000_000,
        failure,
    })
}

/// As many as the reference has time for.
fn cases<P: Provider>(
    subject: Subject<'_>,
    request: &Request,
    progress: &mut dyn FnMut(Progress),
) -> Vec<Case> {
    let network = subject.package.network();
    let begun_ns = clock::now_ns();
    let mut cases = Vec::new();
    for number in 0..INPUTS_MAX {
        let each_ns = (clock::now_ns() - begun_ns) / u64::from(number.max(1));
        let next_ns = clock::now_ns() - begun_ns + each_ns;
        if number >= ENOUGH && next_ns > request.budget.as_nanos() {
            break;
        }
        progress(Progress {
            done: number,
            total: INPUTS_MAX,
            what: Phase::Reference,
        });
        let inputs = inputs::draw(network, request.seed, number);
        let slices: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let seed = request.seed.wrapping_add(number.into());
        let expected = expected(network, &slices, P::PRECISION, seed);
        cases.push(Case {
            inputs,
            seed,
            expected,
        });
    }
    cases
}

/// What agrees on a partition of one size, or the first thing that does not.
type Outcome = Result<Compared, Disagreement>;

fn on_units<P: Provider>(
    provider: &P,
    subject: Subject<'_>,
    cases: &[Case],
    batches: &[u8],
    units: u8,
) -> Result<Outcome, MeasureError<P::Error>> {
    let mut bench = Bench::start(provider, subject, batches, units)?;
    let mut compared = Compared::default();
    for &batch in batches {
        // Each input once, and at least one whole batch.
        for first in (0..cases.len()).step_by(batch.into()) {
            match bench.batch(cases, first, batch)? {
                Ok(more) => compared.add(more),
                Err(found) => return Ok(Err(found)),
            }
        }
    }
    Ok(Ok(compared))
}

/// What is wrong, with the first solution that is wrong by itself, if all is right without any.
fn blamed<P: Provider>(
    provider: &P,
    subject: Subject<'_>,
    cases: &[Case],
    mut found: Disagreement,
) -> Result<Disagreement, MeasureError<P::Error>> {
    let batches = if found.batch == 1 {
        vec![1]
    } else {
        vec![1, found.batch]
    };
    let units = found.units;
    let fails = |solutions: &[SolutionChoice]| {
        let subject = Subject {
            solutions,
            ..subject
        };
        let outcome = on_units(provider, subject, cases, &batches, units);
        outcome.map(|outcome| outcome.is_err())
    };
    if subject.solutions.is_empty() || fails(&[])? {
        return Ok(found);
    }
    for choice in subject.solutions {
        if fails(std::slice::from_ref(choice))? {
            found.solution = Some(choice.clone());
            break;
        }
    }
    Ok(found)
}

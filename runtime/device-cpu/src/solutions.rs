//! Which solution of each operator is the fastest on this machine, and which stages are faster on one core of several.
//!
//! Measured in place: whole networks run, each with one solution wherever that applies, in turns,
//! so that every operator finds the caches as its predecessors leave them, and whatever else the
//! machine does meets all solutions. An operator's time is the lower quartile of its runs: on a busy machine most runs may be
//! disturbed, the more the more cores they need.

use std::collections::BTreeSet;

use punctual_kernels::{Isa, Solution};
use punctual_model::{Network, SolutionChoice, same_stages};
use punctual_platform::affinity;

use crate::specialised::ONE_CORE;
use crate::{Evaluator, StartError};
use punctual_device::ModelSpec;
use punctual_device::profile::Request;

/// What solutions should be chosen for.
#[derive(Clone, Copy, Debug)]
pub struct SolutionRequest<'a> {
    /// Whose kernels.
    pub isa: Isa,
    /// Batch sizes, by rising size.
    pub batches: &'a [u8],
    /// Cores of the calling thread's mates: none for one unit.
    pub mates: &'a [usize],
    /// Runs of each solution at each batch size.
    pub rounds: usize,
}

impl SolutionRequest<'_> {
    fn units(&self) -> u8 {
        self.mates.len() as u8 + 1
    }
}

/// A specialised solution has to be faster by this share: it costs memory.
const GAIN_MIN: f64 = 0.03;

/// One core has to be faster than all by this share. Stages that are, are so by far: waking the others takes longer than
/// the work. What is close is better on all, which are there for it, and a busy machine only makes it look otherwise.
const ONE_CORE_GAIN_MIN: f64 = 0.1;

/// Measures all solutions of all operators that have several, and names the fastest at each batch size, for one core and
/// for the thread with its mates; for these also the stages that are faster without them. Operators that are fastest by
/// the direct solution throughout are not named. The calling thread should be pinned.
///
/// # Errors
/// [`StartError`].
///
/// # Panics
/// If a batch size is zero or above [`BATCH_MAX`](punctual_core::BATCH_MAX).
pub fn measure_solutions(
    network: &Network,
    request: &SolutionRequest<'_>,
) -> Result<Vec<SolutionChoice>, StartError> {
    let alone = SolutionRequest {
        mates: &[],
        ..*request
    };
    let mut choices = fastest(network, &alone)?;
    if !request.mates.is_empty() {
        let together = on_team(network, request, &choices)?;
        choices.extend(together);
    }
    keep_what_gains(&mut choices);
    Ok(choices)
}

/// The cores of a partition of that many.
fn last_of(cores: &[usize], units: u8) -> Result<&[usize], StartError> {
    let count = cores.len();
    match count.checked_sub(usize::from(units)) {
        Some(first) if units > 0 => Ok(&cores[first..]),
        _ => Err(StartError::Units {
            units,
            cores: count,
        }),
    }
}

/// The solutions for every batch size on every number of cores of `request`; `progress` is told the cores.
pub(crate) fn choose(
    cores: &[usize],
    network: &Network,
    request: &Request,
    progress: &mut dyn FnMut(u8),
) -> Result<Vec<SolutionChoice>, StartError> {
    let spec = ModelSpec::resident(network, &request.batches);
    spec.validate_batches()?;
    let mut choices = Vec::new();
    // One core first: what holds there is what several are compared with.
    for units in BTreeSet::from_iter([1].iter().chain(&request.units).copied()) {
        let cores = last_of(cores, units)?;
        progress(units);
        let measured = std::thread::scope(|scope| {
            // A thread of its own: this one stays free to run anywhere.
            let measuring = scope.spawn(|| {
                // Where that is not granted, solutions still meet the same disturbances.
                let _ = affinity::pin_current_thread(cores[0]);
                let request = SolutionRequest {
                    isa: Isa::detect(),
                    batches: &request.batches,
                    mates: &cores[1..],
                    rounds: request.effort.solution_rounds(),
                };
                match units {
                    1 => fastest(network, &request),
                    _ => on_team(network, &request, &choices),
                }
            });
            measuring
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        choices.extend(measured?);
    }
    keep_what_gains(&mut choices);
    Ok(choices)
}

/// The choices for the thread with its mates, where `alone` are those for one core.
fn on_team(
    network: &Network,
    request: &SolutionRequest<'_>,
    alone: &[SolutionChoice],
) -> Result<Vec<SolutionChoice>, StartError> {
    let mut choices = fastest(network, request)?;
    let mut contestants = [
        contestant(network, request, request.mates, &choices)?,
        contestant(network, request, &[], alone)?,
    ];
    let same_as = same_stages(&network.stage_prefixes());
    for &batch in request.batches {
        let times = typical(&mut contestants, request.rounds, |evaluator| {
            evaluator.run_with_rests(usize::from(batch));
            evaluator.stage_times().collect()
        });
        for (operator, &same) in first_operators(network).zip(&same_as) {
            let [together, alone] = [0, 1].map(|contestant| times[contestant][usize::from(same)]);
            let on_one_core = is_faster_alone(alone, together);
            let of_stage = SolutionChoice {
                operator,
                batch,
                units: request.units(),
                solution: if on_one_core {
                    ONE_CORE.to_owned()
                } else {
                    Solution::Direct.name().to_owned()
                },
            };
            let own = |choice: &&mut SolutionChoice| {
                (choice.operator, choice.batch) == (of_stage.operator, of_stage.batch)
            };
            match choices.iter_mut().find(own) {
                Some(own) if on_one_core => *own = of_stage,
                Some(_) => (),
                None => choices.push(of_stage),
            }
        }
    }
    Ok(choices)
}

/// Whether a stage should run on one core, which takes so long, as all take so long together.
fn is_faster_alone(alone: u64, together: u64) -> bool {
    (alone as f64) < (1.0 - ONE_CORE_GAIN_MIN) * together as f64
}

/// The fastest solution of every operator that has several, also where it is the direct one.
fn fastest(
    network: &Network,
    request: &SolutionRequest<'_>,
) -> Result<Vec<SolutionChoice>, StartError> {
    let contestants = Solution::ALL.map(|solution| {
        let all = everywhere(network, solution);
        contestant(network, request, request.mates, &all)
    });
    let mut contestants = contestants
        .into_iter()
        .collect::<Result<Vec<Evaluator>, _>>()?;
    let applying = applying(&contestants[0]);
    let same_as = same_operators(network);
    let mut choices = Vec::new();
    for &batch in request.batches {
        let times = typical(&mut contestants, request.rounds, |evaluator| {
            // The first run finds the caches full of another contestant's weights.
            for _ in 0..2 {
                evaluator.run_for_time(usize::from(batch));
            }
            let times = evaluator.operator_times();
            times.map(|time| time.last.as_nanos()).collect()
        });
        for each in &applying {
            let same = |first: &&Applying| first.operator == same_as[each.operator as usize];
            let step = applying
                .iter()
                .find(same)
                .map_or(each.step, |first| first.step);
            let time = |solution: Solution| times[solution as usize][step] as f64;
            let fastest = each
                .solutions
                .iter()
                .copied()
                .min_by(|a, b| time(*a).total_cmp(&time(*b)));
            let gains =
                |solution: &Solution| time(*solution) < (1.0 - GAIN_MIN) * time(Solution::Direct);
            let solution = fastest.filter(gains).unwrap_or_default();
            choices.push(SolutionChoice {
                operator: each.operator,
                batch,
                units: request.units(),
                solution: solution.name().to_owned(),
            });
        }
    }
    Ok(choices)
}

/// The network with these solutions on the calling thread and its mates, with values to run on.
fn contestant(
    network: &Network,
    request: &SolutionRequest<'_>,
    mates: &[usize],
    solutions: &[SolutionChoice],
) -> Result<Evaluator, StartError> {
    let batch_max = request
        .batches
        .last()
        .map_or(1, |&batch| usize::from(batch));
    let mut evaluator = Evaluator::with_mates(request.isa, network, batch_max, mates, solutions)?;
    let image = image(network);
    evaluator.load(&vec![image.as_slice(); batch_max]);
    Ok(evaluator)
}

/// The position of each stage's first operator.
fn first_operators(network: &Network) -> impl Iterator<Item = u32> {
    network.stages.iter().scan(0, |next, stage| {
        let first = *next;
        *next += stage.operators.len() as u32;
        Some(first)
    })
}

/// For each operator the first that is the same, of stages that are: they are measured as one, so they have one solution.
fn same_operators(network: &Network) -> Vec<u32> {
    let begins: Vec<u32> = first_operators(network).collect();
    let same_as = same_stages(&network.stage_prefixes());
    let stages = network.stages.iter().zip(same_as);
    let same = stages.flat_map(|(stage, same)| {
        let first = begins[usize::from(same)];
        first..first + stage.operators.len() as u32
    });
    same.collect()
}

/// Drops operators that are fastest by the direct solution throughout. Where one is not, its direct
/// choices are needed too: another batch's or number of units' would hold for them.
fn keep_what_gains(choices: &mut Vec<SolutionChoice>) {
    let special = |choice: &&SolutionChoice| choice.solution != Solution::Direct.name();
    let gaining: BTreeSet<u32> = choices
        .iter()
        .filter(special)
        .map(|choice| choice.operator)
        .collect();
    choices.retain(|choice| gaining.contains(&choice.operator));
}

/// Every operator by `solution`, whatever the batch and the units.
fn everywhere(network: &Network, solution: Solution) -> Vec<SolutionChoice> {
    let operators = network
        .stages
        .iter()
        .map(|stage| stage.operators.len())
        .sum::<usize>();
    let choice = |operator: usize| SolutionChoice {
        operator: operator as u32,
        batch: 1,
        units: 1,
        solution: solution.name().to_owned(),
    };
    (0..operators).map(choice).collect()
}

/// An operator's position, its step and the solutions that apply.
struct Applying {
    operator: u32,
    step: usize,
    solutions: Vec<Solution>,
}

/// For each operator with several solutions. Not every operator has a step, nor every step an operator.
fn applying(evaluator: &Evaluator) -> Vec<Applying> {
    let steps = evaluator.steps().enumerate();
    let several = steps.filter_map(|(position, step)| {
        Some(Applying {
            operator: step.operator?,
            step: position,
            solutions: step.kernel.conv2d()?.solutions().collect(),
        })
    });
    several.collect()
}

/// The lower quartile of each contestant's times, by steps or stages, over rounds in which they take turns.
fn typical(
    contestants: &mut [Evaluator],
    rounds: usize,
    mut times: impl FnMut(&mut Evaluator) -> Vec<u64>,
) -> Vec<Vec<u64>> {
    let mut runs: Vec<Vec<Vec<u64>>> = vec![Vec::new(); contestants.len()];
    for _ in 0..rounds {
        for (evaluator, runs) in contestants.iter_mut().zip(&mut runs) {
            runs.push(times(evaluator));
        }
    }
    let quartile = |runs: &[Vec<u64>], at: usize| {
        let mut times: Vec<u64> = runs.iter().map(|run| run[at]).collect();
        times.sort_unstable();
        times[times.len() / 4]
    };
    runs.iter()
        .map(|runs| {
            let count = runs.first().map_or(0, Vec::len);
            (0..count).map(|at| quartile(runs, at)).collect()
        })
        .collect()
}

/// Values around zero, as a normalised image has them.
fn image(network: &Network) -> Vec<f32> {
    let input = network.tensors[network.input_tensor().0 as usize];
    let len = (input.channels * input.height * input.width) as usize;
    (0..len)
        .map(|i| (i * 7919 % 1024) as f32 / 256.0 - 2.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_is_chosen_where_waking_the_others_costs_more_than_the_work_and_not_where_it_is_close()
     {
        assert!(is_faster_alone(22_000, 67_000));
        assert!(!is_faster_alone(1_726_377, 1_900_000), "a busy machine");
        assert!(!is_faster_alone(1_280_000, 640_000));
        assert!(!is_faster_alone(0, 0));
    }

    #[test]
    fn an_operator_that_gains_somewhere_keeps_its_direct_choices_too() {
        let choice = |operator, units, solution: Solution| SolutionChoice {
            operator,
            batch: 1,
            units,
            solution: solution.name().to_owned(),
        };
        let mut choices = vec![
            choice(0, 1, Solution::Direct),
            choice(1, 1, Solution::Winograd4),
            choice(0, 2, Solution::Direct),
            choice(1, 2, Solution::Direct),
        ];
        let gaining = [choices[1].clone(), choices[3].clone()];
        keep_what_gains(&mut choices);
        assert_eq!(choices, gaining);
    }
}

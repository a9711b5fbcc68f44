//! Which solution of each operator is the fastest on this machine.
//!
//! Measured in place: whole networks run, each with one solution wherever that applies, in turns,
//! so that every operator finds the caches as its predecessors leave them, and whatever else the
//! machine does meets all solutions. An operator's time is the median of its runs.

use std::collections::BTreeSet;

use punctual_kernels::{Isa, Solution};
use punctual_model::{Network, SolutionChoice, same_stages};
use punctual_platform::affinity;

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

/// A specialised solution has to be faster by this share: it costs memory.
const GAIN_MIN: f64 = 0.03;

/// Measures all solutions of all operators that have several, and names the fastest at each batch size; operators
/// that are fastest by the direct solution throughout are not named. The calling thread should be pinned.
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
    let mut choices = fastest(network, request)?;
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
    for &units in &request.units {
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
                fastest(network, &request)
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

/// The fastest solution of every operator that has several, also where it is the direct one.
fn fastest(
    network: &Network,
    request: &SolutionRequest<'_>,
) -> Result<Vec<SolutionChoice>, StartError> {
    let Some(&batch_max) = request.batches.last() else {
        return Ok(Vec::new());
    };
    let units = request.mates.len() as u8 + 1;
    let mut contestants = Vec::new();
    for solution in Solution::ALL {
        let all = everywhere(network, solution);
        let (isa, batch_max) = (request.isa, usize::from(batch_max));
        let mut evaluator = Evaluator::with_mates(isa, network, batch_max, request.mates, &all)?;
        let image = image(network);
        evaluator.load(&vec![image.as_slice(); batch_max]);
        contestants.push(evaluator);
    }
    let applying = applying(&contestants[0]);
    let same_as = same_operators(network);
    let mut choices = Vec::new();
    for &batch in request.batches {
        let medians = medians(&mut contestants, usize::from(batch), request.rounds);
        for each in &applying {
            let same = |first: &&Applying| first.operator == same_as[each.operator as usize];
            let step = applying
                .iter()
                .find(same)
                .map_or(each.step, |first| first.step);
            let time = |solution: Solution| medians[solution as usize][step];
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
                units,
                solution: solution.name().to_owned(),
            });
        }
    }
    Ok(choices)
}

/// For each operator the first that is the same, of stages that are: they are measured as one, so they have one solution.
fn same_operators(network: &Network) -> Vec<u32> {
    let mut begins = Vec::new();
    let mut same = Vec::new();
    for (stage, same_as) in network
        .stages
        .iter()
        .zip(same_stages(&network.stage_prefixes()))
    {
        begins.push(same.len() as u32);
        let first = begins[usize::from(same_as)];
        same.extend(first..first + stage.operators.len() as u32);
    }
    same
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

/// Nanoseconds of each contestant's steps.
fn medians(contestants: &mut [Evaluator], batch: usize, rounds: usize) -> Vec<Vec<f64>> {
    let mut times: Vec<Vec<Vec<u64>>> = vec![Vec::new(); contestants.len()];
    for _ in 0..rounds {
        for (evaluator, times) in contestants.iter_mut().zip(&mut times) {
            // The first run finds the caches full of another contestant's weights.
            for _ in 0..2 {
                evaluator.run_for_time(batch);
            }
            let run = evaluator.operator_times().map(|time| time.last.as_nanos());
            times.push(run.collect());
        }
    }
    let median = |runs: &[Vec<u64>], step: usize| {
        let mut times: Vec<u64> = runs.iter().map(|run| run[step]).collect();
        times.sort_unstable();
        times[times.len() / 2] as f64
    };
    times
        .iter()
        .map(|runs| {
            let steps = runs.first().map_or(0, Vec::len);
            (0..steps).map(|step| median(runs, step)).collect()
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

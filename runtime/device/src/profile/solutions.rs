//! Which solution of each operator is the fastest on this machine.
//!
//! Measured in place: whole networks run, each with one solution wherever that applies, in turns,
//! so that every operator finds the caches as its predecessors leave them, and whatever else the
//! machine does meets all solutions. An operator's time is the median of its runs.

use punctual_kernels::{Isa, Solution};
use punctual_model::{Network, SolutionChoice};

use crate::cpu::executable::Kernel;
use crate::{Evaluator, StartError};

/// For what solutions are to be chosen.
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

/// A specialised solution has to be faster by so much: it costs memory.
const GAIN_MIN: f64 = 0.03;

/// Measures all solutions of all operators that have several, and names the fastest at each batch
/// size; operators that are fastest by the direct solution throughout are not named. The calling
/// thread should be pinned.
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
    let applying = applying(network, &contestants[0]);
    let mut choices = Vec::new();
    for &batch in request.batches {
        let medians = medians(&mut contestants, usize::from(batch), request.rounds);
        for (operator, (step, solutions)) in applying.iter().enumerate() {
            let time = |solution: Solution| medians[solution as usize][*step];
            let fastest = solutions
                .iter()
                .copied()
                .min_by(|a, b| time(*a).total_cmp(&time(*b)));
            let gains =
                |solution: &Solution| time(*solution) < (1.0 - GAIN_MIN) * time(Solution::Direct);
            let solution = fastest.filter(gains).unwrap_or_default();
            choices.push(SolutionChoice {
                operator: operator as u32,
                batch,
                units,
                solution: solution.name().to_owned(),
            });
        }
    }
    let special = |choice: &SolutionChoice| choice.solution != Solution::Direct.name();
    let worth: Vec<u32> = choices
        .iter()
        .filter(|c| special(c))
        .map(|c| c.operator)
        .collect();
    choices.retain(|choice| worth.contains(&choice.operator));
    Ok(choices)
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

/// For each operator its step and the solutions that apply.
fn applying(network: &Network, evaluator: &Evaluator) -> Vec<(usize, Vec<Solution>)> {
    let steps: Vec<_> = evaluator.steps().collect();
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let mut next = 0;
    let mut found = Vec::new();
    for operator in operators {
        // Steps that no operator asked for have names of their own.
        while steps[next].name != operator.name {
            next += 1;
        }
        let solutions = match &steps[next].kernel {
            Kernel::Conv2d(conv) => conv.solutions().collect(),
            _ => vec![Solution::Direct],
        };
        found.push((next, solutions));
        next += 1;
    }
    found
}

/// Nanoseconds of each contestant's steps.
fn medians(contestants: &mut [Evaluator], batch: usize, rounds: usize) -> Vec<Vec<f64>> {
    let mut times: Vec<Vec<Vec<u64>>> = vec![Vec::new(); contestants.len()];
    for _ in 0..rounds {
        for (evaluator, times) in contestants.iter_mut().zip(&mut times) {
            // The first run finds the caches full of another contestant's weights.
            for _ in 0..2 {
                evaluator.run(batch);
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

//! `edgeserving`: EdgeServing ("EdgeServing: Deadline-Aware Multi-DNN Serving at the Edge", arXiv 2605.05527).
//!
//! Time division: one action at a time, on the whole device. Whenever it is free, every candidate
//! (model, exit, batch) is judged by what all queues would look like at its predicted end, and the
//! one that does least damage to deadlines is run: the first requests of that model's queue, to
//! that exit, however confident they are before (so the end can be predicted).
//!
//! The source calls its measure a *stability score*. Its formula was not available to us; this is
//! the form chosen here, smaller being better, compared from the first to the last:
//!
//! 1. *Predicted misses*: members that would end after their deadlines, and waiting requests that
//!    could not be answered in time even if from then on all were served at the shallowest exit
//!    that counts, in the order of their deadlines, each for its share of the most efficient batch.
//! 2. *Depth given up*: exits between the candidate's and the model's last one. Without it the
//!    shallowest exit would always be the most stable.
//! 3. *Waiting*: the sum over the waiting requests of the square of (time waited at the candidate's
//!    end / relative deadline).
//! 4. The candidate that ends first.

use serde::{Deserialize, Serialize};

use punctual_core::bounded::List;
use punctual_core::{
    Actions, Answer, Config, Contract, Instant, ModelId, Nanos, PartitionId, Partitioning, Policy,
    PolicySpec, Rejection, StageId, TaskId,
};
use punctual_policy_seeb::batch_runner::{
    Baseline, BaselineRules, BatchRunner, Job, Members, largest_batch,
};

/// Parameters of `edgeserving`: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EdgeservingConfig {}

const DEVICE: PartitionId = PartitionId(0);

/// What a model's requests need at least.
#[derive(Clone, Copy, Debug)]
struct Least {
    /// The shallowest exit that counts for all of its tasks.
    exit: StageId,
    /// To that exit: a request's share of the most efficient batch.
    share: Nanos,
    /// The largest batch that all of its tasks allow.
    batch_max: usize,
}

impl PolicySpec for EdgeservingConfig {
    fn name(&self) -> &'static str {
        "edgeserving"
    }

    fn summary(&self) -> &'static str {
        "the model, exit and batch that endanger least (EdgeServing)"
    }

    fn contract(&self) -> Contract {
        Contract::best_effort(Partitioning::Whole)
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Baseline::boxed(config, self, Edgeserving::new(config))
    }
}

#[derive(Debug)]
struct Edgeserving {
    /// By model.
    least: Box<[Least]>,
    /// All waiting requests, by deadline, then by order of arrival.
    waiting: List<u16>,
    /// The exit at which the running batch ends.
    target: StageId,
}

#[derive(Clone, Debug)]
struct Candidate {
    model: ModelId,
    exit: StageId,
    members: Members,
    end: Instant,
}

/// Damage done by a candidate; `Ord` compares in the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    misses: usize,
    depth_given_up: usize,
    waiting: u64,
    end: Instant,
}

impl Edgeserving {
    fn new(config: &Config) -> Self {
        let models = (0..config.models.len()).map(|model| least(config, ModelId(model as u16)));
        Self {
            least: models.collect(),
            waiting: List::with_capacity(usize::from(config.request_buffers)),
            target: StageId(0),
        }
    }

    /// The candidate with the best score.
    fn best(&self, runner: &BatchRunner) -> Option<Candidate> {
        let mut best: Option<(Score, Candidate)> = None;
        for model in 0..runner.config.models.len() {
            let model = ModelId(model as u16);
            let mut held = 0;
            for size in self.sizes(runner, model) {
                let members = self.first_of(runner, model, size);
                if members.len() == held {
                    break;
                }
                held = members.len();
                for candidate in self.depths(runner, model, &members) {
                    let score = self.score(runner, &candidate);
                    if best.as_ref().is_none_or(|(least, _)| score < *least) {
                        best = Some((score, candidate));
                    }
                }
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    /// The compiled batch sizes that may be run, rising.
    fn sizes<'a>(
        &self,
        runner: &'a BatchRunner,
        model: ModelId,
    ) -> impl Iterator<Item = usize> + 'a {
        let most = self.least[model.index()].batch_max;
        let times = runner.config.models[model.index()].stages[0].times.iter();
        times
            .map(|time| usize::from(time.batch))
            .filter(move |&size| size <= most)
    }

    /// The most urgent waiting requests of a model, at most `size`.
    fn first_of(&self, runner: &BatchRunner, model: ModelId, size: usize) -> Members {
        let waiting = self.waiting.iter().copied();
        let mine = waiting.filter(|&b| model_of(runner, runner.request(b).task) == model);
        mine.take(size).collect()
    }

    /// A candidate for each exit that counts.
    fn depths<'a>(
        &'a self,
        runner: &'a BatchRunner,
        model: ModelId,
        members: &'a Members,
    ) -> impl Iterator<Item = Candidate> + 'a {
        let first = self.least[model.index()].exit;
        let mut end = runner.now;
        (0..runner.stages(model)).filter_map(move |stage| {
            let exit = StageId(stage as u8);
            end = end + runner.stage_time(model, exit, members.len(), DEVICE);
            (exit >= first).then(|| Candidate {
                model,
                exit,
                members: members.clone(),
                end,
            })
        })
    }

    fn score(&self, runner: &BatchRunner, candidate: &Candidate) -> Score {
        let mut score = Score {
            misses: 0,
            depth_given_up: runner.stages(candidate.model) - 1 - candidate.exit.index(),
            waiting: 0,
            end: candidate.end,
        };
        let mut time = candidate.end;
        for &buffer in self.waiting.iter() {
            let request = runner.request(buffer);
            if candidate.members.contains(&buffer) {
                score.misses += usize::from(candidate.end > request.due);
                continue;
            }
            let after = time + self.least[model_of(runner, request.task).index()].share;
            if after > request.due {
                score.misses += 1;
            } else {
                time = after;
            }
            let waited = candidate.end.since(request.captured);
            let own = request.deadline.since(request.captured);
            score.waiting = score.waiting.saturating_add(square_of_ratio(waited, own));
        }
        score
    }
}

/// (a / b)², 1 being 2^20; at most 2^40.
fn square_of_ratio(a: Nanos, b: Nanos) -> u64 {
    let ratio = (u128::from(a.as_nanos()) << 10) / u128::from(b.as_nanos().max(1));
    let ratio = ratio.min(1 << 20) as u64;
    ratio * ratio
}

fn model_of(runner: &BatchRunner, task: TaskId) -> ModelId {
    runner.config.tasks[task.index()].model
}

fn least(config: &Config, model: ModelId) -> Least {
    let tasks = config.tasks.iter().filter(|task| task.model == model);
    let exit = tasks
        .map(|task| task.mandatory_exit)
        .max()
        .unwrap_or(StageId(0));
    let stages = &config.models[model.index()].stages[..=exit.index()];
    let batch_max = largest_batch(config, model);
    let allowed = |&size: &usize| usize::from(stages[0].times[size].batch) <= batch_max;
    let sizes = (0..stages[0].times.len()).filter(allowed).map(|size| {
        let batch = u64::from(stages[0].times[size].batch);
        let times = stages
            .iter()
            .map(|stage| &stage.times[size.min(stage.times.len() - 1)]);
        let total = times.fold(Nanos::ZERO, |sum, time| {
            sum + time.on[DEVICE.index()].budget + config.dispatch_cost
        });
        total.as_nanos().div_ceil(batch)
    });
    Least {
        exit,
        share: Nanos::new(sizes.min().unwrap_or(0)),
        batch_max,
    }
}

impl BaselineRules for Edgeserving {
    fn enqueue(&mut self, runner: &BatchRunner, buffer: u16) -> Result<(), Rejection> {
        let key = |buffer: u16| (runner.request(buffer).due, runner.request(buffer).order);
        let at = self
            .waiting
            .partition_point(|&queued| key(queued) < key(buffer));
        self.waiting.insert(at, buffer);
        Ok(())
    }

    fn forget(&mut self, _runner: &BatchRunner, buffer: u16) {
        if let Some(at) = self.waiting.iter().position(|&queued| queued == buffer) {
            self.waiting.remove(at);
        }
    }

    fn leaves(&self, _: &BatchRunner, _: &Job, _: u16, exit: StageId, _: Answer) -> bool {
        exit >= self.target
    }

    fn dispatch(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        if !runner.is_free(DEVICE) {
            return;
        }
        let Some(chosen) = self.best(runner) else {
            return;
        };
        for &member in &chosen.members {
            self.forget(runner, member);
        }
        self.target = chosen.exit;
        runner.start(DEVICE, chosen.members, true, Instant::FAR_FUTURE, actions);
    }

    fn next_timer(&self, _runner: &BatchRunner) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use punctual_core::{Confidence, Units};
    use punctual_policy_testing::timeline::{self, Network};

    /// X: two stages of 4 ms each; Y: two of 6 ms. A batch of two takes 1 ms more a stage. Returns
    /// the ends of batches, as (ms, model, exit, size).
    fn served(deadlines: [u64; 2], arrivals: &[(u64, u16)]) -> Vec<(u64, u16, u8, usize)> {
        let x = |_, batch: u8, _| 3 + u64::from(batch);
        let y = |_, batch: u8, _| 5 + u64::from(batch);
        let network = |time| Network {
            stages: 2,
            batches: &[1, 2],
            time,
        };
        let tasks = vec![
            timeline::task(0, deadlines[0]),
            timeline::task(1, deadlines[1]),
        ];
        let device = Units { first: 0, count: 1 };
        let config = timeline::plan(&[device], &[network(&x), network(&y)], tasks);
        let played = timeline::play(&config, &EdgeservingConfig {}, arrivals, &|_, _| {
            Confidence::ONE
        });
        let mut ends: Vec<(u64, u16, u8, usize)> = Vec::new();
        for (at, reply) in played.replies.values() {
            let (exit, _) = reply.answer.expect("answered");
            match ends
                .iter_mut()
                .find(|end| (end.0, end.1) == (*at, reply.task.0))
            {
                Some(end) => end.3 += 1,
                None => ends.push((*at, reply.task.0, exit.0, 1)),
            }
        }
        ends.sort_unstable();
        ends
    }

    /// While a first X runs to 8, an X due at 41 and a Y due at 22 come. Whichever is next at full
    /// depth, nothing is missed: X first ends at 16, and Y could end at 22 (one stage); Y first ends
    /// at 20. Waiting: X first leaves Y at (15/21)², Y first leaves X at (19/40)²: Y first.
    #[test]
    fn of_candidates_that_miss_nothing_the_one_that_leaves_the_least_waiting_runs() {
        let ends = served([40, 21], &[(0, 0), (1, 0), (1, 1)]);
        assert_eq!(ends, [(8, 0, 1, 1), (20, 1, 1, 1), (28, 0, 1, 1)]);
    }

    /// The same with X due at 21: Y at full depth would end at 20, too late for X (24). X at full
    /// depth ends at 16, and Y can still end at 22; so X runs to its end, then Y for one stage.
    #[test]
    fn depth_is_given_up_where_full_depth_would_miss() {
        let ends = served([20, 21], &[(0, 0), (1, 0), (1, 1)]);
        assert_eq!(ends, [(8, 0, 1, 1), (16, 0, 1, 1), (22, 1, 0, 1)]);
    }

    /// Two X due at 23 wait while a Y runs to 12: both in a batch end at 22 at full depth, one after
    /// the other the second would end at 28.
    #[test]
    fn a_batch_runs_where_single_requests_would_miss() {
        let ends = served([22, 100], &[(0, 1), (1, 0), (1, 0)]);
        assert_eq!(ends, [(12, 1, 1, 1), (22, 0, 1, 2)]);
    }
}

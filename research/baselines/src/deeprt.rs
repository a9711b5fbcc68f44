//! `deeprt`: DeepRT (Yang, Nahrstedt, Guo, Zhou: "DeepRT: A Soft Real Time Scheduler for Computer
//! Vision Applications on the Edge", SEC 2021).
//!
//! Requests for the same model are a *category*, with windows of length W = half the smallest
//! relative deadline among its tasks. The frames of a window are released together at its end, as
//! a job that is due W later. One worker on the whole device runs jobs to their end, earliest
//! deadline first, each network at full depth.
//!
//! Its admission control works on streams of frames, which are tasks here, so it runs once, at
//! construction: tasks are taken on in their order as long as, with n the most frames that a window
//! can hold, the sum of e(n)/W is at most 1 and a simulated non-preemptive EDF of all categories
//! misses nothing. Frames of a task that was not taken on are rejected.
//!
//! What the source leaves open or what is different here:
//!
//! - *Windows* end at multiples of W of the clock; a frame belongs to the one that it was captured
//!   in.
//! - *The simulated EDF* starts with all categories' windows in phase and runs for
//!   `JOBS_SIMULATED` jobs. (Such a test is not sustainable: shorter jobs can cause misses.)
//! - *A job larger than the largest compiled batch* runs as several batches with one deadline.
//! - *Adaptation*: after an overrun DeepRT shrinks a category's input until the excess is repaid.
//!   Our networks have one input shape, so the category's jobs stop one exit early instead (but
//!   not before the mandatory one), and repay what the stage left out would have taken.
//! - *Best-effort tasks* have no deadlines: their requests run when no job is ready.

use serde::{Deserialize, Serialize};

use punctual_core::bounded::List;
use punctual_core::{
    Actions, Answer, Config, Contract, Instant, ModelId, Nanos, PartitionId, Partitioning, Policy,
    PolicySpec, Rejection, StageId,
};
use punctual_policy_seeb::batch_runner::{
    Baseline, BaselineRules, BatchRunner, Ended, Job, Members, largest_batch,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct DeeprtConfig {
    /// Whether tasks pass admission; else all are taken on.
    pub admission: bool,
    /// Whether a category that overran stops an exit early until it has repaid.
    pub adaptation: bool,
    /// W by model, for those whose clients ask for earlier deadlines than their tasks'. Where it is
    /// 0 or missing: half the smallest deadline.
    pub windows: Vec<Nanos>,
}

impl Default for DeeprtConfig {
    fn default() -> Self {
        Self {
            admission: true,
            adaptation: true,
            windows: Vec::new(),
        }
    }
}

/// How far the simulated EDF of the admission test looks.
const JOBS_SIMULATED: usize = 10_000;

const WORKER: PartitionId = PartitionId(0);

#[derive(Debug)]
struct Category {
    /// W. Without deadlines [`Nanos::MAX`].
    window: Nanos,
    /// By rising release.
    frames: List<Frame>,
    /// Device time that it took beyond its profile and has not repaid.
    debt: Nanos,
}

/// A request that waits for the end of its window, or for the worker.
#[derive(Clone, Copy, Debug)]
struct Frame {
    release: Instant,
    buffer: u16,
}

impl PolicySpec for DeeprtConfig {
    fn name(&self) -> &'static str {
        "deeprt"
    }

    fn summary(&self) -> &'static str {
        "windows of frames as jobs, earliest deadline first (DeepRT)"
    }

    fn contract(&self) -> Contract {
        Contract::best_effort(Partitioning::Whole)
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Baseline::boxed(config, self, Deeprt::new(config, self))
    }
}

#[derive(Debug)]
struct Deeprt {
    rules: DeeprtConfig,
    /// By task.
    admitted: Box<[bool]>,
    /// By model.
    categories: Box<[Category]>,
    /// The exit at which the running job stops.
    target: StageId,
}

impl Deeprt {
    fn new(config: &Config, rules: &DeeprtConfig) -> Self {
        let admitted = if rules.admission {
            admit(config, rules)
        } else {
            vec![true; config.tasks.len()]
        };
        let buffers = usize::from(config.request_buffers);
        let categories = (0..config.models.len()).map(|model| Category {
            window: window(config, rules, &admitted, ModelId(model as u16)).unwrap_or(Nanos::MAX),
            frames: List::with_capacity(buffers),
            debt: Nanos::ZERO,
        });
        Self {
            rules: rules.clone(),
            categories: categories.collect(),
            admitted: admitted.into(),
            target: StageId(0),
        }
    }

    /// Starts the released frames of a category that share a release.
    fn start(&mut self, runner: &mut BatchRunner, model: usize, actions: &mut Actions) {
        let category = &mut self.categories[model];
        let release = category.frames[0].release;
        let most = largest_batch(&runner.config, ModelId(model as u16));
        let mut members = Members::new();
        while members.len() < most
            && category
                .frames
                .first()
                .is_some_and(|f| f.release == release)
        {
            let frame = category.frames.remove(0);
            members
                .push(frame.buffer)
                .expect("a batch is at most BATCH_MAX");
        }
        let last = runner.stages(ModelId(model as u16)) - 1;
        let shallowest = members.iter().map(|&buffer| {
            let task = runner.request(buffer).task.index();
            runner.config.tasks[task].mandatory_exit.index()
        });
        let shallowest = shallowest.max().unwrap_or(last);
        let shrinks = category.debt > Nanos::ZERO;
        let target = if shrinks {
            last.saturating_sub(1).max(shallowest)
        } else {
            last
        };
        self.target = StageId(target as u8);
        runner.start(WORKER, members, true, Instant::FAR_FUTURE, actions);
    }

    /// Records what a job took beyond its profile, and what stopping early saved.
    fn settle(&mut self, runner: &BatchRunner, job: &Job) {
        let stages = runner.stages(job.model);
        let profiled = |from: usize, to: usize| {
            (from..to).fold(Nanos::ZERO, |sum, stage| {
                sum + runner.stage_time(job.model, StageId(stage as u8), job.size, WORKER)
            })
        };
        let ran = job.stage.index() + 1;
        let saved = profiled(ran, stages);
        let excess = job.measured.saturating_sub(profiled(0, ran));
        let category = &mut self.categories[job.model.index()];
        category.debt = (category.debt + excess).saturating_sub(saved);
    }
}

impl BaselineRules for Deeprt {
    fn enqueue(&mut self, runner: &BatchRunner, buffer: u16) -> Result<(), Rejection> {
        let task = runner.request(buffer).task.index();
        if !self.admitted[task] {
            return Err(Rejection::NoSlack);
        }
        let category = &mut self.categories[runner.config.tasks[task].model.index()];
        let release = window_end(runner.request(buffer).captured, category.window);
        let at = category.frames.partition_point(|f| f.release <= release);
        category.frames.insert(at, Frame { release, buffer });
        Ok(())
    }

    fn forget(&mut self, runner: &BatchRunner, buffer: u16) {
        let task = runner.request(buffer).task.index();
        let category = &mut self.categories[runner.config.tasks[task].model.index()];
        if let Some(at) = category.frames.iter().position(|f| f.buffer == buffer) {
            category.frames.remove(at);
        }
    }

    fn leaves(&self, _: &BatchRunner, _: &Job, _: u16, exit: StageId, _: Answer) -> bool {
        exit >= self.target
    }

    fn ended(&mut self, runner: &mut BatchRunner, job: &Job, how: Ended) {
        if self.rules.adaptation && how == Ended::Finished {
            self.settle(runner, job);
        }
    }

    fn dispatch(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        if !runner.is_free(WORKER) {
            return;
        }
        let head = |category: &Category| category.frames.first().map(|f| f.release);
        let ready = self
            .categories
            .iter()
            .enumerate()
            .filter_map(|(model, category)| {
                let release = head(category)?;
                (release <= runner.now).then_some((release + category.window, model))
            });
        if let Some((_, model)) = ready.min() {
            self.start(runner, model, actions);
        }
    }

    fn next_timer(&self, runner: &BatchRunner) -> Option<Instant> {
        let heads = self.categories.iter().filter_map(|c| c.frames.first());
        heads
            .map(|f| f.release)
            .filter(|release| *release > runner.now)
            .min()
    }
}

/// The end of the window that `now` falls into. Categories without a window release at once.
fn window_end(now: Instant, window: Nanos) -> Instant {
    let window = window.as_nanos().max(1);
    if window == Nanos::MAX.as_nanos() {
        return now;
    }
    Instant::from_nanos((now.as_nanos() / window + 1).saturating_mul(window))
}

/// W of a model's category: half the smallest relative deadline of its admitted tasks, if not given.
fn window(
    config: &Config,
    rules: &DeeprtConfig,
    admitted: &[bool],
    model: ModelId,
) -> Option<Nanos> {
    let tasks = config.tasks.iter().zip(admitted);
    let mine = tasks.filter(|(task, admitted)| **admitted && task.model == model);
    let least = mine.filter_map(|(task, _)| task.deadline).min()?;
    let given = rules.windows.get(model.index()).copied();
    let given = given.filter(|window| *window > Nanos::ZERO);
    Some(given.unwrap_or(Nanos::new(least.as_nanos() / 2)))
}

/// What a category asks of the worker.
#[derive(Clone, Copy, Debug)]
struct Load {
    window: Nanos,
    /// e(n) for the most frames that a window can hold.
    job: Nanos,
}

fn admit(config: &Config, rules: &DeeprtConfig) -> Vec<bool> {
    let mut admitted = vec![false; config.tasks.len()];
    for task in 0..config.tasks.len() {
        admitted[task] = true;
        let models = (0..config.models.len()).map(|model| ModelId(model as u16));
        let loads: Vec<Load> = models
            .filter_map(|m| load(config, rules, &admitted, m))
            .collect();
        admitted[task] = fits(&loads) && meets_all_deadlines(&loads);
    }
    admitted
}

fn load(config: &Config, rules: &DeeprtConfig, admitted: &[bool], model: ModelId) -> Option<Load> {
    let window = window(config, rules, admitted, model)?;
    let tasks = config.tasks.iter().zip(admitted);
    let mine = tasks.filter(|(task, admitted)| **admitted && task.model == model);
    let mine = mine
        .map(|(task, _)| task)
        .filter(|task| task.deadline.is_some());
    let most = largest_batch(config, model);
    let frames: u64 = mine
        .map(|task| window.as_nanos().div_ceil(task.period.as_nanos().max(1)))
        .sum();
    let (batches, rest) = (frames / most as u64, frames % most as u64);
    let whole = execution(config, model, most).saturating_mul(batches);
    let job = match rest {
        0 => whole,
        rest => whole + execution(config, model, rest as usize),
    };
    Some(Load { window, job })
}

/// e(n): a batch of `frames`, all stages, on the worker.
fn execution(config: &Config, model: ModelId, frames: usize) -> Nanos {
    let stages = &config.models[model.index()].stages;
    stages.iter().fold(Nanos::ZERO, |sum, stage| {
        let time = stage.times.iter().find(|t| usize::from(t.batch) >= frames);
        let time = time.or(stage.times.last()).expect("a stage has times");
        sum + time.on[WORKER.index()].budget + config.dispatch_cost
    })
}

/// Whether the sum of e(n)/W is at most 1.
fn fits(loads: &[Load]) -> bool {
    const WHOLE: u128 = 1 << 32;
    let shares = loads.iter().map(|load| {
        let work = u128::from(load.job.as_nanos()) * WHOLE;
        work.div_ceil(u128::from(load.window.as_nanos().max(1)))
    });
    shares.sum::<u128>() <= WHOLE
}

/// Whether non-preemptive EDF, simulated, ends every job by its deadline.
fn meets_all_deadlines(loads: &[Load]) -> bool {
    // The earliest release of each category that has not run.
    let mut next: Vec<Instant> = loads.iter().map(|l| Instant::ZERO + l.window).collect();
    let mut time = Instant::ZERO;
    for _ in 0..JOBS_SIMULATED {
        let Some(earliest) = next.iter().min() else {
            return true;
        };
        time = time.max(*earliest);
        let ready = (0..loads.len()).filter(|&i| next[i] <= time);
        let Some(chosen) = ready.min_by_key(|&i| (next[i] + loads[i].window, i)) else {
            return true;
        };
        time = time + loads[chosen].job;
        let due = next[chosen] + loads[chosen].window;
        if time > due {
            return false;
        }
        next[chosen] = due;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(window: u64, job: u64) -> Load {
        Load {
            window: Nanos::from_millis(window),
            job: Nanos::from_millis(job),
        }
    }

    /// A: W = 10, e = 3; B: W = 25, e = 9. U = 0.3 + 0.36. B is released at 25 with A's window
    /// having ended at 20 (A ran 20-23): B runs 25-34, A of 30 waits until 34 and ends at 37 <= 40.
    /// With e = 18 for B, U = 1.02; with e = 17, U = 0.98 but B runs 25-42 and A of 30 is late.
    #[test]
    fn a_non_preemptive_job_may_not_block_a_shorter_window_for_too_long() {
        let verdict = |b| {
            let loads = [load(10, 3), load(25, b)];
            (fits(&loads), meets_all_deadlines(&loads))
        };
        assert_eq!(verdict(9), (true, true));
        assert_eq!(verdict(17), (true, false));
        assert!(!verdict(18).0);
    }

    #[test]
    fn a_window_ends_at_the_next_multiple_of_its_length() {
        let at = |ms| Instant::ZERO + Nanos::from_millis(ms);
        let window = Nanos::from_millis(10);
        assert_eq!(window_end(at(0), window), at(10));
        assert_eq!(window_end(at(9), window), at(10));
        assert_eq!(window_end(at(10), window), at(20));
        assert_eq!(window_end(at(7), Nanos::MAX), at(7));
    }

    use punctual_core::Units;
    use punctual_policy_testing::timeline::{self, Network};

    const UNITS: Units = Units { first: 0, count: 1 };

    /// A: D = 20, so W = 10; 3 ms for one frame, 5 ms for two. B: D = 50, so W = 25; 8 ms.
    /// Both have two stages; the second takes 1 ms.
    fn plan() -> Config {
        let a = |stage, batch, _| [1 + 2 * (u64::from(batch) - 1) + 1, 1][stage];
        let b = |stage, _, _| [7, 1][stage];
        let network = |time| Network {
            stages: 2,
            batches: &[1, 2],
            time,
        };
        let tasks = vec![timeline::task(0, 20), timeline::task(1, 50)];
        timeline::plan(&[UNITS], &[network(&a), network(&b)], tasks)
    }

    /// | window ends | job | due | runs |
    /// |---|---|---|---|
    /// | 10 | A: frames of 1 and 7 | 20 | 10-15 |
    /// | 20 | A: frame of 12 | 30 | 20-23 |
    /// | 25 | B: frame of 2 | 50 | 25-33, not preempted |
    /// | 30 | A: frame of 21 | 40 | 33-36 |
    #[test]
    fn frames_of_a_window_are_one_job_and_jobs_run_by_earliest_deadline() {
        let frames = [(1, 0), (2, 1), (7, 0), (12, 0), (21, 0)];
        let played = timeline::play(&plan(), &DeeprtConfig::default(), &frames, &|_, _| {
            punctual_core::Confidence::ONE
        });
        let began = played
            .ran
            .iter()
            .filter(|ran| ran.infer.stage == StageId(0));
        let began: Vec<_> = began.map(|ran| (ran.at, ran.members.clone())).collect();
        let expected = [
            (10, vec![0, 2]),
            (20, vec![3]),
            (25, vec![1]),
            (33, vec![4]),
        ];
        assert_eq!(began, expected);
        let answered: Vec<u64> = (0..5).map(|frame| played.replies[&frame].0).collect();
        assert_eq!(answered, [15, 33, 15, 23, 36]);
        let depths = played.replies.values().map(|(_, reply)| reply.answer);
        assert!(
            depths
                .into_iter()
                .all(|a| a.is_some_and(|(exit, _)| exit == StageId(1)))
        );
    }

    /// The first job of A takes 6 ms instead of 3: a debt of 3. Each later job leaves out the last
    /// stage, 1 ms, until that is repaid.
    #[test]
    fn a_category_that_overran_stops_an_exit_early_until_it_has_repaid() {
        let frames = [(1, 0), (11, 0), (21, 0), (31, 0), (41, 0)];
        let exits = |rules: DeeprtConfig| {
            let sure = |_, _| punctual_core::Confidence::ONE;
            let late = |infer: &punctual_core::Infer| 1 + u64::from(infer.id.0 < 2);
            let played = timeline::stretched(&plan(), &rules, &frames, &sure, &late);
            let replies = played.replies.values();
            let exits = replies.map(|(_, reply)| reply.answer.expect("answered").0.0);
            exits.collect::<Vec<_>>()
        };
        assert_eq!(exits(DeeprtConfig::default()), [1, 0, 0, 0, 1]);
        let never = DeeprtConfig {
            adaptation: false,
            ..DeeprtConfig::default()
        };
        assert_eq!(exits(never), [1; 5]);
    }

    /// A frame that is refused at the very moment at which a window ends.
    #[test]
    fn an_arrival_does_not_take_the_place_of_the_end_of_a_window() {
        let mut config = plan();
        config.request_buffers = 1;
        let played = timeline::play(
            &config,
            &DeeprtConfig::default(),
            &[(1, 0), (10, 0)],
            &|_, _| punctual_core::Confidence::ONE,
        );
        assert_eq!(played.ran[0].at, 10);
        assert!(played.replies[&1].1.answer.is_none());
    }

    #[test]
    fn a_task_that_does_not_fit_is_not_taken_on_and_its_frames_are_rejected() {
        let admitted = |rules: DeeprtConfig| {
            let mut config = plan();
            // W = 9: one frame of 8 ms in it, in addition to A.
            config.tasks[1] = timeline::task(1, 18);
            let played = timeline::play(&config, &rules, &[(1, 0), (2, 1)], &|_, _| {
                punctual_core::Confidence::ONE
            });
            (0..2)
                .map(|frame| played.replies[&frame].1.answer.is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!(admitted(DeeprtConfig::default()), [true, false]);
        let all = DeeprtConfig {
            admission: false,
            ..DeeprtConfig::default()
        };
        assert_eq!(admitted(all), [true, true]);
    }
}

//! The plan in the form that decisions need: costs with the dispatch cost and the present scale, the
//! work left before each stage, gains by confidence.

use serde::{Deserialize, Serialize};

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::gain::best_gain;
use crate::config::{
    ACCURACY_BINS, Answers, Config, Criticality, Delivery, ModelConfig, TaskConfig,
};
use crate::ids::{BATCH_MAX, Confidence, ModelId, PartitionId, STAGES_MAX, StageId, TaskId};
use crate::offline;
use crate::punctual::places::Places;
use crate::punctual::readiness::{Readiness, UNMEASURED};
use crate::time::{Instant, Nanos};
use crate::validate;

/// Scale levels (sigma): the factors by which all budgets grow while the board is slow. Steps of 1.125,
/// in 1/65536, rounded up so that a scaled budget is never too short.
pub const SCALES: [u64; 8] = [
    65_536, 73_728, 82_944, 93_312, 104_976, 118_098, 132_861, 149_468,
];

/// Position of a (partition, model, stage) in [`Tables::rows`]. Equal stages of several models run as one
/// row (Nexus): requests whose next stages run as equal rows can share a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Row(u32);

impl Row {
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A stage of a model on a partition.
#[derive(Clone, Debug)]
pub struct StageRow {
    pub model: ModelId,
    pub stage: StageId,
    /// The row that it runs as: its own, unless it is another model's stage as well.
    pub runs_as: Row,
    /// Whether it ends in an exit.
    pub answers: bool,
    /// C at batch 1 of the stages after it up to the next exit; zero if it ends in an exit itself.
    onward: Nanos,
    /// The shortest time at batch 1 from its start to the next answer, on its home or a place.
    soonest: Nanos,
    /// Compiled batch sizes that may be used, rising from 1.
    pub sizes: heapless::Vec<u8, BATCH_MAX>,
    /// Profiled budgets, by size.
    pub budget: [Nanos; BATCH_MAX],
    /// Longest times ever measured, by size.
    pub max_seen: [Nanos; BATCH_MAX],
    /// C: budget times scale plus dispatch cost, by size.
    pub cost: [Nanos; BATCH_MAX],
    /// The gain of this stage for a request with an answer at the exit before, by the bin of its
    /// confidence there ([`best_gain`]). In 1/65535 of accuracy, 16 fractional bits.
    pub gain: [u64; ACCURACY_BINS],
}

impl StageRow {
    /// C at batch 1 of the stages after it up to the next exit.
    pub const fn onward(&self) -> Nanos {
        self.onward
    }

    /// The position of the smallest batch size that holds this many requests.
    pub fn size_holding(&self, members: usize) -> Option<usize> {
        let mut sizes = self.sizes.iter();
        sizes.position(|&size| usize::from(size) >= members)
    }

    /// C at batch 1.
    pub fn cost_alone(&self) -> Nanos {
        self.cost[0]
    }

    pub fn gain_of(&self, confidence: Confidence) -> u64 {
        const BIN_WIDTH: usize = (1 << 16) / ACCURACY_BINS;
        self.gain[usize::from(confidence.0) / BIN_WIDTH]
    }
}

#[derive(Clone, Debug)]
pub struct TaskTable {
    pub model: ModelId,
    pub partition: PartitionId,
    pub criticality: Criticality,
    /// D as the client knows it, with the egress bound.
    pub deadline: Option<Nanos>,
    /// D less the egress bound.
    own_due: Option<Nanos>,
    pub period: Nanos,
    pub burst: u8,
    pub jitter: Nanos,
    pub prepare: Nanos,
    pub mandatory_exit: StageId,
    pub stages: u8,
    /// How many of its first stages its requests may run at present, up to an exit ([`Tables::set_ready`]).
    pub ready: u8,
    /// Whether its mandatory exit can run, and not as it was measured.
    pub unmeasured: bool,
    /// Whether that will stay so.
    pub stays_general: bool,
    /// Whether the offline test allows that its stages stop late, as general solutions may.
    pub stops_in_time: bool,
    pub threshold: Confidence,
    pub threshold_min: Confidence,
    pub batch_max: u8,
    pub queue_max: u16,
    /// Buffers and queue places that only its conforming requests may take.
    pub reserved_buffers: u16,
    pub answers: Answers,
    pub weight: u16,
    /// The task to which it offloads frames that it would reject.
    pub offload_to: Option<TaskId>,
    /// Whether a newer frame of the same client replaces one that still waits.
    pub latest: bool,
    /// Whether its capacity is guaranteed at the present scale.
    pub guaranteed: bool,
    /// Bit `l`: guaranteed at scale level `l`.
    guaranteed_levels: u8,
    first: Row,
    /// Mandatory work at batch 1 left before each stage (0 beyond the mandatory exit).
    work_left: [Nanos; STAGES_MAX + 1],
    /// C/T in 2^-32, rounded up: the slope of the line that replaces the task's steps in F must not be
    /// less than theirs (`slack`).
    pub slope: u64,
}

const _: () = assert!(SCALES.len() <= u8::BITS as usize, "one bit a level");

impl TaskTable {
    /// The row of a stage, which may run as another.
    const fn own_row(&self, stage: StageId) -> Row {
        debug_assert!(stage.0 < self.stages, "the next row is another model's");
        Row(self.first.0 + stage.0 as u32)
    }

    /// Mandatory work at batch 1 from `stage` on.
    pub fn work_from(&self, stage: StageId) -> Nanos {
        self.work_left[stage.index()]
    }

    pub fn is_real_time(&self) -> bool {
        self.criticality == Criticality::RealTime
    }

    /// D less the egress bound.
    pub fn own_due(&self) -> Option<Nanos> {
        self.own_due
    }

    /// All mandatory work of a request.
    pub fn work(&self) -> Nanos {
        self.work_left[0]
    }

    /// That of all requests of a period (C).
    pub fn reserved_work(&self) -> Nanos {
        self.work().saturating_mul(u64::from(self.burst))
    }
}

/// All tables.
///
/// Promises: all costs of a partition, the work of its tasks and the set of guaranteed tasks are those of
/// its present scale level.
#[derive(Clone, Debug)]
pub struct Tables {
    tasks: Box<[TaskTable]>,
    /// By partition: its reserved tasks. Others, of which there may be thousands, are in no scan of the slack.
    reserved: Box<[Box<[TaskId]>]>,
    /// By model: the tasks that run any of its stages, so that nothing about one model is looked for in all tasks.
    running: Box<[Box<[TaskId]>]>,
    /// By partition and level: min of L - dbf(L), the longest time that an action may block.
    blocking: Box<[[Nanos; SCALES.len()]]>,
    rows: Box<[StageRow]>,
    /// By row, then by size: C of all stages from this one on. Empty for a plan without places.
    to_last: Box<[[Nanos; BATCH_MAX]]>,
    /// The present scale level of each partition.
    levels: Box<[usize]>,

    /// Rows of one partition.
    rows_each: usize,
    dispatch_cost: Nanos,
    egress_bound: Nanos,
}

impl Tables {
    /// From a plan that [`validate::check`] has accepted. Without `batching`, every batch has one member.
    pub fn new(config: &Config, batching: bool) -> Self {
        let mut firsts = Vec::with_capacity(config.models.len());
        let mut rows_each = 0;
        for model in &config.models {
            firsts.push(rows_each);
            rows_each += model.stages.len();
        }
        let mut rows = Vec::with_capacity(rows_each * config.partitions.len());
        for partition in 0..config.partitions.len() {
            for (index, model) in config.models.iter().enumerate() {
                for (stage, config) in model.stages.iter().enumerate() {
                    // Every partition has all rows in the same order, so a row needs no search.
                    let as_model = config.runs_as.map_or(index, ModelId::index);
                    let at = partition * rows_each + firsts[as_model] + stage;
                    let mut row = stage_row(ModelId(index as u16), model, stage, partition);
                    row.runs_as = Row(at as u32);
                    // Batch 1 is always compiled, and comes first.
                    if !batching {
                        row.sizes.truncate(1);
                    }
                    rows.push(row);
                }
            }
        }
        let task_table = |task: &TaskConfig| {
            let first = task.partition.index() * rows_each + firsts[task.model.index()];
            TaskTable {
                model: task.model,
                partition: task.partition,
                criticality: task.criticality,
                deadline: task.deadline,
                own_due: task.deadline.map(|d| d.saturating_sub(config.egress_bound)),
                period: task.period,
                burst: task.burst,
                jitter: task.jitter,
                prepare: task.prepare,
                mandatory_exit: task.mandatory_exit,
                stages: config.models[task.model.index()].stages.len() as u8,
                ready: config.models[task.model.index()].stages.len() as u8,
                unmeasured: false,
                stays_general: false,
                stops_in_time: false,
                threshold: task.threshold,
                threshold_min: task.threshold_min,
                batch_max: task.batch_max,
                queue_max: task.queue_max,
                reserved_buffers: validate::reserved_buffers(task) as u16,
                answers: task.answers,
                weight: task.weight,
                offload_to: task.offload_to,
                latest: task.delivery == Delivery::LatestFrame,
                guaranteed: task.reserved,
                guaranteed_levels: 0,
                first: Row(first as u32),
                work_left: [Nanos::ZERO; STAGES_MAX + 1],
                slope: 0,
            }
        };
        let mut tables = Self {
            tasks: config.tasks.iter().map(task_table).collect(),
            reserved: (0..config.partitions.len())
                .map(|partition| reserved_on(config, partition))
                .collect(),
            running: config.tasks_by_model(),
            blocking: alloc::vec![[Nanos::ZERO; SCALES.len()]; config.partitions.len()].into(),
            levels: alloc::vec![0; config.partitions.len()].into(),
            to_last: if config.models.iter().all(|model| model.places.is_empty()) {
                Box::default()
            } else {
                alloc::vec![[Nanos::ZERO; BATCH_MAX]; rows.len()].into()
            },
            rows: rows.into(),
            rows_each,
            dispatch_cost: config.dispatch_cost,
            egress_bound: config.egress_bound,
        };
        for index in 0..config.partitions.len() {
            let partition = PartitionId(index as u16);
            tables.choose_guaranteed_sets(config, partition);
            tables.set_level(partition, 0);
        }
        tables
    }

    /// δ.
    pub fn dispatch_cost(&self) -> Nanos {
        self.dispatch_cost
    }

    pub fn task(&self, task: TaskId) -> &TaskTable {
        &self.tasks[task.index()]
    }

    pub fn tasks(&self) -> &[TaskTable] {
        &self.tasks
    }

    /// The reserved tasks of a partition, whether or not they are guaranteed at its scale.
    pub fn reserved(&self, partition: usize) -> &[TaskId] {
        &self.reserved[partition]
    }

    /// The tasks that run any of a model's stages, on whichever partition.
    pub fn running(&self, model: ModelId) -> &[TaskId] {
        &self.running[model.index()]
    }

    /// The longest time that an action may block a partition: min of L - dbf(L) at its scale.
    pub fn blocking_allowed(&self, partition: usize) -> Nanos {
        self.blocking[partition][self.levels[partition]]
    }

    /// The rows of a task's stages.
    pub fn rows_of(&self, table: &TaskTable) -> &[StageRow] {
        let first = table.own_row(StageId(0)).index();
        &self.rows[first..first + usize::from(table.stages)]
    }

    /// The row that a stage of a task's model runs as. Requests that wait for equal rows can share a batch.
    pub fn row_of(&self, table: &TaskTable, stage: StageId) -> Row {
        self.own(table, stage).runs_as
    }

    /// The task's own row of a stage, with its own gains and exit, whatever it runs as. Calibration
    /// belongs to each model, also where models share a stage.
    pub fn own(&self, table: &TaskTable, stage: StageId) -> &StageRow {
        self.row(table.own_row(stage))
    }

    /// The shortest time at batch 1 from the start of a stage to the next answer, on the home or a place.
    pub fn soonest_answer(&self, task: TaskId, stage: StageId) -> Nanos {
        self.own(self.task(task), stage).soonest
    }

    /// The time at batch 1 from the start of a stage to the next answer.
    pub fn cost_to_answer(&self, task: TaskId, stage: StageId) -> Nanos {
        let own = self.own(self.task(task), stage);
        own.cost_alone() + own.onward
    }

    pub fn row(&self, row: Row) -> &StageRow {
        &self.rows[row.index()]
    }

    /// The row of the same stage on another partition.
    pub fn row_at(&self, partition: usize, row: Row) -> Row {
        Row((partition * self.rows_each + row.index() % self.rows_each) as u32)
    }

    /// C of all stages from this one on, at a batch size.
    pub fn to_last(&self, row: Row, size: usize) -> Nanos {
        self.to_last[row.index()][size]
    }

    /// How many stages from this one on end within a time, at a batch size.
    pub fn stages_within(&self, row: Row, size: usize, time: Nanos) -> usize {
        let (whole, rows) = (self.to_last(row, size), &self.to_last[row.index()..]);
        let stages = rows.iter().zip(&self.rows[row.index()..]);
        // C of the first stages is what those after them leave of the whole.
        let of_model = stages
            .skip(1)
            .take_while(|(_, r)| r.model == self.row(row).model);
        let after = of_model.map(|(left, _)| left[size]);
        let fits = after.take_while(|after| whole.saturating_sub(*after) <= time);
        fits.count()
    }

    /// The present scale level of a partition.
    pub fn level(&self, partition: usize) -> usize {
        self.levels[partition]
    }

    /// The time by which the policy must decide an answer: the client's deadline less the egress bound.
    pub fn due(&self, deadline: Instant) -> Instant {
        // No deadline stays no deadline, as other code compares with `FAR_FUTURE`.
        if deadline == Instant::FAR_FUTURE {
            return deadline;
        }
        deadline - self.egress_bound
    }

    /// When an answer for a client must leave that has taken up to `egress` to get answers.
    pub fn leave_by(&self, deadline: Instant, egress: Nanos) -> Instant {
        self.due(deadline).min(match deadline {
            Instant::FAR_FUTURE => deadline,
            deadline => deadline - egress,
        })
    }

    /// By partition.
    pub fn levels(&self) -> &[usize] {
        &self.levels
    }

    /// Changes how much of the networks can run of the tasks that run a model.
    pub fn set_ready(&mut self, model: ModelId, readiness: &Readiness) {
        for at in 0..self.running(model).len() {
            let task = self.running(model)[at].index();
            let measured = self.exits_within(task, |row| readiness.is_measured(row));
            let all = self.exits_within(task, |row| readiness.can_run(row));
            let mandatory = usize::from(self.tasks[task].mandatory_exit.0) + 1;
            let mut rows = self.rows_of(&self.tasks[task]).iter().take(mandatory);
            let stays_general = rows.any(|row| readiness.stays_general(self.row(row.runs_as)));
            let task = &mut self.tasks[task];
            task.stays_general = stays_general;
            let is_planned = measured > task.mandatory_exit.0;
            task.unmeasured = !is_planned && all > task.mandatory_exit.0;
            task.ready = if is_planned { measured } else { all };
        }
    }

    /// A fault: as if nothing were loaded.
    #[cfg(test)]
    pub fn set_unready(&mut self) {
        self.tasks.iter_mut().for_each(|task| task.ready = 0);
    }

    /// How many of a task's first stages run, up to the last exit among them: a stage after that would lead to no answer.
    fn exits_within(&self, task: usize, runs: impl Fn(&StageRow) -> bool) -> u8 {
        let rows = self.rows_of(&self.tasks[task]).iter();
        let running = rows.take_while(|row| runs(self.row(row.runs_as)));
        let exits = running.filter(|row| row.answers);
        exits.last().map_or(0, |row| row.stage.0 + 1)
    }

    /// Changes the scale of a partition: its costs, its tasks' work, and the set of guaranteed tasks. The
    /// caller recomputes the work of the promises there.
    pub fn set_level(&mut self, partition: PartitionId, level: usize) {
        debug_assert!(level < SCALES.len(), "there is no scale level {level}");
        self.levels[partition.index()] = level;
        let start = partition.index() * self.rows_each;
        for row in &mut self.rows[start..start + self.rows_each] {
            let mut smaller = Nanos::ZERO;
            for (cost, budget) in row.cost.iter_mut().zip(row.budget) {
                // A batch costs no less than a smaller one, even if it was measured so: when a member of
                // a joint promise ends, the batch of the others must not cost more than was promised.
                *cost = smaller.max(scaled(budget, level) + self.dispatch_cost);
                smaller = *cost;
            }
        }
        // From the last stage to the first: each needs the time of the stages after it.
        for at in (start..start + self.rows_each).rev() {
            self.rows[at].onward = if self.rows[at].answers {
                Nanos::ZERO
            } else {
                // `validate::check`: a model's last stage ends in an exit, so the next row is of this model.
                self.rows[at + 1].cost_alone() + self.rows[at + 1].onward
            };
        }
        self.sum_to_last(start..start + self.rows_each);
        for task in self.tasks.iter_mut().filter(|t| t.partition == partition) {
            let mut left = Nanos::ZERO;
            task.work_left = [Nanos::ZERO; STAGES_MAX + 1];
            for stage in (0..=task.mandatory_exit.index()).rev() {
                left += self.rows[task.first.index() + stage].cost_alone();
                task.work_left[stage] = left;
            }
            let period = u128::from(task.period.as_nanos().max(1));
            let work = task.reserved_work();
            let slope = (u128::from(work.as_nanos()) << 32).div_ceil(period);
            task.slope = u64::try_from(slope).unwrap_or(u64::MAX);
            task.guaranteed = task.guaranteed_levels >> level & 1 == 1;
        }
    }

    fn sum_to_last(&mut self, rows: core::ops::Range<usize>) {
        if self.to_last.is_empty() {
            return;
        }
        for at in rows.clone().rev() {
            let next = at + 1;
            let follows = next < rows.end && self.rows[next].model == self.rows[at].model;
            let row = &self.rows[at];
            for size in 0..BATCH_MAX {
                // A later stage may be compiled for fewer sizes.
                let cost = row.cost[size.min(row.sizes.len() - 1)];
                let after = if follows {
                    self.to_last[next][size]
                } else {
                    Nanos::ZERO
                };
                self.to_last[at][size] = cost + after;
            }
        }
    }

    /// Finds for each stage the partition on which its next answer comes soonest: its home or a place.
    pub fn find_soonest(&mut self, places: &Places) {
        for at in 0..self.rows.len() {
            let (home, model) = (at / self.rows_each, self.rows[at].model);
            let alone = |row: &StageRow| row.cost_alone() + row.onward;
            let mut soonest = alone(&self.rows[at]);
            if places.is_home(home) {
                for &place in places.of(home, model) {
                    let there = self.row_at(place.into(), Row(at as u32));
                    soonest = soonest.min(alone(&self.rows[there.index()]));
                }
            }
            self.rows[at].soonest = soonest;
        }
    }

    /// Chooses the nested sets of guaranteed tasks, G(0) ⊇ G(1) ⊇ ...: at each level those of the level
    /// before, without as many as the offline test requires. A task of least weight goes first; of equal
    /// weights, the one with the largest C/T.
    ///
    /// The sets are made here, once, and nested. So the way to a slower level and back passes the same
    /// sets, whatever happens online.
    fn choose_guaranteed_sets(&mut self, config: &Config, partition: PartitionId) {
        let mut demands = offline::demands(config, partition);
        let preemption = offline::preemption(config, partition);
        // Only the gaps of tasks without a deadline ask.
        let is_asked = |task: &TaskTable| task.partition == partition && task.deadline.is_none();
        let mut stops_in_time = self.tasks.iter().any(is_asked);
        for level in 0..SCALES.len() {
            for demand in &mut demands {
                let task = &config.tasks[demand.task.index()];
                let stages = &config.models[task.model.index()].stages;
                let cost = |stage: usize| {
                    scaled(stages[stage].times[0].on[partition.index()].budget, level)
                        + config.dispatch_cost
                };
                let mandatory = 0..=task.mandatory_exit.index();
                demand.longest_stage = mandatory.clone().map(cost).max().unwrap_or(Nanos::ZERO);
                let work = mandatory.map(cost).fold(Nanos::ZERO, |sum, c| sum + c);
                demand.work = work.saturating_mul(u64::from(task.burst));
            }
            while offline::test(&demands, preemption).outcome.is_err() {
                let Some(dropped) = demands.iter_mut().filter(|d| d.reserved).min_by_key(|d| {
                    let share =
                        (u128::from(d.work.as_nanos()) << 32) / u128::from(d.period.as_nanos());
                    (config.tasks[d.task.index()].weight, u128::MAX - share)
                }) else {
                    break;
                };
                dropped.reserved = false;
            }
            let late = preemption.map(|preemption| preemption.saturating_mul(UNMEASURED));
            stops_in_time = stops_in_time && offline::test(&demands, late).outcome.is_ok();
            self.blocking[partition.index()][level] = offline::blocking_allowed(&demands);
            for demand in demands.iter().filter(|d| d.reserved) {
                self.tasks[demand.task.index()].guaranteed_levels |= 1 << level;
            }
        }
        for task in self.tasks.iter_mut().filter(|task| is_asked(task)) {
            task.stops_in_time = stops_in_time;
        }
    }
}

fn reserved_on(config: &Config, partition: usize) -> Box<[TaskId]> {
    let tasks = (0..).map(TaskId).zip(&config.tasks);
    let here = tasks.filter(|(_, task)| task.reserved && task.partition.index() == partition);
    here.map(|(id, _)| id).collect()
}

/// A budget at a scale level, rounded up.
pub fn scaled(budget: Nanos, level: usize) -> Nanos {
    let wide = u128::from(budget.as_nanos()) * u128::from(SCALES[level]);
    Nanos::new(wide.div_ceil(u128::from(SCALES[0])) as u64)
}

fn stage_row(id: ModelId, model: &ModelConfig, stage: usize, partition: usize) -> StageRow {
    let mut row = StageRow {
        model: id,
        stage: StageId(stage as u8),
        runs_as: Row(0),
        answers: model.stages[stage].answers,
        onward: Nanos::ZERO,
        soonest: Nanos::ZERO,
        sizes: heapless::Vec::new(),
        budget: [Nanos::ZERO; BATCH_MAX],
        max_seen: [Nanos::ZERO; BATCH_MAX],
        cost: [Nanos::ZERO; BATCH_MAX],
        gain: [0; ACCURACY_BINS],
    };
    for (index, time) in model.stages[stage].times.iter().enumerate() {
        row.sizes
            .push(time.batch)
            .expect("validated: at most BATCH_MAX sizes");
        row.budget[index] = time.on[partition].budget;
        row.max_seen[index] = time.on[partition].max_seen;
    }
    if stage > 0 {
        for (bin, gain) in row.gain.iter_mut().enumerate() {
            *gain = best_gain(model, stage, partition, bin);
        }
    }
    row
}

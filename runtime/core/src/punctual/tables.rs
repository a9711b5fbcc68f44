//! What the plan says, in the form that decisions need it: costs with the dispatch cost and the
//! present scale, work left by stage, gains by confidence.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::gain::best_gain;
use crate::config::{ACCURACY_BINS, Config, Criticality, Delivery, ModelConfig, TaskConfig};
use crate::ids::{BATCH_MAX, Confidence, ModelId, PartitionId, STAGES_MAX, StageId, TaskId};
use crate::offline;
use crate::time::{Instant, Nanos};
use crate::validate;

/// Scale levels (sigma): by how much all budgets are lengthened while the board is slow. Steps of
/// 1.125, in 1/65536, rounded up.
pub const SCALES: [u64; 8] = [
    65_536, 73_728, 82_944, 93_312, 104_976, 118_098, 132_861, 149_468,
];

/// Position of a (partition, model, stage) in [`Tables::rows`]. Stages that are the same, of whatever
/// models, run as one row: requests whose next stages run as equal rows can be in one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// C at batch 1 of the stages after it up to the next exit; zero if it ends in one itself.
    onward: Nanos,
    /// Compiled batch sizes that may be used, rising from 1.
    pub sizes: heapless::Vec<u8, BATCH_MAX>,
    /// Profiled budgets, by size.
    pub budget: [Nanos; BATCH_MAX],
    /// Longest times ever measured, by size.
    pub max_seen: [Nanos; BATCH_MAX],
    /// Budget times scale plus dispatch cost, by size (the policy's C).
    pub cost: [Nanos; BATCH_MAX],
    /// What running this stage is worth to a request with an answer at the exit before, by the
    /// bin of its confidence there: the best rate of gain in expected accuracy over the deeper
    /// exits, times C of this stage. In 1/65535 of accuracy, 16 fractional bits.
    pub gain: [u64; ACCURACY_BINS],
}

impl StageRow {
    /// C at batch 1 of the stages after it up to the next exit.
    pub const fn onward(&self) -> Nanos {
        self.onward
    }

    /// The smallest batch size, by position, that holds so many requests.
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

/// A task, as decisions need it.
#[derive(Clone, Debug)]
pub struct TaskTable {
    pub model: ModelId,
    pub partition: PartitionId,
    pub criticality: Criticality,
    /// D as the client knows it, before the egress bound is taken off.
    pub deadline: Option<Nanos>,
    /// D less the egress bound.
    own_due: Option<Nanos>,
    pub period: Nanos,
    pub jitter: Nanos,
    pub prepare: Nanos,
    pub mandatory_exit: StageId,
    pub stages: u8,
    pub threshold: Confidence,
    pub threshold_min: Confidence,
    pub batch_max: u8,
    pub queue_max: u16,
    /// Buffers and queue places that only its conforming requests may take.
    pub reserved_buffers: u16,
    pub eager: bool,
    pub weight: u16,
    /// Who takes on what it would refuse.
    pub spill: Option<TaskId>,
    /// Whether a newer frame takes the place of one that still waits.
    pub latest: bool,
    /// Whether its capacity is guaranteed at the present scale.
    pub guaranteed: bool,
    /// Bit `l`: guaranteed at scale level `l`.
    guaranteed_levels: u8,
    first: Row,
    /// Mandatory work at batch 1 left before each stage (0 beyond the mandatory exit).
    left: [Nanos; STAGES_MAX + 1],
    /// C/T in 2^-32, rounded up.
    pub slope: u64,
}

impl TaskTable {
    /// The row of a stage, which may run as another.
    const fn own_row(&self, stage: StageId) -> Row {
        Row(self.first.0 + stage.0 as u32)
    }

    /// Mandatory work at batch 1 from `stage` on.
    pub fn work_from(&self, stage: StageId) -> Nanos {
        self.left[stage.index()]
    }

    pub fn is_real_time(&self) -> bool {
        self.criticality == Criticality::RealTime
    }

    /// D less the egress bound.
    pub fn own_due(&self) -> Option<Nanos> {
        self.own_due
    }

    /// All mandatory work (C).
    pub fn work(&self) -> Nanos {
        self.left[0]
    }
}

/// All tables, lent for reading.
///
/// Promises: all costs of a partition are those of its present level, and with them its tasks' work
/// and who is guaranteed.
#[derive(Clone, Debug)]
pub struct Tables {
    /// By layout, the first being the tasks' own; then by task.
    layouts: Box<[Box<[TaskTable]>]>,
    /// The present one.
    layout: usize,
    /// By layout, partition and level: the longest that anything may block there.
    blocking: Box<[[Nanos; SCALES.len()]]>,
    rows: Box<[StageRow]>,
    /// The present scale level of each partition.
    levels: Box<[usize]>,
    /// Rows of one partition.
    rows_each: usize,
    dispatch_cost: Nanos,
    egress_bound: Nanos,
    switch_cost: Nanos,
}

impl Tables {
    /// From a plan that [`validate::check`] has accepted. Without `batching` one request at a time.
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
                    let as_model = config.runs_as.map_or(index, ModelId::index);
                    let at = partition * rows_each + firsts[as_model] + stage;
                    let mut row = stage_row(ModelId(index as u16), model, stage, partition);
                    row.runs_as = Row(at as u32);
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
                jitter: task.jitter,
                prepare: task.prepare,
                mandatory_exit: task.mandatory_exit,
                stages: config.models[task.model.index()].stages.len() as u8,
                threshold: task.threshold,
                threshold_min: task.threshold_min,
                batch_max: task.batch_max,
                queue_max: task.queue_max,
                reserved_buffers: validate::kept(task) as u16,
                eager: task.eager,
                weight: task.weight,
                spill: task.spill,
                latest: task.delivery == Delivery::LatestFrame,
                guaranteed: task.reserved,
                guaranteed_levels: 0,
                first: Row(first as u32),
                left: [Nanos::ZERO; STAGES_MAX + 1],
                slope: 0,
            }
        };
        let layouts: Vec<Config> = (0..=config.layouts.len())
            .map(|layout| config.in_layout(layout))
            .collect();
        let mut tables = Self {
            layouts: layouts
                .iter()
                .map(|config| config.tasks.iter().map(task_table).collect())
                .collect(),
            layout: 0,
            blocking: alloc::vec![
                [Nanos::ZERO; SCALES.len()];
                layouts.len() * config.partitions.len()
            ]
            .into(),
            levels: alloc::vec![0; config.partitions.len()].into(),
            rows: rows.into(),
            rows_each,
            dispatch_cost: config.dispatch_cost,
            egress_bound: config.egress_bound,
            switch_cost: config.switch_cost,
        };
        for index in 0..config.partitions.len() {
            let partition = PartitionId(index as u16);
            for (layout, config) in layouts.iter().enumerate() {
                tables.choose_guaranteed_sets(config, layout, partition);
            }
            tables.set_level(partition, 0);
        }
        tables
    }

    /// δ.
    pub fn dispatch_cost(&self) -> Nanos {
        self.dispatch_cost
    }

    /// R.
    pub fn switch_cost(&self) -> Nanos {
        self.switch_cost
    }

    pub fn task(&self, task: TaskId) -> &TaskTable {
        &self.tasks()[task.index()]
    }

    /// The tasks under the present layout.
    pub fn tasks(&self) -> &[TaskTable] {
        &self.layouts[self.layout]
    }

    pub fn tasks_in(&self, layout: usize) -> &[TaskTable] {
        &self.layouts[layout]
    }

    pub fn layouts(&self) -> usize {
        self.layouts.len()
    }

    pub const fn layout(&self) -> usize {
        self.layout
    }

    pub fn set_layout(&mut self, layout: usize) {
        self.layout = layout;
    }

    /// The longest that anything may block a partition of the present layout.
    pub fn blocking_allowed(&self, partition: usize) -> Nanos {
        self.blocking[self.layout * self.levels.len() + partition][self.levels[partition]]
    }

    /// The rows of a task's stages.
    pub fn rows_of(&self, table: &TaskTable) -> &[StageRow] {
        let first = table.own_row(StageId(0)).index();
        &self.rows[first..first + usize::from(table.stages)]
    }

    /// What a stage of a task's model runs as: who waits for equal rows can share a batch.
    pub fn row_of(&self, table: &TaskTable, stage: StageId) -> Row {
        self.own(table, stage).runs_as
    }

    /// The task's own row of a stage: its gains and its exit, whatever it runs as.
    pub fn own(&self, table: &TaskTable, stage: StageId) -> &StageRow {
        self.row(table.own_row(stage))
    }

    /// What a request that starts a stage takes alone until it has its next answer.
    pub fn cost_to_answer(&self, task: TaskId, stage: StageId) -> Nanos {
        let own = self.own(self.task(task), stage);
        own.cost_alone() + own.onward
    }

    pub fn row(&self, row: Row) -> &StageRow {
        &self.rows[row.index()]
    }

    /// Takes the egress bound off a deadline that a client knows.
    pub fn due(&self, deadline: Instant) -> Instant {
        if deadline == Instant::FAR_FUTURE {
            return deadline;
        }
        deadline - self.egress_bound
    }

    /// Changes the scale of a partition: its costs, its tasks' work, and who is guaranteed.
    pub fn set_level(&mut self, partition: PartitionId, level: usize) {
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
        for at in (start..start + self.rows_each).rev() {
            self.rows[at].onward = if self.rows[at].answers {
                Nanos::ZERO
            } else {
                // A model's last stage ends in an exit, so the next row is of the same model.
                self.rows[at + 1].cost_alone() + self.rows[at + 1].onward
            };
        }
        let tasks = self.layouts.iter_mut().flatten();
        for task in tasks.filter(|t| t.partition == partition) {
            let mut left = Nanos::ZERO;
            task.left = [Nanos::ZERO; STAGES_MAX + 1];
            for stage in (0..=task.mandatory_exit.index()).rev() {
                left += self.rows[task.first.index() + stage].cost_alone();
                task.left[stage] = left;
            }
            let period = u128::from(task.period.as_nanos().max(1));
            let slope = (u128::from(left.as_nanos()) << 32).div_ceil(period);
            task.slope = u64::try_from(slope).unwrap_or(u64::MAX);
            task.guaranteed = task.guaranteed_levels >> level & 1 == 1;
        }
    }

    /// The nested sets G(0) ⊇ G(1) ⊇ ...: at each level the tasks of the level before, less as
    /// many as the offline test demands, least weight first, then the largest share.
    fn choose_guaranteed_sets(&mut self, config: &Config, layout: usize, partition: PartitionId) {
        let mut demands = offline::demands(config, partition);
        let preemption = offline::preemption(config, partition);
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
                demand.work = mandatory.map(cost).fold(Nanos::ZERO, |sum, c| sum + c);
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
            let at = layout * config.partitions.len() + partition.index();
            self.blocking[at][level] = offline::blocking_allowed(&demands);
            for demand in demands.iter().filter(|d| d.reserved) {
                self.layouts[layout][demand.task.index()].guaranteed_levels |= 1 << level;
            }
        }
    }
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

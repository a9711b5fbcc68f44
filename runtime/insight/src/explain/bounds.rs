//! How long the plan lets each part of a frame take.

use punctual_core::{
    Config, Instant, Nanos, PartitionId, StageConfig, StageId, TaskConfig, TaskId,
};

/// A plan, asked for what a recording names: it may be another's, or damaged.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'c> {
    pub config: &'c Config,
}

impl<'c> Bounds<'c> {
    pub fn task(self, task: TaskId) -> Option<&'c TaskConfig> {
        self.config.tasks.get(task.index())
    }

    fn stages(self, task: &TaskConfig) -> &'c [StageConfig] {
        let model = self.config.models.get(task.model.index());
        model.map_or(&[], |model| &model.stages)
    }

    /// C: a stage's budget alone in its batch on its task's partition, and the bound on a decision.
    fn cost(self, task: &TaskConfig, stage: &StageConfig) -> Nanos {
        let alone = stage.times.first();
        let time = alone.and_then(|alone| alone.on.get(task.partition.index()));
        time.map_or(Nanos::ZERO, |time| time.budget + self.config.dispatch_cost)
    }

    /// The mandatory work from a stage on.
    pub fn work_from(self, task: &TaskConfig, stage: StageId) -> Nanos {
        let stages = self.stages(task).iter();
        let mandatory = stages.take(task.mandatory_exit.index() + 1);
        let left = mandatory.skip(stage.index());
        left.fold(Nanos::ZERO, |sum, stage| sum + self.cost(task, stage))
    }

    /// When an answer must be decided to be on time.
    pub fn due(self, deadline: Instant) -> Instant {
        match deadline {
            Instant::FAR_FUTURE => deadline,
            deadline => deadline - self.config.egress_bound,
        }
    }

    /// The latest start of a stage after which the mandatory part is late even if nothing else is in its way; none of a
    /// stage beyond it, and without a deadline.
    pub fn latest_start(
        self,
        task: &TaskConfig,
        stage: StageId,
        deadline: Instant,
    ) -> Option<Instant> {
        if stage > task.mandatory_exit || deadline == Instant::FAR_FUTURE {
            return None;
        }
        Some(self.due(deadline) - self.work_from(task, stage))
    }

    /// Whether two partitions have a compute unit in common, so that only one of them runs at a time.
    pub fn overlap(self, one: PartitionId, other: PartitionId) -> bool {
        let units = |id: PartitionId| self.config.partitions.get(id.index()).map(|p| p.units);
        match (units(one), units(other)) {
            (Some(one), Some(other)) => one.overlaps(other),
            _ => one == other,
        }
    }
}

//! What the plan and the policy's parameters allow: where a task may run, what may wait.

use std::vec::Vec;

use super::{Checker, Violation};
use crate::{Criticality, Nanos, PartitionId, PolicyConfig};

impl Checker {
    /// Promised work neither waits for an idle partition nor behind best-effort work that was not
    /// told to stop.
    pub(super) fn check_priorities(&self) -> Result<(), Violation> {
        if !self.config.layouts.is_empty() {
            // While the layout changes, promised work waits; that it is in time is checked.
            return Ok(());
        }
        for open in self.open.values() {
            let task = &self.config.tasks[open.task.index()];
            let promised = self.real_time(open.task)
                && open.prepared
                && !open.running
                && self.memory.is_present(task.model)
                && open.next_stage <= task.mandatory_exit.0;
            if !promised {
                continue;
            }
            match &self.in_flight[task.partition.index()] {
                None if self.may_wait() => {}
                None => return Err(Violation::IdleWhilePromised),
                Some(r) if r.infer.criticality == Criticality::BestEffort && !r.told => {
                    return Err(Violation::BestEffortInTheWay);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Whether one more action may be handed over ahead.
    pub(super) fn is_ahead(&self, partition: usize) -> bool {
        let on =
            matches!(self.config.policy, PolicyConfig::Punctual(p) if p.launch_lead > Nanos::ZERO);
        on && self.ahead[partition].is_none()
    }

    /// Whether promised work may wait for a frame that it could share a batch with.
    fn may_wait(&self) -> bool {
        let on = matches!(self.config.policy, PolicyConfig::Punctual(p) if p.waiting);
        let mut tasks = self.config.tasks.iter();
        on && tasks.any(|task| {
            let sizes = self.config.models[task.model.index()].stages[0].times.len();
            sizes > 1 && task.batch_max > 1
        })
    }

    /// The partitions that each task may run on, in one layout or another.
    pub(super) fn places(&self) -> Vec<Vec<PartitionId>> {
        let of = |(index, task): (usize, &crate::TaskConfig)| {
            let others = self.config.layouts.iter().map(|l| l.partitions[index]);
            others.chain([task.partition]).collect()
        };
        self.config.tasks.iter().enumerate().map(of).collect()
    }
}

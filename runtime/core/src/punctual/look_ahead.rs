//! The next action, handed to a partition shortly before the running one ends, so that the device
//! need not wait for a decision.
//!
//! It cannot be taken back, and blocks whoever comes meanwhile beside the running one: two stages,
//! not one. So it is voluntary, even for the earliest deadline: with f the end of the running action,
//! its cost is taken off every slack (its members' own credited), and none may get negative. If one
//! does, the gap is left. It may start early, if the running one ends early: then it ends early, too.

use crate::actions::Actions;
use crate::punctual::Punctual;
use crate::punctual::ablation::Ablation;
use crate::punctual::slot::{Kind, Running};
use crate::punctual::view::View;
use crate::time::{Instant, Nanos};

impl Punctual {
    /// Hands the next action over, if it is time and endangers nothing.
    pub(crate) fn look_ahead(&mut self, index: usize, actions: &mut Actions) {
        let Some(free) = self
            .view(index)
            .looks_ahead_from()
            .map(|running| running.until)
        else {
            return;
        };
        if free > self.now + self.parameters.launch_lead || free < self.now {
            return;
        }
        self.scan(index, free, None);
        if let Some(choice) = self.view(index).real_time(free)
            && (choice.spare >= 0 || self.ablated(Ablation::UncheckedLookAhead))
        {
            self.start(index, &choice, free, actions);
        }
    }
}

impl View<'_> {
    /// When it will be time.
    pub fn looks_ahead_at(&self) -> Option<Instant> {
        let running = self.looks_ahead_from()?;
        let at = running.until - self.parameters.launch_lead;
        Some(at).filter(|at| *at > self.now)
    }

    /// The running action that another may follow without a decision in between; none while its
    /// end is unknown, another follows already, nothing waits, or the layout may change.
    pub fn looks_ahead_from(&self) -> Option<&Running> {
        let partition = self.partition;
        let waits = partition.queues.promised().iter().any(|p| !p.running)
            || !partition.queues.parked().is_empty();
        let steady = self.tables.layouts() == 1 && partition.overlapping().is_empty();
        if self.parameters.launch_lead == Nanos::ZERO
            || partition.slot.queued().is_some()
            || !(waits && steady)
        {
            return None;
        }
        let running = partition.slot.running();
        running.filter(|r| r.kind != Kind::BestEffort && !r.overran && !r.lost)
    }
}

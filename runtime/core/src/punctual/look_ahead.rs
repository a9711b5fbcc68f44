//! The next action, handed to a partition shortly before the running one ends, so that the device
//! need not wait for a decision.
//!
//! It cannot be taken back, and blocks whoever comes meanwhile beside the running one: two stages,
//! not one. So it is voluntary, even for the earliest deadline: with f the end of the running action,
//! its cost is taken off every slack (its members' own credited), and none may get negative. If one
//! does, the gap is left. It may start early, if the running one ends early: then it ends early, too.

use crate::punctual::ablation::Ablation;
use crate::punctual::choice::Choice;
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::{Kind, Running};
use crate::punctual::view::View;
use crate::time::{Instant, Nanos};

impl View<'_> {
    /// When the partition will be free for an action that is handed over now, if it is time for that.
    pub fn looks_ahead_to(&self) -> Option<Instant> {
        let free = self.looks_ahead_from()?.until;
        (self.now..=self.now + self.parameters.launch_lead)
            .contains(&free)
            .then_some(free)
    }

    /// The next action, if it endangers nothing to hand it over now.
    pub fn choose_ahead(&self, scan: &mut SlackScan, free: Instant) -> Option<Choice> {
        self.scan(scan, free, None);
        let choice = self.real_time(scan, free)?;
        let safe = choice.spare >= 0 || self.ablations.has(Ablation::UncheckedLookAhead);
        safe.then_some(choice)
    }

    /// When it will be time.
    pub fn looks_ahead_at(&self) -> Option<Instant> {
        let running = self.looks_ahead_from()?;
        let at = running.until - self.parameters.launch_lead;
        Some(at).filter(|at| *at > self.now)
    }

    /// The running action that another may follow without a decision in between; none while its
    /// end is unknown, another follows already, nothing waits, or the layout may change.
    fn looks_ahead_from(&self) -> Option<&Running> {
        let partition = self.partition;
        let waits = self.queues.head().is_some() || !self.queues.optional().is_empty();
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

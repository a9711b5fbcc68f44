//! Look-ahead: the next action is handed to a partition shortly before the running one ends, so that the
//! device need not wait for a decision.
//!
//! The action cannot be revoked. A request that becomes urgent meanwhile waits for two stages, the running
//! one and this one, but B in the offline test covers one. So look-ahead is voluntary, even for the EDF
//! head: with f at the end of the running action, the cost is charged to every slack, and its members'
//! charges are credited. If any slack became negative, nothing is handed over, and the device has a pause.
//! Without this test a reserved frame is late (`tests/look_ahead.rs`, `docs/decisions/0007`).
//!
//! The action may start earlier than f if the running one ends early. Then it ends earlier, too.

use crate::punctual::ablation::Ablation;
use crate::punctual::choice::Choice;
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::{Kind, Running};
use crate::punctual::view::View;
use crate::time::{Instant, Nanos};

impl View<'_> {
    /// When an action that is handed over now would start, if it is time to hand one over.
    pub fn look_ahead_start(&self) -> Option<Instant> {
        let free = self.predecessor()?.until;
        (self.now..=self.now + self.parameters.launch_lead)
            .contains(&free)
            .then_some(free)
    }

    /// The next action, if no slack becomes negative by handing it over now. `free` is the end of the
    /// running action.
    pub fn choose_ahead(&self, scan: &mut SlackScan, free: Instant) -> Option<Choice> {
        self.scan(scan, free, None);
        let choice = self.real_time(scan, free)?;
        // An EDF head that is started has no test; one that is handed over ahead does.
        let safe = choice.start_slack >= 0 || self.ablations.has(Ablation::UncheckedLookAhead);
        safe.then_some(choice)
    }

    /// When it will be time to hand over the next action, if it is not time yet.
    pub fn look_ahead_due(&self) -> Option<Instant> {
        let running = self.predecessor()?;
        let at = running.until - self.parameters.launch_lead;
        Some(at).filter(|at| *at > self.now)
    }

    /// The running action that the next one may follow. `None` while its end is unknown, another action is
    /// handed over already, or no real-time work waits. Nor with places: f there depends on more than the running action.
    fn predecessor(&self) -> Option<&Running> {
        let partition = self.partition;
        let waits = self.queues.head().is_some() || !self.queues.optional().is_empty();
        if self.parameters.launch_lead == Nanos::ZERO
            || partition.slot().queued().is_some()
            || !waits
            || self.places.is_home(self.index)
        {
            return None;
        }
        let running = partition.slot().running();
        // Best-effort work has no known end, and the end of an action that overran has already proved wrong.
        running.filter(|r| r.kind != Kind::BestEffort && !r.overran && !r.lost)
    }
}

//! Actions and transfers that the device does not report. [`crate::lost`] has the rules.

use super::Punctual;
use super::lifecycle::requests::State;
use crate::action::{Failure, Verdict};
use crate::actions::Actions;

impl Punctual {
    /// Considers actions lost whose reports are overdue.
    pub(super) fn give_up_lost(&mut self, actions: &mut Actions) {
        for index in 0..self.partitions.len() {
            let Some(lost) = self.partitions[index].give_up(self.now) else {
                continue;
            };
            // The members end now, so that no client waits for ever. Their buffers stay locked.
            self.partitions[index].mark_dirty();
            self.partitions[lost.home].mark_dirty();
            let reason = if self.partitions[index].is_starved() {
                Failure::Starved
            } else {
                Failure::Device
            };
            for id in &lost.members {
                let request = self.life.requests.get(id.buffer);
                if request.state.is_open() {
                    let verdict = request.failed(reason, self.now);
                    self.life
                        .finish_running(*id, verdict, &self.tables, actions);
                }
            }
            self.end_unserviceable(actions);
        }
        // A stage that ended on a place hands its request back to its home. If that is locked by an action lost on
        // another place, nothing starts the request again.
        let waits =
            |home: usize| self.partitions[home].is_dirty() && self.partitions.is_locked(home);
        if self.partitions.iter().any(|p| p.slot().is_lost()) && self.places.homes().any(waits) {
            self.end_unserviceable(actions);
        }
    }

    /// Ends the requests that wait for a locked partition or for a lost transfer. A request with a mandatory
    /// answer gets it; the others fail.
    pub(super) fn end_unserviceable(&mut self, actions: &mut Actions) {
        for buffer in 0..self.life.requests.buffers() {
            let request = self.life.requests.get(buffer);
            let waits = matches!(
                request.state,
                State::AwaitingWeights | State::Mandatory | State::Optional | State::BestEffort
            );
            let index = self.life.partition_of(buffer, &self.tables);
            if !waits || !self.view(index).is_unserviceable(request.task) {
                continue;
            }
            let home = self.tables.task(request.task).partition.index();
            self.life.withdraw(buffer, &self.tables);
            if self.life.has_mandatory_answer(buffer, &self.tables) {
                self.life.answer(buffer, self.now, actions);
            } else {
                let verdict = Verdict::Failed(self.partitions.failure(home));
                self.life.finish(buffer, verdict, actions);
            }
        }
    }
}

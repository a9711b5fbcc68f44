//! Actions and transfers that the device does not report ([`crate::lost`]).

use super::Punctual;
use super::lifecycle::requests::State;
use super::partition::Partition;
use crate::action::{Failure, Verdict};
use crate::actions::Actions;

impl Punctual {
    /// Takes actions for lost that should have been reported long ago.
    pub(super) fn give_up_lost(&mut self, actions: &mut Actions) {
        for index in 0..self.partitions.len() {
            let Some(lost) = self.partitions[index].slot.give_up(self.now) else {
                continue;
            };
            // Its members end now: nobody waits for what they would have become.
            self.partitions[index].touch();
            if lost.left {
                self.partitions.iter_mut().for_each(Partition::touch);
            }
            for id in &lost.members {
                self.life.lose(*id, &self.tables, actions);
            }
            self.end_unserviceable(actions);
        }
    }

    /// Ends the requests that wait for a locked partition or for pages that were lost: each with the
    /// answer it has, if that counts.
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
            self.life.withdraw(buffer, &self.tables);
            if self.life.has_mandatory_answer(buffer, &self.tables) {
                self.life.answer(buffer, self.now, actions);
            } else {
                let verdict = Verdict::Failed(Failure::Device);
                self.life.finish(buffer, verdict, actions);
            }
        }
    }
}

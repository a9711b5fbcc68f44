//! Transfers of weights: whose come, which make room, and what becomes of those who wait for them
//! (`lifecycle::weights`).

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::ids::ActionId;
use crate::punctual::Punctual;
use crate::time::Nanos;

impl Punctual {
    /// A transfer ended well: who waited for it is taken on, or refused.
    pub(super) fn loaded(&mut self, action: ActionId, took: Nanos, actions: &mut Actions) {
        let Some(model) = self.life.weights.loaded(action, took) else {
            self.stale_events += 1;
            return;
        };
        while let Some(buffer) = self.life.weights.take_waiting_for(model) {
            self.take_on(buffer, actions);
        }
        self.life.weights.unclaim(model);
    }

    /// At the end of a step: refuses who can no longer be in time, and fetches what is wanted most.
    pub(super) fn fetch_weights(&mut self, actions: &mut Actions) {
        if !self.life.weights.is_due(self.now) {
            return;
        }
        if self.life.weights.give_up(self.now) {
            self.end_unserviceable(actions);
        }
        while let Some(buffer) = self.life.weights.take_overdue(self.now) {
            let verdict = Verdict::Rejected(Rejection::NoSlack);
            self.life.finish(buffer, verdict, actions);
        }
        if let Some(model) = self.life.weights.wanted() {
            let id = self.ids.next();
            self.life.weights.load(id, model, self.now, actions);
        }
        self.life.weights.rearm();
    }
}

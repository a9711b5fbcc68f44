//! Transfers of weights: when they start, and what becomes of the requests that wait for them.
//! `lifecycle::weights` chooses the weights to load and to evict.

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::ids::ActionId;
use crate::punctual::Punctual;
use crate::time::Nanos;

impl Punctual {
    /// A transfer ended well: each request that waited for it is tested now.
    pub(super) fn loaded(&mut self, action: ActionId, took: Nanos, actions: &mut Actions) {
        let Some(model) = self.life.weights.loaded(action, took) else {
            self.stale_events += 1;
            return;
        };
        while let Some(buffer) = self.life.weights.take_waiting_for(model) {
            self.enqueue(buffer, actions);
        }
        // The claim protected the weights until a request used them. If every request was rejected, it must
        // end here, or the pages would stay taken.
        self.life.weights.unclaim(model);
    }

    /// At the end of a step: rejects waiting requests that can no longer be on time, and loads the weights
    /// that most work waits for.
    pub(super) fn fetch_weights(&mut self, actions: &mut Actions) {
        if !self.life.weights.is_due(self.now) {
            return;
        }
        // Requests that wait for a lost transfer fail at once, so that no client waits for ever.
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

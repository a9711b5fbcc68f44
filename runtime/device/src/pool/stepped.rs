//! A leader without a thread, for simulations: it does what a leader does, a round at a time, on a virtual clock.

use std::sync::Arc;

use punctual_core::{Infer, Instant};

use super::Engine;
use super::worker::{Rest, Runs, Worker};
use crate::regions::ClaimedRegions;

/// The leader of one or several partitions, advanced by the thread that submits.
pub struct SteppedLeader<E> {
    worker: Worker<E>,
    runs: Box<Runs<'static>>,
    requests: &'static ClaimedRegions,
}

impl<E: Engine> SteppedLeader<E> {
    pub(super) fn new(worker: Worker<E>, requests: &Arc<ClaimedRegions>) -> Self {
        Self {
            runs: worker.no_runs(),
            worker,
            // Never freed: stages that run keep request buffers claimed from one round to the next. A simulation has few
            // devices.
            requests: Box::leak(Box::new(requests.clone())),
        }
    }

    /// Does all that needs no waiting: afterwards it waits for the engine's device, for an action, or for the window
    /// that opens then. Says whether an action began or ended.
    pub fn carry_on(&mut self) -> (bool, Option<Instant>) {
        let mut changed = false;
        loop {
            match self.worker.round(self.requests, &mut self.runs) {
                Rest::More => changed = true,
                Rest::Runs | Rest::Over => return (changed, None),
                Rest::Idle(until) => return (changed, until),
            }
        }
    }

    /// The actions that run, one a partition.
    pub fn running(&self) -> impl Iterator<Item = &Infer> {
        self.runs.iter().flatten().map(|run| &run.infer)
    }
}

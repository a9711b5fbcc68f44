//! Brings weights in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_core::{ActionId, Instant, ModelId, Nanos};
use punctual_platform::{Doorbell, clock};
use rtrb::{Consumer, Producer};

use super::{LoadError, Shared};

/// A load that was ordered: the right to fill the pieces that the model was given.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) action: ActionId,
    pub(super) model: ModelId,
}

#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) load: Load,
    /// None if it failed.
    pub(super) took: Option<Nanos>,
}

/// Carries loads out, one after the other.
pub(super) struct Loader {
    pub(super) shared: Arc<Shared>,
    pub(super) orders: Consumer<Load>,
    pub(super) done: Producer<Loaded>,
}

impl Loader {
    /// Carries out orders until `ended` is set and the loader woken; rings `report` after each load,
    /// and tells `complain` why one failed.
    pub(super) fn serve(
        mut self,
        ended: &AtomicBool,
        report: &Doorbell,
        mut complain: impl FnMut(ModelId, LoadError),
    ) {
        loop {
            // Read before looking: a ring in between ends the wait.
            let seen = self.shared.orders.count();
            match self.carry_out_next() {
                Some(Ok(())) => report.ring(),
                Some(Err((model, error))) => {
                    report.ring();
                    complain(model, error);
                }
                // Relaxed: published by the ring that follows it.
                None if ended.load(Ordering::Relaxed) => return,
                None => {
                    self.shared.orders.wait(seen, None);
                }
            }
        }
    }

    /// Carries out the next order, if there is one.
    pub(super) fn carry_out_next(&mut self) -> Option<Result<(), (ModelId, LoadError)>> {
        let load = self.orders.pop().ok()?;
        let model = load.model;
        let started = now();
        let result = match &mut *self.shared.pool() {
            Some(pool) => pool
                .bring_in(&self.shared, model.index())
                .map_err(LoadError::from),
            None => Err(LoadError::Down),
        };
        let took = result.is_ok().then(|| now().since(started));
        let pushed = self.done.push(Loaded { load, took });
        assert!(pushed.is_ok(), "the ring holds a load a model");
        Some(result.map_err(|error| (model, error)))
    }
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}

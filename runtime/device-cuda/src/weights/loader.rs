//! Loads weights.

use std::sync::Arc;

use punctual_core::{ActionId, Instant, ModelId, Nanos};
use punctual_device::weights;
use punctual_platform::{Doorbell, clock};
use rtrb::{Consumer, Producer};

use super::failure::LoadError;
use super::pool::Shared;
use crate::faults::{DeviceError, Health};

/// A load that was ordered: the right to fill the pieces that the model was given.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) action: ActionId,
    pub(super) model: ModelId,
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) load: Load,
    /// None if it failed.
    pub(super) took: Option<Nanos>,
}

/// Carries loads out, one after the other.
pub struct Loader {
    pub(super) shared: Arc<Shared>,
    pub(super) orders: Consumer<Load>,
    pub(super) done: Producer<Ended>,
    /// Whom a fault is reported to that no leader may ever meet, as stages wait for weights.
    pub(super) health: Option<Arc<Health>>,
}

impl Loader {
    pub(crate) fn report_to(&mut self, health: Arc<Health>) {
        self.health = Some(health);
    }
}

impl weights::Loader for Loader {
    type Error = LoadError;

    fn bell(&self) -> &Arc<Doorbell> {
        &self.shared.orders
    }

    fn carry_out_next(&mut self) -> Option<Result<(), (ModelId, LoadError)>> {
        let load = self.orders.pop().ok()?;
        let model = load.model;
        let started = now();
        let result = match &mut *self.shared.pool() {
            Some(pool) => pool.bring_in(&self.shared, model.index()),
            None => Err(LoadError::Down),
        };
        if let (Err(LoadError::Driver(error)), Some(health)) = (&result, &self.health) {
            let error = DeviceError::from(*error);
            if error.needs_restart() {
                health.fail(error);
            }
        }
        let took = result.is_ok().then(|| now().since(started));
        let pushed = self.done.push(Ended { load, took });
        assert!(pushed.is_ok(), "the ring holds a load a model");
        Some(result.map_err(|error| (model, error)))
    }
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}

//! Code that is loaded while the device runs already.

use std::sync::Arc;

use punctual_cuda_kernels::Module as Unit;

use super::DevicePlan;
use crate::counters::Counters;
use crate::driver::Context;
use crate::executor::StreamExecutor;
use crate::faults::Health;
use crate::installation::Installation;

/// Modules that general kernels replace until they are loaded. The recovery thread loads them: loading one may
/// wait for the device, and a leader must not.
pub(crate) struct DeferredModules {
    installation: Arc<Installation>,
    modules: Vec<Unit>,
}

impl DeferredModules {
    /// What must be loaded into these executors' installation; none if everything is there.
    pub(crate) fn of(device_plan: &DevicePlan, executors: &[StreamExecutor]) -> Option<Self> {
        let modules = device_plan.deferred();
        let first = executors.first().filter(|_| !modules.is_empty())?;
        Some(Self {
            installation: first.installation.clone(),
            modules,
        })
    }

    /// Loads the next module if no stage runs; whether one is left. One that cannot be loaded is left
    /// out: the general kernel stays in its place.
    pub(crate) fn load_next(
        &mut self,
        context: &Arc<Context>,
        health: &Health,
        counters: &Counters,
    ) -> bool {
        if health.is_idle()
            && let Some(unit) = self.modules.pop()
        {
            let loaded = self.installation.kernels.load(context, unit);
            match loaded {
                Ok(()) => counters.loaded_later.add(1),
                Err(_) => counters.not_loaded.add(1),
            }
        }
        !self.modules.is_empty()
    }
}

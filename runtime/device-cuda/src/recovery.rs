//! Recovery of a device: restarts it after a fault, on a thread of its own, so that a fault of the
//! GPU is a few failed actions and never a dead daemon.
//!
//! A leader that meets a fault reports its action as failed and wakes the recovery thread. From then on every
//! leader answers at once that its action failed, until the recovery thread has ended everything on the device
//! (a reset of the context, which also ends what hangs) and made it again: modules, memory, weights.
//! What requests carried is gone; their further stages fail, and their clients get verdicts.
//!
//! NVIDIA's manual wants the process ended after some faults; whether a reset is enough is then known
//! by whether what is made afterwards works. If it does not, it is tried again, less and less often,
//! for as long as the daemon runs. Not yet run on hardware.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use punctual_platform::clock;
use punctual_platform::thread::{ThreadError, spawn_ordinary};

use crate::counters::Counters;
use crate::deferred_modules::DeferredModules;
use crate::device_error::DeviceError;
use crate::device_plan::DevicePlan;
use crate::driver::Context;
use crate::engine::Executors;
use crate::executor::PartitionExecutor;
use crate::health::Health;
use crate::queue::StopFlag;

/// Before the second try, in nanoseconds; then twice as long each time, up to [`PATIENCE_MAX_NS`].
const PATIENCE_NS: u64 = 10_000_000;
const PATIENCE_MAX_NS: u64 = 10_000_000_000;

/// Between two looks for a moment to load code, in nanoseconds.
const LATER_NS: u64 = 2_000_000;

/// Most faults that are remembered.
const REMEMBERED: usize = 64;

/// What the recovery thread works on.
pub(crate) struct Recovery {
    pub(crate) device_plan: DevicePlan,
    pub(crate) executors: Executors,
    /// By partition.
    pub(crate) stops: Vec<StopFlag>,
    pub(crate) health: Arc<Health>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) faults: Arc<Mutex<Vec<DeviceError>>>,
    pub(crate) context: Option<Arc<Context>>,
    /// What is loaded while the device runs.
    pub(crate) deferred: Option<DeferredModules>,
}

/// The recovery thread, ended with this.
pub(crate) struct RecoveryThread {
    health: Arc<Health>,
    handle: Option<JoinHandle<()>>,
}

impl Drop for RecoveryThread {
    fn drop(&mut self) {
        self.health.end();
        if let Some(handle) = self.handle.take() {
            // One that panicked has said so.
            let _ = handle.join();
        }
    }
}

impl Recovery {
    pub(crate) fn start(self) -> Result<RecoveryThread, ThreadError> {
        let health = self.health.clone();
        let handle = spawn_ordinary("cuda/recovery", move || self.serve())?;
        Ok(RecoveryThread {
            health,
            handle: Some(handle),
        })
    }

    fn serve(mut self) {
        loop {
            let seen = self.health.bell().count();
            if self.health.is_ended() {
                break;
            }
            if self.health.is_down() {
                self.restart();
            } else {
                let until = self.load_later().then(|| clock::now_ns() + LATER_NS);
                self.health.bell().wait(seen, until);
            }
        }
        // Leaders are gone: what is left is given back one by one, or by a reset if it is lost.
        let lost = self.health.is_down();
        if lost && let Some(context) = &self.context {
            context.abandon();
        }
        self.end_everything(lost);
    }

    /// Loads the next module that is to be loaded later, if this is a moment for it; whether one is left.
    fn load_later(&mut self) -> bool {
        let (Some(deferred), Some(context)) = (&mut self.deferred, &self.context) else {
            return false;
        };
        let left = deferred.load_next(context, &self.health, &self.counters);
        if !left {
            self.deferred = None;
        }
        left
    }

    /// Restarts the device, or waits for the end.
    fn restart(&mut self) {
        self.counters.faults.add(1);
        self.remember();
        // Before anything is dropped: the driver would wait for the device, which may hang.
        if let Some(context) = &self.context {
            context.abandon();
        }
        self.end_everything(true);
        let executors = self.executors.clone();
        // Held all the while, so that leaders answer at once.
        let mut places: Vec<_> = executors.iter().map(executor).collect();
        self.health.forget_stages();
        let mut patience = PATIENCE_NS;
        while !self.health.is_ended() {
            match self.make() {
                Some(made) => {
                    for ((place, stop), executor) in places.iter_mut().zip(&self.stops).zip(made) {
                        stop.set(executor.queue.epoch_flag());
                        **place = Some(executor);
                    }
                    // In this order: a leader that finds the device up must find its executor free, and who sees the
                    // count may submit.
                    drop(places);
                    self.health.come_up();
                    self.counters.restarts.add(1);
                    return;
                }
                None => self.counters.restarts_failed.add(1),
            }
            let seen = self.health.bell().count();
            if !self.health.is_ended() {
                let until = clock::now_ns() + patience;
                self.health.bell().wait(seen, Some(until));
            }
            patience = (2 * patience).min(PATIENCE_MAX_NS);
        }
    }

    /// Everything on the device once more; none if the device does not let us.
    fn make(&mut self) -> Option<Vec<PartitionExecutor>> {
        let context = Context::retain(self.device_plan.gpu).ok()?;
        match self.device_plan.install(&context) {
            Ok(executors) => {
                self.deferred = DeferredModules::of(&self.device_plan, &executors);
                self.context = Some(context);
                Some(executors)
            }
            Err(_) => {
                context.abandon();
                self.device_plan.weights.let_go();
                // Whether this helps is seen at the next try.
                let _ = context.reset();
                None
            }
        }
    }

    /// Notes why each partition was given up.
    fn remember(&self) {
        let mut faults = self.faults.lock().unwrap_or_else(|p| p.into_inner());
        for place in self.executors.iter() {
            // Waits for the leader, which leaves as soon as it looks at the device's health.
            let poisoned = place.is_poisoned();
            let mut executor = executor(place);
            let error = executor.as_mut().and_then(|executor| executor.error.take());
            let error = error.or(poisoned.then_some(DeviceError::Panic));
            if let Some(error) = error
                && faults.len() < REMEMBERED
            {
                faults.push(error);
            }
        }
    }

    /// Drops everything on the device, and resets it if it is lost.
    fn end_everything(&mut self, lost: bool) {
        // All that holds the context goes before its reset, which refuses otherwise: modules, the words behind the
        // stop flags, executors, weights.
        self.deferred = None;
        for stop in &self.stops {
            stop.set(None);
        }
        for place in self.executors.iter() {
            *executor(place) = None;
        }
        self.device_plan.weights.let_go();
        if let Some(context) = self.context.take()
            && lost
        {
            // Whether this helps is seen when everything is made again.
            let _ = context.reset();
        }
    }
}

/// A partition's executor, also after a leader panicked in it: it is about to be replaced.
fn executor(place: &Mutex<Option<PartitionExecutor>>) -> MutexGuard<'_, Option<PartitionExecutor>> {
    let executor = place.lock().unwrap_or_else(|poison| poison.into_inner());
    place.clear_poison();
    executor
}

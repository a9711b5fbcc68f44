//! Whether the device works, as leaders, the recovery thread and the code that watches them tell each other.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use punctual_platform::{Doorbell, clock};

use super::{DeviceError, Loss};

#[derive(Debug, Default)]
pub(crate) struct Health {
    down: AtomicBool,
    ended: AtomicBool,
    running: AtomicU32,
    /// A stage was completed since the device was last made.
    proven: AtomicBool,
    /// By when the driver must have let the recovery thread go on, in nanoseconds; 0: nothing is asked of it.
    due_ns: AtomicU64,
    /// How long it was given then, in milliseconds.
    limit_ms: AtomicU64,
    lost: OnceLock<Loss>,
    /// A fault that was met by none of the leaders.
    fault: Mutex<Option<DeviceError>>,
    bell: Doorbell,
}

impl Health {
    /// Whether everything on the device is lost, until it has been restarted.
    pub(crate) fn is_down(&self) -> bool {
        // Relaxed: executors are changed under their locks only.
        self.down.load(Ordering::Relaxed)
    }

    /// A leader found out that it is.
    pub(crate) fn go_down(&self) {
        // Relaxed: partner of the load in `is_down`; the ring publishes it to the recovery thread.
        self.down.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// Another thread found out, which may wait.
    pub(crate) fn fail(&self, error: DeviceError) {
        let mut fault = self
            .fault
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        fault.get_or_insert(error);
        drop(fault);
        self.go_down();
    }

    /// What [`fail`](Self::fail) was told, once.
    pub(crate) fn take_fault(&self) -> Option<DeviceError> {
        let mut fault = self
            .fault
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        fault.take()
    }

    pub(crate) fn come_up(&self) {
        // Relaxed: partner of the load in `is_down`; an action that is submitted later is handed over by a queue that
        // publishes.
        self.down.store(false, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        // Relaxed: partner of the load in `is_ended`; the ring publishes it.
        self.ended.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// Whether the device is being dropped.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Nothing on the device is made any more. It stays down.
    pub(crate) fn lose(&self, loss: Loss) {
        // The first reason counts.
        let _ = self.lost.set(loss);
        self.allow(0);
        self.go_down();
    }

    /// Why the process can no longer use the device, if so. Called now and then by a thread that is not the recovery
    /// thread: that one may wait for a driver that never returns.
    pub(crate) fn loss(&self) -> Option<Loss> {
        // Relaxed: a look that comes too early is repeated.
        let due_ns = self.due_ns.load(Ordering::Relaxed);
        if due_ns != 0 && clock::now_ns() >= due_ns {
            let limit_ms = self.limit_ms.load(Ordering::Relaxed);
            self.lose(Loss::Blocked { limit_ms });
        }
        self.is_lost()
    }

    /// The same, without a look at the clock.
    pub(crate) fn is_lost(&self) -> Option<Loss> {
        self.lost.get().copied()
    }

    /// From now on the driver may take `limit_ms` milliseconds until the next call of this; 0: nothing is asked of it.
    pub(crate) fn allow(&self, limit_ms: u64) {
        // Relaxed, both: who sees the new time with the old limit reports another figure, and nothing else.
        self.limit_ms.store(limit_ms, Ordering::Relaxed);
        let due_ns = match limit_ms {
            0 => 0,
            limit_ms => clock::now_ns() + 1_000_000 * limit_ms,
        };
        self.due_ns.store(due_ns, Ordering::Relaxed);
    }

    // Relaxed: the recovery thread asks after all leaders have left their executors, which are locked.

    /// A leader has completed a stage.
    pub(crate) fn prove(&self) {
        if !self.proven.load(Ordering::Relaxed) {
            self.proven.store(true, Ordering::Relaxed);
        }
    }

    /// Whether one was completed since this was last asked.
    pub(crate) fn take_proof(&self) -> bool {
        self.proven.swap(false, Ordering::Relaxed)
    }

    // Relaxed: `is_idle` may return what was so a moment ago.

    pub(crate) fn begin_stage(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_stage(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether no stage runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Relaxed) == 0
    }

    /// What the recovery thread waits on. Its ring publishes what was stored before.
    pub(crate) fn bell(&self) -> &Doorbell {
        &self.bell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_does_not_return_in_time_loses_the_device_for_good() {
        let health = Health::default();
        assert_eq!(health.loss(), None);
        health.allow(3_600_000);
        assert_eq!(health.loss(), None);
        health.allow(1);
        let until = clock::now_ns() + 1_000_000;
        while clock::now_ns() < until {
            std::hint::spin_loop();
        }
        let blocked = Some(Loss::Blocked { limit_ms: 1 });
        assert_eq!(health.loss(), blocked);
        health.lose(Loss::Restarts { times: 2 });
        assert_eq!(health.loss(), blocked, "the first reason counts");
        assert!(health.is_down());
    }

    #[test]
    fn a_driver_that_returned_in_time_is_asked_nothing() {
        let health = Health::default();
        health.allow(1);
        health.allow(0);
        let until = clock::now_ns() + 2_000_000;
        while clock::now_ns() < until {
            std::hint::spin_loop();
        }
        assert_eq!(health.loss(), None);
    }

    #[test]
    fn a_proof_counts_once() {
        let health = Health::default();
        assert!(!health.take_proof());
        health.prove();
        assert!(health.take_proof() && !health.take_proof());
    }
}

//! Whether the device works, as leaders and the recovery thread tell each other.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use punctual_platform::Doorbell;

#[derive(Debug, Default)]
pub(crate) struct Health {
    down: AtomicBool,
    ended: AtomicBool,
    running: AtomicU32,
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

    // Relaxed: `is_idle` may return what was so a moment ago.

    pub(crate) fn begin_stage(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_stage(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// Nothing runs, though a leader may have panicked before it could report that.
    pub(crate) fn forget_stages(&self) {
        self.running.store(0, Ordering::Relaxed);
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

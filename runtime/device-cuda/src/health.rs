//! Whether the device works, as leaders and the keeper tell each other.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_platform::Doorbell;

/// One for a device.
#[derive(Debug, Default)]
pub(crate) struct Health {
    down: AtomicBool,
    ended: AtomicBool,
    bell: Doorbell,
}

impl Health {
    /// Whether everything on the device is lost, until it has been restarted.
    pub(crate) fn is_down(&self) -> bool {
        // Relaxed: stations are changed under their locks only.
        self.down.load(Ordering::Relaxed)
    }

    /// A leader found out that it is.
    pub(crate) fn go_down(&self) {
        self.down.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// The keeper has restarted it.
    pub(crate) fn come_up(&self) {
        self.down.store(false, Ordering::Relaxed);
    }

    /// The device is being dropped.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// Whether the device is being dropped.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// What the keeper waits on. Its ring publishes what was stored before.
    pub(crate) fn bell(&self) -> &Doorbell {
        &self.bell
    }
}

//! What a device counts, for reports and for tests. Read by ordinary threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Declares [`Counters`] and its copy [`Counts`].
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of a device, shared by all of its threads.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub(crate) $name: Count,)*
        }

        /// What [`Counters`] stood at.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            #[must_use]
            pub fn read(&self) -> Counts {
                Counts {
                    $($name: self.$name.read(),)*
                }
            }
        }
    };
}

counters! {
    /// Frames that were prepared, and those of them that were copied into memory of the device's first.
    frames,
    frames_copied,
    /// Launches handed over to the driver.
    launches,
    /// Times that a queue was emptied by its epoch.
    evictions,
    /// Preempted stages that went on from their first evicted launch.
    resumed,
    /// Preempted stages whose half-way results were given up: their workspace was needed, or a member
    /// was touched. They run from their start if they are submitted again.
    begun_again,
    /// Modules of kernels that were loaded while the device ran.
    loaded_later,
    /// Modules that could not be loaded then: general kernels replace theirs.
    not_loaded,
    /// Launches of filling partitions, each on TPCs that real-time launches left.
    filled,
    /// Of those, the ones that could not be made at once.
    fillers_waited,
    /// Times that a filling partition's launch was in the way of a real-time one and was called off.
    fillers_called_off,
    failed,
    /// Of those, stages that took longer than the watchdog lets them and were evicted.
    overdue,
    /// Faults and hangs that lost everything on the device.
    faults,
    /// Restarts of the device that succeeded.
    restarts,
    /// Restarts that did not.
    restarts_failed,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    // Relaxed: nothing else hangs on a count.

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

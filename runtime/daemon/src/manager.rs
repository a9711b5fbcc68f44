//! What the service manager is told: that the daemon serves, lives, ends; and in words how it is.

use punctual_core::Criticality;
use punctual_plan::Plan;
use punctual_platform::service::{Notifier, watchdog_interval_ns};

/// The service manager, if one started this process.
pub struct Manager {
    pub notifier: Notifier,
    /// How often to say that the daemon lives, in ns; none if nobody wants to know.
    every_ns: Option<u64>,
    next_ns: u64,
}

impl Manager {
    /// What it wants to hear is in the environment.
    pub fn new(notifier: Notifier) -> Self {
        Self {
            notifier,
            // Half of what it bears, as sd_watchdog_enabled(3) advises.
            every_ns: watchdog_interval_ns().map(|interval| interval / 2),
            next_ns: 0,
        }
    }

    /// Says that all threads are well, if it is time to.
    pub fn alive(&mut self, now_ns: u64) {
        if let Some(every_ns) = self.every_ns
            && now_ns >= self.next_ns
        {
            self.notifier.alive();
            self.next_ns = now_ns + every_ns;
        }
    }
}

/// What the daemon does, in a line for `systemctl status`.
pub fn serving(plan: &Plan) -> String {
    let realtime = plan.tasks.iter();
    let realtime = realtime.filter(|task| task.criticality == Criticality::RealTime);
    format!(
        "serving {} tasks ({} real-time) on board {}, plan {}",
        plan.tasks.len(),
        realtime.count(),
        plan.board,
        &plan.hash.as_str()[..12]
    )
}

//! What the service manager is told: that the daemon serves, lives, ends; and in words how it is.

use punctual_core::Criticality;
use punctual_plan::Plan;
use punctual_platform::service::{Notifier, watchdog_interval_ns};

use crate::observer::lending_words;

/// The service manager, if one started this process.
pub struct Manager {
    pub notifier: Notifier,
    /// How often to say that the daemon lives, in ns; none without a service manager's watchdog.
    every_ns: Option<u64>,
    next_ns: u64,
    next_status_ns: u64,
    status: String,
}

/// How often the status is renewed at most, in ns: people read it.
const STATUS_NS: u64 = 1_000_000_000;

impl Manager {
    /// The environment has its socket and the watchdog's interval.
    pub fn new(notifier: Notifier) -> Self {
        Self {
            notifier,
            // Half of what it bears, as sd_watchdog_enabled(3) advises.
            every_ns: watchdog_interval_ns().map(|interval| interval / 2),
            next_ns: 0,
            next_status_ns: 0,
            status: String::new(),
        }
    }

    /// Says how the daemon is, if it is time to and if that is news.
    pub fn tell(&mut self, now_ns: u64, status: impl FnOnce() -> String) {
        if !self.notifier.has_manager() || now_ns < self.next_status_ns {
            return;
        }
        self.next_status_ns = now_ns + STATUS_NS;
        let status = status();
        if status != self.status {
            self.notifier.status(&status);
            self.status = status;
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

/// What the daemon does, in a line for `systemctl status`; `start`: what of it is still to come.
pub fn serving(plan: &Plan, start: Option<&str>, is_last_good: bool) -> String {
    let realtime = plan.tasks.iter();
    let realtime = realtime.filter(|task| task.criticality == Criticality::RealTime);
    let lending = lending_words(plan).map_or(String::new(), |words| format!(", {words}"));
    let source = last_good_words(is_last_good);
    let start = start.map_or(String::new(), |words| format!(", {words}"));
    format!(
        "serving {} tasks ({} real-time) on board {}, plan {}{start}{lending}{source}",
        plan.tasks.len(),
        realtime.count(),
        plan.board,
        &plan.hash.as_str()[..12]
    )
}

/// What to add to a status if it is so.
pub fn last_good_words(is_last_good: bool) -> &'static str {
    if is_last_good {
        "; BY THE LAST GOOD CONFIGURATION, since the present one cannot be served"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_sign_of_life_comes_twice_an_interval_and_a_status_only_when_it_is_news() {
        let path = std::env::temp_dir().join(format!("punctual-manager-{}", std::process::id()));
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_nonblocking(true).expect("a socket of ours");
        let mut manager = Manager::new(Notifier::to(&path).expect("a socket"));
        manager.every_ns = Some(500_000_000);
        let heard = || {
            let mut buffer = [0; 64];
            std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count()
        };
        manager.alive(5_000_000_000);
        manager.alive(5_400_000_000);
        assert_eq!(heard(), 1, "too early for another");
        manager.alive(5_500_000_000);
        assert_eq!(heard(), 1);
        manager.tell(5_000_000_000, || "serving".into());
        manager.tell(5_900_000_000, || "serving, 1 frame".into());
        assert_eq!(heard(), 1, "too early for another");
        manager.tell(6_000_000_000, || "serving".into());
        assert_eq!(heard(), 0, "nothing new");
        manager.tell(7_000_000_000, || "serving, 2 frames".into());
        assert_eq!(heard(), 1);
        std::fs::remove_file(&path).expect("it is there");
    }
}

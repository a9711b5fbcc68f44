//! What is seen of the daemon, looked at when a scrape comes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_platform::clock::Clock;
use punctual_platform::output;

use crate::live::daemon::{Daemon, LiveError};
use crate::live::machine::Machine;

use super::metric::Seen;

/// Scrapes within this time share what was seen: however many come, they cost the daemon ten reports a second at most.
const SHARED_NS: u64 = 100_000_000;

/// Of one daemon, or of whichever one there is.
#[derive(Debug)]
pub struct Observations {
    socket: Option<PathBuf>,
    clock: Clock,
    /// Held while the daemon is asked: others that come meanwhile get its answer.
    last: Mutex<Option<Observation>>,
}

#[derive(Debug)]
struct Observation {
    at_ns: u64,
    seen: Result<Arc<Seen>, LiveError>,
}

impl Observations {
    pub const fn of(socket: Option<PathBuf>) -> Self {
        Self {
            socket,
            clock: Clock::Machine,
            last: Mutex::new(None),
        }
    }

    /// What there is to see now; none: no daemon gives its report, which is said when it begins and when it ends.
    pub fn now(&self) -> Option<Arc<Seen>> {
        self.now_by(|| {
            let report = Daemon::find(self.socket.as_deref())?.report()?;
            let machine = Machine::look(report.pid, self.clock.now_ns());
            Ok(Seen { report, machine })
        })
    }

    fn now_by(&self, look: impl FnOnce() -> Result<Seen, LiveError>) -> Option<Arc<Seen>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*last
            && self.clock.now_ns() < last.at_ns + SHARED_NS
        {
            return last.seen.as_ref().ok().cloned();
        }
        let seen = look().map(Arc::new);
        let was_up = last.as_ref().is_none_or(|last| last.seen.is_ok());
        match &seen {
            Ok(_) if !was_up => output::note("punctual metrics: the daemon gives its report again"),
            Err(error) if was_up => {
                output::note(format_args!("punctual metrics: no report: {error}"))
            }
            _ => {}
        }
        let found = seen.as_ref().ok().cloned();
        *last = Some(Observation {
            at_ns: self.clock.now_ns(),
            seen,
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use punctual_daemon::Report;

    use super::*;

    #[test]
    fn scrapes_that_come_together_cost_one_report_and_later_ones_another() {
        let now_ns = Arc::new(AtomicU64::new(1));
        let observations = Observations {
            clock: Clock::Virtual(Arc::clone(&now_ns)),
            ..Observations::of(None)
        };
        let look = |pid| {
            Ok(Seen {
                report: Report {
                    pid,
                    ..Report::default()
                },
                machine: Machine::look(0, 0),
            })
        };
        let pid = |seen: Option<Arc<Seen>>| seen.map(|seen| seen.report.pid);
        assert_eq!(pid(observations.now_by(|| look(1))), Some(1));
        assert_eq!(pid(observations.now_by(|| look(2))), Some(1));
        now_ns.fetch_add(SHARED_NS, Ordering::Relaxed);
        assert_eq!(pid(observations.now_by(|| look(3))), Some(3));
        now_ns.fetch_add(SHARED_NS, Ordering::Relaxed);
        // What was seen before is not what is.
        assert_eq!(pid(observations.now_by(|| Err(LiveError::None))), None);
        assert_eq!(pid(observations.now_by(|| look(4))), None);
        now_ns.fetch_add(SHARED_NS, Ordering::Relaxed);
        assert_eq!(pid(observations.now_by(|| look(5))), Some(5));
    }
}

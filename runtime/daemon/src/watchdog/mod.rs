//! Judges whether the real-time threads live. Each beats at every turn of its loop
//! ([`punctual_platform::heartbeat`]); a thread that waits is nudged now and then and must beat. One
//! that does neither is *silent*: it is named and best-effort work is shed. After its bound it is
//! *stuck*, and the process must end: what that thread holds, nobody else can take over.
//!
//! Silence is counted in the watchdog's own steps, each at most [`STEP_NS_MAX`] long: a process that
//! was stopped, or a machine that stood still, makes nobody silent.

pub mod bounds;

use std::sync::Arc;

use punctual_platform::heartbeat::{Beat, Pulse};
use serde::{Deserialize, Serialize};

/// The most that one look adds to a silence, in ns.
pub const STEP_NS_MAX: u64 = 200_000_000;

/// A thread at ordinary priority may be delayed by other programs, so its bound is this many times
/// that of the manifest.
pub const ORDINARY_FACTOR: u64 = 4;

/// What the watchdog has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchdogReport {
    /// `[daemon] watchdog_ms`.
    pub bound_ms: u64,
    /// Threads that are silent now.
    pub silent: Vec<SilentReport>,
    /// How often a thread became silent.
    pub episodes: u64,
    /// The longest silence so far.
    pub longest_ms: u64,
}

/// A thread that does not beat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentReport {
    /// Its name, as `ps -L` shows it.
    pub thread: String,
    /// Since when.
    pub silent_ms: u64,
    /// After this long the daemon terminates.
    pub bound_ms: u64,
    /// Whether it was at work; otherwise it was told to take a turn and did not.
    pub working: bool,
}

/// How the threads are, the worst of them counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// All beat.
    Well,
    /// One has not beaten for half of its bound.
    Silent,
    /// One has not beaten for its bound.
    Stuck,
}

/// A thread under watch.
pub struct Watched {
    name: String,
    pulse: Arc<dyn Pulse>,
    bound_ns: u64,
    last: Beat,
    silent_ns: u64,
}

impl Watched {
    /// A thread that must beat within `bound_ns`.
    pub fn new(name: impl Into<String>, pulse: Arc<dyn Pulse>, bound_ns: u64) -> Self {
        Self {
            name: name.into(),
            last: pulse.beat(),
            pulse,
            bound_ns,
            silent_ns: 0,
        }
    }

    fn health(&self) -> Health {
        match self.silent_ns {
            silent if silent >= self.bound_ns => Health::Stuck,
            silent if silent >= self.bound_ns / 2 => Health::Silent,
            _ => Health::Well,
        }
    }

    fn look(&mut self, step_ns: u64) {
        let beat = self.pulse.beat();
        if beat != self.last {
            (self.last, self.silent_ns) = (beat, 0);
            return;
        }
        self.silent_ns += step_ns;
        // It may have nothing to do: then it shows now that it could.
        if !beat.is_working() && self.silent_ns >= self.bound_ns / 4 {
            self.pulse.nudge();
        }
    }

    fn report(&self) -> SilentReport {
        SilentReport {
            thread: self.name.clone(),
            silent_ms: self.silent_ns / 1_000_000,
            bound_ms: self.bound_ns / 1_000_000,
            working: self.last.is_working(),
        }
    }
}

/// Watches all threads of the daemon, from housekeeping.
pub struct Watchdog {
    watched: Vec<Watched>,
    bound_ns: u64,
    looked_ns: u64,
    episodes: u64,
    longest_ns: u64,
}

impl Watchdog {
    /// From `now_ns` on; `bound_ns` is the manifest's, of which each thread's own was made.
    pub fn new(watched: Vec<Watched>, bound_ns: u64, now_ns: u64) -> Self {
        Self {
            watched,
            bound_ns,
            looked_ns: now_ns,
            episodes: 0,
            longest_ns: 0,
        }
    }

    /// How often to look, in ns.
    pub fn period_ns(&self) -> u64 {
        (self.bound_ns / 8).min(STEP_NS_MAX / 2)
    }

    /// Looks at every thread; `said` is told who became silent, and who goes on.
    pub fn look(&mut self, now_ns: u64, mut said: impl FnMut(&str)) -> Health {
        let step_ns = now_ns.saturating_sub(self.looked_ns).min(STEP_NS_MAX);
        self.looked_ns = now_ns;
        let mut worst = Health::Well;
        for thread in &mut self.watched {
            let (before, silent_ms) = (thread.health(), thread.silent_ns / 1_000_000);
            thread.look(step_ns);
            self.longest_ns = self.longest_ns.max(thread.silent_ns);
            let health = thread.health();
            if health != Health::Well && before == Health::Well {
                self.episodes += 1;
                said(&sentence(&thread.report()));
            } else if health == Health::Well && before != Health::Well {
                let name = &thread.name;
                said(&format!(
                    "thread {name} goes on after at least {silent_ms} ms"
                ));
            }
            worst = worse(worst, health);
        }
        worst
    }

    /// What was seen so far.
    pub fn report(&self) -> WatchdogReport {
        let silent = self.watched.iter().filter(|t| t.health() != Health::Well);
        WatchdogReport {
            bound_ms: self.bound_ns / 1_000_000,
            silent: silent.map(Watched::report).collect(),
            episodes: self.episodes,
            longest_ms: self.longest_ns / 1_000_000,
        }
    }
}

/// What is said of a silent thread.
pub fn sentence(silent: &SilentReport) -> String {
    let doing = if silent.working {
        "is inside one turn of its work"
    } else {
        "does not wake up"
    };
    format!(
        "thread {} is silent: it {doing} for {} ms; the daemon ends at {} ms",
        silent.thread, silent.silent_ms, silent.bound_ms
    )
}

fn worse(a: Health, b: Health) -> Health {
    match (a, b) {
        (Health::Stuck, _) | (_, Health::Stuck) => Health::Stuck,
        (Health::Silent, _) | (_, Health::Silent) => Health::Silent,
        (Health::Well, Health::Well) => Health::Well,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use punctual_platform::heartbeat::Heartbeat;

    use super::*;

    const MS: u64 = 1_000_000;

    /// A thread that waits, and beats when nudged as long as it lives.
    #[derive(Default)]
    struct Sleeper {
        heart: Heartbeat,
        dead: AtomicBool,
    }

    impl Pulse for Sleeper {
        fn beat(&self) -> Beat {
            self.heart.read()
        }

        fn nudge(&self) {
            if !self.dead.load(Ordering::Relaxed) {
                self.heart.waiting();
            }
        }
    }

    fn watchdog(sleeper: &Arc<Sleeper>) -> Watchdog {
        let watched = Watched::new("egress", sleeper.clone(), 1_000 * MS);
        Watchdog::new(vec![watched], 1_000 * MS, 0)
    }

    /// Looks every 100 ms; what was found, and what was said.
    fn looks(dog: &mut Watchdog, from_ms: u64, to_ms: u64) -> (Vec<Health>, Vec<String>) {
        let mut said = Vec::new();
        let times = (from_ms..=to_ms).step_by(100);
        let found = times.map(|at| dog.look(at * MS, |words| said.push(words.to_owned())));
        (found.collect(), said)
    }

    #[test]
    fn a_thread_that_has_nothing_to_do_is_well_for_ever() {
        let sleeper = Arc::default();
        let mut dog = watchdog(&sleeper);
        let (found, said) = looks(&mut dog, 0, 60_000);
        assert!(found.iter().all(|health| *health == Health::Well));
        assert_eq!(said, [""; 0]);
        assert_eq!(dog.report().episodes, 0);
    }

    #[test]
    fn a_thread_that_does_not_wake_up_is_named_at_half_and_stuck_at_its_bound() {
        let sleeper = Arc::<Sleeper>::default();
        let mut dog = watchdog(&sleeper);
        sleeper.dead.store(true, Ordering::Relaxed);
        let (found, said) = looks(&mut dog, 100, 400);
        assert_eq!((found.last(), said.len()), (Some(&Health::Well), 0));
        let (found, said) = looks(&mut dog, 500, 900);
        assert_eq!(found, [Health::Silent; 5]);
        let words =
            "thread egress is silent: it does not wake up for 500 ms; the daemon ends at 1000 ms";
        assert_eq!(said, [words]);
        assert_eq!(looks(&mut dog, 1_000, 1_000).0, [Health::Stuck]);
    }

    #[test]
    fn a_thread_that_works_on_and_on_is_silent_and_well_again_at_its_next_turn() {
        let sleeper = Arc::<Sleeper>::default();
        let mut dog = watchdog(&sleeper);
        sleeper.heart.working();
        let (found, _) = looks(&mut dog, 100, 800);
        assert_eq!(found.last(), Some(&Health::Silent));
        let silent = &dog.report().silent;
        assert!(
            silent[0].working && silent[0].silent_ms == 700,
            "{silent:?}"
        );
        sleeper.heart.waiting();
        let (found, said) = looks(&mut dog, 900, 900);
        assert_eq!(found, [Health::Well]);
        assert_eq!(said, ["thread egress goes on after at least 700 ms"]);
        let report = dog.report();
        assert_eq!((report.episodes, report.longest_ms), (1, 700));
        assert_eq!(report.silent, []);
    }

    #[test]
    fn a_process_that_was_stopped_for_an_hour_finds_nobody_stuck() {
        let sleeper = Arc::<Sleeper>::default();
        let mut dog = watchdog(&sleeper);
        sleeper.heart.working();
        let hour = 3_600_000;
        let (found, _) = looks(&mut dog, hour, hour + 200);
        assert_eq!(found, [Health::Well; 3]);
    }
}

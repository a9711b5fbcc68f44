//! Judges whether the real-time threads live. Each beats at every turn of its loop
//! ([`punctual_platform::heartbeat`]); a thread that waits is nudged now and then and must beat. One
//! that does neither is *silent*: it is logged by name, and best-effort work is shed. After its bound it is
//! *stuck*, and the process must end: no other thread can take over what it holds.
//!
//! Silence is counted in the watchdog's own steps, each at most [`STEP_NS_MAX`] long: a process that
//! was stopped, or a machine that stood still, makes no thread silent.
//!
//! A thread that is ready to run and gets no processor is not silent either but *starved*. A program of higher
//! priority has its core, or the hypervisor does. A restart would not help then, so it has
//! [`STARVED_FACTOR`] times as long. Two things separate the cases: the kernel's figures of the thread
//! ([`punctual_platform::running`]), and when its core last ran its stall probe.

pub mod bounds;

use std::sync::Arc;

use punctual_core::{ClientId, PartitionId};
use punctual_events::DaemonEvent;
use punctual_platform::heartbeat::{Beat, Pulse};
use serde::{Deserialize, Serialize};

/// The most that one look adds to a silence, in ns. A process that was stopped for seconds, or a machine that stood
/// still, must not make a thread stuck at the next look.
pub const STEP_NS_MAX: u64 = 200_000_000;

/// A thread at ordinary priority may be delayed by other programs, so its bound is this many times
/// that of the manifest.
pub const ORDINARY_FACTOR: u64 = 4;

/// Starvation has this many times the bound of silence: a restart would not give the thread a processor.
pub const STARVED_FACTOR: u64 = 10;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchdogReport {
    /// `[daemon] watchdog_ms`.
    pub bound_ms: u64,
    /// Threads that are silent or starved now.
    pub silent: Vec<SilentReport>,
    /// How often a thread became silent.
    pub episodes: u64,
    pub longest_ms: u64,
    /// How often a thread was starved: ready to run, and not run by the machine.
    #[serde(default)]
    pub starved_episodes: u64,
    #[serde(default)]
    pub longest_starved_ms: u64,
}

/// A thread that does not beat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentReport {
    /// Its name, as `ps -L` shows it.
    pub thread: String,
    /// How long it did not beat though it had the processor, or waited for something else.
    pub silent_ms: u64,
    /// After this long the daemon terminates.
    pub bound_ms: u64,
    /// How long it was ready to run, and the machine did not run it.
    #[serde(default)]
    pub starved_ms: u64,
    /// After this long the daemon terminates.
    #[serde(default)]
    pub starved_bound_ms: u64,
    /// Whether it was at work; otherwise it was told to take a turn and did not.
    pub working: bool,
    /// Of a starved thread: who may have had its core when it became so, as far as that can be seen.
    #[serde(default)]
    pub who: String,
}

impl SilentReport {
    /// That the thread is silent, or starved.
    pub fn event(self) -> DaemonEvent {
        let thread = self.thread;
        // Some of the silence is from before the thread was told to take a turn.
        if self.silent_ms < self.bound_ms / 2 {
            return DaemonEvent::ThreadStarved {
                thread,
                starved_ms: self.starved_ms,
                ends_ms: self.starved_bound_ms,
                who: self.who,
            };
        }
        DaemonEvent::ThreadSilent {
            thread,
            doing: if self.working {
                "is inside one turn of its work"
            } else {
                "does not wake up"
            },
            silent_ms: self.silent_ms,
            ends_ms: self.bound_ms,
        }
    }
}

/// How the threads are, the worst of them counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    Well,
    /// One has not beaten for half of its bound, as it got no processor.
    Starved,
    /// One has not beaten for half of its bound.
    Silent,
    /// One has not beaten for its bound.
    Stuck,
}

/// What the machine has given a thread, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ThreadUsage {
    /// Processor time, in ns.
    pub ran_ns: u64,
    /// Whether it wants more.
    pub runnable: bool,
    /// When its core last ran the most urgent thread that it has; none if it may run on several.
    pub core_ran_ns: Option<u64>,
}

/// Tells what a thread has had; none if that is not known.
pub type Machine = Box<dyn Fn() -> Option<ThreadUsage>>;

/// Tells in words who may have these cores.
pub type WhoHas = fn(&[u16]) -> String;

pub struct Watched {
    name: String,
    /// The client that it serves alone, and that can make it wait.
    client: Option<ClientId>,
    leads: Option<PartitionId>,
    pulse: Arc<dyn Pulse>,
    machine: Machine,
    /// Where it may run.
    cores: Vec<u16>,
    bound_ns: u64,
    last: Beat,
    /// Both since its last beat.
    silent_ns: u64,
    starved_ns: u64,
    /// The processor time that it had had when it was last looked at without a new beat.
    ran_ns: Option<u64>,
    /// Whether it was ready to run for most of the last step, and was not run.
    is_denied: bool,
    /// Who may have had its core when it was last found starved.
    who: String,
}

impl Watched {
    /// A thread that must beat within `bound_ns`.
    pub fn new(name: impl Into<String>, pulse: Arc<dyn Pulse>, bound_ns: u64) -> Self {
        Self {
            name: name.into(),
            client: None,
            leads: None,
            last: pulse.beat(),
            pulse,
            machine: Box::new(|| None),
            cores: Vec::new(),
            bound_ns,
            silent_ns: 0,
            starved_ns: 0,
            ran_ns: None,
            is_denied: false,
            who: String::new(),
        }
    }

    /// Of which `machine` tells whether it is run.
    pub fn run_by(self, machine: Machine) -> Self {
        Self { machine, ..self }
    }

    /// Which may run on these cores only.
    pub fn on(self, cores: Vec<u16>) -> Self {
        Self { cores, ..self }
    }

    pub fn leading(self, partition: PartitionId) -> Self {
        Self {
            leads: Some(partition),
            ..self
        }
    }

    /// Which serves this client alone.
    pub fn serving(self, client: ClientId) -> Self {
        Self {
            client: Some(client),
            ..self
        }
    }

    fn starved_bound_ns(&self) -> u64 {
        self.bound_ns.saturating_mul(STARVED_FACTOR)
    }

    fn is_silent(&self) -> bool {
        self.silent_ns >= self.bound_ns / 2
    }

    fn health(&self) -> Health {
        let unseen_ns = self.silent_ns + self.starved_ns;
        let is_stuck =
            self.silent_ns >= self.bound_ns || self.starved_ns >= self.starved_bound_ns();
        // No other thread needs one that serves a single client.
        if is_stuck && self.client.is_none() {
            Health::Stuck
        } else if self.is_silent() {
            Health::Silent
        } else if unseen_ns >= self.bound_ns / 2 {
            Health::Starved
        } else {
            Health::Well
        }
    }

    fn look(&mut self, now_ns: u64, step_ns: u64) {
        let beat = self.pulse.beat();
        if beat != self.last {
            // An action of a leader may be lost after two looks.
            let leads = self.leads.is_some();
            let had = leads.then(|| (self.machine)()).flatten();
            (self.last, self.ran_ns) = (beat, had.map(|had| had.ran_ns));
            self.is_denied = false;
            (self.silent_ns, self.starved_ns) = (0, 0);
            self.who.clear();
            return;
        }
        let denied_ns = self.denied_ns(now_ns, step_ns);
        self.is_denied = denied_ns > step_ns / 2;
        self.starved_ns += denied_ns;
        self.silent_ns += step_ns - denied_ns;
        // It may have nothing to do, and then it need not beat. After the nudge it must: so a thread that lost a
        // wake-up shows as well.
        let unseen_ns = self.silent_ns + self.starved_ns;
        if !beat.is_working() && unseen_ns >= self.bound_ns / 4 {
            self.pulse.nudge();
        }
    }

    /// How much of the step that ends now it was ready to run and did not.
    fn denied_ns(&mut self, now_ns: u64, step_ns: u64) -> u64 {
        let Some(had) = (self.machine)() else {
            return 0;
        };
        let before_ns = self.ran_ns.replace(had.ran_ns);
        // Nothing on the core has a higher priority than its probe, which wakes far more often than once a step.
        let core_stood = had.core_ran_ns.is_some_and(|ran| ran + step_ns < now_ns);
        match before_ns {
            // While the hypervisor stops a core, the kernel may go on counting for the thread that was on it.
            _ if had.runnable && core_stood => step_ns,
            Some(before_ns) if had.runnable => {
                step_ns.saturating_sub(had.ran_ns.saturating_sub(before_ns))
            }
            _ => 0,
        }
    }

    fn report(&self) -> SilentReport {
        SilentReport {
            thread: self.name.clone(),
            silent_ms: self.silent_ns / 1_000_000,
            bound_ms: self.bound_ns / 1_000_000,
            starved_ms: self.starved_ns / 1_000_000,
            starved_bound_ms: self.starved_bound_ns() / 1_000_000,
            working: self.last.is_working(),
            who: self.who.clone(),
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
    starved_episodes: u64,
    longest_starved_ns: u64,
    who_has: WhoHas,
}

impl Watchdog {
    /// From `now_ns` on; `bound_ns` is the manifest's, of which each thread's own was made.
    pub fn new(watched: Vec<Watched>, bound_ns: u64, now_ns: u64, who_has: WhoHas) -> Self {
        Self {
            watched,
            who_has,
            bound_ns,
            looked_ns: now_ns,
            episodes: 0,
            longest_ns: 0,
            starved_episodes: 0,
            longest_starved_ns: 0,
        }
    }

    /// How often to look, in ns: at least once between the nudge, at a quarter of the bound, and silence, at half.
    pub fn period_ns(&self) -> u64 {
        (self.bound_ns / 8).min(STEP_NS_MAX / 2)
    }

    /// Whether it is time to look again: looking reads what the machine reports about every thread that has not beaten since, which
    /// takes a tenth of a millisecond or more, and a client can wake housekeeping often.
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.looked_ns) >= self.period_ns() / 2
    }

    /// Checks every thread; `said` gets an event for each that became silent or starved, or runs again. A thread that serves
    /// one client and is silent for its bound waits for that client, and `overdrawn` is called with it, once.
    pub fn look(
        &mut self,
        now_ns: u64,
        mut said: impl FnMut(DaemonEvent),
        mut overdrawn: impl FnMut(ClientId),
    ) -> Health {
        let step_ns = now_ns.saturating_sub(self.looked_ns).min(STEP_NS_MAX);
        self.looked_ns = now_ns;
        let mut worst = Health::Well;
        for thread in &mut self.watched {
            let (before, was_silent) = (thread.health(), thread.is_silent());
            let was_over = thread.silent_ns >= thread.bound_ns;
            let unseen_ms = (thread.silent_ns + thread.starved_ns) / 1_000_000;
            thread.look(now_ns, step_ns);
            self.longest_ns = self.longest_ns.max(thread.silent_ns);
            self.longest_starved_ns = self.longest_starved_ns.max(thread.starved_ns);
            let health = thread.health();
            let silent = thread.is_silent();
            self.episodes += u64::from(silent && !was_silent);
            let begins = before == Health::Well && health != Health::Well;
            self.starved_episodes += u64::from(begins && !silent);
            if let Some(client) = thread.client.filter(|_| silent) {
                if thread.silent_ns >= thread.bound_ns && !was_over {
                    said(DaemonEvent::ClientAwaited {
                        thread: thread.name.clone(),
                        silent_ms: thread.silent_ns / 1_000_000,
                    });
                    overdrawn(client);
                }
                continue;
            }
            // A stuck thread is reported by the code that ends the daemon.
            if health > before && health != Health::Stuck {
                if health == Health::Starved {
                    thread.who = (self.who_has)(&thread.cores);
                }
                said(thread.report().event());
            } else if health == Health::Well && before != Health::Well {
                let thread = thread.name.clone();
                said(DaemonEvent::ThreadRuns { thread, unseen_ms });
            }
            worst = worst.max(health);
        }
        worst
    }

    /// The partitions whose leaders the machine did not run for most of the last step.
    pub fn starved(&self) -> impl Iterator<Item = PartitionId> {
        let denied = self.watched.iter().filter(|thread| thread.is_denied);
        denied.filter_map(|thread| thread.leads)
    }

    pub fn report(&self) -> WatchdogReport {
        let silent = self.watched.iter().filter(|t| t.health() != Health::Well);
        WatchdogReport {
            bound_ms: self.bound_ns / 1_000_000,
            silent: silent.map(Watched::report).collect(),
            episodes: self.episodes,
            longest_ms: self.longest_ns / 1_000_000,
            starved_episodes: self.starved_episodes,
            longest_starved_ms: self.longest_starved_ns / 1_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use punctual_events::Declared;
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

        fn tid(&self) -> i32 {
            0
        }
    }

    fn nobody(cores: &[u16]) -> String {
        assert_eq!(cores, [0; 0], "it was not said where it runs");
        "nobody".into()
    }

    fn watchdog(sleeper: &Arc<Sleeper>) -> Watchdog {
        let watched = Watched::new("scheduler", sleeper.clone(), 1_000 * MS);
        Watchdog::new(vec![watched], 1_000 * MS, 0, nobody)
    }

    /// Looks every 100 ms; what was found, and what was said.
    fn looks(dog: &mut Watchdog, from_ms: u64, to_ms: u64) -> (Vec<Health>, Vec<String>) {
        let mut said = Vec::new();
        let times = (from_ms..=to_ms).step_by(100);
        let mut say = |event: DaemonEvent| said.push(event.text(&()));
        let found = times.map(|at| dog.look(at * MS, &mut say, |_| panic!("it serves all")));
        (found.collect(), said)
    }

    #[test]
    fn whoever_wakes_housekeeping_often_does_not_have_it_look_more_often_than_twice_a_period() {
        let mut dog = watchdog(&Arc::default());
        let looks = (0..10_000).filter(|at| {
            let (now_ns, due) = (at * MS / 10, dog.is_due(at * MS / 10));
            if due {
                dog.look(now_ns, |_| (), |_| panic!("it serves all"));
            }
            due
        });
        assert_eq!(looks.count() as u64, 1_000 * MS / (dog.period_ns() / 2) - 1);
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
        let words = "thread scheduler is silent: it does not wake up for 500 ms; the daemon ends at 1000 ms";
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
        assert_eq!(said, ["thread scheduler runs again after at least 700 ms"]);
        let report = dog.report();
        assert_eq!((report.episodes, report.longest_ms), (1, 700));
        assert_eq!(report.silent, []);
    }

    /// A thread that never beats, and what the machine reports about it at each look.
    fn starving(had: impl Fn(u64) -> ThreadUsage + 'static) -> (Watchdog, Arc<Sleeper>) {
        let sleeper = Arc::<Sleeper>::default();
        sleeper.dead.store(true, Ordering::Relaxed);
        let looks = std::cell::Cell::new(0);
        let machine = move || {
            looks.set(looks.get() + 1);
            Some(had(looks.get()))
        };
        let watched = Watched::new("main/0", sleeper.clone(), 1_000 * MS);
        let watched = watched.run_by(Box::new(machine));
        (Watchdog::new(vec![watched], 1_000 * MS, 0, nobody), sleeper)
    }

    #[test]
    fn a_thread_that_gets_no_processor_is_starved_and_has_ten_times_as_long() {
        let (mut dog, sleeper) = starving(|_| ThreadUsage {
            ran_ns: 7,
            runnable: true,
            core_ran_ns: None,
        });
        let (found, said) = looks(&mut dog, 100, 9_900);
        assert_eq!(found[4..], [Health::Starved; 95]);
        let words = "thread main/0 is starved: it is ready to run, and the machine has not run it for \
                     400 ms; the daemon ends at 10000 ms: nobody";
        assert_eq!(said, [words]);
        let report = dog.report();
        assert_eq!((report.episodes, report.starved_episodes), (0, 1));
        assert_eq!(report.silent[0].starved_ms, 9_800);
        sleeper.heart.waiting();
        let (found, said) = looks(&mut dog, 10_000, 10_000);
        assert_eq!(found, [Health::Well]);
        assert_eq!(said, ["thread main/0 runs again after at least 9900 ms"]);
        assert_eq!(dog.report().longest_starved_ms, 9_800);
        // And once more, to the end.
        let (found, _) = looks(&mut dog, 10_100, 20_100);
        assert_eq!(found.last(), Some(&Health::Stuck));
        let report = dog.report();
        assert_eq!((report.episodes, report.starved_episodes), (0, 2));
        let said = report.silent[0].clone().event().text(&());
        assert!(said.contains("has not run it for 10000 ms"), "{said}");
    }

    #[test]
    fn who_has_the_core_of_a_starved_thread_is_said_and_reported_until_it_runs_again() {
        let (mut dog, sleeper) = starving(|_| ThreadUsage {
            ran_ns: 7,
            runnable: true,
            core_ran_ns: None,
        });
        dog.watched[0].cores = vec![2];
        dog.who_has = |cores| format!("a hog on {cores:?}");
        let (_, said) = looks(&mut dog, 100, 900);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].ends_with("ends at 10000 ms: a hog on [2]"),
            "{said:?}"
        );
        assert_eq!(dog.report().silent[0].who, "a hog on [2]");
        sleeper.heart.waiting();
        looks(&mut dog, 1_000, 1_000);
        assert_eq!(dog.watched[0].who, "");
    }

    #[test]
    fn a_leader_is_found_starved_at_the_first_look_after_its_last_beat() {
        let (mut dog, sleeper) = starving(|_| ThreadUsage {
            ran_ns: 7,
            runnable: true,
            core_ran_ns: None,
        });
        dog.watched[0].leads = Some(PartitionId(3));
        sleeper.heart.waiting();
        looks(&mut dog, 100, 100);
        assert_eq!(dog.starved().count(), 0);
        looks(&mut dog, 200, 200);
        assert_eq!(dog.starved().collect::<Vec<_>>(), [PartitionId(3)]);
        sleeper.heart.waiting();
        looks(&mut dog, 300, 300);
        assert_eq!(dog.starved().count(), 0);
    }

    #[test]
    fn a_thread_that_has_the_processor_and_does_not_beat_is_stuck() {
        let core_ran_ns = |look| Some(look * 100 * MS);
        let (mut dog, _) = starving(move |look| ThreadUsage {
            ran_ns: look * 100 * MS,
            runnable: true,
            core_ran_ns: core_ran_ns(look),
        });
        let (found, _) = looks(&mut dog, 100, 1_000);
        assert_eq!(found.last(), Some(&Health::Stuck));
        // As one that waits for something else.
        let (mut dog, _) = starving(move |look| ThreadUsage {
            ran_ns: 7,
            runnable: false,
            core_ran_ns: core_ran_ns(look),
        });
        let (found, _) = looks(&mut dog, 100, 1_000);
        assert_eq!(found.last(), Some(&Health::Stuck));
    }

    #[test]
    fn a_core_that_stands_still_starves_even_whoever_it_seems_to_run() {
        let (mut dog, _) = starving(|look| ThreadUsage {
            ran_ns: look * 100 * MS,
            runnable: true,
            core_ran_ns: Some(3),
        });
        let (found, _) = looks(&mut dog, 100, 1_500);
        assert_eq!(found.last(), Some(&Health::Starved));
        assert_eq!(dog.report().longest_ms, 100, "the step in which it stopped");
    }

    #[test]
    fn a_thread_that_gets_half_of_a_processor_is_stuck_after_its_own_share() {
        let (mut dog, _) = starving(|look| ThreadUsage {
            ran_ns: look * 50 * MS,
            runnable: true,
            core_ran_ns: Some(look * 100 * MS),
        });
        let (found, _) = looks(&mut dog, 100, 2_000);
        let stuck = found.iter().position(|health| *health == Health::Stuck);
        // 100 ms in the first look, 50 ms in each after it.
        assert_eq!(stuck, Some(18));
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

    #[test]
    fn a_client_that_a_thread_waits_for_is_reported_once_and_the_daemon_is_well() {
        let sleeper = Arc::new(Sleeper::default());
        sleeper.dead.store(true, Ordering::Relaxed);
        let watched = Watched::new("port/3", sleeper, 1_000 * MS).serving(ClientId(3));
        let mut dog = Watchdog::new(vec![watched], 1_000 * MS, 0, nobody);
        let (mut said, mut told) = (Vec::new(), Vec::new());
        for at in (100..=3_000).step_by(100) {
            let say = |event: DaemonEvent| said.push(event.text(&()));
            let health = dog.look(at * MS, say, |client| told.push(client));
            assert_eq!(health, Health::Well, "{at} ms");
        }
        assert_eq!(told, [ClientId(3)]);
        let waited =
            "thread port/3 has waited for its client for 1000 ms: the client is disconnected";
        assert_eq!(said, [waited]);
        assert_eq!(dog.report().episodes, 1);
    }
}

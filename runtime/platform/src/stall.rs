//! Stalls of the machine itself, seen by a thread that does nothing but wake up.
//!
//! On a virtual machine, or where firmware interrupts occur, a core can be gone for milliseconds, and no scheduler
//! can answer in time then. The probe says when, so that a late answer can be told from a late machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock;
use crate::doorbell::Doorbell;
use crate::thread::{self, RealtimeThread, ThreadError, ThreadSpec};

/// A span in which the probe's core did not run the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When the probe should have woken, in ns.
    pub start_ns: u64,
    /// When it did.
    pub end_ns: u64,
}

/// How often a probe wakes while it looks closely, in ns. A wake-up costs up to 20 us on a virtual machine, where timers
/// leave the guest: 4% of the core at this period. Every stall longer than a period and the
/// threshold together is seen, shorter ones sometimes.
pub const PERIOD_NS: u64 = 500_000;

/// And otherwise, in ns: an idle machine should rest. A stall that ends before a frame is there is seen seldom, also
/// where it delays the frame's arrival.
pub const IDLE_PERIOD_NS: u64 = 25_000_000;

/// How late a wake-up must be to count as a stall, in ns.
pub const THRESHOLD_NS: u64 = 1_000_000;

/// Whether probes look closely. One thread says so for all of them.
#[derive(Debug, Default)]
pub struct Attention {
    /// The core of that thread; none if it may run on several.
    core: Option<usize>,
    /// When it was asked for, in ns; 0 while it is not.
    since_ns: AtomicU64,
    /// When that thread should have asked for it, in ns.
    due_ns: AtomicU64,
    bell: Doorbell,
}

impl Attention {
    /// Of a thread that is bound to this core, if to any.
    #[must_use]
    pub fn from_core(core: Option<usize>) -> Self {
        Self {
            core,
            ..Self::default()
        }
    }

    /// From now on until [`release`](Self::release), all probes wake each [`PERIOD_NS`]. Wakes those that sleep. The caller
    /// should have woken to demand it at `due_ns`: if it did later, its core stood still.
    pub fn demand(&self, due_ns: u64) {
        // Relaxed: the ring publishes both to the probes, whose `count` and `wait` acquire.
        self.due_ns.store(due_ns, Ordering::Relaxed);
        self.since_ns.store(clock::now_ns(), Ordering::Relaxed);
        self.bell.ring();
    }

    /// Since when it is demanded, in ns; 0 while it is not.
    fn since_ns(&self) -> u64 {
        // Relaxed: published by the ring that `count` and `wait` acquire.
        self.since_ns.load(Ordering::Relaxed)
    }

    /// When a probe of this core should have woken that was to wake at `due_ns`, if attention was demanded since `since_ns`
    /// when it fell asleep: a demand meanwhile expects it at once.
    fn expects(&self, core: Option<usize>, due_ns: u64, since_ns: u64) -> u64 {
        let rung_ns = self.since_ns();
        if rung_ns == 0 || rung_ns == since_ns {
            due_ns
        } else if core.is_some() && core == self.core {
            // Relaxed: as above.
            due_ns.min(self.due_ns.load(Ordering::Relaxed))
        } else {
            due_ns.min(rung_ns)
        }
    }

    pub fn release(&self) {
        // Relaxed: seen at the next wake-up.
        self.since_ns.store(0, Ordering::Relaxed);
    }
}

/// A running probe of one core.
#[derive(Debug)]
pub struct StallProbe {
    record: Arc<Record>,
    attention: Arc<Attention>,
    thread: RealtimeThread<()>,
}

/// Sees when a probe's core last ran its probe, which nothing else there delays.
#[derive(Clone, Debug)]
pub struct CoreWatch(Arc<Record>);

impl CoreWatch {
    #[must_use]
    pub fn ran_ns(&self) -> u64 {
        // Relaxed: partner of the store in `woke`.
        self.0.ran_ns.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Record {
    ended: AtomicBool,
    /// When the probe last ran, in ns. Relaxed: it publishes nothing else.
    ran_ns: AtomicU64,
    /// Stalls seen; those from `stalls.len()` on were counted only.
    count: AtomicU64,
    total_ns: AtomicU64,
    stalls: Box<[[AtomicU64; 2]]>,
}

impl StallProbe {
    /// Starts a probe as `spec` says (the highest priority of all, or it sees other threads'
    /// work as stalls) with room for `capacity` stalls.
    pub fn start(
        spec: ThreadSpec,
        attention: Arc<Attention>,
        capacity: usize,
    ) -> Result<Self, ThreadError> {
        let record = Arc::new(Record {
            ended: AtomicBool::new(false),
            ran_ns: AtomicU64::new(clock::now_ns()),
            count: AtomicU64::new(0),
            total_ns: AtomicU64::new(0),
            stalls: (0..capacity)
                .map(|_| [AtomicU64::new(0), AtomicU64::new(0)])
                .collect(),
        });
        let (probe, asked, core) = (Arc::clone(&record), Arc::clone(&attention), spec.core);
        let thread = thread::spawn_realtime(spec, move || probe.run(&asked, core))?;
        Ok(Self {
            record,
            attention,
            thread,
        })
    }

    #[must_use]
    pub fn thread(&self) -> &RealtimeThread<()> {
        &self.thread
    }

    /// For a thread that must know whether the core runs anything at all.
    #[must_use]
    pub fn core(&self) -> CoreWatch {
        CoreWatch(Arc::clone(&self.record))
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        // Acquire pairs with the Release in `woke`.
        self.record.count.load(Ordering::Acquire)
    }

    /// How long they lasted together, in ns.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.record.total_ns.load(Ordering::Relaxed)
    }

    /// The first `capacity` stalls.
    #[must_use]
    pub fn stalls(&self) -> Vec<Stall> {
        self.record.stalls()
    }

    /// Ends the probe and returns the first `capacity` stalls.
    #[must_use]
    pub fn stop(self) -> Vec<Stall> {
        // Relaxed: partner of the load in `run`; `join` orders the record.
        self.record.ended.store(true, Ordering::Relaxed);
        self.attention.bell.ring();
        // The probe does not panic, and if it did its record would still be good.
        let _ = self.thread.join();
        self.record.stalls()
    }
}

impl Record {
    fn run(&self, attention: &Attention, core: Option<usize>) {
        let mut seen = attention.bell.count();
        // Relaxed: partner of the store in `stop`; the flag orders nothing.
        while !self.ended.load(Ordering::Relaxed) {
            let since_ns = attention.since_ns();
            // From the present on, so that a stall of several periods counts once.
            let due_ns = clock::now_ns() + period_ns(since_ns);
            seen = attention.bell.wait(seen, Some(due_ns));
            let expected_ns = attention.expects(core, due_ns, since_ns);
            self.woke(expected_ns, clock::now_ns());
        }
    }

    fn woke(&self, expected: u64, now: u64) {
        // Relaxed: partner of the load in `CoreWatch::ran_ns`.
        self.ran_ns.store(now, Ordering::Relaxed);
        let late = now.saturating_sub(expected);
        if late < THRESHOLD_NS {
            return;
        }
        let at = self.count.load(Ordering::Relaxed);
        // Relaxed: the count publishes these words.
        if let Some([start, end]) = self.stalls.get(at as usize) {
            start.store(expected, Ordering::Relaxed);
            end.store(now, Ordering::Relaxed);
        }
        self.total_ns.fetch_add(late, Ordering::Relaxed);
        // Release pairs with the Acquire in `count` and `stalls`: the entry is written.
        self.count.store(at + 1, Ordering::Release);
    }

    fn stalls(&self) -> Vec<Stall> {
        // Acquire pairs with the Release in `woke`.
        let count = self.count.load(Ordering::Acquire) as usize;
        self.stalls
            .iter()
            .take(count)
            .map(|[start, end]| Stall {
                start_ns: start.load(Ordering::Relaxed),
                end_ns: end.load(Ordering::Relaxed),
            })
            .collect()
    }
}

/// How long a probe sleeps that is asked to look closely since then, or not.
fn period_ns(since_ns: u64) -> u64 {
    match since_ns {
        0 => IDLE_PERIOD_NS,
        _ => PERIOD_NS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_wake_ups_are_recorded_and_punctual_ones_are_not() {
        let record = Record {
            ended: AtomicBool::new(false),
            ran_ns: AtomicU64::new(0),
            count: AtomicU64::new(0),
            total_ns: AtomicU64::new(0),
            stalls: (0..2).map(|_| Default::default()).collect(),
        };
        record.woke(1_000, 1_000 + THRESHOLD_NS - 1);
        assert_eq!(record.stalls(), []);
        for start_ns in [10, 20, 30] {
            record.woke(start_ns, start_ns + 2 * THRESHOLD_NS);
        }
        let starts: Vec<u64> = record.stalls().iter().map(|s| s.start_ns).collect();
        assert_eq!(starts, [10, 20], "the third is counted only");
        assert_eq!(record.count.load(Ordering::Relaxed), 3);
        assert_eq!(record.total_ns.load(Ordering::Relaxed), 6 * THRESHOLD_NS);
    }

    /// Demanded by a thread on core 1.
    fn demanded(due_ns: u64, since_ns: u64) -> Attention {
        Attention {
            since_ns: AtomicU64::new(since_ns),
            due_ns: AtomicU64::new(due_ns),
            ..Attention::from_core(Some(1))
        }
    }

    #[test]
    fn a_demand_is_due_when_it_is_made_and_only_once() {
        let (core, due_ns) = (Some(0), 100);
        assert_eq!(demanded(0, 0).expects(core, due_ns, 0), due_ns);
        assert_eq!(demanded(40, 40).expects(core, due_ns, 0), 40);
        assert_eq!(demanded(40, 40).expects(core, due_ns, 40), due_ns);
        assert_eq!(demanded(70, 70).expects(core, due_ns, 40), 70);
        let over = demanded(40, 0).expects(core, due_ns, 40);
        assert_eq!(over, due_ns, "it is over");
    }

    #[test]
    fn a_demand_that_came_late_says_that_the_core_of_its_caller_stood_and_no_other() {
        let late = demanded(40, 70);
        assert_eq!(late.expects(Some(1), 100, 0), 40);
        assert_eq!(late.expects(Some(0), 100, 0), 70);
        assert_eq!(late.expects(None, 100, 0), 70);
    }

    #[test]
    fn a_probe_starts_and_stops() {
        let spec = ThreadSpec::new("probe", None, None);
        let probe = StallProbe::start(spec, Arc::default(), 8).unwrap();
        let count = probe.count();
        let stalls = probe.stop();
        assert!(stalls.len() as u64 >= count);
        assert!(stalls.iter().all(|s| s.end_ns - s.start_ns >= THRESHOLD_NS));
    }
}

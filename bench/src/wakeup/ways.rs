//! The ways in which a thread of the daemon is woken, measured on the primitives that it uses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hdrhistogram::Histogram;
use punctual_platform::poll::Poller;
use punctual_platform::thread::{RealtimeThread, ThreadError, ThreadSpec, spawn_realtime};
use punctual_platform::{Doorbell, Missing, OsError, clock};

/// From one wake-up to the next, in ns: cyclictest's usual interval.
pub const PERIOD_NS: u64 = 1_000_000;

/// Longer delays than this count as this, in ns.
pub const LATENCY_NS_MAX: u64 = 10_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `clock_nanosleep` until an absolute time: the stall probes, and what cyclictest does.
    Sleep,
    /// A wait on a doorbell that ends at its time: the scheduler's timers.
    Timeout,
    /// A doorbell that another core rings: scheduler, intakes, workers.
    Doorbell,
    /// A poller that another core wakes: the ports.
    Poller,
}

impl Way {
    pub const ALL: [Self; 4] = [Self::Sleep, Self::Timeout, Self::Doorbell, Self::Poller];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Timeout => "doorbell time-out",
            Self::Doorbell => "doorbell",
            Self::Poller => "poller",
        }
    }
}

/// Who is measured, and who wakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPlacement {
    /// The core of the thread that is woken.
    pub core: usize,
    /// The core of the one that wakes it; the same on a machine with one.
    pub other: usize,
    /// The priority of both; the one that wakes is one below on the same core.
    pub priority: u8,
}

/// Why a way was not measured.
#[derive(Debug, thiserror::Error)]
pub enum WayError {
    #[error(transparent)]
    Thread(#[from] ThreadError),
    #[error(transparent)]
    System(#[from] OsError),
    /// A measuring thread panicked, which is a defect of this program.
    #[error("a measuring thread panicked: please report it")]
    Panicked,
}

/// An empty histogram of nanoseconds that never grows.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_NS_MAX, 3).expect("constant bounds that fit")
}

/// Latencies of `wakes` wake-ups, in ns, and what the machine did not grant the threads.
pub fn measure(
    way: Way,
    placement: ThreadPlacement,
    wakes: u64,
) -> Result<(Histogram<u64>, Vec<Missing>), WayError> {
    match way {
        Way::Sleep => alone(placement, wakes, clock::sleep_until_ns),
        Way::Timeout => {
            let bell = Doorbell::new();
            alone(placement, wakes, move |until_ns| {
                bell.wait(bell.count(), Some(until_ns));
            })
        }
        Way::Doorbell => {
            let bell = Arc::new(Doorbell::new());
            let rings = Arc::clone(&bell);
            let mut seen = bell.count();
            let wait = move |until_ns| seen = bell.wait(seen, Some(until_ns));
            in_turns(placement, wakes, wait, move || rings.ring())
        }
        Way::Poller => {
            let mut poller = Poller::new(1)?;
            let waker = poller.waker();
            let wait = move |until_ns| {
                // Nothing is watched but the waker.
                let _ = poller.wait(Some(until_ns)).count();
            };
            in_turns(placement, wakes, wait, move || waker.wake())
        }
    }
}

/// A thread that waits for a time, again and again.
fn alone(
    placement: ThreadPlacement,
    wakes: u64,
    mut wait_until: impl FnMut(u64) + Send + 'static,
) -> Result<(Histogram<u64>, Vec<Missing>), WayError> {
    let mut latencies = histogram();
    let spec = ThreadSpec::new("woken", Some(placement.core), Some(placement.priority));
    let thread = spawn_realtime(spec, move || {
        let mut next_ns = clock::now_ns() + PERIOD_NS;
        for _ in 0..wakes {
            wait_until(next_ns);
            let now_ns = clock::now_ns();
            latencies.saturating_record(now_ns.saturating_sub(next_ns));
            next_ns = now_ns.max(next_ns) + PERIOD_NS;
        }
        latencies
    })?;
    let missing = thread.missing().to_vec();
    let latencies = thread.join().map_err(|_| WayError::Panicked)?;
    Ok((latencies, missing))
}

/// What the two threads share.
#[derive(Default)]
struct Turn {
    /// When it was rung, in ns; 0: the woken one has seen the last ring.
    rung_ns: AtomicU64,
    ended: AtomicBool,
}

/// Two threads: one wakes, once a period and not before the last wake-up was seen; one is woken.
fn in_turns(
    placement: ThreadPlacement,
    wakes: u64,
    mut wait: impl FnMut(u64) + Send + 'static,
    ring: impl Fn() + Send + 'static,
) -> Result<(Histogram<u64>, Vec<Missing>), WayError> {
    let turn = Arc::new(Turn::default());
    let mut latencies = histogram();
    let spec = ThreadSpec::new("woken", Some(placement.core), Some(placement.priority));
    let woken = spawn_realtime(spec, {
        let turn = Arc::clone(&turn);
        move || {
            let mut seen = 0;
            while seen < wakes {
                // The limit only keeps a lost ring from being waited for for ever.
                wait(clock::now_ns() + LATENCY_NS_MAX);
                let now_ns = clock::now_ns();
                // Acquire pairs with the Release in the other thread; the swap gives the turn back.
                let rung_ns = turn.rung_ns.swap(0, Ordering::AcqRel);
                if rung_ns > 0 {
                    latencies.saturating_record(now_ns.saturating_sub(rung_ns));
                    seen += 1;
                }
            }
            turn.ended.store(true, Ordering::Release);
            latencies
        }
    })?;
    let waking = ringer(placement, turn, ring)?;
    let missing = [woken.missing(), waking.missing()].concat();
    let latencies = woken.join().map_err(|_| WayError::Panicked)?;
    waking.join().map_err(|_| WayError::Panicked)?;
    Ok((latencies, missing))
}

fn ringer(
    placement: ThreadPlacement,
    turn: Arc<Turn>,
    ring: impl Fn() + Send + 'static,
) -> Result<RealtimeThread<()>, ThreadError> {
    let priority = if placement.core == placement.other {
        placement.priority.saturating_sub(1).max(1)
    } else {
        placement.priority
    };
    let spec = ThreadSpec::new("waking", Some(placement.other), Some(priority));
    spawn_realtime(spec, move || {
        let mut next_ns = clock::now_ns() + PERIOD_NS;
        // Acquire pairs with the Release after the last wake-up.
        while !turn.ended.load(Ordering::Acquire) {
            clock::sleep_until_ns(next_ns);
            let now_ns = clock::now_ns();
            next_ns = now_ns + PERIOD_NS;
            // Acquire pairs with the swap: the last ring was seen.
            if turn.rung_ns.load(Ordering::Acquire) == 0 {
                // Release pairs with the swap of the woken thread.
                turn.rung_ns.store(now_ns, Ordering::Release);
                ring();
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_wakes_as_often_as_it_was_asked_to() {
        let cores = punctual_platform::affinity::available_cores().expect("cores");
        let placement = ThreadPlacement {
            core: cores[0],
            other: cores[cores.len() - 1],
            priority: 10,
        };
        for way in Way::ALL {
            let (latencies, _) = measure(way, placement, 20).expect("threads");
            assert_eq!(latencies.len(), 20, "{}", way.name());
            assert!(latencies.max() > 0, "{}", way.name());
        }
    }
}

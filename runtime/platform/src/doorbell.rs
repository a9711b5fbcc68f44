//! How one thread of the daemon tells another that there is something in its rings.

use crate::atomics::{AtomicU32, Ordering, fence};
use crate::futex::{self, Scope, Wake};

/// A counter of rings that a thread can sleep on; any number of ringers, any number of waiters.
///
/// A ring is never missed when the waiter reads the count *before* it looks into its rings:
/// ```
/// # let bell = punctual_platform::Doorbell::new();
/// # let mut rounds = 0;
/// # bell.ring();
/// let mut seen = bell.count();
/// loop {
///     // ... take everything out of the rings ...
/// #   rounds += 1; if rounds == 2 { break; }
/// #   seen = seen.wrapping_sub(1);
///     seen = bell.wait(seen, None);
/// }
/// ```
#[derive(Debug, Default)]
pub struct Doorbell {
    count: AtomicU32,
    sleepers: AtomicU32,
}

impl Doorbell {
    /// A bell that was not rung yet.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
        }
    }

    /// A bell that was not rung yet.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes all waiting threads. Wait-free; costs a system call only when a thread sleeps.
    pub fn ring(&self) {
        // Release pairs with the Acquire in `count` and `wait`: what was written before is there.
        self.count.fetch_add(1, Ordering::Release);
        // Pairs with the fence in `wait`: either the sleeper's entry is seen here, or the sleeper (or
        // the kernel, which compares the word under its own lock) sees the new count.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            futex::wake(&raw const self.count, u32::MAX, Scope::Process);
        }
    }

    /// How often it was rung, modulo 2^32. What was written before those rings is visible afterwards.
    #[must_use]
    pub fn count(&self) -> u32 {
        // Acquire pairs with the fetch_add in `ring`.
        self.count.load(Ordering::Acquire)
    }

    /// Sleeps until the count differs from `seen` or `until_ns` (absolute) has come; returns the
    /// count, which equals `seen` only when the time has come.
    pub fn wait(&self, seen: u32, until_ns: Option<u64>) -> u32 {
        let count = self.count();
        if count != seen {
            return count;
        }
        // Relaxed: the fence below orders it before the look at the count.
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `ring`.
        fence(Ordering::SeqCst);
        let count = loop {
            let count = self.count();
            if count != seen {
                break count;
            }
            match futex::wait(&raw const self.count, seen, until_ns, Scope::Process) {
                Wake::TimedOut => break self.count(),
                Wake::Maybe | Wake::Changed => {}
            }
        };
        // Relaxed: a wake-up too many does no harm.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_ring_before_the_wait_is_not_missed() {
        let bell = Doorbell::new();
        let seen = bell.count();
        bell.ring();
        assert_eq!(bell.wait(seen, None), 1);
    }

    #[test]
    fn a_wait_ends_at_its_limit_without_a_ring() {
        let bell = Doorbell::new();
        let limit = clock::now_ns() + 200_000;
        assert_eq!(bell.wait(0, Some(limit)), 0);
        assert!(clock::now_ns() >= limit);
    }

    #[test]
    fn two_threads_alternate_without_losing_a_ring() {
        const ROUNDS: u32 = 20_000;
        let (ping, pong) = (Doorbell::new(), Doorbell::new());
        // A lost ring would end in a time-out, far beyond what any round takes.
        let limit = Some(clock::now_ns() + 60_000_000_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    assert_eq!(ping.wait(round, limit), round + 1);
                    pong.ring();
                }
            });
            for round in 0..ROUNDS {
                ping.ring();
                assert_eq!(pong.wait(round, limit), round + 1);
            }
        });
    }
}

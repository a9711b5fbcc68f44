//! How one thread of the daemon tells another that there is something in its rings.
//!
//! To wake a thread on another core takes tens of microseconds, most of them if that core has been put to sleep. Two ways lead
//! around it, for moments at which a ring is expected soon: a thread may [`look`](Doorbell::look) before it waits, and a less
//! urgent thread of its core may [`attend`](Doorbell::attend) the bell while it sleeps.

use crate::atomics::{AtomicU32, Ordering, fence};
use crate::futex::{self, Scope, Wake};

/// How long to look for a ring that is about to come, in ns: about what a core takes to fall asleep and to be woken again. Longer
/// looks take more than they save.
pub const LOOK_NS: u64 = 100_000;

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
    /// The count that the last of them had seen.
    slept_on: AtomicU32,
    attendants: AtomicU32,
}

impl Doorbell {
    /// A bell that was not rung yet.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            slept_on: AtomicU32::new(0),
            attendants: AtomicU32::new(0),
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
        self.add();
        self.wake_sleepers();
    }

    /// The same, but a thread that [attends](Self::attend) the bell is left to wake the one that waits. For ringers on other
    /// cores than theirs: on that core it would be no gain.
    pub fn ring_attended(&self) {
        self.add();
        // Relaxed: pairs through the fences with the subtraction in `attend`. Who does not see that one has added before the
        // attendant's last look.
        if self.attendants.load(Ordering::Relaxed) == 0 {
            self.wake_sleepers();
        }
    }

    fn add(&self) {
        // Release pairs with the Acquire in `count` and `wait`: what was written before is there.
        self.count.fetch_add(1, Ordering::Release);
        // Pairs with the fence in `wait`: either the sleeper's entry is seen behind it, or the sleeper (or the kernel, which
        // compares the word under its own lock) sees the new count. And with the second fence in `attend`.
        fence(Ordering::SeqCst);
    }

    fn wake_sleepers(&self) {
        // Relaxed: ordered by the caller's fence.
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            futex::wake(&raw const self.count, u32::MAX, Scope::Process);
        }
    }

    /// Looks until it rings or `is_over`, and wakes the thread that waits, if any, when it has rung. Whether it rang.
    ///
    /// Meanwhile [`ring_attended`](Self::ring_attended) leaves that thread asleep until the caller sees the ring. So the caller
    /// must run whenever it does not: it is a less urgent thread of the same core, and those in between [relay](Self::relay). Only one
    /// thread may wait on such a bell.
    pub fn attend(&self, mut is_over: impl FnMut() -> bool) -> bool {
        let first = self.count();
        // Relaxed, here and below: the fence pairs with that in `add`.
        self.attendants.fetch_add(1, Ordering::Relaxed);
        let rang = loop {
            if self.count() != first {
                break true;
            }
            if is_over() {
                break false;
            }
        };
        self.attendants.fetch_sub(1, Ordering::Relaxed);
        // Pairs with the fences in `add` and `wait`: who left it to this thread has added before the look in `relay`, and a sleeper
        // whose entry that look does not see yet sees the new count.
        fence(Ordering::SeqCst);
        // A ring from before `first` may have been left to this thread, too.
        self.relay();
        rang
    }

    /// Wakes the thread that waits if it has slept through a ring that was left to an attendant: for threads that keep the
    /// attendant from its core.
    pub fn relay(&self) {
        // Relaxed: the attendant sees all that is missed here. Most often no thread sleeps on an old count.
        if self.count() != self.slept_on.load(Ordering::Relaxed) {
            self.wake_sleepers();
        }
    }

    /// Looks until it has rung since `seen` or `is_over`. Whether it rang.
    pub fn look(&self, seen: u32, mut is_over: impl FnMut() -> bool) -> bool {
        loop {
            if self.count() != seen {
                return true;
            }
            if is_over() {
                return false;
            }
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
        // Both relaxed: the fence below orders them before the look at the count.
        self.slept_on.store(seen, Ordering::Relaxed);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fences in `add` and `attend`.
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
    fn a_look_sees_rings_since_the_count_and_ends_when_it_is_over() {
        let bell = Doorbell::new();
        let mut turns = 0;
        let third = || {
            turns += 1;
            turns == 3
        };
        assert!(!bell.look(0, third));
        assert_eq!(turns, 3);
        bell.ring();
        assert!(bell.look(0, || unreachable!("it has rung")));
    }

    #[test]
    fn a_thread_that_keeps_the_attendant_from_its_core_can_relay_the_ring() {
        let bell = Doorbell::new();
        // A lost ring would end in a time-out.
        let limit = Some(clock::now_ns() + 60_000_000_000);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| bell.wait(0, limit));
            while bell.sleepers.load(Ordering::Relaxed) == 0 {
                std::hint::spin_loop();
            }
            // One that does not run.
            bell.attendants.fetch_add(1, Ordering::Relaxed);
            bell.ring_attended();
            while !waiting.is_finished() {
                bell.relay();
            }
            assert_eq!(waiting.join().expect("no panic"), 1);
        });
    }

    #[test]
    fn an_attendant_wakes_the_thread_that_waits_and_nobody_else_needs_to() {
        const ROUNDS: u32 = 2_000;
        let (attended, answered) = (Doorbell::new(), Doorbell::new());
        // A lost ring would end in a time-out, far beyond what any round takes.
        let limit = Some(clock::now_ns() + 60_000_000_000);
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    assert_eq!(attended.wait(round, limit), round + 1);
                    answered.ring();
                }
            });
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    let until = clock::now_ns() + 20_000;
                    attended.attend(|| clock::now_ns() >= until);
                }
            });
            for round in 0..ROUNDS {
                attended.ring_attended();
                assert_eq!(answered.wait(round, limit), round + 1);
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
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

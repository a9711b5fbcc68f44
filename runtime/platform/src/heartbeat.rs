//! How a thread shows that it lives: one word, on cache lines of its own, that changes with each turn
//! of the thread's loop. A watcher, which is another thread, checks that it does.

use std::sync::atomic::{AtomicU32, Ordering};

/// Written by one thread, read by its watcher. Two lines, since processors fetch them in
/// pairs: a watcher's look must not slow the neighbours down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Heartbeat {
    word: AtomicU32,
}

/// A heartbeat at one moment: how often the thread has beaten (modulo 2^31), and what it was about to
/// do. Two that are equal: it did nothing in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat(u32);

/// The lowest bit of the word: at work. The others count.
const WORKING: u32 = 1;

impl Heartbeat {
    /// Of a thread that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
        }
    }

    /// The thread begins a piece of work.
    pub fn working(&self) {
        self.beat(WORKING);
    }

    /// The thread is about to wait for something to do.
    pub fn waiting(&self) {
        self.beat(0);
    }

    /// Only the thread itself calls this, so a load and a store are enough. Relaxed, like its partner,
    /// the load in `read`: the word says that it changed and publishes nothing else.
    fn beat(&self, doing: u32) {
        let count = self.word.load(Ordering::Relaxed) & !WORKING;
        self.word
            .store(count.wrapping_add(WORKING + 1) | doing, Ordering::Relaxed);
    }

    /// The present beat, for a watcher.
    #[must_use]
    pub fn read(&self) -> Beat {
        // Relaxed: partner of the store in `beat`.
        Beat(self.word.load(Ordering::Relaxed))
    }
}

impl Beat {
    /// Whether the thread was at work, rather than waiting.
    #[must_use]
    pub const fn is_working(self) -> bool {
        self.0 & WORKING == WORKING
    }
}

/// A thread that can be watched. A thread that waits need not beat: a watcher nudges it, and it must beat then.
pub trait Pulse: Send + Sync {
    fn beat(&self) -> Beat;

    /// Makes it take a turn of its loop, if it waits. Never blocks.
    fn nudge(&self);

    /// The kernel's id of it.
    fn tid(&self) -> i32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beat_differs_from_the_one_before_and_says_what_comes() {
        let heart = Heartbeat::new();
        let mut before = heart.read();
        assert!(!before.is_working());
        for turn in 0..10 {
            if turn % 3 == 0 {
                heart.waiting();
            } else {
                heart.working();
            }
            let now = heart.read();
            assert_ne!(now, before);
            assert_eq!(now.is_working(), turn % 3 != 0);
            before = now;
        }
    }

    #[test]
    fn the_count_goes_round_without_changing_what_is_said() {
        let heart = Heartbeat {
            word: AtomicU32::new(u32::MAX),
        };
        heart.waiting();
        assert!(!heart.read().is_working());
        heart.working();
        assert!(heart.read().is_working());
    }

    #[test]
    fn a_heart_has_its_cache_lines_to_itself() {
        assert_eq!(size_of::<[Heartbeat; 2]>(), 256);
    }
}

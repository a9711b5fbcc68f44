//! Where the workers of a partition meet between two operators.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use punctual_platform::Doorbell;

/// Rounds of spinning before a worker sleeps: a few tens of microseconds, longer than the cores'
/// shares of an operator usually differ, so that a sleep is the exception.
const SPINS: u32 = 1_000;

/// A barrier that also takes one decision for all workers that meet.
#[derive(Default)]
pub(super) struct Barrier {
    arrived: AtomicUsize,
    /// Counts the meetings.
    opened: Doorbell,
    /// A worker wishes to stop.
    wish: AtomicBool,
    /// What was decided at the last meeting. Written by the last to arrive only, so that all
    /// leave with the same answer, whatever is wished meanwhile.
    stop: AtomicBool,
}

impl Barrier {
    /// Forgets earlier wishes. Only between jobs.
    pub(super) fn reset(&self) {
        // Relaxed: the start of the next job publishes it.
        self.wish.store(false, Ordering::Relaxed);
    }

    /// Asks that all stop at the next meeting.
    pub(super) fn wish_to_stop(&self) {
        // Relaxed: this worker's arrival publishes it.
        self.wish.store(true, Ordering::Relaxed);
    }

    /// Waits until all `size` are here; true if all are to stop. What each wrote before is visible to all afterwards.
    pub(super) fn meet(&self, size: usize) -> bool {
        // Relaxed: this worker alone wrote it.
        if size == 1 {
            return self.wish.load(Ordering::Relaxed);
        }
        // Read before arriving: the bell cannot ring for this meeting earlier.
        let seen = self.opened.count();
        // AcqRel: each arrival is released to the last one, which has then seen all (label MEET).
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == size {
            // All three before the ring, which publishes them: a worker that leaves may arrive at the next meeting at
            // once.
            self.arrived.store(0, Ordering::Relaxed);
            let stop = self.wish.load(Ordering::Relaxed);
            self.stop.store(stop, Ordering::Relaxed);
            // The ring releases to the waiting workers; `count` and `wait` acquire (label OPEN).
            self.opened.ring();
            return stop;
        }
        wait_spinning(&self.opened, seen);
        // Relaxed: ordered by the ring (label OPEN).
        self.stop.load(Ordering::Relaxed)
    }
}

/// Waits for a ring after `seen`: spins first, then sleeps.
pub(super) fn wait_spinning(bell: &Doorbell, seen: u32) -> u32 {
    for _ in 0..SPINS {
        let count = bell.count();
        if count != seen {
            return count;
        }
        hint::spin_loop();
    }
    bell.wait(seen, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn nobody_leaves_before_all_have_come_and_all_agree_on_when_to_stop() {
        const ROUNDS: u64 = 2_000;
        for size in [1, 2, 3] {
            let barrier = Barrier::default();
            let came = AtomicU64::new(0);
            let worker = |index: usize| {
                for round in 1.. {
                    came.fetch_add(1, Ordering::Relaxed);
                    // The wish comes at a different moment for each worker.
                    if index == 0 && round == ROUNDS {
                        barrier.wish_to_stop();
                    }
                    let stop = barrier.meet(size);
                    assert!(came.load(Ordering::Relaxed) >= round * size as u64);
                    if stop {
                        return round;
                    }
                }
                unreachable!("rounds do not end")
            };
            std::thread::scope(|scope| {
                let worker = &worker;
                let others: Vec<_> = (1..size)
                    .map(|index| scope.spawn(move || worker(index)))
                    .collect();
                assert_eq!(worker(0), ROUNDS);
                for other in others {
                    assert_eq!(other.join().expect("no panic"), ROUNDS);
                }
            });
        }
    }
}

//! The log of real-time threads: typed values, of which another thread makes sentences later.
//!
//! A real-time thread writes a value of the program's own type; an ordinary thread takes values out
//! and makes sentences of them. Usually a `static`:
//! ```
//! use punctual_platform::rt_log::RtLog;
//!
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! enum Event {
//!     Overrun { stage: u8, times: f32 },
//! }
//!
//! static LOG: RtLog<Event, 1024> = RtLog::new();
//! LOG.write(Event::Overrun { stage: 2, times: 1.5 });
//! let Event::Overrun { stage, .. } = LOG.take().unwrap().value;
//! assert_eq!(stage, 2);
//! assert!(LOG.take().is_none());
//! ```

use std::mem::MaybeUninit;

use crate::atomics::{AtomicU64, Ordering, UnsafeCell};
use crate::clock;

/// A value, and when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<T> {
    pub at_ns: u64,
    pub value: T,
}

/// A bounded log of `N` records, two at least, that any thread may write and read. When it is full,
/// new records are dropped and counted. `T` is `Copy`, so nothing is ever freed by a real-time thread.
///
/// A queue after Dmitry Vyukov's bounded one: each cell carries the position that it is ready for, so
/// writers agree by one compare-and-swap, and readers by another. A writer that is preempted in
/// between delays readers only.
#[derive(Debug)]
pub struct RtLog<T, const N: usize> {
    cells: [Cell<T>; N],
    written: AtomicU64,
    taken: AtomicU64,
    /// Relaxed: a count that orders nothing.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Cell<T> {
    /// The position whose writer may use the cell, plus one once it holds that record; less the
    /// cell's own index, so that all start at zero.
    turn: AtomicU64,
    record: UnsafeCell<MaybeUninit<Record<T>>>,
}

// SAFETY: a cell's record is reached only by the one thread that won its position, a writer while the
// turn says that the cell is free, a reader while it says that it is written; each hands it to the next
// by a Release store of the turn that the other's Acquire load reads. So records only move between
// threads, which `T: Send` allows.
unsafe impl<T: Copy + Send, const N: usize> Sync for RtLog<T, N> {}

impl<T: Copy + Send, const N: usize> RtLog<T, N> {
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N > 1, "a turn tells written from free by two cells") };
        Self {
            cells: [const {
                Cell {
                    turn: AtomicU64::new(0),
                    record: UnsafeCell::new(MaybeUninit::uninit()),
                }
            }; N],
            written: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            cells: std::array::from_fn(|_| Cell {
                turn: AtomicU64::new(0),
                record: UnsafeCell::new(MaybeUninit::uninit()),
            }),
            written: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Adds a record with the present time. Never blocks; false if the log was full.
    pub fn write(&self, value: T) -> bool {
        let at_ns = clock::now_ns();
        let mut position = self.written.load(Ordering::Relaxed);
        let (cell, base) = loop {
            let (cell, base) = self.cell(position);
            // Acquire pairs with the Release in `take`: the reader is done with the cell.
            let turn = cell.turn.load(Ordering::Acquire);
            if turn < base {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            // A turn beyond `base` means that another writer was faster: look again.
            position = if turn == base {
                match claim(&self.written, position) {
                    Ok(_) => break (cell, base),
                    Err(now) => now,
                }
            } else {
                self.written.load(Ordering::Relaxed)
            };
        };
        cell.record.with_mut(|record| {
            // SAFETY: `claim` gave this position to this thread alone, and the turn says that no reader
            // has the cell any more: no other thread touches the record until the turn is stored.
            unsafe { (*record).write(Record { at_ns, value }) };
        });
        // Release pairs with the Acquire in `take`: the record is there.
        cell.turn.store(base + 1, Ordering::Release);
        true
    }

    /// Takes the oldest record out, if there is one that is written to its end.
    pub fn take(&self) -> Option<Record<T>> {
        let mut position = self.taken.load(Ordering::Relaxed);
        let (cell, base) = loop {
            let (cell, base) = self.cell(position);
            // Acquire pairs with the Release in `write`: the record is there.
            let turn = cell.turn.load(Ordering::Acquire);
            if turn < base + 1 {
                return None;
            }
            // A turn beyond `base + 1` means that another reader was faster: look again.
            position = if turn == base + 1 {
                match claim(&self.taken, position) {
                    Ok(_) => break (cell, base),
                    Err(now) => now,
                }
            } else {
                self.taken.load(Ordering::Relaxed)
            };
        };
        let record = cell.record.with(|record| {
            // SAFETY: the turn said that the record is written, and `claim` gave its position to this
            // thread alone: no writer touches the cell until the turn is stored.
            unsafe { (*record).assume_init() }
        });
        // Release pairs with the Acquire in `write`: this reader is done with the cell.
        cell.turn.store(base + N as u64, Ordering::Release);
        Some(record)
    }

    /// How many records were dropped because the log was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The cell of a position, and the turn at which it is free for it.
    fn cell(&self, position: u64) -> (&Cell<T>, u64) {
        let index = position % N as u64;
        (&self.cells[index as usize], position - index)
    }
}

/// Makes `position` the calling thread's, if no other thread had it; else the position to look at now.
/// Relaxed, like the loads of both counters: what lies in a cell is ordered by its turn.
fn claim(counter: &AtomicU64, position: u64) -> Result<u64, u64> {
    counter.compare_exchange_weak(position, position + 1, Ordering::Relaxed, Ordering::Relaxed)
}

impl<T: Copy + Send, const N: usize> Default for RtLog<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Of several words, so that half of one would show.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Event {
        Short(u8),
        Long { writer: usize, i: u64, not_i: u64 },
    }

    #[test]
    fn records_come_out_in_the_order_they_went_in() {
        let log = RtLog::<(u32, u64), 4>::new();
        for round in 0..10 {
            for i in 0..3 {
                assert!(log.write((i, round)));
            }
            for i in 0..3 {
                assert_eq!(log.take().unwrap().value, (i, round));
            }
            assert_eq!(log.take(), None);
        }
    }

    #[test]
    fn a_full_log_drops_and_counts_instead_of_blocking() {
        let log = RtLog::<Event, 3>::new();
        assert_eq!(
            [0, 1, 2, 3, 4].map(|i| log.write(Event::Short(i))),
            [true, true, true, false, false]
        );
        assert_eq!(log.dropped(), 2);
        assert_eq!(log.take().unwrap().value, Event::Short(0));
        assert!(log.write(Event::Short(9)));
        let rest = std::iter::from_fn(|| log.take()).map(|record| record.value);
        assert!(rest.eq([1, 2, 9].map(Event::Short)));
    }

    #[test]
    fn concurrent_writers_lose_nothing_that_was_not_counted() {
        static LOG: RtLog<Event, 64> = RtLog::new();
        const EACH: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let mut seen = 0;
        let mut last = [None; 3];
        std::thread::scope(|scope| {
            let event = |writer, i: u64| Event::Long {
                writer,
                i,
                not_i: !i,
            };
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    scope.spawn(move || (0..EACH).filter(|&i| LOG.write(event(writer, i))).count())
                })
                .collect();
            loop {
                let finished = writers.iter().all(|writer| writer.is_finished());
                while let Some(record) = LOG.take() {
                    let Event::Long { writer, i, not_i } = record.value else {
                        panic!("{record:?}");
                    };
                    assert_eq!(not_i, !i);
                    assert!(last[writer].is_none_or(|before| before < i));
                    last[writer] = Some(i);
                    seen += 1;
                }
                if finished {
                    break;
                }
            }
            let written: usize = writers.into_iter().map(|w| w.join().unwrap()).sum();
            assert_eq!(seen, written as u64);
            assert_eq!(LOG.dropped(), 3 * EACH - seen);
        });
    }
}

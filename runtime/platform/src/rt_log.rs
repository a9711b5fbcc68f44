//! Logging from real-time threads: numbers in, text later.
//!
//! A real-time thread writes a code and three numbers; a housekeeping thread takes them out and
//! makes sentences of them. Usually a `static`:
//! ```
//! use punctual_platform::rt_log::RtLog;
//! static LOG: RtLog<1024> = RtLog::new();
//! LOG.write(7, [1, 2, 3]);
//! assert_eq!(LOG.take().unwrap().code, 7);
//! assert_eq!(LOG.take(), None);
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;

/// One line of the log, not yet a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// When it was written, in ns.
    pub at_ns: u64,
    /// What happened, in the writer's own numbering.
    pub code: u32,
    pub arguments: [u64; 3],
}

/// A bounded log of `N` records: any number of writers, one reader. When it is full, new records
/// are dropped and counted.
///
/// A queue after Dmitry Vyukov's bounded one: each cell carries the position that it is ready for, so
/// writers agree by one compare-and-swap. A writer that is preempted in between delays the reader only.
#[derive(Debug)]
pub struct RtLog<const N: usize> {
    cells: [Cell; N],
    written: AtomicU64,
    taken: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Cell {
    /// The position whose writer may use the cell, plus one once it holds that record; less the
    /// cell's own index, so that all start at zero.
    turn: AtomicU64,
    words: [AtomicU64; 5],
}

impl<const N: usize> RtLog<N> {
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N > 0, "a log needs room") };
        Self {
            cells: [const {
                Cell {
                    turn: AtomicU64::new(0),
                    words: [const { AtomicU64::new(0) }; 5],
                }
            }; N],
            written: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Adds a record with the present time. Never blocks; false if the log was full.
    pub fn write(&self, code: u32, arguments: [u64; 3]) -> bool {
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
            if turn == base {
                let next = position + 1;
                match self.written.compare_exchange_weak(
                    position,
                    next,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => break (cell, base),
                    Err(now) => position = now,
                }
            } else {
                position = self.written.load(Ordering::Relaxed);
            }
        };
        let [a, b, c] = arguments;
        for (word, value) in cell
            .words
            .iter()
            .zip([clock::now_ns(), u64::from(code), a, b, c])
        {
            word.store(value, Ordering::Relaxed);
        }
        // Release pairs with the Acquire in `take`: the words are there.
        cell.turn.store(base + 1, Ordering::Release);
        true
    }

    /// Takes the oldest record out, if there is one. For one reader at a time.
    pub fn take(&self) -> Option<LogRecord> {
        let position = self.taken.load(Ordering::Relaxed);
        let (cell, base) = self.cell(position);
        // Acquire pairs with the Release in `write`.
        if cell.turn.load(Ordering::Acquire) != base + 1 {
            return None;
        }
        let [at_ns, code, a, b, c] = [0, 1, 2, 3, 4].map(|i: usize| {
            // Relaxed: ordered by the turn.
            cell.words[i].load(Ordering::Relaxed)
        });
        self.taken.store(position + 1, Ordering::Relaxed);
        // Release pairs with the Acquire in `write`.
        cell.turn.store(base + N as u64, Ordering::Release);
        Some(LogRecord {
            at_ns,
            code: code as u32,
            arguments: [a, b, c],
        })
    }

    /// How many records were dropped because the log was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The cell of a position, and the turn at which it is free for it.
    fn cell(&self, position: u64) -> (&Cell, u64) {
        let index = position % N as u64;
        (&self.cells[index as usize], position - index)
    }
}

impl<const N: usize> Default for RtLog<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_in_the_order_they_went_in() {
        let log = RtLog::<4>::new();
        for round in 0..10 {
            for i in 0..3 {
                assert!(log.write(i, [round, 0, 0]));
            }
            for i in 0..3 {
                let record = log.take().unwrap();
                assert_eq!((record.code, record.arguments[0]), (i, round));
            }
            assert_eq!(log.take(), None);
        }
    }

    #[test]
    fn a_full_log_drops_and_counts_instead_of_blocking() {
        let log = RtLog::<3>::new();
        assert_eq!(
            [0, 1, 2, 3, 4].map(|i| log.write(i, [0; 3])),
            [true, true, true, false, false]
        );
        assert_eq!(log.dropped(), 2);
        assert_eq!(log.take().unwrap().code, 0);
        assert!(log.write(9, [0; 3]));
        let rest: Vec<u32> = std::iter::from_fn(|| log.take()).map(|r| r.code).collect();
        assert_eq!(rest, [1, 2, 9]);
    }

    #[test]
    fn concurrent_writers_lose_nothing_that_was_not_counted() {
        static LOG: RtLog<64> = RtLog::new();
        const EACH: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let mut seen = 0;
        let mut last = [None; 3];
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3_u64)
                .map(|writer| {
                    scope.spawn(move || {
                        (0..EACH)
                            .filter(|&i| LOG.write(writer as u32, [i, !i, writer]))
                            .count()
                    })
                })
                .collect();
            loop {
                let finished = writers.iter().all(|writer| writer.is_finished());
                while let Some(record) = LOG.take() {
                    let [i, not_i, writer] = record.arguments;
                    assert_eq!((not_i, writer), (!i, u64::from(record.code)));
                    assert!(last[writer as usize].is_none_or(|before| before < i));
                    last[writer as usize] = Some(i);
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

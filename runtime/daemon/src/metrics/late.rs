//! When late answers were on their way, so that they can be compared with the machine's stalls.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use punctual_core::TaskId;

/// Late answers that are remembered one by one; later ones are only counted elsewhere.
const SPANS: usize = 4096;

/// From capture to verdict, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateSpan {
    pub task: TaskId,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// The first late answers. One thread writes, any reads.
#[derive(Debug)]
pub struct LateSpans {
    written: AtomicUsize,
    spans: Box<[[AtomicU64; 3]]>,
}

impl LateSpans {
    pub fn new() -> Self {
        Self {
            written: AtomicUsize::new(0),
            spans: (0..SPANS)
                .map(|_| [const { AtomicU64::new(0) }; 3])
                .collect(),
        }
    }

    /// Remembers one; the scheduler's thread only.
    pub fn record(&self, span: LateSpan) {
        // Relaxed: only this thread writes it.
        let at = self.written.load(Ordering::Relaxed);
        if let Some(words) = self.spans.get(at) {
            let values = [u64::from(span.task.0), span.start_ns, span.end_ns];
            // Relaxed: `written` publishes them.
            for (word, value) in words.iter().zip(values) {
                word.store(value, Ordering::Relaxed);
            }
            // Release pairs with the Acquire in `iter`: the words are written.
            self.written.store(at + 1, Ordering::Release);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = LateSpan> + '_ {
        // Acquire pairs with the Release in `record`.
        let written = self.written.load(Ordering::Acquire);
        self.spans[..written].iter().map(|words| {
            let [task, start_ns, end_ns] =
                [0, 1, 2].map(|i: usize| words[i].load(Ordering::Relaxed));
            LateSpan {
                task: TaskId(task as u16),
                start_ns,
                end_ns,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_late_answers_are_remembered_and_the_rest_does_no_harm() {
        let late = LateSpans::new();
        for i in 0..SPANS as u64 + 10 {
            late.record(LateSpan {
                task: TaskId(3),
                start_ns: i,
                end_ns: i + 5,
            });
        }
        let seen: Vec<LateSpan> = late.iter().collect();
        assert_eq!(seen.len(), SPANS);
        assert_eq!(
            (seen[7].task, seen[7].start_ns, seen[7].end_ns),
            (TaskId(3), 7, 12)
        );
    }
}

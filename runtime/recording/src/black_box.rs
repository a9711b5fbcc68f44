//! The newest segments, in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use punctual_core::Nanos;

use crate::segment::Segment;

/// Keeps the newest segments: those of a time, as far as memory allows.
#[derive(Debug)]
pub struct BlackBox {
    segments: VecDeque<Arc<Segment>>,
    length: Nanos,
    bytes_max: usize,
    bytes: usize,
}

impl BlackBox {
    #[must_use]
    pub const fn new(length: Nanos, bytes_max: usize) -> Self {
        Self {
            segments: VecDeque::new(),
            length,
            bytes_max,
            bytes: 0,
        }
    }

    /// Adds the newest, and drops the oldest that have no room then. The newest stays.
    pub fn push(&mut self, segment: Arc<Segment>) {
        let newest = segment.to();
        self.bytes += segment.bytes();
        self.segments.push_back(segment);
        while self.segments.len() > 1
            && let Some(oldest) = self.segments.front()
            && (self.bytes > self.bytes_max || newest.since(oldest.to()) > self.length)
        {
            self.bytes -= oldest.bytes();
            self.segments.pop_front();
        }
    }

    /// All that it has, the oldest first. It keeps them: the next incident may be near.
    #[must_use]
    pub fn contents(&self) -> Vec<Arc<Segment>> {
        self.segments.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{Event, Instant};

    use super::*;
    use crate::entry::{Entry, Step};

    fn segment(number: u64) -> Arc<Segment> {
        let from = Instant::ZERO + Nanos::from_millis(1_000).saturating_mul(number);
        let mut segment = Segment::new(number, from, None);
        segment.push(&Entry::Step(Step {
            now: from,
            took: Nanos::ZERO,
            event: Event::Tick,
            actions: Vec::new(),
        }));
        Arc::new(segment)
    }

    fn kept(black_box: &BlackBox) -> Vec<u64> {
        let contents = black_box.contents();
        contents.iter().map(|segment| segment.number).collect()
    }

    #[test]
    fn the_segments_of_the_newest_seconds_are_kept() {
        let mut black_box = BlackBox::new(Nanos::from_millis(3_000), usize::MAX);
        (0..10).for_each(|number| black_box.push(segment(number)));
        assert_eq!(kept(&black_box), [6, 7, 8, 9]);
    }

    #[test]
    fn where_memory_is_short_there_are_fewer_and_never_none() {
        let one = segment(9).bytes();
        let mut black_box = BlackBox::new(Nanos::from_millis(60_000), 2 * one);
        (0..10).for_each(|number| black_box.push(segment(number)));
        assert_eq!(kept(&black_box), [8, 9]);
        let mut black_box = BlackBox::new(Nanos::from_millis(60_000), 0);
        (0..10).for_each(|number| black_box.push(segment(number)));
        assert_eq!(kept(&black_box), [9]);
    }
}

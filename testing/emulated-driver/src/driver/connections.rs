//! Hardware queues: streams share them, and each is worked off in the order of submission.
//!
//! A command leaves its queue when it begins. One that cannot begin, because its stream is not that far, keeps back all
//! that was submitted to the queue after it. Which stream is given which queue is documented nowhere; here they go round.
use std::collections::VecDeque;

use crate::config::Config;
use crate::versions::{CONNECTIONS, CONNECTIONS_DEFAULT};

pub(crate) struct Connections {
    /// The streams whose commands wait, in the order of submission.
    queues: Vec<VecDeque<u64>>,
    given: usize,
}

impl Connections {
    /// As many as the configuration says, else the environment.
    pub(crate) fn of(config: &Config) -> Self {
        let said = std::env::var("CUDA_DEVICE_MAX_CONNECTIONS").ok();
        Self::new(config.connections.unwrap_or_else(|| count(said.as_deref())))
    }

    fn new(count: u32) -> Self {
        Self {
            queues: (0..count).map(|_| VecDeque::new()).collect(),
            given: 0,
        }
    }

    /// The queue of the next stream.
    pub(super) fn give(&mut self) -> usize {
        self.given += 1;
        (self.given - 1) % self.queues.len()
    }

    /// Another command of a stream.
    pub(super) fn push(&mut self, queue: usize, stream: u64) {
        self.queues[queue].push_back(stream);
    }

    /// Whether the next command of a stream is at the front of its queue.
    pub(super) fn is_next(&self, queue: usize, stream: u64) -> bool {
        self.queues[queue].front() == Some(&stream)
    }

    /// The command at the front begins.
    pub(super) fn begin(&mut self, queue: usize) {
        self.queues[queue].pop_front();
    }

    /// No stream is left.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.queues.len() as u32);
    }
}

/// What the environment variable asks for.
fn count(said: Option<&str>) -> u32 {
    said.and_then(|said| said.trim().parse().ok())
        .filter(|count| CONNECTIONS.contains(count))
        .unwrap_or(CONNECTIONS_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_cannot_begin_keeps_back_those_of_other_streams_in_its_queue() {
        let mut connections = Connections::new(2);
        let queues: Vec<usize> = (0..3).map(|_| connections.give()).collect();
        assert_eq!(queues, [0, 1, 0]);
        for stream in [10, 11, 12] {
            connections.push(queues[stream as usize - 10], stream);
        }
        assert!(connections.is_next(0, 10) && connections.is_next(1, 11));
        assert!(!connections.is_next(0, 12));
        connections.begin(0);
        assert!(connections.is_next(0, 12));
        connections.clear();
        assert!(!connections.is_next(0, 12));
    }

    #[test]
    fn there_are_eight_unless_the_environment_says_another_number_that_is_allowed() {
        assert_eq!(count(None), 8);
        assert_eq!(count(Some("32")), 32);
        assert_eq!(count(Some("1")), 1);
        for said in ["0", "33", "-1", "many", ""] {
            assert_eq!(count(Some(said)), 8, "{said}");
        }
    }
}

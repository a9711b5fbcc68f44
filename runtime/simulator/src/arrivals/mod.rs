//! When requests come.

use punctual_core::{ClientId, Instant, Reply, TaskId};

/// A request that a client means to submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The intended arrival: what latency is counted from, whatever happens on the way.
    pub at: Instant,
    /// Its task.
    pub task: TaskId,
    /// Who submits it.
    pub client: ClientId,
    /// Its absolute deadline, if it asks for another than its task's.
    pub deadline: Option<Instant>,
    /// The request's position in its source: with the seed it names the picture (the calibration
    /// record), so that all policies see the same one.
    pub sequence: u64,
}

/// Where submissions come from. Those that are known are offered in order of time; the answer to
/// one may make others known (closed loops, dependent tasks, queries of several stages).
pub trait Source {
    /// The time of the earliest submission known.
    fn peek(&self) -> Option<Instant>;

    /// Takes the earliest submission known.
    fn take(&mut self) -> Option<Submission>;

    /// A request of this source has its verdict. `now` is when; nothing submitted because of it
    /// may lie before.
    fn replied(&mut self, now: Instant, sequence: u64, reply: &Reply);
}

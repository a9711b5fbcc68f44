//! Arrivals: who asks what, when. Plain data ([`Pattern`]) in a scenario becomes one merged
//! [`Source`] for a run.
//!
//! Everything drawn comes from named streams of the run's seed and, for what reacts to answers,
//! from the sequence number of the request reacted to. So every policy sees the same open-loop
//! arrivals, and the same fan-out of the same query.

mod distribution;
mod generators;
mod merge;
mod minutes;
mod open;
mod pattern;
mod reactive;
#[cfg(test)]
mod tests;
mod zipf;

use punctual_core::{ClientId, Instant, Nanos, Reply, TaskId};

pub(crate) use distribution::rounded;
pub use merge::Arrivals;
pub(crate) use merge::tag;
pub use minutes::Shape;
pub use pattern::{Bursts, Parts, Pattern, PatternError, TraceEntry};
pub use zipf::zipf_rates;

/// A request that a client submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    pub task: TaskId,
    pub client: ClientId,
    /// When it was meant to be made: what latency is counted from, whatever happens on the way.
    pub intended: Instant,
    /// When the scheduler sees it; not before `intended`.
    pub submitted: Instant,
    /// When its picture was taken, as the client claims; not after `submitted`. The task's deadline counts from here.
    pub captured: Instant,
    /// Its absolute deadline, if it asks for an earlier one than its task's.
    pub deadline: Option<Instant>,
    /// How long answers take to its client, as its port has measured.
    pub egress: Nanos,
    /// The source's own name for it.
    pub tag: u64,
    /// What is known beforehand of a frame that was recorded.
    pub known: Option<Known>,
}

/// What is known of a recorded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The picture that it shows: its position among the frames.
    pub sample: u32,
    /// How its preparation went; none: as the plan says.
    pub preparation: Option<Preparation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    pub took: Nanos,
    /// Whether its payload could be read.
    pub readable: bool,
}

/// Where submissions come from. Those that are known are offered in the order in which they are submitted;
/// the answer to one may make others known (closed loops, dependent tasks, queries of several stages).
pub trait Source {
    /// When the next submission is made; none: no more, unless a reply brings one.
    fn peek(&self) -> Option<Instant>;

    /// The submission that `peek` spoke of.
    fn take(&mut self) -> Option<Submission>;

    /// A verdict was given on the submission `tag`; nothing that follows from it lies before `now`.
    fn replied(&mut self, now: Instant, tag: u64, reply: &Reply);
}

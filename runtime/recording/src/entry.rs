//! The messages of a recording.

use punctual_core::{Action, Event, Instant, Nanos, Ticket};
use serde::{Deserialize, Serialize};

/// The channel of [`Entry`]s.
pub const CHANNEL: &str = "/punctual/core";

/// The name of their schema. Postcard is positional, so a format with other fields has another name and is refused by it.
pub const SCHEMA: &str = "punctual.core.1";

/// A message of [`CHANNEL`], in postcard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// The steps behind it begin with this state ([`Scheduler::state`](punctual_core::Scheduler::state)); none: of a scheduler that
    /// was just made, or of a policy that keeps no state.
    Segment {
        number: u64,
        state: Option<Vec<u8>>,
    },
    Step(Step),
    /// This many steps were not recorded: the state is unknown until the next segment that has one.
    Lost {
        steps: u64,
    },
    Sent(Sent),
}

/// One step of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The time that it was told.
    pub now: Instant,
    /// From `now` until its last action was carried out. No decision depends on it.
    pub took: Nanos,
    pub event: Event,
    pub actions: Vec<Action>,
}

/// A record that a port sent to its client. No decision depends on it, and it may stand a little before or behind the step that
/// decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    pub ticket: Ticket,
    /// Whether it is the verdict; else an answer before it.
    pub is_final: bool,
    /// When the scheduler's thread handed it to the port.
    pub decided: Instant,
    /// When the port took it up.
    pub began: Instant,
    /// When it was in the client's ring, and the client was woken.
    pub ended: Instant,
}

/// An event in words: what the log says, as JSON, on the channel [`NOTES`]. No decision depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub at: Instant,
    pub json: String,
}

/// The channel of [`Note`]s.
pub const NOTES: &str = "/punctual/notes";

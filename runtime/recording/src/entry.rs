//! The messages of a recording.

use punctual_core::{Action, Event, Instant};
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
}

/// One step of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub now: Instant,
    pub event: Event,
    pub actions: Vec<Action>,
}

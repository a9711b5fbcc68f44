//! What goes wrong in a run, as data: a scenario names it, the world does it.

use punctual_core::{ClientId, Instant, ModelId, Nanos, Readiness};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// A client process terminates; it submits nothing from then on.
    ClientGone { client: ClientId, at: Instant },
    /// A client stands still: what it would have submitted meanwhile comes all at once at the end,
    /// with the capture times that it should have had.
    ClientStalled {
        client: ClientId,
        /// When it stops.
        from: Instant,
        /// When it goes on.
        until: Instant,
    },
    /// A client's payloads cannot be read.
    PayloadUnreadable {
        client: ClientId,
        from: Instant,
        until: Instant,
    },
    /// A client's clock jumps; from then on the capture times that it claims are off.
    ClockStep {
        client: ClientId,
        at: Instant,
        /// By how many nanoseconds; positive: it claims later times. A claim of the future is
        /// brought back to the present, as a port does.
        by_ns: i64,
    },
    /// Answers take this long to a client, as its port has measured.
    SlowClient { client: ClientId, takes: Nanos },
    /// The device does an action, and never reports it.
    CompletionLost {
        /// Which action, in the order in which they start, from 0.
        nth: u64,
    },
    /// The device loads a model's weights, and never reports it.
    TransferLost {
        /// Which transfer, in the order in which they end, from 0.
        nth: u64,
    },
    /// The device fails: actions that run or start meanwhile report an error.
    DeviceFails { from: Instant, until: Instant },
    /// A model's stages really take this many times what its profile says.
    ProfileLies {
        model: ModelId,
        /// How many times; above 0.
        factor: f64,
    },
    /// The machine is found to be in trouble: best-effort work must be given up meanwhile.
    BestEffortShed { from: Instant, until: Instant },
    /// The device says that it can run this much of a model from now on: its start goes on.
    Loading { at: Instant, said: Readiness },
}

impl Fault {
    /// Whether it is on a client's side.
    #[must_use]
    pub const fn is_a_clients(&self) -> bool {
        matches!(
            self,
            Self::ClientGone { .. }
                | Self::ClientStalled { .. }
                | Self::PayloadUnreadable { .. }
                | Self::ClockStep { .. }
                | Self::SlowClient { .. }
        )
    }
}

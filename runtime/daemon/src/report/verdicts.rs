//! Why frames were not taken on, and why they were not answered.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedReport {
    /// The deadline had passed or could not be met even alone.
    pub late_on_arrival: u64,
    /// It would have endangered promised requests.
    pub no_slack: u64,
    /// The task's queue bound was reached, or no request buffer was free.
    pub queue_full: u64,
    pub draining: u64,
    /// A newer frame of the same client took its place.
    #[serde(default)]
    pub superseded: u64,
    /// Best-effort work was given up.
    #[serde(default)]
    pub shedding: u64,
    /// The client's port refused the descriptor: its capture time was in the future.
    pub invalid: u64,
    /// The client submitted faster than the manifest's `rate_max_hz`.
    #[serde(default)]
    pub quota: u64,
    /// No area was free for its outputs: the client held them, or its earlier frames were in work.
    #[serde(default)]
    pub no_area: u64,
    /// Its network was not loaded yet.
    #[serde(default)]
    pub not_ready: u64,
    /// A box of a frame beyond the task's `crops.at_most`.
    #[serde(default)]
    pub fan_out: u64,
}

impl RejectedReport {
    #[must_use]
    pub fn total(&self) -> u64 {
        let own = self.late_on_arrival + self.no_slack + self.queue_full + self.draining;
        let daemon = self.invalid + self.quota + self.no_area + self.fan_out;
        own + self.superseded + self.shedding + self.not_ready + daemon
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedReport {
    pub device: u64,
    /// The payload could not be read.
    pub payload: u64,
    pub client_gone: u64,
    /// Dropped after an overrun.
    pub shed: u64,
    /// A tensor with a value that is infinite or no number. Reports of earlier versions lack it.
    #[serde(default)]
    pub not_finite: u64,
    /// A number of its vectors was out of range, or none.
    #[serde(default)]
    pub vector: u64,
    /// The threads that ran it got no processor time.
    #[serde(default)]
    pub starved: u64,
}

impl FailedReport {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.device
            + self.payload
            + self.client_gone
            + self.shed
            + self.not_finite
            + self.vector
            + self.starved
    }
}

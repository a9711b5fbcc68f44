//! What became of the requests of a run.

use punctual_core::{Instant, StageId, TaskId, Verdict};
use serde::{Deserialize, Serialize};

/// One request and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Its task.
    pub task: TaskId,
    /// When it was to arrive.
    pub intended: Instant,
    /// Its absolute deadline ([`Instant::FAR_FUTURE`]: none).
    pub deadline: Instant,
    /// When its verdict was reached.
    pub ended: Instant,
    /// The verdict; none: it was lost.
    pub verdict: Option<Verdict>,
    /// The exit of its answer, if it got one.
    pub exit: Option<StageId>,
    /// Whether the answer was right.
    pub correct: bool,
    /// The picture: index of the calibration record of its task's model.
    pub sample: u32,
}

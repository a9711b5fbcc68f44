//! When a stage kept its partition, as far as a recording tells.

use punctual_core::Instant;
use punctual_recording::frames::{Outcome, Run};

/// From when until when a run kept its partition, which was free from `free` on; none of one that never began, or whose end is
/// not recorded.
///
/// When a run began that did not finish is not recorded: as soon as it might, at the earliest.
pub(crate) fn occupied(run: &Run, free: Instant) -> Option<(Instant, Instant)> {
    let end = run.end?;
    match end.outcome {
        Outcome::Finished { started, measured } => Some((started, started + measured)),
        Outcome::Preempted | Outcome::Failed => {
            let from = run.ordered.max(run.window.earliest).max(free);
            Some((from, end.learned.max(from)))
        }
        Outcome::NotRun => None,
    }
}

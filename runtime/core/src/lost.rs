//! Lost completions: actions that a device does not report.
//!
//! Every policy considers an action lost if the device has not reported it after [`LOST_FACTOR`] times the
//! longest time of its profile plus [`LOST_FLOOR`]. The time counts from the end of its window, or from
//! [`LOST_FLOOR`] after the order if that is earlier. A stage of a demoted model may take even longer, so it
//! is not lost before [`LOST_FLOOR`] after its scaled budget. From then on:
//!
//! - its members fail with `Failed(Device)`, or with `Failed(Starved)` while the world says that the partition's threads
//!   get no processor ([`Event::Starved`]), so that no client waits for ever;
//! - the memory that it may still write to is *locked*: its partition starts nothing, and no request gets its
//!   members' request buffers;
//! - requests that wait for the partition get the answer that they have, or fail for the same reason. New ones are
//!   rejected with `NoSlack`.
//!
//! When the device reports it after all, whatever the report says, the memory is unlocked.

use crate::config::StageTime;
use crate::event::Event;
use crate::ids::ActionId;
use crate::time::{Instant, Nanos};

/// An action may take this many times its longest time before it is lost.
const LOST_FACTOR: u64 = 16;

/// The time that an action gets in addition: longer than a machine stalls at a time.
pub const LOST_FLOOR: Nanos = Nanos::from_millis(100);

/// The time from which an action is lost, if its window ends at `latest`.
pub fn lost_from(ordered: Instant, latest: Instant, time: StageTime) -> Instant {
    let longest = time.budget.max(time.max_seen);
    // The window of best-effort work may have no end, or one in the far future.
    let start = latest.min(ordered + LOST_FLOOR);
    start + longest.saturating_mul(LOST_FACTOR) + LOST_FLOOR
}

/// The action that an event reports the end of, if it does.
pub fn reported(event: &Event) -> Option<ActionId> {
    match event {
        Event::Finished(finished) => Some(finished.action),
        Event::NotRun { action } | Event::Preempted { action } | Event::Failed { action } => {
            Some(*action)
        }
        _ => None,
    }
}

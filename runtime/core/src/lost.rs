//! A lost completion: a device does not report an action.
//!
//! An action that is not reported by [`LOST_FACTOR`] times the longest time that its profile knows, plus
//! [`LOST_FLOOR`], is taken for lost. The time counts from the end of the window in which it may start, or
//! from [`LOST_FLOOR`] after the order if that is earlier. A stage of a demoted model may be known to take
//! even longer: it is not taken for lost before [`LOST_FLOOR`] after its stretched budget. From then on:
//!
//! - its members have their verdict, `Failed(Device)`;
//! - what it may still be writing to is *locked*: its partition starts nothing, and its members'
//!   request buffers are given to nobody;
//! - requests that wait for the partition get the answer they have, or `Failed(Device)`; those that
//!   come are refused with `NoSlack`.
//!
//! If it is reported after all, whatever the report says, its locks are open again.

use crate::config::StageTime;
use crate::event::Event;
use crate::ids::ActionId;
use crate::time::{Instant, Nanos};

/// How often the longest time an action may take before it is taken for lost.
const LOST_FACTOR: u64 = 16;

/// What it is given on top: more than a machine that stands still for a moment takes.
pub const LOST_FLOOR: Nanos = Nanos::from_millis(100);

/// From when on an action is taken for lost, if it may start until `latest`. A window may have no
/// end, or one that is as good as none.
pub fn lost_from(ordered: Instant, latest: Instant, time: StageTime) -> Instant {
    let longest = time.budget.max(time.max_seen);
    let start = latest.min(ordered + LOST_FLOOR);
    start + longest.saturating_mul(LOST_FACTOR) + LOST_FLOOR
}

/// The action whose end an event reports.
pub fn reported(event: &Event) -> Option<ActionId> {
    match event {
        Event::Finished(finished) => Some(finished.action),
        Event::NotRun { action } | Event::Preempted { action } | Event::Failed { action } => {
            Some(*action)
        }
        _ => None,
    }
}

//! The auditor: holds a scheduler to its contract from the record alone.
//!
//! It sees the plan, every event at the time at which the scheduler learns of it, and every action
//! at the time at which it is ordered; it keeps a log of its own and shares no code with the
//! scheduler's decisions. It runs together with a simulation (one pass, memory bounded by what is open).
//!
//! | invariant | what is checked | where |
//! |---|---|---|
//! | 1 verdicts | each submission is decided upon in its own step and gets exactly one verdict, none is left at the end, none comes after the *bound on verdicts* | `auditor`, `passage`, `verdicts` |
//! | 2 windows | windows lie in the future, under `punctual` they open when they are ordered; what ran was started inside | `floor` |
//! | 3 resources | no unit is held by two actions (but under `streams`) or ran two at a time; buffers have one user and a new name each time, no request is refused for lack of room while there is some; tickets come back as they went in; pages are not overcommitted, transfers come one at a time, weights are there when used | `floor`, `request_log`, `weights` |
//! | 4 promises | `punctual` only: see *Claims*; where no two frames can share a batch, or the policy is held to [`Auditor::without_waiting`], no partition idles while promised work is ready there | `claims`, `schedulability`, `delivery`, `demotion`, `priorities` |
//! | pipelines | see *Pipelines*, if the auditor is told of some | `queries` |
//! | 5 best-effort | `punctual` only: accepted mandatory work does not wait for best-effort work longer than P plus one dispatch, in sum, and is told to stop in the step that made that work ready; what the device takes beyond P is the device's | `passage`, `priorities` |
//! | well-formed | stages in order, members ready and together rightly, batches compiled, verdicts and answers as the times and the reports say | `orders`, `readiness`, `verdicts` |
//!
//! # Bound on verdicts
//!
//! Under `punctual`, a request with a deadline has its verdict at the latest at `max(deadline, prepared) + H`, H
//! being the time that everything that can be inside takes once, at the longest times of the
//! profile (every buffer the longest network, on the slowest partition, with a load of its weights)
//! plus two of the longest deadlines, plus the time that the device's faults have taken meanwhile.
//! A request without a deadline, and any under the other policies, has it at the latest after a
//! drain: some of them let a request starve as long as more urgent ones come.
//!
//! # Claims
//!
//! A domain is a partition (all partitions, if tasks may move between them). While it is
//! schedulable by the auditor's own reading of the definition and the assumptions hold:
//!
//! - an accepted real-time request is answered on time, at its mandatory exit or deeper (one whose
//!   model's weights are not on the device is accepted once they are);
//! - of a reserved task whose frames were all captured at least a period apart, and prepared in order,
//!   none is refused that was prepared within the jitter, however late others were.
//!
//! Under `Delivery::LatestFrame` a frame of which no stage has begun may be refused because a newer one of
//! the same client for the same task is there, which was taken on in that step or before. What was
//! promised to it is the newer one's to keep: its mandatory part ends by that deadline too (under the
//! other policies, which promise nothing, only that there is such a frame is checked). While
//! best-effort work must be given up (`Event::Shed`), `punctual` starts none, and what runs has been
//! preempted, and what waits refused, at the end of the step.
//!
//! A model that breaks its profile may lose its promises (`Action::Demote`): only after as many overruns
//! as the policy's parameters say, and if other models ran on its partition; and get them back only after as many
//! stages that cannot be called an overrun. In between nothing is claimed about its tasks, and its
//! overruns excuse nothing but those beyond the longest of its window.
//!
//! A device may say that it can run only a part of a model (`Event::Readiness`). A frame is prepared only if its mandatory
//! exit can run, no stage is ordered that cannot, and a frame is refused as not ready only if it is not. While a task's
//! mandatory exit does not run as it was measured, nothing is claimed about it; `punctual` runs such stages one by one.
//!
//! A frame may be prepared for the task that its own one may offload to (`TaskConfig::offload_to`). From
//! then on it is under that one's rules: its queue, its mandatory exit, its partition's claims; the
//! deadline is its own, and the verdict names who submitted it. A reserved task's frame that was
//! captured in time is not refused by going there either.
//!
//! Assumptions, all visible in the record: a real-time stage is measured within its budget and
//! reported by the end of its window plus its budget; a stopped action is gone within P; no
//! real-time action fails or is not started. When one breaks, the promises made until then are
//! void, and the first claim holds again from the next moment at which no accepted mandatory work
//! is left over and nothing runs but best-effort work that can be stopped (the start of the
//! induction: nothing pending, everything reserved still to come). The second is not made again, as the task may be in debt and the scale raised.
//! [`Auditor::gaps`] says what broke when, and when the claim held again.
//!
//! # Pipelines
//!
//! A frame of a root ([`Auditor::with_pipelines`]) is a query. Each follower is told once how many parts it has, after the frame's verdict
//! and in the order in which the frames arrived, and none of a frame without an answer. That number of parts comes then, of the
//! frame's client and with its capture time. Every query is over at the end.
//!
//! A conforming query is on time under `punctual`: its frame was captured a period or more after the last one that
//! conformed, and root and followers whose parts count have reservations and assumptions that held since the start. It is claimed while all
//! frames and parts were prepared in time and in order.
//!
//! # A lost completion
//!
//! A device may never report an action. By [`LOST_FACTOR`] times the longest time of the profile
//! plus [`LOST_FLOOR`], counted from the end of its window or from [`LOST_FLOOR`] after its order,
//! whichever is earlier, it is taken for lost; a stage of a demoted model not before the longest of its
//! window and [`LOST_FLOOR`] have passed, either. From then on its members may get `Failed(Device)`.
//! What it may still touch stays locked until it is reported after all: its units, and its members'
//! buffers. The same holds for a transfer of weights, and its pages.
//!
//! Each kind of finding has a canary in `tests`: a planted fault that must be found.

mod auditor;
mod claims;
mod delivery;
mod demotion;
mod floor;
mod orders;
mod priorities;
mod queries;
mod readiness;
mod reports;
mod request_log;
mod schedulability;
mod time_bounds;
mod verdicts;
mod violation;
mod weights;

#[cfg(test)]
mod tests;

pub use auditor::Auditor;
pub use claims::{Broken, Gap};
pub use queries::{Follower, Pipeline};
pub(crate) use schedulability::is_schedulable;
pub use violation::{Finding, Findings, Invariant, Violation};

use punctual_core::Nanos;

/// How many times the longest time that the profile knows an action may take before it is taken for lost.
pub const LOST_FACTOR: u64 = 16;
/// What it is given on top.
pub const LOST_FLOOR: Nanos = Nanos::from_millis(100);

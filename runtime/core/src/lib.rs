//! The scheduler: every decision of Punctual, as a pure, allocation-free state machine.
//!
//! [`Scheduler::step`] takes the time and an [`Event`] and writes [`Action`]s. Same plan, same
//! events, same actions. There is no clock, no randomness and no I/O in here, and nothing is
//! allocated after [`Scheduler::new`]. To read the source, start at `punctual/mod.rs`: a
//! table at its top says which decision is made where. Other policies are crates of their own that implement
//! [`Policy`]; what follows is about this one.
//!
//! # The policy: mandatory first, then as deep as time allows
//!
//! A request's stages up to its task's mandatory exit are its *mandatory* work; each deeper stage is
//! *optional*. A request is accepted only if its mandatory work can be promised by its deadline; how deep
//! it goes beyond is decided stage by stage. So a deadline is met by a shallower answer, never by luck.
//!
//! Symbols, for one partition; all times are integer nanoseconds:
//!
//! | symbol | meaning |
//! | --- | --- |
//! | t | the time of the step |
//! | f | upper bound on when the partition is free: t if it is; for best-effort work t + P |
//! | P | the device's preemption bound for best-effort work, with δ |
//! | C(b) | budget of a stage at batch b, times the scale σ, plus the dispatch cost δ |
//! | D, T, J | a task's deadline (less the egress bound ε), period, release jitter |
//! | stamp | capture time as claimed, clamped to [t − J, t] |
//! | d, w | a request's deadline (less ε); its mandatory work left, each stage at batch 1 |
//! | next | earliest stamp that a reserved task's next conforming request may have |
//! | W(y) | sum of w over the accepted requests with d ≤ y |
//! | F(y) | mandatory work due by y that reserved tasks may still release: with nd = max(next, t − J) + D, the sum of C · (⌊(y − nd)/T⌋ + 1) over those with nd ≤ y |
//!
//! **SAFE**: slack(y) = y − f − W(y) − F(y) ≥ 0 at every y that is a pending or a future reserved
//! deadline. S is the least slack. Every decision keeps SAFE:
//!
//! | decision | rule | where |
//! | --- | --- | --- |
//! | plan | utilisation ≤ 0.999, and dbf(L) + B(L) ≤ L at every step L | [`offline`] |
//! | conforming request (reserved, stamp ≥ next) | accepted without a test; next = max(capture, next) + T | `admission` |
//! | ... that asks for more than was reserved (d < stamp + D) | accepted iff slack(y) ≥ w for all y ≥ d, with that next; else next stays | `admission` |
//! | any other | accepted iff slack(y) ≥ w for all y ≥ d | `admission` |
//! | ... of a task in debt, captured in its rhythm | the same with next = capture + T, if it fails alone | `admission` |
//! | ... that fails alone | accepted in a batch with promises to the same stage iff, with C(b) at the earliest of their deadlines for their single costs, slack(y) ≥ 0 at *every* y, and C(b) ≤ min of L − dbf(L) | `joint` |
//! | ... in the place of an older frame of its client, if that is what the task wants | accepted without a test: the older one's promise becomes its own | `latest` |
//! | ... that its own task would refuse, and that has one to spill to | taken on as an extra of that one, iff it passes the tests there | `spill` |
//! | optional batch | only if it ends by each member's d and C(b) ≤ S; the best gain in accuracy for the time first | `optional` |
//! | which of the two first | optional, as it endangers nothing; mandatory while a request beyond the reservations waits for it | `dispatch` |
//! | the operating system's share of the time gets short | no deeper stages; if that is not enough, no further requests beyond the reservations | `share` |
//! | a full queue | the request of that task that would gain least by going deeper gets the answer it has, and the frame that comes its place | `admission` |
//! | mandatory: the earliest deadline, alone (or with those promised jointly with it) | always, if there is one | `mandatory` |
//! | mandatory: in a batch | iff slack(y) + C(1) · (members with d ≤ y) − C(b) ≥ 0 at *every* y | `mandatory` |
//! | mandatory: waiting for a larger batch | for Δ ≤ S, if nothing else is ready and Δ + C(k+1) < C(k) + C(1) | `rhythm` |
//! | the next action, handed over before the running one ends | like a batch, even for the earliest deadline: with f its end, iff no slack gets negative | `look_ahead` |
//! | another layout | iff each guaranteed task is guaranteed there, and SAFE holds on every partition that changes with f' = max f + R for f | `layouts` |
//! | best-effort | if no mandatory work is pending; told to stop when there is | `best_effort` |
//! | a stage of a demoted model | like optional work: iff C' ≤ S, with the longest of its window for a budget | `demotion` |
//! | window | as much later than now as slack allows (at most 8 δ), charged to f | `dispatch` |
//!
//! F is over-estimated by straight lines after its first steps, so that a scan looks at a bounded
//! number of points (`slack`). Over-estimation can refuse; it never endangers.
//!
//! # Guarantee
//!
//! *If the plan passes the offline test, every accepted mandatory part ends by d, and conforming
//! requests are always accepted*, whatever other tasks, clients and best-effort work do. By
//! induction over steps, SAFE is invariant:
//!
//! - *Start*: W = 0, and F(y) ≤ dbf(y − t), which the offline test bounds by y − t.
//! - *Time passes*: no nd falls, so F does not rise; an idle partition has W = 0, and the same
//!   bound applies.
//! - *Conforming request*: the first step of its task's F moves to W, at d or later than it was;
//!   the following steps move later. If its deadline is earlier than was reserved for (the
//!   client's own wish, or preparation beyond J), it must pass the test instead. Its place in the rhythm
//!   counts from its capture all the same, which the test includes: a frame that comes late, or is refused
//!   for it, takes no reservation from those that come in time after it.
//! - *Extra request*: tested for y ≥ d; nothing changes for y < d.
//! - *The place of an older frame*: the entry stays as it is, with its d and w, so W does not change,
//!   and `next` is not touched. The claim becomes: by each accepted deadline that frame, or a newer one
//!   of its client, has its mandatory part.
//! - *Optional, batch, look-ahead, another layout*: tested at every y.
//! - *Joint promise*: tested at every y; it is one job with the earliest of its deadlines.
//! - *Waiting*: Δ ≤ S, so SAFE holds at t + Δ.
//! - *Head alone*: for y ≥ d, f rises by C and W falls by C. For y < d, W(y) = 0, as the head is
//!   the earliest; and y − t < d − t ≤ D, so its stage is among those that B(y − t) covers:
//!   t + C + F(y) ≤ t + B(y − t) + dbf(y − t) ≤ y. The same for a joint batch, with L − dbf(L),
//!   which its C(b) was tested against, for B(L).
//! - *Best-effort*: W = 0, and P ≤ B(L) for all L.
//! - *Early end, early exit, removal*: f or W falls.
//!
//! SAFE at y = d of a request, when nothing before it is left, says that it ends by d.
//!
//! ## Assumptions
//!
//! 1. A stage takes at most σ · budget, counted from a start inside its window, with whatever runs
//!    on other partitions at the same time. A budget is a measured quantile, so the guarantee is
//!    conditional on the profile; `overrun` and `speed` deal with the times when it fails.
//! 2. A stopped best-effort action is gone within P, from any point of it.
//! 3. From an event in the world to the action that answers it on the device takes at most δ; from
//!    a decided verdict to the client at most ε; from capture to [`Event::Prepared`] of a
//!    conforming frame at most J (a frame that takes longer is tested; others do not depend on it).
//! 4. The frames of a task are prepared in the order of their capture (else a conforming one may
//!    be tested like an extra). A client gains nothing from a made-up capture time: it is clamped.
//! 5. The device does not fault. (If it does, members of that action fail; the others are kept.)
//! 6. Partitions of one layout are independent.
//!
//! After an overrun the claim holds again as soon as SAFE does. Until then optional work, batches
//! and extras fail their own tests and best-effort work waits for promised work as ever; the task
//! that overran pays from its own reservation, unless its frame fits in its place in the rhythm; and a request is dropped only if one that is worth
//! more would otherwise be late for certain (`overrun`). If one model's stages overrun again and again
//! while others keep their budgets, its tasks lose their promises until it keeps its profile again:
//! they run in the slack, at budgets stretched to what was measured, and their reservations stay
//! counted in F, so that SAFE holds when they come back (`conduct`, `demotion`). If all stages are
//! slow for long, σ rises, and with it the set of guaranteed tasks shrinks to one that passed the offline test at that σ (`speed`).
//!
//! ## Weights that come and go
//!
//! Tasks with a reservation ask models whose weights are resident for good. The weights of others
//! may be paged: a request for them is promised nothing before they are there, is then admitted
//! like one that was just prepared, and keeps them there until its verdict. So the guarantee does not
//! depend on transfers, and transfers depend on no promise. What comes next is what most work waits
//! for; what goes is what was used the longest ago (`paging`).
//!
//! ## Networks that begin alike
//!
//! A stage can be declared to run as the same stage of another model
//! ([`StageConfig::runs_as`]): requests of both share its batches, and only what differs runs apart
//! (Nexus). For the proof it is one stage: its times are the same, and everything else, also
//! calibration, stays each model's own. A common part that ends in no exit
//! ([`StageConfig::answers`]) is a stage that only leads on.
//!
//! ## Two devices
//!
//! A task can name another for the same network on another device ([`TaskConfig::spill`]): frames that it
//! would refuse go there, as extras, if that one can promise them their deadlines. So small or late
//! requests run on processor cores beside an accelerator, and an accelerator that is silent does not
//! leave its frames without answers. Nothing is added to the proof: each partition tests its own.
//!
//! ## Best-effort work on demand
//!
//! Whoever watches the machine can have best-effort work given up ([`Event::Shed`]): it is stopped and
//! refused while the hold lasts (`shedding`).
//!
//! ## A lost completion
//!
//! A device may never report an action. By 16 times the longest time of its profile and 100 ms more
//! it is taken for lost, whatever the policy: its members get `Failed(Device)`, and what it may
//! still be writing to stays locked until it is reported after all (`lost`). A stage of a demoted model
//! has at least its stretched budget and 100 ms. The same holds for a
//! transfer of weights; others go on meanwhile.
//!
//! ## How it is tested
//!
//! In `src/punctual/tests`: the worked example of the policy, decision by decision; every course of events
//! of small plans, one of them with faults (`exhaustive`); random plans that pass the offline test, with jitter,
//! bursts, early ends, late starts, batches and best-effort work, none of which may miss, beside
//! three ablations (admission against pending requests only, optional work without the gate,
//! batches that only their members agree to), each of which must (`guarantee`), with every switch
//! of [`PunctualConfig`] on or off; the same with a layout asked for at random moments, and with
//! changes that are not tested (`layouts`); joint promises (`joint`), waiting (`rhythm`), look-ahead
//! (`look_ahead`), the price of depth against worked cases (`price`), pages (`paging`), common
//! beginnings (`prefix`), a second device (`spill`), newer frames (`latest`), best-effort work that is
//! given up (`shedding`), models that break their profile (`conduct`, `demotion`); a world that keeps no bound at all
//! (`misbehaviour`). Each step is checked by a `checker` that sees plan, events and actions only; `canaries` plants faults that it must name. `slack` and the offline test are
//! compared with their definitions written out plainly. What a step costs: `docs/results/step.md`.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod action;
mod actions;
#[allow(missing_docs, reason = "its methods are those of a vector")]
pub mod bounded;
mod config;
mod counters;
mod error;
mod event;
mod ids;
pub mod lost;
pub mod offline;
mod policy;
mod punctual;
pub mod residency;
mod scheduler;
mod time;
mod validate;

pub use action::{Action, Demotion, Failure, Infer, Rejection, Reply, Verdict, Window};
pub use actions::Actions;
pub use config::{
    ACCURACY_BINS, BatchTime, Config, Criticality, Delivery, Layout, ModelConfig, PartitionConfig,
    StageConfig, StageTime, TaskConfig, Units, Weights,
};
pub use counters::Counters;
pub use error::{ConfigError, SPAN_MAX};
pub use event::{Answer, Arrival, Event, Finished};
pub use ids::{
    ActionId, BATCH_MAX, ClientId, Confidence, ModelId, PartitionId, RequestId, STAGES_MAX,
    StageId, TaskId, Ticket,
};
pub use policy::{Contract, DemotionRule, Partitioning, Policy, PolicySpec};
pub use punctual::PunctualConfig;
pub use scheduler::Scheduler;
pub use time::{Instant, Nanos};

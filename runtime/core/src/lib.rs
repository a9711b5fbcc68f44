//! The scheduler: every decision of Punctual, as a pure, allocation-free state machine.
//!
//! [`Scheduler::step`] takes the time and an [`Event`] and writes [`Action`]s. Same plan, same
//! events, same actions. There is no clock, no randomness and no I/O in here, and nothing is
//! allocated after [`Scheduler::new`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ablation;
mod action;
mod actions;
mod admission;
mod best_effort;
mod bounded;
mod completion;
mod config;
mod counters;
mod dispatch;
mod error;
mod event;
mod ids;
mod mandatory;
pub mod offline;
mod optional;
mod overrun;
mod partition;
mod requests;
mod scheduler;
mod slack;
mod speed;
mod tables;
#[cfg(test)]
mod tests;
mod time;
mod timers;
mod validate;

pub use action::{Action, Failure, Infer, Rejection, Reply, Verdict, Window};
pub use actions::Actions;
pub use config::{
    ACCURACY_BINS, BatchTime, Config, Criticality, ModelConfig, PartitionConfig, StageConfig,
    StageTime, TaskConfig,
};
pub use counters::Counters;
pub use error::{ConfigError, SPAN_MAX};
pub use event::{Answer, Arrival, Event, Finished};
pub use ids::{
    ActionId, BATCH_MAX, ClientId, Confidence, ModelId, PartitionId, RequestId, STAGES_MAX,
    StageId, TaskId, Ticket,
};
pub use scheduler::Scheduler;
pub use time::{Instant, Nanos};

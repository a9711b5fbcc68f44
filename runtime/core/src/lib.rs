//! The scheduler: every decision of Punctual, as a pure, allocation-free state machine.
//!
//! [`Scheduler::step`] takes the time and an [`Event`] and writes [`Action`]s. Same plan, same
//! events, same actions. There is no clock, no randomness and no I/O in here, and nothing is
//! allocated after [`Scheduler::new`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod action;
mod config;
mod event;
mod ids;
mod time;

pub use action::{Action, Failure, Infer, Rejection, Reply, Verdict, Window};
pub use config::{
    ACCURACY_BINS, BatchTime, Config, Criticality, ModelConfig, PartitionConfig, StageConfig,
    StageTime, TaskConfig,
};
pub use event::{Answer, Arrival, Event, Finished};
pub use ids::{
    ActionId, BATCH_MAX, ClientId, Confidence, ModelId, PartitionId, RequestId, STAGES_MAX,
    StageId, TaskId, Ticket,
};
pub use time::{Instant, Nanos};

//! The scheduler: every decision of Punctual, as a pure, allocation-free state machine.
//!
//! [`Scheduler::step`] takes the time and an [`Event`] and writes [`Action`]s. The same plan and the same
//! events lead to the same actions. The crate has no clock, no randomness and no I/O, and allocates nothing
//! after [`Scheduler::new`].
//!
//! | to find | look at |
//! |---|---|
//! | input and output | [`Event`], [`Action`], [`Reply`] |
//! | the plan, and its errors | [`Config`], [`ConfigError`] |
//! | the interface of a policy | [`Policy`], [`PolicySpec`] |
//! | the product's policy | [`PunctualConfig`]: start at `punctual/mod.rs` |
//! | the schedulability test | [`offline`] |
//! | the guarantee and its proof | `docs/proof.md` |
//!
//! A request's stages up to its task's mandatory exit are its *mandatory* work; each deeper stage is *optional*.
//! The scheduler accepts a request only if it can promise the mandatory work by the deadline. It decides on
//! deeper stages one by one. If time is short, the answer is shallower and still on time.
//!
//! # Example
//!
//! One network of two stages and one camera. A frame arrives and is prepared, and the scheduler orders its first
//! stage.
//!
//! ```
//! use punctual_core::{
//!     ACCURACY_BINS, Action, Actions, Answers, Arrival, BatchTime, ClientId, Confidence, Config, Criticality, Delivery, Event,
//!     Instant, ModelConfig, ModelId, Nanos, PartitionConfig, PartitionId, PunctualConfig, Scheduler, StageConfig, StageId,
//!     StageTime, TaskConfig, TaskId, Ticket, Units,
//! };
//!
//! let ms = Nanos::from_millis;
//! let time = StageTime { budget: ms(2), max_seen: ms(3) };
//! let stage = |deeper| StageConfig {
//!     times: vec![BatchTime { batch: 1, on: vec![time] }],
//!     accuracy: [50_000; ACCURACY_BINS],
//!     deeper: vec![[60_000; ACCURACY_BINS]; deeper],
//!     follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
//!     answers: true,
//!     runs_as: None,
//! };
//! let camera = TaskConfig {
//!     model: ModelId(0),
//!     partition: PartitionId(0),
//!     criticality: Criticality::RealTime,
//!     deadline: Some(ms(20)),
//!     period: ms(33),
//!     burst: 1,
//!     jitter: ms(1),
//!     prepare: Nanos::ZERO,
//!     mandatory_exit: StageId(0),
//!     threshold: Confidence::from_probability(0.9),
//!     threshold_min: Confidence::from_probability(0.9),
//!     batch_max: 1,
//!     queue_max: 2,
//!     reserved: true,
//!     answers: Answers::Final,
//!     weight: 1,
//!     offload_to: None,
//!     delivery: Delivery::EveryFrame,
//! };
//! let config = Config {
//!     tasks: vec![camera],
//!     models: vec![ModelConfig { stages: vec![stage(1), stage(0)], weights: None, places: vec![] }],
//!     partitions: vec![PartitionConfig {
//!         units: Units { first: 0, count: 1 },
//!         preemption_bound: ms(1),
//!         share_max: 1000,
//!     }],
//!     request_buffers: 4,
//!     pages: 0,
//!     dispatch_cost: Nanos::ZERO,
//!     egress_bound: Nanos::ZERO,
//! };
//! let mut scheduler = Scheduler::new(&config, &PunctualConfig::default())?;
//! let mut actions = Actions::for_config(&config);
//!
//! let now = Instant::from_nanos(1_000_000);
//! let ticket = Ticket { client: ClientId(0), slot: 0, part: 0, sequence: 1 };
//! let frame = Arrival { task: TaskId(0), ticket, captured: now, deadline: None, egress: Nanos::ZERO };
//! scheduler.step(now, &Event::Arrived(frame), &mut actions);
//! let Some(&Action::Prepare { request, .. }) = actions.iter().next() else {
//!     panic!("it can be promised");
//! };
//! actions.clear();
//! let prepared = Event::Prepared { request, measured: Nanos::ZERO, ready: Ok(()) };
//! scheduler.step(now, &prepared, &mut actions);
//! let infer = actions.iter().find(|action| matches!(action, Action::Infer(_)));
//! assert!(infer.is_some());
//! # Ok::<(), punctual_core::ConfigError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;
// What tests of policies share with tests in here names this crate as they do.
#[cfg(test)]
extern crate self as punctual_core;

mod action;
mod actions;
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
pub mod usage;
mod validate;

pub use action::{Action, Demotion, Failure, Infer, Rejection, Reply, Verdict, Window};
pub use actions::Actions;
pub use config::{
    ACCURACY_BINS, Answers, BatchTime, Config, Criticality, Delivery, ModelConfig, PartitionConfig,
    StageConfig, StageTime, TaskConfig, Units, Weights,
};
pub use counters::Counters;
pub use error::{ConfigError, SPAN_MAX, StateError};
pub use event::{Answer, Arrival, Event, Finished, Readiness};
pub use ids::{
    ActionId, BATCH_MAX, ClientId, Confidence, ModelId, PartitionId, RequestId, STAGES_MAX,
    StageId, TaskId, Ticket,
};
pub use policy::{Contract, DemotionRule, Partitioning, Policy, PolicySpec, TaskReadiness};
pub use punctual::{
    OPEN_BURSTS, PLACED_PARTITIONS_MAX, PunctualConfig, UtilizationCap, Voluntary, use_allowed,
};
pub use scheduler::Scheduler;
pub use time::{Instant, Nanos};

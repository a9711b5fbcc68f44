//! Manifest, board and profiles to a validated, frozen plan.
//!
//! [`Plan::build`] is a pure function of [`PlanInputs`]; [`PlanInputs::read`] gathers them from
//! files. [`Needs`] says what a manifest needs before there are packages and profiles. A [`Plan`]
//! displays as the tables of `punctual check`; [`PlanErrors`] as compiler-like diagnostics.
#![forbid(unsafe_code)]

mod arrival;
mod board;
mod budgets;
mod build;
mod cause;
mod document;
mod door;
mod footprint;
mod frame;
mod gpu;
mod inputs;
mod keys;
mod load;
mod manifest;
mod memory;
mod models;
mod needs;
mod paging;
mod partition;
mod placement;
mod plan;
mod policy;
mod priorities;
mod problem;
mod promises;
mod read;
mod report;
mod reservation;
mod rules;
mod schedulability;
mod settings;
mod sharing;
mod spelling;
mod spill;
mod tasks;
mod warning;

/// What reads a TOML file key by key and notes all that is wrong with it: for other formats than the manifest.
pub mod toml_file {
    pub use crate::document::{Section, parse, within, within_whole};
    pub use crate::keys::{name, number, span, unique, whole};
    pub use crate::manifest::collect;
    pub use crate::memory::Bytes;
    pub use crate::problem::{At, Place, Problems};
    pub use crate::read::{inside, read_profile, read_text};
}

pub use board::{Board, Fact, Gpu, Source};
pub use budgets::Margins;
pub use cause::{Cause, Rule};
pub use door::{Access, Accounts, DoorCause, DoorPlan, EntryPlan, METRICS_SUFFIX};
pub use frame::FrameCause;
pub use gpu::{GpuCause, GpuPlan};
pub use inputs::{CudaFootprint, GpuHost, Host, PackageInput, PlanInputs, ProfileInput};
pub use load::CoreLoad;
pub use memory::{
    BLOCKING_THREADS, HEAP_BYTES, MemoryBudget, MemoryItem, ORDINARY_STACK_BYTES, Purpose,
    STACK_BYTES,
};
pub use needs::{ModelNeeds, Needs};
pub use paging::{LOAD_BYTES_A_SECOND_ASSUMED, PagingCause};
pub use partition::{DeviceKind, PartitionPlan};
pub use plan::{
    ArrivalBound, BATCH_SIZES, ChannelPlan, ClientSlotPlan, FramePlan, ModelPlan, Plan, PlanHash,
    Role, TaskPlan, ThreadPlan,
};
pub use policy::{PUBLISHED, Policies, PolicyChoice};
pub use problem::{Excerpt, PlanErrors, Problem};
pub use reservation::{Reservation, Scheduling};
pub use schedulability::{PartitionReport, TaskReport};
pub use spill::SpillCause;
pub use warning::Warning;

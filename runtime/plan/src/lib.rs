//! Manifest, board and profiles to a validated, frozen plan.
//!
//! [`Plan::build`] is a pure function of [`PlanInputs`]; [`PlanInputs::read`] gathers them from
//! files. [`Needs`] says what a manifest needs before there are packages and profiles. A [`Plan`]
//! displays as the tables of `punctual check`; [`Diagnostics`] as compiler-like diagnostics.
#![forbid(unsafe_code)]

mod arrival;
mod board;
mod budgets;
mod build;
mod door;
mod footprint;
mod frame;
mod gpu;
mod inputs;
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
mod promises;
mod read;
mod report;
mod reservation;
mod schedulability;
mod settings;
mod sharing;
mod spill;
mod table;
mod tasks;
mod warning;

pub use punctual_diagnostics::Diagnostics;

pub use arrival::PrepareNotProfiled;
pub use board::{Board, Fact, Gpu, Source, UnknownSource};
pub use budgets::Margins;
pub use build::{OtherBoard, SchedulerRefuses};
pub use door::{Access, Accounts, DoorPlan, DoorRule, EntryPlan, METRICS_SUFFIX};
pub use frame::FrameRule;
pub use gpu::{GpuPlan, GpuRule};
pub use inputs::{CudaFootprint, GpuHost, Host, PackageInput, PlanInputs, ProfileInput};
pub use load::{CoreLoad, CoreOverloaded};
pub use memory::{
    BLOCKING_THREADS, HEAP_BYTES, MemoryBudget, MemoryItem, MemoryRule, ORDINARY_STACK_BYTES,
    Purpose, STACK_BYTES,
};
pub use models::{ModelRule, StageNotProfiled};
pub use needs::{ModelNeeds, Needs};
pub use paging::{LOAD_BYTES_A_SECOND_ASSUMED, PagingRule};
pub use partition::{DeviceKind, PartitionPlan};
pub use placement::PlacementRule;
pub use plan::{
    ArrivalBound, BATCH_SIZES, ChannelPlan, ClientSlotPlan, FramePlan, ModelPlan, PixelFormat,
    Plan, PlanHash, Role, Size, TaskPlan, ThreadPlan,
};
pub use policy::{PUBLISHED, Policies, PolicyChoice, PolicyRule};
pub use priorities::PrioritiesExhausted;
pub use promises::PromiseRule;
pub use read::{NoSuchBoard, inside, read_profile};
pub use reservation::{Reservation, Scheduling};
pub use schedulability::{PartitionReport, TaskReport, Unschedulable};
pub use spill::SpillRule;
pub use table::Table;
pub use tasks::TaskRule;
pub use warning::Warning;

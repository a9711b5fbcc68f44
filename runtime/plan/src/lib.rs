//! Manifest, board and profiles to a validated, frozen plan.
#![forbid(unsafe_code)]

mod board;
mod budgets;
mod inputs;
mod memory;
mod plan;
mod schedulability;
mod warning;

pub use board::Board;
pub use budgets::Margins;
pub use inputs::{Host, PackageInput, PlanInputs};
pub use memory::{MemoryBudget, MemoryItem, Purpose};
pub use plan::{
    ArrivalBound, BATCH_SIZES, ChannelPlan, ClientSlotPlan, FramePlan, ModelPlan, PartitionPlan,
    PixelFormat, Plan, PlanHash, Role, Size, TaskPlan, ThreadPlan,
};
pub use schedulability::{PartitionReport, TaskReport};
pub use warning::Warning;

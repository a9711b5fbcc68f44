//! Manifest, board and profiles to a validated, frozen plan.
//!
//! [`Plan::build`] is a pure function of [`PlanInputs`]; [`PlanInputs::read`] gathers them from
//! files. [`Needs`] says what a manifest needs before there are packages and profiles. A [`Plan`]
//! displays as the tables of `punctual check`; [`Diagnostics`] like a compiler's messages.
//!
//! A plan is made in four phases, a folder each. A phase works on what the ones before could make
//! sense of, and notes what it finds wrong, so that one attempt finds all problems that can be
//! found. The rules of a phase are next to the code that checks them.
#![forbid(unsafe_code)]

mod budget;
mod elsewhere;
mod flow;
mod inputs;
mod manifest;
mod needs;
mod plan;
mod read;
mod resolve;
mod split;
mod versions;

pub use punctual_diagnostics::Diagnostics;

pub use budget::{
    ArrivalBound, BLACK_BOX_BYTES, CoreLoad, CoreOverloaded, GpuPlan, HEAP_BYTES,
    LOAD_BYTES_A_SECOND_ASSUMED, LaunchesNotProfiled, MemoryBudget, MemoryItem, MemoryRule,
    ORDINARY_STACK_BYTES, PICTURE_BUFFERS, PagingRule, PartitionReport, PlaceReport, PlaceUse,
    PreemptedStage, PrepareNotProfiled, PrepareRule, PreparedBy, PromiseRule, Purpose,
    RECORDER_CELL_BYTES, RECORDER_CELLS, STACK_BYTES, STRANGER_THREADS, StageNotProfiled,
    TaskReport, Unschedulable, WAITING_SECONDS,
};
pub use elsewhere::ElsewhereRule;
pub use flow::Flow;
pub use inputs::{
    Accounts, BATCH_SIZES, Board, Candidate, DeviceKind, Difference, EngineHost, Fact, Gpu,
    GpuHost, Host, HostCores, Nearness, OrtHost, PUBLISHED, PackageInput, PlanInputs, Policies,
    PolicyChoice, PolicyRule, PowerMode, ProfileInput, Releases, Source, UnknownSource,
    WrittenPolicyError,
};
pub use manifest::{
    AfterRule, Defaulted, LeaderWait, METRICS_SUFFIX, Margins, PatternRule, Payloads, RecorderMode,
    RecorderPlan, RecorderRule, Scheduling, SocketRule, names_of,
};
pub use needs::{ModelNeeds, Needs, PartitionNeeds};
pub use plan::{
    AfterPlan, ClientSlotPlan, ModelPlan, Plan, PlanHash, SchedulerRefuses, TaskPlan, Warning,
};
pub use read::{Files, NoSuchBoard, PackageCheck, beside, inside, read_profile};
pub use resolve::{
    Access, AccessRule, AdmissionPlan, ChannelPlan, CropsPlan, DeviceRule, EngineRule, EntryPlan,
    FillRule, FrameNeeds, FramePlan, FrameRule, GpuRule, ModelRule, OffloadRule, OtherBoard,
    OutputRule, PartitionPlan, PipelineRule, PlaceRule, PlacementRule, PrioritiesExhausted,
    RangesRule, Reservation, Role, TaskRule, ThreadPlan, UnitUse, VectorPlan, VectorRule,
};
pub use split::{Split, even_split, split};
pub use versions::{Choice, PassedOver, Version, WhyNot, newest, versions};

use manifest::PackageSource;
use punctual_diagnostics::Problems;

impl Plan {
    /// The plan, or everything that is wrong with the manifest or with what it names.
    pub fn build(inputs: &PlanInputs) -> Result<Self, Diagnostics> {
        let mut problems = Problems::new(&inputs.manifest_path, &inputs.manifest_text, "plan");
        let source = PackageSource::Read(&inputs.packages);
        let Some(manifest) = manifest::read(&inputs.policies, source, &mut problems) else {
            return Err(problems.into_errors());
        };
        let resolved = resolve::resolve(manifest, inputs, &mut problems);
        let budgeted = budget::budget(resolved, inputs, &mut problems);
        let plan = plan::freeze(budgeted, inputs, &mut problems);
        problems.into_result().map(|()| plan)
    }
}

//! The third phase: how long everything may take and how much memory, and whether the promises can
//! then be kept.

mod arrival;
mod fill;
mod footprint;
mod gpu;
mod load;
mod memory;
mod ort;
mod paging;
mod pipelines;
mod places;
pub(crate) mod preemption;
mod prepare;
mod promises;
mod schedulability;
mod settings;
mod sharing;
mod times;

pub use arrival::ArrivalBound;
pub use fill::LaunchesNotProfiled;
pub use gpu::GpuPlan;
pub use load::{CoreLoad, CoreOverloaded};
pub use memory::{
    BLACK_BOX_BYTES, HEAP_BYTES, MemoryBudget, MemoryItem, MemoryRule, ORDINARY_STACK_BYTES,
    PICTURE_BUFFERS, Purpose, RECORDER_CELL_BYTES, RECORDER_CELLS, STACK_BYTES, STRANGER_THREADS,
    WAITING_SECONDS,
};
pub(crate) use memory::{STACKS_A_CLIENT, THREADS_A_CLIENT};
pub use paging::{LOAD_BYTES_A_SECOND_ASSUMED, PagingRule};
pub use places::{PlaceReport, PlaceUse};
pub use preemption::PreemptedStage;
pub use prepare::{PrepareNotProfiled, PrepareRule, PreparedBy};
pub use promises::PromiseRule;
pub use schedulability::{PartitionReport, TaskReport, Unschedulable};
pub use times::StageNotProfiled;

use punctual_core::{Config, PolicySpec as _};
use punctual_diagnostics::Problems;

use crate::inputs::PlanInputs;
use crate::resolve::{Resolved, ThreadPlan, threads};
use memory::Inventory;
use paging::Paging;
use promises::Promises;
use punctual_model::LaunchProfile;
use sharing::Sharing;

/// What was resolved, with what it takes.
pub(crate) struct Budgeted<'i> {
    pub(crate) resolved: Resolved<'i>,
    /// By model: the batch sizes that its device must be ready for, rising.
    pub(crate) batches: Vec<Vec<u8>>,
    /// By task.
    pub(crate) arrivals: Vec<ArrivalBound>,
    pub(crate) scheduler: Config,
    /// Every place that the manifest asks for, and whether it pays.
    pub(crate) places: Vec<PlaceReport>,
    pub(crate) threads: Vec<ThreadPlan>,
    pub(crate) promises: Promises,
    /// Those other than the first.
    pub(crate) memory: MemoryBudget,
    pub(crate) gpu: Option<GpuPlan>,
    /// By model, with partitions that fill.
    pub(crate) launches: Vec<Vec<LaunchProfile>>,
}

pub(crate) fn budget<'i>(
    mut resolved: Resolved<'i>,
    inputs: &'i PlanInputs,
    problems: &mut Problems<'_>,
) -> Budgeted<'i> {
    let contract = resolved.manifest.daemon.policy.value.contract();
    let paging = Paging::find(&resolved, &inputs.host, inputs.gpu(), problems);
    let sharing = if resolved.manifest.daemon.share_stages && contract.promises {
        // Weights that are there for good are not shared with such as come and go.
        Sharing::find(&resolved.models, &resolved.outputs, |model| {
            !paging.is_paged(model)
        })
    } else {
        Sharing::none(&resolved.models)
    };
    let batches = settings::batches(&resolved, &sharing);
    let before = problems.count();
    let mut arrivals = arrival::bounds(&resolved, problems);
    let tables = |resolved: &Resolved<'_>, arrivals: &[_], problems: &mut Problems<'_>| {
        let mut config = settings::config(resolved, &sharing, &batches, arrivals, problems);
        paging.apply(&mut config);
        config
    };
    let mut scheduler = tables(&resolved, &arrivals, problems);
    if problems.count() == before
        && pipelines::divide(&mut resolved.tasks, &arrivals, &scheduler, problems)
    {
        // What comes after a part comes later, and what is due sooner is more urgent.
        arrivals = arrival::bounds(&resolved, problems);
        scheduler = tables(&resolved, &arrivals, problems);
    }
    let mut places = Vec::new();
    // Where figures are missing, nothing can be concluded about places or promises.
    if problems.count() == before && resolved.placement.has_places() {
        places = places::choose(&mut resolved, &scheduler, &arrivals);
        // Where no place is left, partitions have no busy neighbours.
        scheduler = tables(&resolved, &arrivals, problems);
        places::assign(&places, &mut scheduler);
    }
    if inputs.host.realtime {
        settings::leave_share(&mut scheduler);
    }
    let mut promises = Promises::default();
    if problems.count() == before && contract.promises {
        promises = promises::check(&resolved, &arrivals, &scheduler, problems);
    }
    for report in &mut promises.schedulability {
        report.preempted = preemption::longest(&resolved, report.partition.index());
    }
    let threads = threads(&resolved, &inputs.host, problems);
    let inventory = Inventory {
        resolved: &resolved,
        paging: &paging,
        arrivals: &arrivals,
        batches: &batches,
        request_buffers: scheduler.request_buffers,
        threads: threads.len() as u64,
    };
    let mut items = memory::items(&inventory, inputs.host.program_bytes);
    let gpu = inputs.gpu().filter(|_| resolved.placement.uses_gpu());
    let gpu = gpu.map(|gpu| gpu::plan(gpu, &inventory, &mut items, problems));
    items.extend(ort::items(&inventory));
    let launches = fill::launches(&resolved, &batches, problems);
    let memory = memory::budget(items, &resolved.manifest, inputs, problems);
    Budgeted {
        resolved,
        batches,
        arrivals,
        scheduler,
        places,
        threads,
        promises,
        memory,
        gpu,
        launches,
    }
}

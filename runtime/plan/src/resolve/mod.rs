//! The second phase: what the manifest names is looked up. Board and power mode, cores and TPCs,
//! packages and profiles, accounts, tasks that refer to each other.

mod access;
mod chosen;
pub(crate) mod device;
mod engine;
mod fill;
mod frame;
mod gpu;
mod models;
mod offload;
mod outputs;
mod partition;
mod pipeline;
mod placement;
pub(crate) mod places;
mod powered;
mod ranges;
mod tasks;
mod threads;
mod vectors;

pub use access::{Access, AccessRule, AdmissionPlan, EntryPlan};
pub use chosen::RangesRule;
pub(crate) use chosen::{QUEUES, queues_of_stream};
pub use device::DeviceRule;
pub use engine::EngineRule;
pub use fill::FillRule;
pub use frame::{FrameNeeds, FramePlan, FrameRule};
pub use gpu::GpuRule;
pub use models::ModelRule;
pub(crate) use models::{MEASURE, Model, batches_up_to};
pub use offload::OffloadRule;
pub(crate) use offload::taker;
pub use outputs::OutputRule;
pub use partition::{PartitionPlan, UnitUse};
pub use pipeline::{CropsPlan, PipelineRule};
pub use placement::PlacementRule;
pub(crate) use placement::{Placed, Placement, left};
pub use places::PlaceRule;
pub use tasks::{ChannelPlan, TaskRule};
pub(crate) use tasks::{Task, groups, of_frame};
pub(crate) use threads::threads;
pub use threads::{PrioritiesExhausted, Reservation, Role, ThreadPlan};
pub use vectors::{VectorPlan, VectorRule};

use punctual_diagnostics::{Invalid, Problems, Rule};
use punctual_model::OutputLayout;
use thiserror::Error;

use crate::inputs::PlanInputs;
use crate::manifest::Manifest;
use powered::Powered;

/// A manifest with what its names stand for. Models, partitions and tasks are those that are complete;
/// what is wrong with the others was noted.
pub(crate) struct Resolved<'i> {
    pub(crate) manifest: Manifest,
    pub(crate) power_mode: String,
    pub(crate) placement: Placement,
    pub(crate) models: Vec<Model<'i>>,
    /// By model: where the outputs lie that its tasks want.
    pub(crate) outputs: Vec<OutputLayout>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) admission: AdmissionPlan,
}

pub(crate) fn resolve<'i>(
    manifest: Manifest,
    inputs: &'i PlanInputs,
    problems: &mut Problems<'_>,
) -> Resolved<'i> {
    let (daemon, host) = (&manifest.daemon, &inputs.host);
    let power_mode = power_mode(&manifest, inputs, problems);
    device::check(&manifest, host, problems);
    fill::check(&manifest, inputs.gpu(), problems);
    engine::check(&manifest, inputs.gpu(), problems);
    let powered = Powered::by(&power_mode, inputs);
    let tpcs = gpu::tpcs(&manifest, inputs, &powered, problems);
    let devices = device::of_models(&manifest, problems);
    let mut placement = Placement::new(&manifest, &host.cores.isolated, &powered, tpcs, problems);
    let models = models::find(&manifest, &devices, inputs, &power_mode, problems);
    let (partitions, accounts) = (&placement.partitions, &host.accounts);
    let mut tasks = tasks::resolve(&manifest, &models, partitions, accounts, problems);
    pipeline::check(&mut tasks, &manifest, problems);
    let admission = AdmissionPlan::resolve(&daemon.admission, accounts, problems);
    let outputs = outputs::layouts(&models, &mut tasks, problems);
    tasks::settle_places(&mut tasks, &models, &outputs);
    tasks::check_descriptions(&tasks, problems);
    offload::check(&manifest, &tasks, &models, &outputs, problems);
    // Last: no task is assigned to a place.
    let places = places::find(&manifest, &placement, inputs, problems);
    placement.partitions.extend(places);
    fill::check_users(&manifest, &placement.partitions, &tasks, problems);
    engine::check_leaders(&placement.partitions, problems);
    gpu::check_leaders(&manifest, &placement.partitions, &tasks, problems);
    Resolved {
        power_mode,
        placement,
        models,
        outputs,
        tasks,
        admission,
        manifest,
    }
}

/// A manifest that was written for another board.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the manifest is for board {manifest:?}, this is {board:?}")]
#[non_exhaustive]
pub struct OtherBoard {
    pub manifest: String,
    pub board: String,
}

impl Rule for OtherBoard {
    fn rule(&self) -> &'static str {
        "a manifest runs on the board it was written for"
    }

    fn help(&self) -> String {
        format!("set board = {:?} if all else suits it", self.board)
    }
}

/// The board's power mode that the profiles are to hold for.
fn power_mode(manifest: &Manifest, inputs: &PlanInputs, problems: &mut Problems<'_>) -> String {
    let (board, daemon) = (&inputs.board, &manifest.daemon);
    let other = daemon.board.as_ref().filter(|at| at.value != board.name);
    if let Some(named) = other.filter(|_| !inputs.board_is_asked) {
        let cause = OtherBoard {
            manifest: named.value.clone(),
            board: board.name.clone(),
        };
        problems.add(&named.place, cause);
    }
    let Some(mode) = &daemon.power_mode else {
        return board.default_power_mode().to_owned();
    };
    if board.power_mode(&mode.value).is_none() {
        let known = board.power_modes.iter();
        let cause = Invalid::NotOneOf {
            value: mode.value.clone(),
            allowed: known.map(|mode| mode.name.clone()).collect(),
        };
        problems.add(&mode.place, cause);
    }
    mode.value.clone()
}

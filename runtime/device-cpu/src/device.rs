//! The device: the contract of [`Device`](punctual_device::Device) on cores.
//!
//! A partition's leader takes the actions; its helpers join it operator by operator, each computing
//! its own part of the output. Outside of an action all of them sleep.

use std::sync::Arc;
use std::task::Poll;

use punctual_core::{Answer, ModelId, Nanos, StageId};
use punctual_device::pool::{CancelFlag, Engine, Helper, Outcome};
use punctual_device::regions::BufferGuard;
use punctual_device::weights::LoaderThread;
use punctual_device::{
    CacheSpec, DeviceSpec, HostedDevice, InputBuffers, PartitionSpec, Shell, Start,
};
use punctual_kernels::Isa;
use punctual_model::SolutionMemory;
use punctual_platform::Doorbell;

use crate::StartError;
use crate::executable::Step;
use crate::lower::lower;
use crate::model::LoadedModel;
use crate::pace::Activity;
use crate::shared::team::{self, Leader};
use crate::shared::weights::{Source, Weights};
use crate::store::{self, Memory};

/// Runs stages on the machine's cores.
pub struct CpuDevice {
    shell: Shell,
    isa: Isa,
    models: Arc<[LoadedModel]>,
    weights: Arc<Weights>,
    activity: Arc<Activity>,
    workspace_bytes: Vec<usize>,
    request_bytes: usize,
}

/// One operator of a stage, and how long it took when it last ran and at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorTime {
    /// The operator's name.
    pub name: String,
    /// Channels, rows and columns of the output.
    pub shape: [usize; 3],
    /// Multiply-accumulates for one image.
    pub macs: u64,
    /// As its leader saw it the last time, until all cores had finished.
    pub last: Nanos,
    /// The longest since the start.
    pub longest: Nanos,
}

impl OperatorTime {
    pub(crate) fn of(step: &Step) -> Self {
        Self {
            name: step.name.clone(),
            shape: [
                step.output.channels(),
                step.output.height(),
                step.output.width(),
            ],
            macs: step.macs,
            last: step.time.last(),
            longest: step.time.longest(),
        }
    }
}

impl CpuDevice {
    /// Lowers the models, takes memory and starts the workers; loads the models now or in turn, as `spec` says. `report`
    /// is rung after each event.
    ///
    /// # Errors
    /// [`StartError`]; a privilege that is missing is none ([`Shell::missing`]).
    pub fn start(spec: &DeviceSpec<'_>, report: Arc<Doorbell>) -> Result<Self, StartError> {
        Self::start_on(Isa::detect(), spec, report)
    }

    /// As [`start`](Self::start), with kernels for an instruction set that is not the best one.
    ///
    /// # Errors
    /// As [`start`](Self::start), and [`StartError::IsaUnavailable`].
    pub fn start_on(
        isa: Isa,
        spec: &DeviceSpec<'_>,
        report: Arc<Doorbell>,
    ) -> Result<Self, StartError> {
        spec.validate()?;
        if !isa.is_available() {
            return Err(StartError::IsaUnavailable(isa));
        }
        let models = spec.models.iter();
        let models = models.map(|model| lower(isa, model.network, model.outputs));
        let models = models.collect::<Result<Vec<_>, _>>()?;
        let sources = models.iter().zip(spec.models);
        let sources = sources.map(|(model, spec)| store::source(isa, model, spec));
        let sources = sources.collect::<Result<_, _>>()?;
        Self::start_loaded(isa, models, sources, spec, report)
    }

    fn start_loaded(
        isa: Isa,
        mut models: Vec<LoadedModel>,
        sources: Vec<Source>,
        spec: &DeviceSpec<'_>,
        report: Arc<Doorbell>,
    ) -> Result<Self, StartError> {
        for (model, spec) in models.iter_mut().zip(spec.models) {
            if !spec.paged {
                model.choose(spec.solutions);
            }
        }
        let models: Arc<[LoadedModel]> = models.into();
        let request_floats = models.iter().map(|model| model.request_floats).max();
        let request_floats = request_floats.unwrap_or(0);
        let layouts = models.iter().map(|model| model.input).collect();
        let inputs = InputBuffers::awaited(spec.request_buffers, request_floats, layouts);
        let pages = spec.cache.map_or(0, |cache| cache.pages);
        let (memory, mut starter) =
            Memory::reserve(&models, sources, pages, inputs.regions(), spec.start)?;
        let (weights, activity) = (memory.weights().clone(), starter.activity().clone());
        if spec.start == Start::Whole {
            starter.finish()?;
        }
        // A worker's: it has nothing to do before something is loaded.
        let first = spec.partitions.iter().flat_map(|p| &p.cores).next();
        let loader = loads_later(spec)
            .map(|cache| LoaderThread::start(starter, &cache, first.copied(), &report));
        let loader = loader.transpose()?;
        let mut device = Self {
            shell: Shell::new(spec, inputs, Box::new(memory), loader, report),
            isa,
            models,
            weights,
            activity,
            workspace_bytes: Vec::new(),
            request_bytes: usize::from(spec.request_buffers) * request_floats * size_of::<f32>(),
        };
        let batches = spec.models.iter().flat_map(|model| model.batches);
        let batch_max = usize::from(batches.copied().max().unwrap_or(1));
        for partition in spec.partitions {
            let poisoned = spec.models.iter().any(|model| model.poisoned);
            device.add_partition(partition, batch_max, poisoned)?;
        }
        Ok(device)
    }

    fn add_partition(
        &mut self,
        partition: &PartitionSpec,
        batch_max: usize,
        poisoned: bool,
    ) -> Result<(), StartError> {
        let inputs = self.shell.input_buffers();
        let (size, weights) = (partition.cores.len(), &self.weights);
        let (mut leader, mates) =
            team::team(size, &self.models, weights, inputs.regions(), batch_max);
        if poisoned {
            leader.poison();
        }
        self.workspace_bytes.push(leader.workspace_bytes());
        let mates = mates
            .into_iter()
            .map(|mate| -> Helper { Box::new(move || mate.serve()) });
        let team = Team {
            leader,
            weights: weights.clone(),
            activity: self.activity.clone(),
        };
        Ok(self.shell.add_partition(partition, team, mates.collect())?)
    }

    /// The instruction set that the kernels are for.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Bytes of memory for weights, pages that hold nothing now included.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// Bytes of all request buffers together.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Bytes of each partition's workspace, with the scratch memory of specialised solutions.
    #[must_use]
    pub fn workspace_bytes(&self) -> &[usize] {
        &self.workspace_bytes
    }
}

/// The thread that loads after the device is there; none if nothing comes later.
fn loads_later(spec: &DeviceSpec<'_>) -> Option<CacheSpec> {
    let anywhere = CacheSpec {
        pages: 0,
        core: None,
        priority: None,
    };
    let in_turn = spec.start != Start::Whole;
    spec.cache.or(in_turn.then_some(anywhere))
}

impl HostedDevice for CpuDevice {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    fn name(&self) -> String {
        format!("cpu ({})", self.isa)
    }

    fn longest_step(&self, model: ModelId, stage: StageId) -> Option<Nanos> {
        let stage = self.models.get(model.index())?.stages.get(stage.index())?;
        stage.steps.iter().map(|step| step.time.last()).max()
    }

    fn solution_memory(&self, model: ModelId) -> SolutionMemory {
        let model = self.models.get(model.index());
        model.map_or_else(SolutionMemory::default, LoadedModel::solution_memory)
    }
}

/// What a partition's leader runs stages with: its team, and the weights that the team reads.
struct Team {
    leader: Leader,
    weights: Arc<Weights>,
    activity: Arc<Activity>,
}

impl Engine for Team {
    fn begin(
        &mut self,
        model: ModelId,
        stage: StageId,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Poll<Outcome> {
        let _runs = self.activity.begin();
        // Not there: the device takes no such action.
        let Some(weights) = self.weights.claim(model) else {
            return Poll::Ready(Outcome::Fault);
        };
        let outcome = self.leader.run(model, stage, &weights, members, interrupt);
        Poll::Ready(outcome)
    }

    fn answer(
        &mut self,
        model: ModelId,
        stage: StageId,
        member: usize,
        claim: &mut BufferGuard<'_>,
    ) -> Answer {
        self.leader.answer(model, stage, member, claim)
    }
}

#[cfg(test)]
mod tests;

//! The CPU device: partitions are disjoint sets of cores, one pinned worker a core.
//!
//! A partition's leader takes the actions; its mates join it operator by operator, each computing
//! its own part of the output. There is no pool: outside of an action all of them sleep. Nothing is
//! allocated, and no page touched for the first time, after [`CpuDevice::start`].

pub mod cold_start;
mod error;
mod evaluate;
pub(crate) mod executable;
mod lower;
mod memory;
mod specialised;

use std::sync::Arc;

use punctual_core::{ActionId, Event, Infer, ModelId, Nanos, PartitionId, StageId};
use punctual_kernels::Isa;
use punctual_model::SolutionMemory;
use punctual_platform::heartbeat::Pulse;
use punctual_platform::{Doorbell, Missing};

use crate::crew::{Claim, Crew, Engine, Interrupt, Mate, Outcome};
use crate::device::{Device, Refusal};
use crate::request_buffers::InputBuffers;
use crate::shared::team::{self, Leader};
pub use crate::shared::weights::LoadError;
use crate::shared::weights::{Source, Weights};
use crate::spec::{DeviceSpec, PartitionSpec};
pub use error::StartError;
pub use evaluate::Evaluator;
use executable::LoadedModel;
pub use lower::{LowerError, image_layout, pack_image};
pub use memory::LoadFailure;
use memory::Memory;

/// Runs stages on the machine's cores.
pub struct CpuDevice {
    isa: Isa,
    models: Arc<[LoadedModel]>,
    /// Batch sizes of each model.
    batches: Vec<Vec<u8>>,
    inputs: InputBuffers,
    request_buffers: u16,
    memory: Memory,
    crew: Crew,
    missing: Vec<Missing>,
    workspace_bytes: Vec<usize>,
    request_bytes: usize,
}

/// One operator of a stage, and how long it took when it last ran and at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorTime {
    /// The operator's name.
    pub name: String,
    /// Multiply-accumulates for one image.
    pub macs: u64,
    /// As its leader saw it the last time, until all cores had finished.
    pub last: Nanos,
    /// The longest since [`CpuDevice::reset_operator_times`].
    pub longest: Nanos,
}

impl OperatorTime {
    fn of(step: &executable::Step) -> Self {
        Self {
            name: step.name.clone(),
            macs: step.macs,
            last: step.time.last(),
            longest: step.time.longest(),
        }
    }
}

impl CpuDevice {
    /// Loads the models, takes all memory and starts the workers. `report` is rung after each event.
    ///
    /// # Errors
    /// [`StartError`]; a privilege that is missing is none ([`missing`](Self::missing)).
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
        let models = spec
            .models
            .iter()
            .map(|model| lower::lower(isa, model.network))
            .collect::<Result<Vec<_>, _>>()?;
        let sources = models.iter().zip(spec.models);
        let sources = sources.map(|(model, spec)| memory::source(isa, model, spec));
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
        let memory = Memory::take(sources, spec.cache.as_ref(), &report)?;
        for (id, (model, spec)) in (0..).zip(models.iter_mut().zip(spec.models)) {
            if let Some(claim) = memory.weights().claim(ModelId(id))
                && !spec.paged
            {
                model.specialise(spec.solutions, claim.floats());
            }
        }
        let models: Arc<[LoadedModel]> = models.into();
        let request_floats = models.iter().map(|model| model.request_floats).max();
        let request_floats = request_floats.unwrap_or(0);
        let layouts = models.iter().map(|model| model.input).collect();
        let inputs = InputBuffers::new(spec.request_buffers, request_floats, layouts);
        let largest = |batches: &[u8]| batches.iter().copied().max().unwrap_or(1);
        let batch_max = spec.models.iter().map(|model| largest(model.batches)).max();
        let mut device = Self {
            isa,
            models,
            batches: spec.models.iter().map(|m| m.batches.to_vec()).collect(),
            request_bytes: usize::from(spec.request_buffers) * request_floats * size_of::<f32>(),
            crew: Crew::new(inputs.clone(), report.clone()),
            inputs,
            request_buffers: spec.request_buffers,
            missing: memory::missing(&memory).to_vec(),
            memory,
            workspace_bytes: Vec::new(),
        };
        for partition in spec.partitions {
            device.staff(partition, usize::from(batch_max.unwrap_or(1)))?;
        }
        device.missing.extend_from_slice(device.crew.missing());
        device.missing.sort_unstable();
        device.missing.dedup();
        Ok(device)
    }

    /// Makes a partition and starts its workers.
    fn staff(&mut self, partition: &PartitionSpec, batch_max: usize) -> Result<(), StartError> {
        let size = partition.cores.len();
        let (leader, mates) = team::team(
            size,
            &self.models,
            self.memory.weights(),
            self.inputs.regions(),
            batch_max,
        );
        self.workspace_bytes.push(leader.workspace_bytes());
        let mates = mates
            .into_iter()
            .map(|mate| -> Mate { Box::new(move || mate.serve()) });
        let team = Team {
            leader,
            weights: self.memory.weights().clone(),
        };
        Ok(self.crew.staff(partition, team, mates.collect())?)
    }

    /// The request buffers' input areas, for the intake threads.
    #[must_use]
    pub fn input_buffers(&self) -> InputBuffers {
        self.inputs.clone()
    }

    /// What the machine did not grant the workers, without repetition.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// The instruction set that the kernels are for.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The kernel's ids of the worker threads, leaders and mates of partition after partition.
    pub fn worker_tids(&self) -> impl Iterator<Item = i32> {
        self.crew.tids()
    }

    /// The pulses of the leaders, partition after partition.
    pub fn pulses(&self) -> impl Iterator<Item = Arc<dyn Pulse>> {
        self.crew.pulses()
    }

    /// Pages that a paged model's weights fill; none if it is there for good, or does not exist.
    #[must_use]
    pub fn weight_pages(&self, model: ModelId) -> Option<u32> {
        self.memory.pages(model)
    }

    /// Pages of weights that hold nothing now: at least as many as the core thinks, as pages of
    /// equal content are held once.
    #[must_use]
    pub fn free_weight_pages(&self) -> usize {
        self.memory.free_pages()
    }

    /// Bytes of memory for weights, pages that hold nothing now included.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.memory.weights().bytes()
    }

    /// Why loads failed, as far as anybody asked in time; once, for a thread that may wait. None
    /// if there is no cache, or somebody has it.
    #[must_use]
    pub fn load_failures(&mut self) -> Option<crossbeam_channel::Receiver<LoadFailure>> {
        self.memory.failures()
    }

    /// What a model's specialised solutions take; nothing if it has none, or does not exist. Their
    /// scratch memory is in [`workspace_bytes`](Self::workspace_bytes) too.
    #[must_use]
    pub fn solution_memory(&self, model: ModelId) -> SolutionMemory {
        let model = self.models.get(model.index());
        model.map_or_else(SolutionMemory::default, LoadedModel::solution_memory)
    }

    /// Bytes of all request buffers together.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Bytes of each partition's workspace.
    #[must_use]
    pub fn workspace_bytes(&self) -> &[usize] {
        &self.workspace_bytes
    }

    /// The operators of a stage with their times, in order; none if there is no such stage.
    #[must_use]
    pub fn operator_times(&self, model: ModelId, stage: StageId) -> Option<Vec<OperatorTime>> {
        let stage = self.models.get(model.index())?.stages.get(stage.index())?;
        Some(stage.steps.iter().map(OperatorTime::of).collect())
    }

    /// How long each operator of a stage took when it last ran; none if there is no such stage.
    pub(crate) fn last_operator_times(
        &self,
        model: ModelId,
        stage: StageId,
    ) -> impl Iterator<Item = Nanos> {
        let stages = self.models.get(model.index()).map(|model| &model.stages);
        let stage = stages.and_then(|stages| stages.get(stage.index()));
        let steps = stage.into_iter().flat_map(|stage| &stage.steps);
        steps.map(|step| step.time.last())
    }

    /// Forgets the longest times, e.g. those of a warm-up.
    pub fn reset_operator_times(&self) {
        let stages = self.models.iter().flat_map(|model| &model.stages);
        for step in stages.flat_map(|stage| &stage.steps) {
            step.time.reset();
        }
    }

    fn refusal(&self, infer: &Infer) -> Option<Refusal> {
        let Some(is_full) = self.crew.is_full(infer.partition) else {
            return Some(Refusal::UnknownPartition(infer.partition));
        };
        let Some(model) = self.models.get(infer.model.index()) else {
            return Some(Refusal::UnknownModel(infer.model));
        };
        if infer.stage.index() >= model.stages.len() {
            return Some(Refusal::UnknownStage {
                model: infer.model,
                stage: infer.stage,
            });
        }
        if !self.batches[infer.model.index()].contains(&infer.batch) {
            return Some(Refusal::UnknownBatch {
                model: infer.model,
                batch: infer.batch,
            });
        }
        if let Some(refusal) = Refusal::of_members(infer, self.request_buffers) {
            return Some(refusal);
        }
        if let Err(refusal) = self.memory.check_use(infer.model) {
            return Some(refusal);
        }
        is_full.then_some(Refusal::Busy(infer.partition))
    }
}

impl Device for CpuDevice {
    fn submit(&mut self, infer: &Infer) -> Result<(), Refusal> {
        if let Some(refusal) = self.refusal(infer) {
            return Err(refusal);
        }
        self.crew.submit(infer);
        self.memory.residency().taken(infer.model);
        Ok(())
    }

    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), Refusal> {
        self.memory.load(action, model)
    }

    fn unload(&mut self, model: ModelId) -> Result<(), Refusal> {
        self.memory.unload(model)
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        self.crew.preempt(partition, action);
    }

    fn poll(&mut self) -> Option<Event> {
        if let Some(event) = self.memory.poll() {
            return Some(event);
        }
        let (model, event) = self.crew.poll()?;
        self.memory.residency().released(model);
        Some(event)
    }
}

/// What a partition's leader runs stages with: its team, and the weights that the team reads.
struct Team {
    leader: Leader,
    weights: Arc<Weights>,
}

impl Engine for Team {
    fn run(
        &mut self,
        model: ModelId,
        stage: StageId,
        members: &mut [Claim<'_>],
        interrupt: &Interrupt,
    ) -> Outcome {
        // Not there: the device takes no such action.
        let Some(weights) = self.weights.claim(model) else {
            return Outcome::Fault;
        };
        self.leader.run(model, stage, &weights, members, interrupt)
    }

    fn scores<'a>(
        &'a mut self,
        model: ModelId,
        stage: StageId,
        member: usize,
        claim: &'a mut Claim<'_>,
    ) -> &'a [f32] {
        self.leader.logits(model, stage, member, claim)
    }
}

#[cfg(test)]
mod tests;

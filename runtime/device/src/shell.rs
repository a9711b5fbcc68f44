//! What all devices that compute on this machine have in common, around the engines that run their
//! stages: the checks, the pool of workers, the request buffers, and the residency of weights.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use punctual_core::{ActionId, Event, Infer, ModelId, Nanos, PartitionId, StageId};
use punctual_model::SolutionMemory;
use punctual_platform::clock::Clock;
use punctual_platform::heartbeat::Pulse;
use punctual_platform::thread::ThreadError;
use punctual_platform::{Doorbell, Missing};

use crate::catalogue::Catalogue;
use crate::device::{Device, SubmitError};
use crate::frames::{FrameWork, FramesRefused, SharedPreparer};
use crate::pool::{Engine, Helper, Leader, SteppedLeader, Wait, WorkerPool};
use crate::request_buffers::InputBuffers;
use crate::residency::Residency;
use crate::spec::{DeviceSpec, PartitionSpec};
use crate::weights::{LoadFailure, Loaded, LoaderThread, WeightStore};

/// A device on threads of this process: what runs its stages differs, the rest is its [`Shell`]'s.
pub trait HostedDevice {
    fn shell(&self) -> &Shell;

    /// The shell, by the thread that submits.
    fn shell_mut(&mut self) -> &mut Shell;

    /// What runs the stages, for people: `cpu (avx512)`.
    fn name(&self) -> String;

    /// How long a preemption would have waited at most for the last run of a stage: between two
    /// places at which it can be stopped. None if that is not known: no longer than the stage.
    fn longest_step(&self, model: ModelId, stage: StageId) -> Option<Nanos> {
        let _ = (model, stage);
        None
    }

    /// What prepares the frames of an intake on the device; before it serves.
    ///
    /// # Errors
    /// [`FramesRefused`].
    fn frame_preparer(&self, works: &[FrameWork]) -> Result<SharedPreparer, FramesRefused> {
        let _ = works;
        Err(FramesRefused::NoDevice)
    }

    /// What a model's specialised solutions take; nothing if it has none, or does not exist.
    fn solution_memory(&self, model: ModelId) -> SolutionMemory {
        let _ = model;
        SolutionMemory::default()
    }
}

/// See the module. Nothing in it waits, locks or allocates after the last partition was added.
pub struct Shell {
    /// The first field, so that it is dropped first: its threads end before what they use is freed.
    pool: WorkerPool,
    loader: Option<LoaderThread>,
    weights: Box<dyn WeightStore>,
    residency: Residency,
    catalogue: Catalogue,
    /// The largest batch of each partition.
    batch_max: Box<[Option<u8>]>,
    inputs: InputBuffers,
}

impl Shell {
    /// A device without partitions. `report` is rung after each event.
    #[must_use]
    pub fn new(
        spec: &DeviceSpec<'_>,
        inputs: InputBuffers,
        weights: Box<dyn WeightStore>,
        loader: Option<LoaderThread>,
        report: Arc<Doorbell>,
    ) -> Self {
        let models = (0..).map(ModelId).take(spec.models.len());
        let pages = spec.cache.map_or(0, |cache| cache.pages);
        Self {
            pool: WorkerPool::new(inputs.clone(), report),
            loader,
            residency: Residency::new(models.map(|model| weights.pages(model)), pages),
            weights,
            catalogue: Catalogue::of(spec),
            batch_max: spec.partitions.iter().map(|each| each.batch_max).collect(),
            inputs,
        }
    }

    /// Adds the next partition: its leader with `engine`, and what its helpers do.
    ///
    /// # Errors
    /// When there can be no such thread.
    pub fn add_partition(
        &mut self,
        spec: &PartitionSpec,
        engine: impl Engine,
        helpers: Vec<Helper>,
    ) -> Result<(), ThreadError> {
        self.pool.add_partition(spec, engine, helpers)
    }

    /// Adds the next partitions, each with its engine, and a leader for those that name the same leader core,
    /// which waits as `wait` says while stages run.
    ///
    /// # Errors
    /// When there can be no such thread.
    pub fn add_partitions<E: Engine>(
        &mut self,
        partitions: impl IntoIterator<Item = (PartitionSpec, E)>,
        wait: Wait,
    ) -> Result<(), ThreadError> {
        self.pool.add_partitions(partitions, wait)
    }

    /// The same without threads: see [`SteppedLeader`].
    pub fn add_stepped_partitions<E: Engine>(
        &mut self,
        partitions: impl IntoIterator<Item = (PartitionSpec, E)>,
        clock: &Clock,
    ) -> Vec<SteppedLeader<E>> {
        self.pool.add_stepped_partitions(partitions, clock)
    }

    /// The request buffers' input areas, for the threads that prepare inputs.
    #[must_use]
    pub fn input_buffers(&self) -> InputBuffers {
        self.inputs.clone()
    }

    /// What the machine did not grant the threads, without repetition.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        let loader = self.loader.as_ref().map_or(&[][..], LoaderThread::missing);
        let mut missing = [self.pool.missing(), loader].concat();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// The kernel's ids of the threads that run stages: leaders and helpers of partition after partition, each once.
    pub fn tids(&self) -> impl Iterator<Item = i32> {
        self.pool.tids()
    }

    /// The pulses of the leaders, partition after partition: partitions that share a leader have the same pulse.
    pub fn pulses(&self) -> impl Iterator<Item = Arc<dyn Pulse>> {
        self.pool.pulses()
    }

    /// The leader of a partition; none if it does not exist.
    #[must_use]
    pub fn leader(&self, partition: PartitionId) -> Option<Leader> {
        self.pool.leader(partition)
    }

    /// Why loads failed, as far as failures were read in time; once, for a thread that may wait. None if
    /// there is no loader, or it was taken.
    #[must_use]
    pub fn load_failures(&mut self) -> Option<Receiver<LoadFailure>> {
        self.loader.as_mut().and_then(LoaderThread::failures)
    }

    fn check(&self, infer: &Infer) -> Result<(), SubmitError> {
        let Some(is_full) = self.pool.is_full(infer.partition) else {
            return Err(SubmitError::UnknownPartition(infer.partition));
        };
        self.catalogue.check(infer)?;
        let (partition, batch) = (infer.partition, infer.batch);
        if let Some(limit) = self.batch_max[partition.index()].filter(|&limit| batch > limit) {
            return Err(SubmitError::BatchTooLarge {
                partition,
                batch,
                limit,
            });
        }
        self.residency.check_use(infer.model)?;
        let (model, stage) = (infer.model, infer.stage);
        if !self.weights.is_ready(model, stage) {
            return Err(SubmitError::StageNotReady { model, stage });
        }
        if is_full {
            Err(SubmitError::Busy(infer.partition))
        } else {
            Ok(())
        }
    }

    /// The event of the next load that has ended.
    fn poll_load(&mut self) -> Option<Event> {
        let Loaded {
            action,
            model,
            took,
        } = self.weights.poll()?;
        self.residency.loaded(model, took.is_some());
        Some(match took {
            Some(measured) => Event::Loaded { action, measured },
            None => Event::Failed { action },
        })
    }

    fn poll_stage(&mut self) -> Option<Event> {
        let (model, event) = self.pool.poll()?;
        self.residency.released(model);
        Some(event)
    }
}

impl<D: HostedDevice + ?Sized> Device for D {
    fn submit(&mut self, infer: &Infer) -> Result<(), SubmitError> {
        let shell = self.shell_mut();
        shell.check(infer)?;
        shell.pool.submit(infer);
        shell.residency.taken(infer.model);
        Ok(())
    }

    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), SubmitError> {
        let shell = self.shell_mut();
        shell.residency.load(model)?;
        shell.weights.load(action, model);
        Ok(())
    }

    fn unload(&mut self, model: ModelId) -> Result<(), SubmitError> {
        let shell = self.shell_mut();
        shell.residency.unload(model)?;
        shell.weights.unload(model);
        Ok(())
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        self.shell_mut().pool.preempt(partition, action);
    }

    fn poll(&mut self) -> Option<Event> {
        let shell = self.shell_mut();
        let readiness = shell.weights.poll_readiness().map(Event::Readiness);
        readiness
            .or_else(|| shell.poll_load())
            .or_else(|| shell.poll_stage())
    }
}

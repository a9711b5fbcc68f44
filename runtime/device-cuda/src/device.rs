//! The device: the contract of [`Device`] on a GPU.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use punctual_core::{ActionId, Event, Infer, ModelId, PartitionId};
use punctual_device::crew::Crew;
use punctual_device::{Device, DeviceSpec, InputBuffers, Refusal, SpecError};
use punctual_kernels::cuda::params::Answer;
use punctual_kernels::cuda::{IMAGES_MAX, Module as Unit};
use punctual_platform::thread::ThreadError;
use punctual_platform::{Doorbell, Missing};
use thiserror::Error;

use crate::blueprint::{Blueprint, InstallError};
use crate::counters::Counters;
use crate::driver::{Attribute, CallError, Context, Driver, Gpu, OpenError};
use crate::engine::{Leader, Stations};
use crate::health::Health;
use crate::keeper::{Keeper, KeeperThread};
use crate::kernels::KernelError;
use crate::lower::{LowerError, PackError, Packer, Program, Target};
use crate::partition::StreamError;
use crate::programs::Model;
use crate::queue::StopFlag;
use crate::resident::Weights;
use crate::spec::{CudaSpec, Division};
use crate::station::Surroundings;
use crate::trouble::Trouble;

/// Runs stages as launches on partitions of a GPU.
pub struct CudaDevice {
    /// Before the keeper: leaders end first.
    crew: Crew,
    _keeper: KeeperThread,
    inputs: InputBuffers,
    request_buffers: u16,
    /// Stages and batch sizes of each model.
    models: Vec<(usize, Vec<u8>)>,
    counters: Arc<Counters>,
    faults: Arc<Mutex<Vec<Trouble>>>,
}

/// Why the device cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// What it was to be started with is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// There is no such GPU.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The driver's word.
    #[error(transparent)]
    Driver(#[from] CallError),
    /// The GPU is divided otherwise.
    #[error(transparent)]
    Division(StreamError),
    /// Not as many parts as partitions.
    #[error("{ranges} ranges of TPCs for {partitions} partitions: give each its own")]
    Ranges {
        /// Ranges that were given.
        ranges: usize,
        /// Partitions.
        partitions: usize,
    },
    /// A network has no form on it.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// Weights do not fit halves.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// There are no kernels for it.
    #[error(transparent)]
    Kernels(#[from] KernelError),
    /// A thread could not be started.
    #[error(transparent)]
    Thread(#[from] ThreadError),
}

impl From<StreamError> for StartError {
    fn from(error: StreamError) -> Self {
        error.call().map_or(Self::Division(error), Self::Driver)
    }
}

impl From<InstallError> for StartError {
    fn from(error: InstallError) -> Self {
        match error {
            InstallError::Driver(error) => Self::Driver(error),
            InstallError::Stream(error) => error.into(),
            InstallError::Kernels(error) => Self::Kernels(error),
        }
    }
}

impl CudaDevice {
    /// Lowers all models, takes all memory, loads kernels and weights, and starts the leaders. `report`
    /// is rung after each event. Nothing is taken from the driver afterwards, but by a restart.
    ///
    /// # Errors
    /// [`StartError`]; a privilege that is missing is none ([`missing`](Self::missing)).
    pub fn start(
        driver: Driver,
        spec: &DeviceSpec<'_>,
        cuda: &CudaSpec,
        report: Arc<Doorbell>,
    ) -> Result<Self, StartError> {
        spec.validate()?;
        let gpu = driver.device(cuda.ordinal)?;
        let programs = programs(gpu, spec, cuda)?;
        let blueprint = blueprint(gpu, spec, cuda, &programs)?;
        let context = Context::retain(gpu)?;
        let made = blueprint.install(&context)?;
        let stops: Vec<StopFlag> = made.iter().map(|_| StopFlag::default()).collect();
        for (stop, station) in stops.iter().zip(&made) {
            stop.set(station.queue.epoch_flag());
        }
        let stations: Stations = made
            .into_iter()
            .map(|each| Mutex::new(Some(each)))
            .collect();
        let (health, counters) = (Arc::new(Health::default()), Arc::new(Counters::default()));
        let faults = Arc::new(Mutex::new(Vec::new()));
        let inputs = blueprint.inputs.clone();
        let table = blueprint.weights.table();
        let keeper = Keeper {
            blueprint,
            stations: stations.clone(),
            stops: stops.clone(),
            health: health.clone(),
            counters: counters.clone(),
            faults: faults.clone(),
            context: Some(context),
        };
        let keeper = keeper.start()?;
        let watchdog = Arc::new(cuda.watchdog.clone());
        let mut crew = Crew::new(inputs.clone(), report);
        for (partition, models) in programs.into_iter().enumerate() {
            let around = Surroundings {
                models: models.into(),
                table: table.clone(),
                health: health.clone(),
                counters: counters.clone(),
                bell: Arc::new(Doorbell::new()),
                wait: cuda.wait,
                grace_ns: cuda.watchdog.grace_ns,
            };
            let leader = Leader {
                partition,
                stations: stations.clone(),
                around,
                watchdog: watchdog.clone(),
                stop: stops[partition].clone(),
                answers: [Answer::default(); IMAGES_MAX],
            };
            crew.staff(&spec.partitions[partition], leader, Vec::new())?;
        }
        Ok(Self {
            crew,
            _keeper: keeper,
            inputs,
            request_buffers: spec.request_buffers,
            models: spec
                .models
                .iter()
                .map(|model| (model.network.stages.len(), model.batches.to_vec()))
                .collect(),
            counters,
            faults,
        })
    }

    /// The request buffers' input areas, for those who prepare inputs.
    #[must_use]
    pub fn input_buffers(&self) -> InputBuffers {
        self.inputs.clone()
    }

    /// What the machine did not grant the leaders, without repetition.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        self.crew.missing()
    }

    /// The kernel's ids of the leaders, partition after partition.
    pub fn worker_tids(&self) -> impl Iterator<Item = i32> {
        self.crew.tids()
    }

    /// What it counts.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Why it was restarted so far, the first times. For ordinary threads.
    #[must_use]
    pub fn faults(&self) -> Vec<Trouble> {
        let faults = self.faults.lock();
        faults.unwrap_or_else(|poison| poison.into_inner()).clone()
    }

    fn refusal(&self, infer: &Infer) -> Option<Refusal> {
        let Some(is_full) = self.crew.is_full(infer.partition) else {
            return Some(Refusal::UnknownPartition(infer.partition));
        };
        let Some((stages, batches)) = self.models.get(infer.model.index()) else {
            return Some(Refusal::UnknownModel(infer.model));
        };
        if infer.stage.index() >= *stages {
            return Some(Refusal::UnknownStage {
                model: infer.model,
                stage: infer.stage,
            });
        }
        if !batches.contains(&infer.batch) {
            return Some(Refusal::UnknownBatch {
                model: infer.model,
                batch: infer.batch,
            });
        }
        let busy = is_full.then_some(Refusal::Busy(infer.partition));
        Refusal::of_members(infer, self.request_buffers).or(busy)
    }

    /// All weights are there for good.
    fn pinned(&self, model: ModelId) -> Result<(), Refusal> {
        Err(if model.index() < self.models.len() {
            Refusal::Pinned(model)
        } else {
            Refusal::UnknownModel(model)
        })
    }
}

/// All models, for each partition.
fn programs(
    gpu: Gpu,
    spec: &DeviceSpec<'_>,
    cuda: &CudaSpec,
) -> Result<Vec<Vec<Model>>, StartError> {
    let compute_capability = gpu.compute_capability()?;
    let of_partition = |multiprocessors| {
        let target = Target {
            multiprocessors,
            compute_capability,
            page_bytes: cuda.page_bytes,
        };
        let models = spec.models.iter().map(|model| {
            let program = Program::lower(model.network, model.batches, &target, model.solutions)?;
            Ok(Model::new(program))
        });
        models.collect()
    };
    let sizes = multiprocessors(gpu, spec.partitions.len(), cuda)?;
    sizes.into_iter().map(of_partition).collect()
}

/// Multiprocessors of each partition.
fn multiprocessors(gpu: Gpu, partitions: usize, cuda: &CudaSpec) -> Result<Vec<u32>, StartError> {
    match &cuda.division {
        Division::Whole => {
            let all = gpu.attribute(Attribute::Multiprocessors)?;
            Ok(vec![all; partitions])
        }
        Division::Tpcs { ranges, .. } if ranges.len() != partitions => Err(StartError::Ranges {
            ranges: ranges.len(),
            partitions,
        }),
        Division::Tpcs {
            partitioner,
            ranges,
        } => {
            let granted = ranges.iter().map(|range| partitioner.grant(range.clone()));
            let counts = granted.map(|granted| Ok(granted?.sms.count()));
            counts.collect()
        }
    }
}

fn blueprint(
    gpu: Gpu,
    spec: &DeviceSpec<'_>,
    cuda: &CudaSpec,
    programs: &[Vec<Model>],
) -> Result<Blueprint, StartError> {
    let models = || programs.iter().flatten().map(|model| &model.program);
    let first = programs.first().map_or(&[][..], Vec::as_slice);
    let layouts: Box<[_]> = first.iter().map(|model| model.program.input).collect();
    let floats = layouts.iter().map(|input| input.span()).max().unwrap_or(0);
    let mut pages = Vec::new();
    for (model, lowered) in spec.models.iter().zip(first) {
        let plan = &lowered.program.pages;
        let packer = Packer::new(model.network, plan);
        let packed = (0..plan.count()).map(|page| {
            let mut bytes = vec![0; plan.page_bytes() as usize].into_boxed_slice();
            packer.pack(page, &mut bytes)?;
            Ok(bytes)
        });
        pages.push(packed.collect::<Result<Vec<_>, PackError>>()?);
    }
    let modules: BTreeSet<Unit> = models()
        .flat_map(|program| &program.stages)
        .flat_map(|stage| &stage.lists)
        .flat_map(|list| &list.steps)
        .map(|step| step.kernel.module)
        .chain([Unit::General])
        .collect();
    Ok(Blueprint {
        gpu,
        inputs: InputBuffers::new(spec.request_buffers, floats, layouts),
        request_buffers: usize::from(spec.request_buffers),
        slot_bytes: models()
            .map(|program| program.request_bytes)
            .max()
            .unwrap_or(0),
        workspaces: programs
            .iter()
            .map(|models| {
                let bytes = models.iter().map(|model| model.program.workspace_bytes());
                bytes.max().unwrap_or(0) as usize
            })
            .collect(),
        weights: Arc::new(Weights::new(pages)),
        modules,
        spec: cuda.clone(),
    })
}

impl Device for CudaDevice {
    fn submit(&mut self, infer: &Infer) -> Result<(), Refusal> {
        match self.refusal(infer) {
            Some(refusal) => Err(refusal),
            None => {
                self.crew.submit(infer);
                Ok(())
            }
        }
    }

    fn load(&mut self, _action: ActionId, model: ModelId) -> Result<(), Refusal> {
        self.pinned(model)
    }

    fn unload(&mut self, model: ModelId) -> Result<(), Refusal> {
        self.pinned(model)
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        self.crew.preempt(partition, action);
    }

    fn poll(&mut self) -> Option<Event> {
        self.crew.poll().map(|(_, event)| event)
    }
}

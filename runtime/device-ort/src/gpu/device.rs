//! The device: the contract of a device on sessions whose kernels run on the GPU.

use std::path::PathBuf;
use std::sync::Arc;

use ort::session::RunOptions;
use punctual_device::pool::Wait;
use punctual_device::weights::Resident;
use punctual_device::{DeviceSpec, HostedDevice, InputBuffers, ModelSpec, Shell};
use punctual_device_cuda::driver::{Context, DeviceMemory, Gpu, MappedMemory};
use punctual_device_cuda::{Division, LossNotice, LossWatch, Watchdog};
use punctual_model::TensorId;
use punctual_platform::Doorbell;

use super::brought::BroughtEngines;
use super::execution::Execution;
use super::leader::EngineLeader;
use super::options::GpuEngine;
use super::stage::{BoundStage, Layout, Making, Room, Slots, Taken, on_host, results};
use crate::error::StartError;
use crate::library::Library;
use crate::places::Places;
use crate::results::Results;

/// The GPU, its partitions, and the knobs.
pub struct EngineSpec {
    pub gpu: Gpu,
    /// Which of the driver's GPUs that is.
    pub ordinal: u32,
    /// Which parts of the GPU the partitions are.
    pub division: Division,
    pub engine: GpuEngine,
    /// Where TensorRT keeps what it has built.
    pub cache: PathBuf,
    /// Engines of TensorRT to be run instead of what it would build.
    pub brought: Option<Arc<BroughtEngines>>,
    /// When a stage is taken to hang.
    pub watchdog: Watchdog,
    /// How leaders wait while stages run.
    pub wait: Wait,
    pub execution: Arc<dyn Execution>,
}

/// Runs stages as sessions of ONNX Runtime on partitions of a GPU.
pub struct EngineDevice {
    shell: Shell,
    name: String,
    notice: LossNotice,
}

/// A network as its partitions need it.
struct Model<'s> {
    places: Places,
    host: Vec<TensorId>,
    spec: &'s ModelSpec<'s>,
}

impl<'s> Model<'s> {
    fn new(spec: &'s ModelSpec<'s>) -> Result<Self, StartError> {
        Ok(Self {
            places: Places::new(spec.network),
            host: on_host(spec.network)?,
            spec,
        })
    }
}

impl EngineDevice {
    /// Takes all memory of ours, makes a session for each stage and batch size on each partition, runs each once, and starts the
    /// leaders. `report` is rung after each event.
    pub fn start(
        library: Library,
        spec: &DeviceSpec<'_>,
        engine: &EngineSpec,
        report: Arc<Doorbell>,
    ) -> Result<Self, StartError> {
        spec.validate()?;
        if let Some(paged) = spec.models.iter().find(|model| model.paged) {
            return Err(StartError::Paged(paged.network.name.clone()));
        }
        let models = spec.models.iter().map(Model::new);
        let models: Vec<Model<'_>> = models.collect::<Result<_, StartError>>()?;
        let floats = models.iter().map(|model| model.places.floats).max();
        let floats = floats.unwrap_or(0);
        let layouts = models.iter().map(|model| model.places.input).collect();
        let inputs = InputBuffers::new(spec.request_buffers, floats, layouts);
        let context = Context::retain(engine.gpu)?;
        let bytes = (floats * size_of::<f32>()).next_multiple_of(256).max(256);
        let slots = Arc::new(Slots {
            memory: DeviceMemory::take(&context, bytes * usize::from(spec.request_buffers))?,
            bytes,
        });
        let notice = LossNotice::default();
        let watchdog = Arc::new(engine.watchdog.clone());
        let mut leaders = Vec::new();
        for (position, partition) in spec.partitions.iter().enumerate() {
            let takes = |batch: &u8| partition.takes_batch(*batch);
            let stages = planned(&models, takes)?;
            let taken = stages.iter().flatten().flat_map(|stage| &stage.layouts);
            let taken = taken.fold(Taken::default(), |most, layout| most.max(layout.taken));
            let stream = Arc::new(engine.division.stream(&context, position)?);
            let room = Room {
                workspace: Arc::new(DeviceMemory::take(&context, taken.workspace)?),
                staging: MappedMemory::take(&context, taken.staging)?,
                slots: slots.clone(),
                stream,
            };
            let words = room.workspace.bytes() / size_of::<u32>();
            room.stream.fill_words(&room.workspace, words, 0)?;
            let handle = room.stream.as_raw() as u64;
            let setup = engine.engine.setup(engine.ordinal, handle, &engine.cache);
            let mut options = RunOptions::new()?;
            // The leader looks when a stage is over: nothing waits for it inside the library.
            options.disable_device_sync()?;
            let making = Making {
                library,
                execution: &*engine.execution,
                setup: &setup,
                room: &room,
                options: &options,
                brought: engine.brought.as_deref(),
            };
            let stages = made(&models, stages, &making)?;
            leaders.push(EngineLeader {
                stages,
                room,
                execution: engine.execution.clone(),
                options,
                watchdog: watchdog.clone(),
                notice: notice.clone(),
                sequence: 0,
                run: None,
            });
        }
        let mut shell = Shell::new(spec, inputs, Box::new(Resident), None, report);
        let partitions = spec.partitions.iter().cloned();
        shell.add_partitions(partitions.zip(leaders), engine.wait)?;
        let (gpu, version) = (engine.gpu.name()?, library.version());
        Ok(Self {
            shell,
            name: format!("{} ({version}, {gpu})", engine.engine.provider()),
            notice,
        })
    }

    /// Whether it is lost, for threads that do not have the device itself.
    #[must_use]
    pub fn loss_watch(&self) -> LossWatch {
        self.notice.watch()
    }
}

impl HostedDevice for EngineDevice {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// A stage before its sessions are made.
struct Planned {
    layouts: Vec<Layout>,
    results: Results,
}

/// All stages of all models, at the batch sizes that a partition takes.
fn planned(
    models: &[Model<'_>],
    takes: impl Fn(&u8) -> bool,
) -> Result<Vec<Vec<Planned>>, StartError> {
    let stage = |model: &Model<'_>, stage: usize| {
        let Model { places, host, spec } = model;
        let (network, outputs) = (spec.network, spec.outputs);
        let batches: Vec<u8> = spec.batches.iter().copied().filter(&takes).collect();
        let batch_max = batches.last().copied().unwrap_or(1);
        let mut results = results(network, stage, places, batch_max, outputs)?;
        let layouts = batches
            .iter()
            .map(|&batch| Layout::new(network, stage, batch, places, host, &mut results));
        Ok(Planned {
            layouts: layouts.collect::<Result<_, StartError>>()?,
            results,
        })
    };
    let stages = models.iter().map(|model| {
        let all = 0..model.spec.network.stages.len();
        all.map(|at| stage(model, at)).collect()
    });
    stages.collect()
}

/// Their sessions.
fn made(
    models: &[Model<'_>],
    planned: Vec<Vec<Planned>>,
    making: &Making<'_>,
) -> Result<Vec<Vec<BoundStage>>, StartError> {
    let of_model = |(model, stages): (&Model<'_>, Vec<Planned>)| {
        let network = model.spec.network;
        let stages = stages.into_iter().enumerate();
        stages
            .map(|(at, Planned { layouts, results })| {
                BoundStage::new(network, at, layouts, results, making)
            })
            .collect()
    };
    models.iter().zip(planned).map(of_model).collect()
}

//! The device: the contract of [`Device`] on a GPU.

use std::sync::{Arc, Mutex};

use crossbeam_channel::Receiver;
use punctual_core::{ActionId, Event, Infer, ModelId, PartitionId};
use punctual_device::crew::Crew;
use punctual_device::{Device, DeviceSpec, InputBuffers, Refusal};
use punctual_kernels::cuda::IMAGES_MAX;
use punctual_kernels::cuda::params::Answer;
use punctual_platform::heartbeat::Pulse;
use punctual_platform::{Doorbell, Missing};

use crate::counters::Counters;
use crate::driver::{Context, Driver};
use crate::engine::{Leader, Stations};
use crate::filling::Filling;
use crate::health::Health;
use crate::keeper::{Keeper, KeeperThread};
use crate::later::Later;
use crate::preparation::{blueprint, programs};
use crate::queue::StopFlag;
use crate::spec::CudaSpec;
use crate::start_error::StartError;
use crate::station::Surroundings;
use crate::trouble::Trouble;
use crate::weights::{LoadError, Residents};

/// Runs stages as launches on partitions of a GPU.
pub struct CudaDevice {
    /// Before the keeper: leaders and the loader end first.
    crew: Crew,
    weights: Residents,
    missing: Vec<Missing>,
    _keeper: KeeperThread,
    inputs: InputBuffers,
    request_buffers: u16,
    /// Stages and batch sizes of each model.
    models: Vec<(usize, Vec<u8>)>,
    counters: Arc<Counters>,
    faults: Arc<Mutex<Vec<Trouble>>>,
}

/// Why a device was restarted, the first times. For ordinary threads.
#[derive(Clone, Debug)]
pub struct FaultLog(Arc<Mutex<Vec<Trouble>>>);

impl FaultLog {
    /// So far, oldest first.
    #[must_use]
    pub fn read(&self) -> Vec<Trouble> {
        let faults = self.0.lock();
        faults.unwrap_or_else(|poison| poison.into_inner()).clone()
    }
}

impl CudaDevice {
    /// Lowers all models, takes all memory, loads kernels and weights, and starts the leaders. `report`
    /// is rung after each event. Nothing is taken from the driver afterwards, but by a restart.
    pub fn start(
        driver: Driver,
        spec: &DeviceSpec<'_>,
        cuda: &CudaSpec,
        report: Arc<Doorbell>,
    ) -> Result<Self, StartError> {
        spec.validate()?;
        let gpu = driver.device(cuda.ordinal)?;
        let programs = programs(gpu, spec, cuda)?;
        let (blueprint, mut weights) = blueprint(gpu, spec, cuda, &programs)?;
        let context = Context::retain(gpu)?;
        let made = blueprint.install(&context)?;
        let stops: Vec<StopFlag> = made.iter().map(|_| StopFlag::default()).collect();
        for (stop, station) in stops.iter().zip(&made) {
            stop.set(station.queue.epoch_flag());
        }
        let later = Later::of(&blueprint, &made);
        let bells = made.iter().map(|_| Arc::new(Doorbell::new()));
        let partners: Vec<_> = stops.iter().cloned().zip(bells).collect();
        let filling = match made.first() {
            Some(first) => Filling::prepare(cuda, &first.installation.kernels, &partners)?,
            None => None,
        };
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
            later,
        };
        let keeper = keeper.start()?;
        if let Some(cache) = &spec.cache {
            weights.start_loader(cache, &report)?;
        }
        let watchdog = Arc::new(cuda.watchdog.clone());
        let mut crew = Crew::new(inputs.clone(), report);
        for (partition, models) in programs.into_iter().enumerate() {
            let around = Surroundings {
                models: models.into(),
                table: table.clone(),
                health: health.clone(),
                counters: counters.clone(),
                bell: partners[partition].1.clone(),
                wait: cuda.wait,
                grace_ns: cuda.watchdog.grace_ns,
                filling: filling.clone().map(|filling| (filling, partition)),
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
        let mut missing = [crew.missing(), weights.missing()].concat();
        missing.sort_unstable();
        missing.dedup();
        Ok(Self {
            crew,
            missing,
            weights,
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

    /// What the machine did not grant the leaders and the loader, without repetition.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// The kernel's ids of the leaders, partition after partition, and of the loader.
    pub fn worker_tids(&self) -> impl Iterator<Item = i32> {
        self.crew.tids().chain(self.weights.tid())
    }

    /// The pulses of the leaders, partition after partition.
    pub fn pulses(&self) -> impl Iterator<Item = Arc<dyn Pulse>> {
        self.crew.pulses()
    }

    /// Pages that a model's weights fill; none for one that is there for good.
    #[must_use]
    pub fn pages(&self, model: ModelId) -> Option<u32> {
        self.weights.pages(model)
    }

    /// Why loads failed, once; none if there is no cache. For an ordinary thread.
    #[must_use]
    pub fn load_failures(&mut self) -> Option<Receiver<(ModelId, LoadError)>> {
        self.weights.failures()
    }

    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Why it was restarted, for whoever does not have the device itself.
    #[must_use]
    pub fn fault_log(&self) -> FaultLog {
        FaultLog(self.faults.clone())
    }

    /// Why it was restarted so far, the first times. For ordinary threads.
    #[must_use]
    pub fn faults(&self) -> Vec<Trouble> {
        self.fault_log().read()
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
        let absent = self.weights.check_use(infer.model).err();
        let busy = is_full.then_some(Refusal::Busy(infer.partition));
        Refusal::of_members(infer, self.request_buffers)
            .or(absent)
            .or(busy)
    }
}

impl Device for CudaDevice {
    fn submit(&mut self, infer: &Infer) -> Result<(), Refusal> {
        match self.refusal(infer) {
            Some(refusal) => Err(refusal),
            None => {
                self.weights.taken(infer.model);
                self.crew.submit(infer);
                Ok(())
            }
        }
    }

    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), Refusal> {
        self.weights.load(action, model)
    }

    fn unload(&mut self, model: ModelId) -> Result<(), Refusal> {
        self.weights.unload(model)
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        self.crew.preempt(partition, action);
    }

    fn poll(&mut self) -> Option<Event> {
        if let Some(event) = self.weights.poll() {
            return Some(event);
        }
        let (model, event) = self.crew.poll()?;
        self.weights.released(model);
        Some(event)
    }
}

//! The device: the contract of [`Device`](punctual_device::Device) on a GPU.

mod recovery;

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread;

use punctual_cuda_kernels::IMAGES_MAX;
use punctual_cuda_kernels::params::Answer;
use punctual_device::frames::{FrameWork, FramesRefused, SharedPreparer};
use punctual_device::pool::SteppedLeader;
use punctual_device::weights::LoaderThread;
use punctual_device::{CacheSpec, DeviceSpec, HostedDevice, PartitionSpec, Shell};
use punctual_platform::Doorbell;
use punctual_platform::clock::Clock;

use crate::counters::Counters;
use crate::driver::{CallError, Context, Driver, Gpu};
use crate::engine::{Executors, Leader};
use crate::executor::ExecutorEnv;
use crate::faults::{DeviceError, Health, Loss};
use crate::frames::Stations;
use crate::kernel_padding::KernelPadding;
use crate::programs::Model;
use crate::queue::StopFlag;
use crate::spec::CudaSpec;
use crate::start::{DevicePlan, InTurn, LeftOut, StartError, device_plan, programs};
use crate::weights::{Loader, Residents};
use recovery::{Recovery, RecoveryThread};

/// Runs stages as launches on partitions of a GPU.
pub struct CudaDevice {
    /// Before the recovery thread: leaders and the loader end first.
    shell: Shell,
    _keeper: RecoveryThread,
    stations: Arc<Stations>,
    executors: Executors,
    machine: String,
    counters: Arc<Counters>,
    faults: Arc<Mutex<Vec<DeviceError>>>,
    health: Arc<Health>,
}

/// A device whose leaders the caller carries on.
pub(crate) struct Stepped {
    pub(crate) device: CudaDevice,
    pub(crate) leaders: Vec<SteppedLeader<Leader>>,
    /// By partition, the handle of its stream.
    pub(crate) streams: Box<[u64]>,
    /// None: everything was there at once.
    pub(crate) in_turn: Option<InTurn>,
}

/// A device without threads of leaders.
struct Made {
    device: CudaDevice,
    leaders: Vec<Leader>,
    /// What the caller loads in turn.
    in_turn: Option<InTurn>,
}

/// Who loads what comes in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadedBy {
    Recovery,
    Caller,
}

/// Of a device whose models are all pinned.
const NO_PAGES: CacheSpec = CacheSpec {
    pages: 0,
    core: None,
    priority: None,
};

/// Why a device was restarted, the first times. For ordinary threads.
#[derive(Clone, Debug)]
pub struct FaultLog(Arc<Mutex<Vec<DeviceError>>>);

impl FaultLog {
    /// So far, oldest first.
    #[must_use]
    pub fn read(&self) -> Vec<DeviceError> {
        let faults = self.0.lock();
        faults.unwrap_or_else(|poison| poison.into_inner()).clone()
    }
}

/// Whether a device is lost to its process. For an ordinary thread.
#[derive(Clone, Debug)]
pub struct LossWatch(Arc<Health>);

impl LossWatch {
    /// Why the process can no longer use the device: it must end, and be started again. To be asked every now and then,
    /// and before the device is dropped: one that is lost must not be, as that may wait for the driver.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.0.loss()
    }
}

/// What a device without recovery on the same GPU tells its loss by.
#[derive(Clone, Debug, Default)]
pub struct LossNotice(Arc<Health>);

impl LossNotice {
    /// The process can no longer use the device; the first reason counts. Never blocks.
    pub fn lose(&self, loss: Loss) {
        self.0.lose(loss);
    }

    /// Whether it was lost, for a leader.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.is_lost().is_some()
    }

    /// For the thread that watches.
    #[must_use]
    pub fn watch(&self) -> LossWatch {
        LossWatch(self.0.clone())
    }
}

impl CudaDevice {
    /// Lowers all models, takes all memory, loads kernels and weights, or has them come in turn, and starts the leaders.
    /// `report` is rung after each event. No memory is taken from the driver afterwards, but by a restart.
    pub fn start(
        driver: Driver,
        spec: &DeviceSpec<'_>,
        cuda: &CudaSpec,
        report: Arc<Doorbell>,
    ) -> Result<Self, StartError> {
        let clock = Clock::Machine;
        let made = Self::without_leaders(driver, spec, cuda, report, &clock, LoadedBy::Recovery)?;
        let mut device = made.device;
        let partitions = spec.partitions.iter().cloned();
        device
            .shell
            .add_partitions(partitions.zip(made.leaders), cuda.wait)?;
        Ok(device)
    }

    /// The same with leaders that the caller carries on, on `clock`, as it does with what comes in turn.
    pub(crate) fn start_stepped(
        driver: Driver,
        spec: &DeviceSpec<'_>,
        cuda: &CudaSpec,
        clock: &Clock,
    ) -> Result<Stepped, StartError> {
        let report = Arc::new(Doorbell::new());
        let made = Self::without_leaders(driver, spec, cuda, report, clock, LoadedBy::Caller)?;
        let mut device = made.device;
        let streams = made.leaders.iter().map(Leader::stream_handle).collect();
        let partitions = spec.partitions.iter().cloned();
        let leaders = device
            .shell
            .add_stepped_partitions(partitions.zip(made.leaders), clock);
        Ok(Stepped {
            device,
            leaders,
            streams,
            in_turn: made.in_turn,
        })
    }

    /// The device, and what the leader of each partition runs stages with.
    fn without_leaders(
        driver: Driver,
        spec: &DeviceSpec<'_>,
        cuda: &CudaSpec,
        report: Arc<Doorbell>,
        clock: &Clock,
        by: LoadedBy,
    ) -> Result<Made, StartError> {
        spec.validate()?;
        let gpu = driver.device(cuda.ordinal)?;
        let (context, prepared) = context_and_plan(gpu, spec, cuda);
        let (programs, device_plan, mut weights, mut loader) = prepared?;
        let context = context?;
        let made = device_plan.install(&context, device_plan.first(&LeftOut::default()))?;
        let stops: Vec<StopFlag> = made.iter().map(|_| StopFlag::default()).collect();
        for (stop, executor) in stops.iter().zip(&made) {
            stop.set(executor.queue.epoch_flag());
        }
        let (health, counters) = (Arc::new(Health::default()), Arc::new(Counters::default()));
        let in_turn = InTurn::of(&device_plan, &context, &made, &counters, &report);
        let board = in_turn.as_ref().map(InTurn::board);
        board.iter().for_each(|board| weights.follow(board.clone()));
        let (own, callers) = match by {
            LoadedBy::Recovery => (in_turn, None),
            LoadedBy::Caller => (None, in_turn),
        };
        loader.report_to(health.clone());
        // It also has what a start in turn says about what it cannot load.
        let cache = spec.cache.or(own.as_ref().map(|_| NO_PAGES));
        let loader = cache.map(|cache| LoaderThread::start(loader, &cache, None, &report));
        let loader = loader.transpose()?;
        let stations = Stations::new(cuda.division.clone(), health.clone(), counters.clone());
        let stations = Arc::new(stations);
        let executors: Executors = made
            .into_iter()
            .map(|each| Mutex::new(Some(each)))
            .collect();
        let recovery = Recovery {
            executors: executors.clone(),
            stations: stations.clone(),
            stops,
            health: health.clone(),
            counters: counters.clone(),
            faults: Arc::default(),
            context: Some(context),
            in_turn: own,
            board,
            left_out: LeftOut::default(),
            complaints: loader.as_ref().map(LoaderThread::complaints),
            failed: 0,
            device_plan,
        };
        let leaders = leaders(&recovery, programs, spec, cuda, clock)?;
        let (inputs, faults) = (recovery.device_plan.inputs.clone(), recovery.faults.clone());
        // The first start counts as one that worked.
        health.prove();
        let device = Self {
            shell: Shell::new(spec, inputs, Box::new(weights), loader, report),
            _keeper: recovery.start()?,
            stations,
            executors,
            machine: gpu.name()?,
            counters,
            faults,
            health,
        };
        Ok(Made {
            device,
            leaders,
            in_turn: callers,
        })
    }

    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Whether it is lost, for threads that do not have the device itself.
    #[must_use]
    pub fn loss_watch(&self) -> LossWatch {
        LossWatch(self.health.clone())
    }

    /// Why it was restarted, for threads that do not have the device itself.
    #[must_use]
    pub fn fault_log(&self) -> FaultLog {
        FaultLog(self.faults.clone())
    }

    /// Why it was restarted so far, the first times. For ordinary threads.
    #[must_use]
    pub fn faults(&self) -> Vec<DeviceError> {
        self.fault_log().read()
    }
}

type Prepared = (Vec<Arc<[Model]>>, DevicePlan, Residents, Loader);

/// The device's context, and what can be worked out without it, at the same time: a driver takes longer for a context than
/// lowering takes (540 ms on an H200).
fn context_and_plan(
    gpu: Gpu,
    spec: &DeviceSpec<'_>,
    cuda: &CudaSpec,
) -> (
    Result<Arc<Context>, CallError>,
    Result<Prepared, StartError>,
) {
    let plan = || {
        let programs = programs(gpu, spec, cuda)?;
        let (device_plan, weights, loader) = device_plan(gpu, spec, cuda, &programs)?;
        Ok((programs, device_plan, weights, loader))
    };
    thread::scope(|scope| {
        let context = scope.spawn(|| Context::retain(gpu));
        let prepared = plan().and_then(|prepared: Prepared| {
            prepared.1.pack(|| !context.is_finished())?;
            Ok(prepared)
        });
        let context = context.join();
        (
            context.unwrap_or_else(|panic| resume_unwind(panic)),
            prepared,
        )
    })
}

/// What each partition's leader runs stages with.
fn leaders(
    of: &Recovery,
    programs: Vec<Arc<[Model]>>,
    spec: &DeviceSpec<'_>,
    cuda: &CudaSpec,
    clock: &Clock,
) -> Result<Vec<Leader>, StartError> {
    let confinement = &of.device_plan.confinement;
    let bells = bells(spec.partitions);
    let stop = |partition| of.stops[confinement.stream(partition)].clone();
    let partners: Vec<_> = (0..).map(stop).zip(bells).collect();
    let kernel_padding = KernelPadding::prepare(
        &cuda.kernel_padding,
        &cuda.division,
        spec.partitions,
        &partners,
    )?;
    let watchdog = Arc::new(cuda.watchdog.clone());
    let partitions = programs.into_iter().zip(partners).enumerate();
    let leaders = partitions.map(|(partition, (models, (stop, bell)))| Leader {
        stream: confinement.stream(partition),
        executors: of.executors.clone(),
        env: ExecutorEnv {
            partition,
            models,
            table: of.device_plan.weights.table(),
            health: of.health.clone(),
            counters: of.counters.clone(),
            confinement: confinement.clone(),
            clock: clock.clone(),
            grace_ns: cuda.watchdog.grace_ns,
            kernel_padding: kernel_padding.clone(),
            poisons: spec.models.iter().any(|model| model.poisoned),
        },
        watchdog: watchdog.clone(),
        stop,
        bell,
        running: false,
        answers: [Answer::default(); IMAGES_MAX],
    });
    Ok(leaders.collect())
}

/// What wakes the leader of each partition: those that share a leader share it.
fn bells(partitions: &[PartitionSpec]) -> Vec<Arc<Doorbell>> {
    let mut bells: Vec<Arc<Doorbell>> = Vec::new();
    for (at, partition) in partitions.iter().enumerate() {
        let mut before = partitions[..at].iter();
        let shared = before.position(|other| partition.shares_leader_with(other));
        bells.push(shared.map_or_else(Arc::default, |other| bells[other].clone()));
    }
    bells
}

impl HostedDevice for CudaDevice {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    fn name(&self) -> String {
        format!("cuda ({})", self.machine)
    }

    fn frame_preparer(&self, works: &[FrameWork]) -> Result<SharedPreparer, FramesRefused> {
        let inputs = self.shell.input_buffers();
        self.stations.add(works, &inputs, &self.executors)
    }
}

//! The device: the contract of [`Device`](punctual_device::Device) on a GPU.

mod recovery;

use std::sync::{Arc, Mutex};

use punctual_cuda_kernels::IMAGES_MAX;
use punctual_cuda_kernels::params::Answer;
use punctual_device::pool::SteppedLeader;
use punctual_device::weights::LoaderThread;
use punctual_device::{DeviceSpec, HostedDevice, PartitionSpec, Shell};
use punctual_platform::Doorbell;
use punctual_platform::clock::Clock;

use crate::counters::Counters;
use crate::driver::{Context, Driver};
use crate::engine::{Executors, Leader};
use crate::executor::ExecutorEnv;
use crate::faults::{DeviceError, Health, Loss};
use crate::kernel_padding::KernelPadding;
use crate::queue::StopFlag;
use crate::spec::CudaSpec;
use crate::start::{DeferredModules, StartError, device_plan, programs};
use recovery::{Recovery, RecoveryThread};

/// Runs stages as launches on partitions of a GPU.
pub struct CudaDevice {
    /// Before the recovery thread: leaders and the loader end first.
    shell: Shell,
    _keeper: RecoveryThread,
    machine: String,
    counters: Arc<Counters>,
    faults: Arc<Mutex<Vec<DeviceError>>>,
    health: Arc<Health>,
}

/// A device, its leaders, and the streams of its partitions.
pub(crate) type Stepped = (CudaDevice, Vec<SteppedLeader<Leader>>, Box<[u64]>);

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
    /// Lowers all models, takes all memory, loads kernels and weights, and starts the leaders. `report`
    /// is rung after each event. Nothing is taken from the driver afterwards, but by a restart.
    pub fn start(
        driver: Driver,
        spec: &DeviceSpec<'_>,
        cuda: &CudaSpec,
        report: Arc<Doorbell>,
    ) -> Result<Self, StartError> {
        let (mut device, leaders) =
            Self::without_leaders(driver, spec, cuda, report, &Clock::Machine)?;
        let partitions = spec.partitions.iter().cloned();
        device
            .shell
            .add_partitions(partitions.zip(leaders), cuda.wait)?;
        Ok(device)
    }

    /// The same with leaders that the caller carries on, on `clock`; and by partition, the handle of its stream.
    pub(crate) fn start_stepped(
        driver: Driver,
        spec: &DeviceSpec<'_>,
        cuda: &CudaSpec,
        clock: &Clock,
    ) -> Result<Stepped, StartError> {
        let report = Arc::new(Doorbell::new());
        let (mut device, leaders) = Self::without_leaders(driver, spec, cuda, report, clock)?;
        let streams = leaders.iter().map(Leader::stream_handle).collect();
        let partitions = spec.partitions.iter().cloned();
        let leaders = device
            .shell
            .add_stepped_partitions(partitions.zip(leaders), clock);
        Ok((device, leaders, streams))
    }

    /// The device, and what the leader of each partition runs stages with.
    fn without_leaders(
        driver: Driver,
        spec: &DeviceSpec<'_>,
        cuda: &CudaSpec,
        report: Arc<Doorbell>,
        clock: &Clock,
    ) -> Result<(Self, Vec<Leader>), StartError> {
        spec.validate()?;
        let gpu = driver.device(cuda.ordinal)?;
        let programs = programs(gpu, spec, cuda)?;
        let (device_plan, weights, mut loader) = device_plan(gpu, spec, cuda, &programs)?;
        let context = Context::retain(gpu)?;
        let made = device_plan.install(&context)?;
        let stops: Vec<StopFlag> = made.iter().map(|_| StopFlag::default()).collect();
        for (stop, executor) in stops.iter().zip(&made) {
            stop.set(executor.queue.epoch_flag());
        }
        let deferred = DeferredModules::of(&device_plan, &made);
        let confinement = device_plan.confinement.clone();
        let bells = bells(spec.partitions);
        let stop = |partition| stops[confinement.stream(partition)].clone();
        let partners: Vec<_> = (0..).map(stop).zip(bells).collect();
        let kernel_padding = KernelPadding::prepare(
            &cuda.kernel_padding,
            &cuda.division,
            spec.partitions,
            &partners,
        )?;
        let executors: Executors = made
            .into_iter()
            .map(|each| Mutex::new(Some(each)))
            .collect();
        let (health, counters) = (Arc::new(Health::default()), Arc::new(Counters::default()));
        let faults = Arc::new(Mutex::new(Vec::new()));
        let inputs = device_plan.inputs.clone();
        let table = device_plan.weights.table();
        let recovery = Recovery {
            device_plan,
            executors: executors.clone(),
            stops: stops.clone(),
            health: health.clone(),
            counters: counters.clone(),
            faults: faults.clone(),
            context: Some(context),
            deferred,
            failed: 0,
        };
        // The first start counts as one that worked.
        health.prove();
        let recovery = recovery.start()?;
        loader.report_to(health.clone());
        let loader = match &spec.cache {
            Some(cache) => Some(LoaderThread::start(loader, cache, &report)?),
            None => None,
        };
        let watchdog = Arc::new(cuda.watchdog.clone());
        let shell = Shell::new(spec, inputs, Box::new(weights), loader, report);
        let leaders = programs.into_iter().enumerate().map(|(partition, models)| {
            let env = ExecutorEnv {
                partition,
                models,
                table: table.clone(),
                health: health.clone(),
                counters: counters.clone(),
                confinement: confinement.clone(),
                clock: clock.clone(),
                grace_ns: cuda.watchdog.grace_ns,
                kernel_padding: kernel_padding.clone(),
                poisons: spec.models.iter().any(|model| model.poisoned),
            };
            let (stop, bell) = partners[partition].clone();
            Leader {
                stream: confinement.stream(partition),
                executors: executors.clone(),
                env,
                watchdog: watchdog.clone(),
                stop,
                bell,
                running: false,
                answers: [Answer::default(); IMAGES_MAX],
            }
        });
        let leaders = leaders.collect();
        let device = Self {
            shell,
            _keeper: recovery,
            machine: gpu.name()?,
            counters,
            faults,
            health,
        };
        Ok((device, leaders))
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
}

//! The device: the contract of [`Device`](punctual_device::Device) on a GPU.

use std::sync::{Arc, Mutex};

use punctual_device::weights::LoaderThread;
use punctual_device::{DeviceSpec, HostedDevice, Shell};
use punctual_kernels::cuda::IMAGES_MAX;
use punctual_kernels::cuda::params::Answer;
use punctual_platform::Doorbell;

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

/// Runs stages as launches on partitions of a GPU.
pub struct CudaDevice {
    /// Before the keeper: leaders and the loader end first.
    shell: Shell,
    _keeper: KeeperThread,
    machine: String,
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
        let (blueprint, weights, loader) = blueprint(gpu, spec, cuda, &programs)?;
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
        let loader = match &spec.cache {
            Some(cache) => Some(LoaderThread::start(loader, cache, &report)?),
            None => None,
        };
        let watchdog = Arc::new(cuda.watchdog.clone());
        let mut shell = Shell::new(spec, inputs, Box::new(weights), loader, report);
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
            shell.add_partition(&spec.partitions[partition], leader, Vec::new())?;
        }
        Ok(Self {
            shell,
            _keeper: keeper,
            machine: gpu.name()?,
            counters,
            faults,
        })
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

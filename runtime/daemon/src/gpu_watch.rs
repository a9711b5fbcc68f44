//! The GPU's device as an ordinary thread sees it while it serves: what was granted, what it counts, why
//! it was restarted.

use std::sync::Arc;

use punctual_device_cuda::partition::Mechanism;
use punctual_device_cuda::{Counters, CudaDevice, FaultLog, Loss, LossWatch};
use punctual_device_ort::gpu::EngineDevice;
use punctual_events::DaemonEvent;
use punctual_plan::Plan;
use serde::{Deserialize, Serialize};

use crate::validate::Validated;

/// The GPU, and whether it failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuReport {
    /// Its name, compute capability, multiprocessors, driver, and the mechanism for partitions.
    pub machine: String,
    /// The mechanism that keeps partitions to their TPCs.
    pub mechanism: String,
    /// Whether it does: by priority alone it does not.
    pub enforced: bool,
    /// TPCs that partitions were granted, all together.
    pub tpcs: u64,
    /// Launches handed over to the driver.
    pub launches: u64,
    pub evictions: u64,
    /// Preempted stages that went on where they were stopped.
    pub resumed: u64,
    pub begun_again: u64,
    /// Stages that took too long and were stopped.
    pub overdue: u64,
    /// Faults and hangs that lost everything on the device.
    pub faults: u64,
    /// Restarts of the device after them.
    pub restarts: u64,
    pub restarts_failed: u64,
    /// Launches of partitions that fill.
    #[serde(default)]
    pub filled: u64,
    /// Of those, the ones that waited for room.
    #[serde(default)]
    pub fillers_waited: u64,
    /// Times that one was in the way of a real-time launch, and was stopped.
    #[serde(default)]
    pub fillers_called_off: u64,
    /// Modules of kernels that were loaded while it served.
    #[serde(default)]
    pub loaded_later: u64,
    /// Modules that could not be loaded then: general kernels do their work.
    #[serde(default)]
    pub not_loaded: u64,
    /// Frames that it prepared, and those of them that were copied into memory of the driver's first.
    #[serde(default)]
    pub frames: u64,
    #[serde(default)]
    pub frames_copied: u64,
    /// Why the process can no longer use it, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// What an ordinary thread sees of the GPU's device while it serves.
pub struct GpuWatch {
    machine: String,
    mechanism: Mechanism,
    tpcs: u64,
    /// Of the device that runs our kernels; zeros without one.
    counters: Arc<Counters>,
    /// Of the same.
    faults: Option<FaultLog>,
    /// Of each device on it.
    losses: Vec<LossWatch>,
    /// Of the faults, those that were told.
    told: usize,
}

impl GpuWatch {
    /// Without any device; none if the plan was made without a GPU.
    pub fn of(validated: &Validated) -> Option<Self> {
        let gpu = validated.devices.gpu.as_ref()?;
        let granted = validated
            .plan
            .partitions
            .iter()
            .filter(|p| !p.is_place() && !p.fills())
            .map(|p| p.tpcs.len() as u64);
        Some(Self {
            machine: gpu.host().machine,
            mechanism: gpu.offer.mechanism(),
            tpcs: granted.sum(),
            counters: Arc::default(),
            faults: None,
            losses: Vec::new(),
            told: 0,
        })
    }

    /// From now on also sees the device that runs our kernels.
    pub fn watch(&mut self, device: &CudaDevice) {
        self.counters = device.counters();
        self.faults = Some(device.fault_log());
        self.losses.push(device.loss_watch());
    }

    /// From now on also sees an engine, which is not restarted after a fault.
    pub fn watch_engine(&mut self, device: &EngineDevice) {
        self.losses.push(device.loss_watch());
    }

    /// What was granted: of the device, and of each of its partitions.
    pub fn introduction(&self, plan: &Plan) -> Vec<DaemonEvent> {
        let partitions = if self.mechanism.is_enforced() {
            "enforced"
        } else {
            "not enforced"
        };
        let gpu = self.machine.clone();
        let device = DaemonEvent::GpuFound { gpu, partitions };
        let on_gpu = plan.partitions.iter().filter(|p| !p.tpcs.is_empty());
        let granted = on_gpu.map(|partition| DaemonEvent::TpcsGranted {
            kind: if partition.is_place() {
                "place"
            } else {
                "partition"
            },
            partition: partition.name.clone(),
            tpcs: partition.tpcs.len() as u64,
            core: partition.cores[0],
        });
        std::iter::once(device).chain(granted).collect()
    }

    pub fn report(&self) -> GpuReport {
        let counts = self.counters.read();
        GpuReport {
            machine: self.machine.clone(),
            mechanism: self.mechanism.name().into(),
            enforced: self.mechanism.is_enforced(),
            tpcs: self.tpcs,
            launches: counts.launches,
            evictions: counts.evictions,
            resumed: counts.resumed,
            begun_again: counts.begun_again,
            overdue: counts.overdue,
            faults: counts.faults,
            restarts: counts.restarts,
            restarts_failed: counts.restarts_failed,
            filled: counts.filled,
            fillers_waited: counts.fillers_waited,
            fillers_called_off: counts.fillers_called_off,
            loaded_later: counts.loaded_later,
            not_loaded: counts.not_loaded,
            frames: counts.frames,
            frames_copied: counts.frames_copied,
            lost: self.loss().map(|loss| loss.to_string()),
        }
    }

    /// Why the process can no longer use the device, if so. To be asked now and then.
    pub fn loss(&self) -> Option<Loss> {
        self.losses.iter().find_map(LossWatch::loss)
    }

    /// Says what faults the device had since the last time.
    pub fn tell_faults(&mut self, mut say: impl FnMut(&DaemonEvent)) {
        let Some(faults) = &self.faults else {
            return;
        };
        let faults = faults.read();
        for fault in &faults[self.told.min(faults.len())..] {
            let fault = fault.to_string();
            say(&DaemonEvent::GpuFault { fault });
        }
        self.told = faults.len();
    }
}

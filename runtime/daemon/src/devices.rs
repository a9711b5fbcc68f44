//! The devices that a plan needs, each with its own models and partitions, as one.

use std::ops::Range;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use punctual_core::{ModelId, PartitionId, SPAN_MAX};
use punctual_device::{
    CacheSpec, CpuDevice, DeviceSpec, InputBuffers, LoadFailure, MixedDevice, ModelSpec,
    PartitionSpec, Side,
};
use punctual_device_cuda::queue::QueueSpec;
use punctual_device_cuda::weights::LoadError;
use punctual_device_cuda::{CudaDevice, CudaSpec, Division, Watchdog};
use punctual_kernels::Isa;
use punctual_plan::{DeviceKind, Plan, Role};
use punctual_platform::heartbeat::Pulse;
use punctual_platform::{Doorbell, Missing};

use crate::StartupError;
use crate::gpu::{Gpu, GpuError, ORDINAL};
use crate::validate::Validated;

/// The processor's device and the GPU's, whichever the plan needs.
pub type Devices = MixedDevice<CpuDevice, CudaDevice>;

/// Starts the devices that any model is on. Nothing is asked of a driver for the GPU otherwise.
pub fn start(validated: &Validated, bell: &Arc<Doorbell>) -> Result<Devices, StartupError> {
    let plan = &validated.plan;
    let side = |device| match device {
        DeviceKind::Cpu => Side::First,
        DeviceKind::Cuda => Side::Second,
    };
    let models: Vec<Side> = plan.models.iter().map(|m| side(m.device)).collect();
    let partitions: Vec<Side> = plan.partitions.iter().map(|p| side(p.device())).collect();
    let cpu = Part::of(validated, DeviceKind::Cpu).map(|part| {
        let device = CpuDevice::start(&part.spec(), Arc::clone(bell));
        device.map_err(StartupError::from)
    });
    let gpu = Part::of(validated, DeviceKind::Cuda).map(|part| {
        let device = start_gpu(validated, &part, bell);
        device.map_err(StartupError::from)
    });
    Ok(MixedDevice::new(
        cpu.transpose()?,
        gpu.transpose()?,
        &models,
        &partitions,
    ))
}

struct Part<'a> {
    models: Vec<ModelSpec<'a>>,
    partitions: Vec<PartitionSpec>,
    request_buffers: u16,
    cache: Option<CacheSpec>,
}

impl<'a> Part<'a> {
    /// None if no model is on it.
    fn of(validated: &'a Validated, device: DeviceKind) -> Option<Self> {
        let plan = &validated.plan;
        if !plan.needs(device) {
            return None;
        }
        let lanes = Isa::detect().lanes() as u8;
        let ids = (0..).map(ModelId).zip(&plan.models);
        let models = ids.filter(|(_, model)| model.device == device);
        let models: Vec<ModelSpec<'_>> = models
            .map(|(id, model)| {
                let package = validated.package(id);
                ModelSpec {
                    // Packed by the compiler: the start copies and checks it.
                    image: package.image(lanes),
                    paged: plan.scheduler.models[id.index()].weights.is_some(),
                    // What the budgets were measured with.
                    solutions: &model.solutions,
                    ..ModelSpec::resident(package.network(), &model.batches)
                }
            })
            .collect();
        let ids = (0..).map(PartitionId).zip(&plan.partitions);
        let partitions = ids.filter(|(_, partition)| partition.device() == device);
        Some(Self {
            partitions: partitions
                .map(|(id, partition)| PartitionSpec {
                    name: partition.name.clone(),
                    cores: partition.cores.iter().copied().map(usize::from).collect(),
                    priority: worker_priority(plan, id),
                })
                .collect(),
            request_buffers: plan.scheduler.request_buffers,
            cache: models.iter().any(|model| model.paged).then(|| cache(plan)),
            models,
        })
    }

    fn spec(&self) -> DeviceSpec<'_> {
        DeviceSpec {
            models: &self.models,
            partitions: &self.partitions,
            request_buffers: self.request_buffers,
            cache: self.cache,
        }
    }
}

fn start_gpu(
    validated: &Validated,
    part: &Part<'_>,
    bell: &Arc<Doorbell>,
) -> Result<CudaDevice, GpuError> {
    let plan = &validated.plan;
    let gpu = validated.gpu.as_ref();
    let Gpu { driver, offer } = gpu.expect("a plan with TPCs was made of a GPU");
    let partitioner = Arc::new(offer.partitioner(driver.device(ORDINAL)?)?);
    let tpcs = plan.partitions.iter().map(|partition| &partition.tpcs[..]);
    let ranges: Vec<Range<u16>> = tpcs
        .filter_map(|tpcs| Some(*tpcs.first()?..tpcs.last()? + 1))
        .collect();
    for range in &ranges {
        // Before anything is taken: the plan is void if it is not granted.
        partitioner.grant(range.clone())?;
    }
    let queue = QueueSpec::fitting(driver.device(ORDINAL)?);
    let spec = CudaSpec {
        ordinal: ORDINAL,
        queue: queue.map_err(punctual_device_cuda::StartError::from)?,
        division: Division::Tpcs {
            partitioner,
            ranges,
        },
        watchdog: Watchdog {
            longest_ns: longest_ns(plan),
            ..Watchdog::default()
        },
        ..CudaSpec::default()
    };
    Ok(CudaDevice::start(
        *driver,
        &part.spec(),
        &spec,
        Arc::clone(bell),
    )?)
}

/// The longest that each stage of each of the GPU's models was seen to take, in nanoseconds, at its
/// largest batch on the slowest of the partitions that run it.
fn longest_ns(plan: &Plan) -> Vec<Vec<u64>> {
    let models = plan.models.iter().zip(&plan.scheduler.models);
    let on_gpu = models.filter(|(model, _)| model.device == DeviceKind::Cuda);
    on_gpu
        .map(|(_, config)| {
            let stages = config.stages.iter().map(|stage| {
                let times = stage.times.iter().flat_map(|time| &time.on);
                // Where it is never run it has no figure.
                let seen = times
                    .map(|time| time.max_seen)
                    .filter(|seen| *seen < SPAN_MAX);
                seen.max().map_or(u64::MAX, |seen| seen.as_nanos())
            });
            stages.collect()
        })
        .collect()
}

/// Weights are loaded by an ordinary thread, off the workers' cores.
fn cache(plan: &Plan) -> CacheSpec {
    let core = plan.housekeeping_cores.first().copied();
    CacheSpec {
        pages: plan.scheduler.pages,
        core: core.map(usize::from),
        priority: None,
    }
}

fn worker_priority(plan: &Plan, partition: PartitionId) -> Option<u8> {
    let leader = Role::Worker { partition, unit: 0 };
    let planned = plan.threads.iter().find(|thread| thread.role == leader)?;
    planned.priority
}

/// The input areas for a model's requests, and the model's id there.
///
/// # Panics
/// If there is no such model.
pub fn inputs(devices: &Devices, model: ModelId) -> (InputBuffers, ModelId) {
    let (side, local) = devices.model(model).expect("a model of the plan");
    let buffers = match side {
        Side::First => devices.first().map(CpuDevice::input_buffers),
        Side::Second => devices.second().map(CudaDevice::input_buffers),
    };
    (buffers.expect("each model's device is there"), local)
}

/// The kernel's ids of all worker threads.
pub fn worker_tids(devices: &Devices) -> Vec<i32> {
    let cpu = devices.first().into_iter().flat_map(CpuDevice::worker_tids);
    let gpu = devices.second().into_iter();
    cpu.chain(gpu.flat_map(CudaDevice::worker_tids)).collect()
}

/// The pulses of the leaders, by partition of the plan.
pub fn pulses(devices: &Devices, plan: &Plan) -> Vec<Arc<dyn Pulse>> {
    let mut cpu = devices.first().into_iter().flat_map(CpuDevice::pulses);
    let mut gpu = devices.second().into_iter().flat_map(CudaDevice::pulses);
    let kinds = plan.partitions.iter().map(|partition| partition.device());
    kinds
        .filter_map(|kind| match kind {
            DeviceKind::Cpu => cpu.next(),
            DeviceKind::Cuda => gpu.next(),
        })
        .collect()
}

/// What the machine did not grant the workers, with repetitions.
pub fn missing(devices: &Devices) -> Vec<Missing> {
    let cpu = devices.first().map_or(&[][..], CpuDevice::missing);
    let gpu = devices.second().map_or(&[][..], CudaDevice::missing);
    [cpu, gpu].concat()
}

/// What runs the stages, for people.
pub fn name(devices: &Devices, plan: &Plan) -> String {
    let cpu = devices.first().map(|cpu| format!("cpu ({})", cpu.isa()));
    let gpu = devices.second().and(plan.gpu.as_ref());
    let gpu = gpu.map(|gpu| format!("cuda ({})", gpu.machine));
    let names: Vec<String> = cpu.into_iter().chain(gpu).collect();
    names.join(" and ")
}

/// Why weights could not be loaded, device by device.
pub struct LoadFailures {
    cpu: Option<Receiver<LoadFailure>>,
    gpu: Option<Receiver<(ModelId, LoadError)>>,
    /// Each device's models, by their ids there.
    cpu_models: Vec<ModelId>,
    gpu_models: Vec<ModelId>,
}

impl LoadFailures {
    /// To be told from now on.
    pub fn of(devices: &mut Devices, plan: &Plan) -> Self {
        let on = |device| {
            let ids = (0..).map(ModelId).zip(&plan.models);
            let on_it = ids.filter(|(_, model)| model.device == device);
            on_it.map(|(id, _)| id).collect()
        };
        Self {
            cpu: devices.first_mut().and_then(CpuDevice::load_failures),
            gpu: devices.second_mut().and_then(CudaDevice::load_failures),
            cpu_models: on(DeviceKind::Cpu),
            gpu_models: on(DeviceKind::Cuda),
        }
    }

    /// Those since the last time: the model, and why.
    pub fn each(&self, mut said: impl FnMut(ModelId, &dyn std::fmt::Display)) {
        for (model, error) in self.cpu.iter().flat_map(Receiver::try_iter) {
            said(self.cpu_models[model.index()], &error);
        }
        for (model, error) in self.gpu.iter().flat_map(Receiver::try_iter) {
            said(self.gpu_models[model.index()], &error);
        }
    }
}

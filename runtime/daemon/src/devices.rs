//! The devices that a plan needs, each with its own models and partitions, as one.

use std::ops::Range;
use std::sync::Arc;

use punctual_core::{ModelId, PartitionId, PolicySpec as _, SPAN_MAX};
use punctual_device::pool::Wait;
use punctual_device::{
    CacheSpec, DeviceSet, DeviceSpec, HostedDevice, LoadRate, ModelSpec, PartitionSpec, Provider,
    Start, StartStep,
};
use punctual_device_cpu::CpuProvider;
use punctual_device_cuda::kernel_padding::{KernelPaddingSpec, LaunchTimes};
use punctual_device_cuda::{CudaDevice, CudaProvider, Watchdog};
use punctual_device_ort::OrtDevice;
use punctual_device_ort::gpu::EngineDevice;
use punctual_kernels::Isa;
use punctual_plan::{DeviceKind, LeaderWait, PartitionPlan, Plan};
use punctual_platform::Doorbell;

use crate::StartupError;
use crate::gpu::{GpuError, wait};
use crate::gpu_watch::GpuWatch;
use crate::start_order;
use crate::validate::Validated;

/// The devices of a plan, and what ordinary threads see of them.
pub struct Devices {
    pub set: DeviceSet,
    /// None if no model is on the GPU.
    pub gpu: Option<GpuWatch>,
}

impl Devices {
    /// Starts the devices that any model is on. Nothing is asked of a driver for the GPU otherwise.
    pub fn start(validated: &Validated, bell: &Arc<Doorbell>) -> Result<Self, StartupError> {
        let plan = &validated.plan;
        let mut kinds = Vec::new();
        let mut devices: Vec<Box<dyn HostedDevice + Send>> = Vec::new();
        let mut gpu = GpuWatch::of(validated);
        for kind in DeviceKind::ALL.into_iter().filter(|kind| plan.needs(*kind)) {
            let part = Part::of(validated, kind);
            let (spec, bell) = (part.spec(), Arc::clone(bell));
            kinds.push(kind);
            devices.push(match kind {
                DeviceKind::Cpu => Box::new(CpuProvider::default().start(&spec, bell)?),
                DeviceKind::Cuda => {
                    let device = start_gpu(validated, &spec, bell)?;
                    if let Some(gpu) = &mut gpu {
                        gpu.watch(&device);
                    }
                    Box::new(device)
                }
                DeviceKind::Ort => {
                    let library = validated.devices.ort;
                    let library =
                        library.expect("a plan with ONNX Runtime was made with its library");
                    Box::new(OrtDevice::start(library, &spec, bell)?)
                }
                DeviceKind::OrtCuda | DeviceKind::OrtTensorrt => {
                    let device = start_engine(kind, validated, &spec, bell)?;
                    if let Some(gpu) = &mut gpu {
                        gpu.watch_engine(&device);
                    }
                    Box::new(device)
                }
            });
        }
        let of = |kind| kinds.iter().position(|other| *other == kind);
        let models = plan.models.iter().filter_map(|model| of(model.device));
        let models: Vec<usize> = models.collect();
        let partitions = plan.partitions.iter().map(|partition| of(partition.device));
        let partitions: Vec<Option<usize>> = partitions.collect();
        Ok(Self {
            set: DeviceSet::new(devices, &models, &partitions),
            gpu,
        })
    }
}

struct Part<'a> {
    models: Vec<ModelSpec<'a>>,
    partitions: Vec<PartitionSpec>,
    request_buffers: u16,
    cache: Option<CacheSpec>,
    /// In which order its models are loaded, by its own ids.
    steps: Vec<StartStep>,
    rate: Option<LoadRate>,
}

impl<'a> Part<'a> {
    fn of(validated: &'a Validated, device: DeviceKind) -> Self {
        let plan = &validated.plan;
        let lanes = Isa::detect().lanes() as u8;
        let ids = (0..).map(ModelId).zip(&plan.models);
        let models = ids.filter(|(_, model)| model.device == device);
        let models: Vec<ModelSpec<'_>> = models
            .map(|(id, model)| {
                let package = validated.package(id);
                ModelSpec {
                    // Packed by the compiler: the start copies and checks it.
                    image: package.image(lanes),
                    outputs: (!model.outputs.is_empty()).then_some(&model.outputs),
                    paged: plan.scheduler.models[id.index()].weights.is_some(),
                    // What the budgets were measured with.
                    solutions: &model.solutions,
                    ..ModelSpec::resident(package.network(), &model.batches)
                }
            })
            .collect();
        let ids = (0..).map(PartitionId).zip(&plan.partitions);
        let partitions = ids.filter(|(_, partition)| partition.device == device);
        let local = |id: ModelId| {
            let before = plan.models[..id.index()].iter();
            let before = before.filter(|model| model.device == device);
            ModelId(before.count() as u16)
        };
        let steps =
            start_order::steps(&plan.scheduler, plan.policy.contract().runs_whole).into_iter();
        let steps = steps.filter(|step| plan.models[step.model.index()].device == device);
        Self {
            partitions: partitions
                .map(|(id, partition)| {
                    let cores = partition.cores.iter().copied().map(usize::from).collect();
                    let priority = worker_priority(plan, id);
                    PartitionSpec {
                        tpcs: tpcs(partition),
                        ..PartitionSpec::on_cores(&partition.name, cores, priority)
                    }
                })
                .collect(),
            request_buffers: plan.scheduler.request_buffers,
            // On cores its thread loads what is pinned, too, while the start goes on.
            cache: (models.iter().any(|model| model.paged) || device == DeviceKind::Cpu)
                .then(|| cache(plan)),
            steps: steps
                .map(|step| StartStep {
                    model: local(step.model),
                    ..step
                })
                .collect(),
            rate: plan.start_mb_per_s.map(LoadRate::of_mb_per_s),
            models,
        }
    }

    fn spec(&self) -> DeviceSpec<'_> {
        DeviceSpec {
            models: &self.models,
            partitions: &self.partitions,
            request_buffers: self.request_buffers,
            cache: self.cache,
            start: Start::InTurn {
                steps: &self.steps,
                rate: self.rate,
            },
        }
    }
}

fn start_engine(
    kind: DeviceKind,
    validated: &Validated,
    spec: &DeviceSpec<'_>,
    bell: Arc<Doorbell>,
) -> Result<EngineDevice, StartupError> {
    let engine = validated.devices.engines.get(&kind);
    let engine = engine.expect("a plan with an engine was made with it");
    let plan = &validated.plan;
    let watchdog = Watchdog {
        longest_ns: longest_ns(plan, kind),
        ..Watchdog::default()
    };
    Ok(engine
        .serving(watchdog, leaders_wait(plan))
        .start(spec, bell)?)
}

/// How leaders wait for the GPU.
fn leaders_wait(plan: &Plan) -> Wait {
    wait(
        plan.gpu
            .as_ref()
            .map_or(LeaderWait::Spin, |gpu| gpu.leader_wait),
    )
}

fn start_gpu(
    validated: &Validated,
    spec: &DeviceSpec<'_>,
    bell: Arc<Doorbell>,
) -> Result<CudaDevice, GpuError> {
    let gpu = validated.devices.gpu.as_ref();
    let gpu = gpu.expect("a plan with TPCs was made of a GPU");
    let provider = CudaProvider {
        watchdog: Watchdog {
            longest_ns: longest_ns(&validated.plan, DeviceKind::Cuda),
            ..Watchdog::default()
        },
        // With fewer looks a stage takes no longer than its profile says, and still ends within itself, which is what
        // the plan counts on.
        look_stride: validated
            .plan
            .models
            .iter()
            .filter_map(|m| m.look_stride)
            .max(),
        kernel_padding: kernel_padding(&validated.plan),
        wait: leaders_wait(&validated.plan),
        shares_context: DeviceKind::ENGINES
            .iter()
            .any(|engine| validated.plan.needs(*engine)),
        ..gpu.provider(Vec::new())
    };
    Ok(provider.start(spec, bell)?)
}

/// The partitions that fill, by their place among those of the GPU, and how long launches take.
fn kernel_padding(plan: &Plan) -> KernelPaddingSpec {
    let partitions = plan
        .partitions
        .iter()
        .filter(|p| p.device == DeviceKind::Cuda);
    let fillers = partitions
        .enumerate()
        .filter(|(_, partition)| partition.fills());
    let mut times = LaunchTimes::default();
    let models = plan
        .models
        .iter()
        .filter(|model| model.device == DeviceKind::Cuda);
    for (position, model) in models.enumerate() {
        model
            .launches
            .iter()
            .for_each(|launches| times.add(position, launches));
    }
    KernelPaddingSpec {
        fillers: fillers.map(|(position, _)| position).collect(),
        times,
    }
}

/// None on a partition of cores.
fn tpcs(partition: &PartitionPlan) -> Range<u16> {
    match (partition.tpcs.first(), partition.tpcs.last()) {
        (Some(first), Some(last)) => *first..last + 1,
        _ => 0..0,
    }
}

/// The longest that each stage of each of a device's models was seen to take, in nanoseconds, at its
/// largest batch on the slowest of the partitions that run it.
fn longest_ns(plan: &Plan, device: DeviceKind) -> Vec<Vec<u64>> {
    let models = plan.models.iter().zip(&plan.scheduler.models);
    let on_device = models.filter(|(model, _)| model.device == device);
    on_device
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
    plan.leader(partition)?.priority
}

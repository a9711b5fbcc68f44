//! Phase 2: sockets, memory, the device. All of it is sized by the plan and taken once.

use std::sync::Arc;

use punctual_device::{CacheSpec, CpuDevice, DeviceSpec, ModelSpec, PartitionSpec};
use punctual_ipc::Listener;
use punctual_kernels::Isa;
use punctual_plan::{Plan, Role};
use punctual_platform::poll::Poller;
use punctual_platform::thread::ThreadSpec;
use punctual_platform::{Missing, affinity, memory};

use crate::StartupError;
use crate::door::VISITORS_MAX;
use crate::metrics::Metrics;
use crate::metrics_socket::MetricsSocket;
use crate::report::metrics_socket;
use crate::validate::Validated;
use crate::wiring::Wiring;

// What the plan counts is what is taken.
const _: () = assert!(punctual_plan::STACK_BYTES == ThreadSpec::STACK_BYTES as u64);

/// What was taken.
pub struct Reserved {
    pub listener: Listener,
    pub metrics_socket: MetricsSocket,
    /// Housekeeping's.
    pub poller: Poller,
    pub metrics: Arc<Metrics>,
    pub wiring: Wiring,
    /// With its workers, pinned and prioritised, asleep.
    pub device: CpuDevice,
}

impl Reserved {
    /// Takes everything that the plan needs.
    ///
    /// # Errors
    /// The first thing that cannot be had.
    pub fn take(validated: &Validated) -> Result<Self, StartupError> {
        let plan = &validated.plan;
        let listener = Listener::bind(&plan.socket)?;
        let path = metrics_socket(&plan.socket);
        let metrics_socket =
            MetricsSocket::bind(&path).map_err(|source| StartupError::Metrics { path, source })?;
        // Clients in their handshake, the two sockets and the signals.
        let poller = Poller::new(VISITORS_MAX + 3)?;
        let wiring = Wiring::new(plan);
        let device = start_device(validated, &wiring)?;
        Ok(Self {
            listener,
            metrics_socket,
            poller,
            metrics: Arc::new(Metrics::new(plan)),
            wiring,
            device,
        })
    }
}

fn start_device(validated: &Validated, wiring: &Wiring) -> Result<CpuDevice, StartupError> {
    let plan = &validated.plan;
    let lanes = Isa::detect().lanes() as u8;
    let models: Vec<ModelSpec<'_>> = (0..)
        .zip(&plan.models)
        .map(|(id, model)| {
            let package = validated.package(punctual_core::ModelId(id));
            ModelSpec {
                // Packed by the compiler: the start copies and checks it.
                image: package.image(lanes),
                paged: plan.scheduler.models[usize::from(id)].weights.is_some(),
                // What the budgets were measured with.
                solutions: &model.solutions,
                ..ModelSpec::resident(package.network(), &model.batches)
            }
        })
        .collect();
    let partitions: Vec<PartitionSpec> = (0..)
        .zip(&plan.partitions)
        .map(|(id, partition)| PartitionSpec {
            name: partition.name.clone(),
            cores: partition.cores.iter().copied().map(usize::from).collect(),
            priority: worker_priority(plan, punctual_core::PartitionId(id)),
        })
        .collect();
    let spec = DeviceSpec {
        models: &models,
        partitions: &partitions,
        request_buffers: plan.scheduler.request_buffers,
        cache: cache(plan),
    };
    Ok(CpuDevice::start(&spec, Arc::clone(&wiring.scheduler.bell))?)
}

/// Weights are loaded by an ordinary thread, off the workers' cores.
fn cache(plan: &Plan) -> Option<CacheSpec> {
    let core = plan.housekeeping_cores.first().copied();
    (plan.scheduler.pages > 0).then(|| CacheSpec {
        pages: plan.scheduler.pages,
        core: core.map(usize::from),
        priority: None,
    })
}

fn worker_priority(plan: &Plan, partition: punctual_core::PartitionId) -> Option<u8> {
    let leader = Role::Worker { partition, unit: 0 };
    let planned = plan.threads.iter().find(|thread| thread.role == leader)?;
    planned.priority
}

/// Makes the heap ready for the ordinary threads, and keeps them off the workers' cores. Returns what
/// was not granted.
pub fn prefault(plan: &Plan) -> Vec<Missing> {
    memory::prefault_heap(punctual_plan::HEAP_BYTES as usize);
    let cores = plan.housekeeping_cores.iter().copied().map(usize::from);
    let cores: Vec<usize> = cores.collect();
    let mut missing = Vec::from_iter(affinity::keep_current_thread_to(&cores).err());
    if !plan.realtime {
        missing.push(Missing::Realtime);
    }
    missing
}

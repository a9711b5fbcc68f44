//! Phase 2: sockets, memory, the device. All of it is sized by the plan and taken once.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use punctual_ipc::Listener;
use punctual_plan::Plan;
use punctual_platform::poll::Poller;
use punctual_platform::thread::ThreadSpec;
use punctual_platform::{Missing, affinity, logging, memory};

use crate::StartupError;
use crate::acceptor::VISITORS_MAX;
use crate::channels::Channels;
use crate::devices::Devices;
use crate::housekeeping::METRICS;
use crate::limits;
use crate::metrics::Metrics;
use crate::metrics_socket::MetricsSocket;
use crate::report::metrics_socket;
use crate::validate::{Validated, check_socket};

// What the plan counts is what is taken.
const _: () = assert!(punctual_plan::STACK_BYTES == ThreadSpec::STACK_BYTES as u64);

pub struct Reserved {
    pub listener: Listener,
    pub metrics_socket: MetricsSocket,
    /// Housekeeping's.
    pub poller: Poller,
    pub metrics: Arc<Metrics>,
    pub channels: Channels,
    /// With their workers, pinned and prioritised, asleep.
    pub devices: Devices,
}

impl Reserved {
    /// Takes everything that the plan needs. Clients connect to the socket `passed` by the service
    /// manager, if it passed one.
    pub fn take(validated: &Validated, passed: Option<OwnedFd>) -> Result<Self, StartupError> {
        let plan = &validated.plan;
        let listener = match passed {
            Some(socket) => Listener::passed(socket)?,
            None => Listener::bind(&plan.socket)?,
        };
        check_socket(listener.path())?;
        let path = metrics_socket(listener.path());
        let allow = plan.admission.allow.clone();
        let metrics_socket = MetricsSocket::bind(&path, allow, METRICS);
        let metrics_socket = metrics_socket.map_err(StartupError::Metrics)?;
        // Clients in their handshake, the two sockets and the signals.
        let poller = Poller::new(VISITORS_MAX + 3)?;
        limits::check_files(plan)?;
        let channels = Channels::new(plan)?;
        let devices = Devices::start(validated, &channels.scheduler.bell)?;
        Ok(Self {
            listener,
            metrics_socket,
            poller,
            metrics: Arc::new(Metrics::new(plan)),
            channels,
            devices,
        })
    }
}

/// Makes the heap ready for the ordinary threads, and keeps them off the workers' cores. Returns what
/// was not granted.
pub fn prefault(plan: &Plan) -> Vec<Missing> {
    memory::prefault_heap(punctual_plan::HEAP_BYTES as usize);
    let cores = plan.housekeeping_cores.iter().copied().map(usize::from);
    let cores: Vec<usize> = cores.collect();
    logging::keep_to(&cores);
    let mut missing = Vec::from_iter(affinity::keep_current_thread_to(&cores).err());
    if !plan.realtime {
        missing.push(Missing::Realtime);
    }
    missing
}

//! From a command line to a daemon that serves, phase by phase: lock → validate → reserve →
//! pre-fault → pin and prioritise → seal the allocator → ready.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::parent_id;
use std::sync::Arc;

use punctual_device_cuda::driver::environment;
use punctual_events::{DaemonEvent, message_ids, say};
use punctual_plan::{Host, PackageCheck, Plan, PlanInputs, Policies, Warning};
use punctual_platform::idle::IdleHold;
use punctual_platform::rivals::{self, Sighting};
use punctual_platform::service::{self, Notifier};
use punctual_platform::signals::TerminationSignals;
use punctual_platform::stall::StallProbe;
use punctual_platform::{
    Missing, allocator, capabilities, clock, limits, logging, memory, process_start,
};

use crate::acceptor::Acceptor;
use crate::describe;
use crate::devices::Devices;
use crate::drain::DrainOrder;
use crate::gpu_watch::GpuWatch;
use crate::granted;
use crate::host;
use crate::housekeeping::{ACCEPTOR, Housekeeping, SIGNALS};
use crate::introduction::introduction;
use crate::last_good::LastGood;
use crate::manager::Manager;
use crate::observer::Observer;
use crate::page_faults::PageFaults;
use crate::pools::{Pools, STRANGERS_MAX};
use crate::program;
use crate::rate_limit::RateLimit;
use crate::recorder::Recorder;
use crate::report::State;
use crate::reserve::{Reserved, prefault};
use crate::rt_events;
use crate::start::Start;
use crate::threads::{ThreadFactory, Threads, attention, stall_probes};
use crate::validate::{Validated, gather, validate};
use crate::watchdog::{Watchdog, WhoHas};
use crate::{Options, StartupError, Termination};

/// The highest priority that a plan gives a thread, unless its manifest has another base: the unit's `LimitRTPRIO=`.
const PRIORITY_MAX: u8 = 95;

/// `FileDescriptorName=` of the socket unit.
const CLIENTS_SOCKET: &str = "clients";

/// The plan that a daemon with these options, that knows these policies, would serve, on this machine, now.
pub fn plan(options: &Options, policies: &Policies) -> Result<Plan, StartupError> {
    let manifest = options.manifest();
    validate(&manifest, options, policies, host_of_the_daemon()?).map(|validated| validated.plan)
}

/// What that plan is made from, for programs that compare it with others.
pub fn plan_inputs(options: &Options, policies: &Policies) -> Result<PlanInputs, StartupError> {
    let manifest = options.manifest();
    gather(&manifest, options, policies, host_of_the_daemon()?).map(|(inputs, _)| inputs)
}

/// As the daemon finds it, whichever program asks.
pub fn host_of_the_daemon() -> Result<Host, StartupError> {
    Ok(Host {
        program_bytes: program::of_the_daemon(),
        ..host::detect()?
    })
}

/// Serves a manifest, which may name one of these policies, until told to terminate. Returns how it ended; everything worth saying has
/// been said on standard error by then.
#[must_use]
pub fn run(options: &Options, policies: &Policies) -> Termination {
    // Before anything starts a thread.
    capabilities::give_up_after_starts(PRIORITY_MAX);
    be_found();
    let _last_words = logging::start("punctuald", message_ids(), &options.log);
    match start(options, policies) {
        Ok(daemon) => daemon.run(),
        Err(error) => {
            let termination = error.termination();
            let error = error.to_string();
            say(&DaemonEvent::NotStarted { error });
            termination
        }
    }
}

/// Names the process as other daemons look for it, which `punctual daemon` is not by itself.
fn be_found() {
    if let Ok(name) = CString::new(rivals::DAEMON) {
        let _ = nix::sys::prctl::set_name(&name);
    }
}

fn start(options: &Options, policies: &Policies) -> Result<Housekeeping, StartupError> {
    let mut origin = Origin::take_over(options)?;
    allocator::end_with_code_when_out_of_memory(Termination::Resources.code());
    limits::raise_open_files();
    // A dump of gigabytes of locked memory would keep the next start waiting.
    memory::keep_dumps_small();
    // Before packages are mapped: what is mapped at that moment is read in and stays.
    let unlocked = memory::lock_all().err();
    origin
        .notifier
        .status("starting: reading the manifest and its packages");
    origin.notifier.extend_timeout(READING_US_MAX);
    let validated = configured(options, policies)?;
    tell_plan(options, &validated);
    origin
        .notifier
        .status("starting: taking memory, loading weights");
    origin
        .notifier
        .extend_timeout(loading_us_max(&validated.plan));
    // That there are no real-time priorities is said with what else is missing, below.
    let plan = &validated.plan;
    let warnings = plan.told_warnings(|warning| *warning != Warning::NoRealtime);
    let renamed = plan.renamed_keys.iter().map(ToString::to_string);
    for warning in warnings.into_iter().chain(renamed) {
        say(&DaemonEvent::PlanWarning { warning });
    }
    let reserved = Reserved::take(&validated, origin.socket.take())?;
    let mut missing = prefault(&validated.plan);
    let idle = hold_idle(&validated.plan, &mut missing);
    missing.extend(unlocked);
    let mut daemon = start_threads(options, origin, &validated, reserved, missing)?;
    daemon.idle = idle;
    Ok(daemon)
}

/// The present configuration, or the last good one if that cannot be served: a robot that sees by an old plan is better than
/// one that sees nothing.
fn configured(options: &Options, policies: &Policies) -> Result<Validated, StartupError> {
    let kept = options.last_good.as_deref().map(LastGood::in_folder);
    let mut source = options.manifest();
    if !kept.is_some_and(|kept| kept.take_doubt()) {
        source.files.check = PackageCheck::AsLoaded;
    }
    let present = validate(&source, options, policies, host::detect()?);
    let (error, folder) = match (present, &options.last_good) {
        (Err(error), Some(folder)) if error.is_of_the_configuration() => (error, folder),
        (present, _) => return present,
    };
    let kept = LastGood::in_folder(folder);
    let Some(source) = kept.manifest(options) else {
        return Err(error);
    };
    say(&DaemonEvent::ConfigurationRefused {
        error: error.to_string(),
    });
    match validate(&source, options, policies, host::detect()?) {
        Ok(mut validated) => {
            let folder = kept.folder().display().to_string();
            say(&DaemonEvent::LastGoodServed { folder });
            validated.is_last_good = true;
            Ok(validated)
        }
        Err(second) => {
            say(&DaemonEvent::LastGoodRefused {
                error: second.to_string(),
            });
            Err(error)
        }
    }
}

/// What was read, for the search for a fault.
fn tell_plan(options: &Options, validated: &Validated) {
    let plan = &validated.plan;
    say(&DaemonEvent::PlanMade {
        plan: plan.hash.to_string(),
        manifest: options.manifest().path.display().to_string(),
        models: plan.models.len() as u64,
        tasks: plan.tasks.len() as u64,
        clients: plan.client_slots.len() as u64,
        memory_bytes: plan.memory.total_bytes(),
    });
    for model in &plan.models {
        say(&DaemonEvent::ModelPlanned {
            model: model.name.clone(),
            package: model.package.display().to_string(),
            stages: model.stages as u64,
        });
    }
    for thread in &plan.threads {
        say(&DaemonEvent::ThreadPlanned {
            role: format!("{:?}", thread.role),
            core: thread.core,
            priority: format!("{:?}", thread.priority),
        });
    }
}

/// How long reading and checking the packages may take before the service manager loses patience.
const READING_US_MAX: u64 = 60_000_000;

/// How long it may take to fill the plan's memory, in us: at the speed of a slow memory card, and
/// what a GPU's driver needs to come up.
fn loading_us_max(plan: &Plan) -> u64 {
    const BYTES_A_US: u64 = 20;
    const DRIVER_US: u64 = 30_000_000;
    plan.memory.total_bytes() / BYTES_A_US + DRIVER_US
}

/// Keeps cores out of deep idle states for as long as the result lives, if the plan wants it.
fn hold_idle(plan: &Plan, missing: &mut Vec<Missing>) -> Option<IdleHold> {
    let us = plan.idle_latency?.as_nanos() / 1_000;
    let hold = IdleHold::take(us as u32);
    if hold.is_err() {
        missing.push(Missing::IdleHold);
    }
    hold.ok()
}

/// What this process has from the process that started it.
struct Origin {
    /// When the process began, in ns.
    began_ns: u64,
    ready: Option<OwnedFd>,
    /// Where clients connect, if the service manager listens for us.
    socket: Option<OwnedFd>,
    parent: Option<u32>,
    signals: TerminationSignals,
    notifier: Notifier,
}

impl Origin {
    /// To be called before anything opens descriptors or starts threads: passed descriptors have fixed numbers, and
    /// only threads that start later have the signals blocked.
    fn take_over(options: &Options) -> Result<Self, StartupError> {
        let inherited = |number| service::inherited(number).ok_or(StartupError::ReadyFd(number));
        Ok(Self {
            began_ns: process_start::began_ns(),
            ready: options.ready_fd.map(inherited).transpose()?,
            socket: service::passed_socket(CLIENTS_SOCKET),
            parent: options.end_with_parent.then(parent_id),
            signals: TerminationSignals::take_over_for_service()?,
            notifier: Notifier::from_environment()?,
        })
    }
}

/// Starts the real-time threads, seals the allocator, accepts clients. Housekeeping says when the first task is ready.
fn start_threads(
    options: &Options,
    mut origin: Origin,
    validated: &Validated,
    mut reserved: Reserved,
    mut missing: Vec<Missing>,
) -> Result<Housekeeping, StartupError> {
    let plan = Arc::new(validated.plan.clone());
    let drain = Arc::new(DrainOrder::default());
    let poller = reserved.poller;
    let attention = attention(&plan);
    let probes = stall_probes(&plan, &attention)?;
    let (recorder, sinks) = Recorder::start(validated)?;
    let mut factory = ThreadFactory {
        validated,
        probes: &probes,
        attention,
        metrics: Arc::clone(&reserved.metrics),
        drain: Arc::clone(&drain),
        housekeeping: poller.waker(),
        sinks,
    };
    let Devices {
        set: mut devices,
        gpu,
    } = reserved.devices;
    let device = devices.name();
    missing.extend(devices.missing());
    introduce(gpu.as_ref(), &plan);
    let load_failures = devices.load_failures();
    let (mut threads, ends) = Threads::start(&mut factory, devices, reserved.channels)?;
    missing.extend(threads.missing());
    let strangers = crate::limits::strangers(&plan, STRANGERS_MAX)?;
    let pools = Pools::start(&poller.waker(), plan.client_slots.len() as u16, strangers)?;
    let descriptions = describe::descriptions(validated);
    let mut acceptor = Acceptor::new(
        Arc::clone(&plan),
        Arc::clone(&reserved.metrics),
        descriptions,
        pools,
        ends,
        ACCEPTOR,
    );
    poller.add(origin.signals.as_fd(), SIGNALS)?;
    reserved.metrics_socket.attend(&poller, &acceptor.pools);
    let socket = reserved.listener.path().to_owned();
    acceptor.open(reserved.listener, &poller);
    let watchdog = watchdog(&mut threads, &plan, &probes);
    rt_events::look_at_levels();
    allocator::abort_on_realtime_allocation(cfg!(debug_assertions));
    allocator::seal();
    // Threads, memory and sockets have their final settings.
    capabilities::give_up_if_wanted();
    let observer = Observer {
        metrics: reserved.metrics,
        probes,
        watchdog,
        threads: granted::of(&threads.tids()),
        page_faults: PageFaults::of(threads.tids()),
        start: Start::new(&plan, origin.began_ns, origin.ready.take()),
        ready_ns: clock::now_ns(),
        missing: complain(missing),
        device,
        gpu,
        plan: Arc::clone(&plan),
        socket,
        is_last_good: validated.is_last_good,
        recorder,
    };
    for event in introduction(&plan, &observer.socket) {
        say(&event);
    }
    Ok(Housekeeping {
        poller,
        signals: origin.signals,
        metrics_socket: reserved.metrics_socket,
        acceptor,
        threads,
        observer,
        drain,
        manager: Manager::new(origin.notifier),
        parent: origin.parent,
        report: options.report.clone(),
        last_good: options.last_good.clone(),
        state: State::Starting,
        load_failures,
        idle: None,
        log: RateLimit::default(),
        signalled: 0,
        rivals_sought: false,
    })
}

/// Says what the GPU is, what was granted of it, and what its driver was initialised without.
fn introduce(gpu: Option<&GpuWatch>, plan: &Plan) {
    let Some(gpu) = gpu else {
        return;
    };
    for event in gpu.introduction(plan) {
        say(&event);
    }
    for unmet in environment::unmet() {
        let unmet = unmet.to_string();
        say(&DaemonEvent::GpuEnvironment { unmet });
    }
}

/// All threads beat from now on.
fn watchdog(threads: &mut Threads, plan: &Plan, probes: &[StallProbe]) -> Watchdog {
    let bound_ns = plan.watchdog.as_nanos();
    let who_has: WhoHas = |cores| rivals::here().who_has(cores);
    let watched = threads.watched(plan, probes);
    Watchdog::new(watched, bound_ns, clock::now_ns(), who_has)
}

/// Says which real-time threads and daemons of others may run on the plan's cores, as far as that can be seen.
pub fn tell_rivals(plan: &Plan, seen: &Sighting) {
    let mut cores: Vec<u16> = plan.threads.iter().map(|thread| thread.core).collect();
    cores.extend(&plan.housekeeping_cores);
    if let Some(threads) = seen.named(&cores) {
        say(&DaemonEvent::RivalsSeen { threads });
    }
    if let Some(unseen) = seen.unseen {
        let reason = unseen.to_string();
        say(&DaemonEvent::RivalsUnseen { reason });
    }
}

/// Says once what the machine did not grant and how it can be granted; returns it for the report.
fn complain(mut missing: Vec<Missing>) -> Vec<String> {
    missing.sort_unstable();
    missing.dedup();
    for facility in &missing {
        say(&DaemonEvent::NotGranted {
            facility: facility.to_string(),
            remedy: facility.how_to_grant().to_string(),
        });
    }
    missing.iter().map(Missing::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_threads_lack_is_said_once() {
        let lacking = vec![Missing::MemoryLock, Missing::Realtime, Missing::Realtime];
        let said = complain(lacking);
        assert_eq!(said.len(), 2, "{said:?}");
    }
}

//! Phase 3: every real-time thread of the plan, on its core and at its priority.

use std::sync::Arc;

use punctual_core::{ClientId, Criticality, PartitionId, TaskId};
use punctual_kernels::preprocess::{PreprocessError, PreprocessSpec, Preprocessor};
use punctual_plan::{Plan, PreparedBy, Role, ThreadPlan};
use punctual_platform::heartbeat::Pulse;
use punctual_platform::poll::Waker;
use punctual_platform::running;
use punctual_platform::stall::{Attention, CoreWatch, StallProbe};
use punctual_platform::thread::{self, RealtimeThread, Reservation, ThreadSpec};
use punctual_platform::{Missing, clock};
use punctual_types::Size;

use crate::channels::{Channels, HousekeepingClientEnds, IntakeEnds, PortEnds, SchedulerEnds};
use crate::crops::Pipeline;
use crate::describe::{self, Facts};
use crate::drain::{DrainOrder, Flag};
use crate::driver::Driver;
use crate::egress;
use crate::error::StartupError;
use crate::intake::{Intake, Target};
use crate::looking;
use crate::managed_thread::{ManagedThread, Wakeup};
use crate::metrics::Metrics;
use crate::pace::Pace;
use crate::port::{Overdrawn, Port, PresentClient};
use crate::recorder::Sinks;
use crate::starved::Starvable;
use crate::validate::Validated;
use crate::watchdog::{Machine, ThreadUsage, Watched, bounds};
use crate::world::{DaemonWorld, LentAreas, TaskOfBuffer, TaskOutputs, Trackers, WeightTracker};
use punctual_device::DeviceSet;
use punctual_device::frames::{FrameWork, SharedPreparer};

/// Stalls that each probe lists one by one.
const STALLS_LISTED: usize = 1024;

/// The daemon's real-time threads, but for the workers, which are the devices'.
pub struct Threads {
    pub scheduler: ManagedThread<Driver<DeviceSet>>,
    /// By client slot, as the intakes.
    pub ports: Vec<ManagedThread<Port>>,
    pub intakes: Vec<ManagedThread<Intake>>,
    /// To tell a port that its client overdrew its budget.
    overdrawn: Vec<Arc<Overdrawn>>,
    /// Raised by the scheduler when the drain is over.
    pub drained: Arc<Flag>,
    worker_tids: Vec<i32>,
    leaders: Vec<Arc<dyn Pulse>>,
}

pub struct ThreadFactory<'a> {
    pub validated: &'a Validated,
    pub metrics: Arc<Metrics>,
    pub drain: Arc<DrainOrder>,
    pub housekeeping: Waker,
    /// Of the plan's cores.
    pub probes: &'a [StallProbe],
    pub attention: Arc<Attention>,
    pub sinks: Sinks,
}

impl Threads {
    /// Starts all of them; what is left of the channels is housekeeping's.
    pub fn start(
        factory: &mut ThreadFactory<'_>,
        devices: DeviceSet,
        channels: Channels,
    ) -> Result<(Self, Vec<HousekeepingClientEnds>), StartupError> {
        let worker_tids: Vec<i32> = devices.tids().collect();
        let leaders = devices.pulses();
        let drained = Arc::new(Flag::default());
        let mut housekeeping = channels.housekeeping;
        let mut intakes = Vec::with_capacity(channels.intakes.len());
        for (ends, housekeeping) in channels.intakes.into_iter().zip(&mut housekeeping) {
            housekeeping.frames = factory.preparer(ends.client, &devices)?;
            intakes.push(factory.intake(ends, &devices, housekeeping.frames.clone())?);
        }
        let facts = Arc::new(describe::facts(factory.validated));
        let overdrawn: Vec<Arc<Overdrawn>> =
            channels.ports.iter().map(|_| Arc::default()).collect();
        let ports = channels.ports.into_iter().zip(&overdrawn);
        let threads = Self {
            ports: ports
                .map(|(ends, overdrawn)| factory.port(ends, &devices, &facts, overdrawn))
                .collect::<Result<_, _>>()?,
            intakes,
            overdrawn,
            scheduler: factory.scheduler(channels.scheduler, devices, &drained)?,
            drained,
            worker_tids,
            leaders,
        };
        Ok((threads, housekeeping))
    }

    /// What the machine did not grant them, with repetitions.
    pub fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        missing.extend_from_slice(self.scheduler.thread.missing());
        for port in &self.ports {
            missing.extend_from_slice(port.thread.missing());
        }
        for intake in &self.intakes {
            missing.extend_from_slice(intake.thread.missing());
        }
        missing
    }

    /// Kernel ids of them and of the workers.
    pub fn tids(&self) -> Vec<i32> {
        let mut tids = vec![self.scheduler.thread.tid()];
        tids.extend(self.ports.iter().map(|port| port.thread.tid()));
        tids.extend(self.intakes.iter().map(|intake| intake.thread.tid()));
        tids.extend(&self.worker_tids);
        tids
    }

    /// All that the watchdog watches, leaving the leaders' pulses to it. `probes` are of the plan's cores.
    pub fn watched(&mut self, plan: &Plan, probes: &[StallProbe]) -> Vec<Watched> {
        let watch = |name: String, role: Role, pulse: Arc<dyn Pulse>| {
            let tid = pulse.tid();
            let bound_ns = bounds::of(plan, role, thread::policy_of(tid));
            let core = core_of(plan, role, probes);
            let cores = cores_of(plan, role);
            let watched = Watched::new(name, pulse, bound_ns);
            watched.run_by(machine(tid, core)).on(cores)
        };
        let scheduler = self.scheduler.pulse();
        let mut watched = vec![watch("scheduler".into(), Role::Scheduler, scheduler)];
        for (client, port) in (0..).zip(&self.ports) {
            let of = watch(
                format!("port/{client}"),
                Role::Port { client },
                port.pulse(),
            );
            watched.push(of.serving(ClientId(client)));
        }
        for (client, intake) in (0..).zip(&self.intakes) {
            let role = Role::Intake { client };
            let of = watch(format!("intake/{client}"), role, intake.pulse());
            watched.push(of.serving(ClientId(client)));
        }
        for (index, pulse) in (0..).zip(self.leaders.drain(..)) {
            let partition = PartitionId(index);
            let name = format!("{}/0", plan.partitions[partition.index()].name);
            let role = Role::Worker { partition, unit: 0 };
            watched.push(watch(name, role, pulse).leading(partition));
        }
        watched
    }

    /// Whether one has ended without being told to, which only a panic can do.
    pub fn any_ended(&self) -> bool {
        fn ended<T>(thread: &RealtimeThread<T>) -> bool {
            thread.is_finished()
        }
        ended(&self.scheduler.thread)
            || self.ports.iter().any(|port| ended(&port.thread))
            || self.intakes.iter().any(|intake| ended(&intake.thread))
    }

    /// Disconnects the client of this slot, for which its port or its intake has waited too long.
    pub fn end_overdrawn(&self, client: ClientId) {
        self.overdrawn[client.index()].order();
        self.ports[client.index()].wakeup.send();
    }

    /// Ends them: the scheduler first, whose last verdicts the ports still deliver. Ports and intakes may wait for their
    /// client, so they are waited for within a bound. False if one had panicked. With `leave_devices`, the devices stay as
    /// they are until the process ends.
    pub fn stop_and_join(self, leave_devices: bool) -> bool {
        // What they worked with is dropped here, on an ordinary thread; the device joins its
        // workers then, which may wait for a driver that never returns.
        let driver = self.scheduler.stop_and_join();
        let scheduler = driver.is_some();
        if leave_devices {
            std::mem::forget(driver);
        } else {
            drop(driver);
        }
        let limit_ns = clock::now_ns() + CLIENTS_NS;
        scheduler & all_end(self.ports, limit_ns) & all_end(self.intakes, limit_ns)
    }
}

/// A frame is taken to hang if it takes the GPU its budget this number of times, and the time below in addition.
const FRAMES_TIMES: u64 = 8;
const FRAMES_FLOOR_NS: u64 = 50_000_000;

/// How long the end waits for ports and intakes, in ns.
const CLIENTS_NS: u64 = 1_000_000_000;

/// Ends these threads; one that does not end in time is left to the end of the process. False if one had panicked.
fn all_end<T: Send + 'static>(threads: Vec<ManagedThread<T>>, limit_ns: u64) -> bool {
    threads.iter().for_each(ManagedThread::stop);
    let ends = |thread: ManagedThread<T>| {
        while !thread.thread.is_finished() {
            if clock::now_ns() >= limit_ns {
                return true;
            }
            clock::sleep_until_ns(clock::now_ns() + 200_000);
        }
        thread.stop_and_join().is_some()
    };
    threads
        .into_iter()
        .fold(true, |all, thread| all & ends(thread))
}

/// A thread of the plan; of a partition's leader, its own or that of the partitions that it leads, too.
fn planned(plan: &Plan, role: Role) -> Option<&ThreadPlan> {
    match role {
        Role::Worker { partition, unit: 0 } => plan.leader(partition),
        role => plan.threads.iter().find(|thread| thread.role == role),
    }
}

/// Where a thread of the plan may run.
fn cores_of(plan: &Plan, role: Role) -> Vec<u16> {
    match planned(plan, role) {
        // One with a reservation may run on each of the daemon's cores (decision 11).
        Some(thread) if thread.reservation.is_some() => plan.housekeeping_cores.clone(),
        Some(thread) => vec![thread.core],
        None => Vec::new(),
    }
}

/// The probe's core that a thread of the plan is pinned to; none if it may run on several.
fn core_of(plan: &Plan, role: Role, probes: &[StallProbe]) -> Option<CoreWatch> {
    let planned = planned(plan, role)?;
    let pinned = planned.reservation.is_none();
    probe_on(plan, planned.core, probes).filter(|_| pinned)
}

/// What its probe sees of a core of the plan.
fn probe_on(plan: &Plan, core: u16, probes: &[StallProbe]) -> Option<CoreWatch> {
    let probed = plan.threads.iter().filter(|t| t.role == Role::StallProbe);
    let at = probed
        .map(|thread| thread.core)
        .position(|probed| probed == core)?;
    probes.get(at).map(StallProbe::core)
}

/// What the probes see of the cores of each partition's threads.
fn starvable(plan: &Plan, probes: &[StallProbe]) -> Box<[Starvable]> {
    let partitions = (0..plan.partitions.len() as u16).map(PartitionId);
    let of = |partition| {
        let is_ours = |thread: &&ThreadPlan| match thread.role {
            Role::Worker { partition: of, .. } => of == partition,
            _ => false,
        };
        let own = plan.threads.iter().filter(is_ours);
        let mut cores: Vec<u16> = own.chain(plan.leader(partition)).map(|t| t.core).collect();
        cores.sort_unstable();
        cores.dedup();
        let seen = cores.into_iter();
        Starvable::new(
            seen.filter_map(|core| probe_on(plan, core, probes))
                .collect(),
        )
    };
    partitions.map(of).collect()
}

/// What the watchdog asks of a thread that does not beat.
fn machine(tid: i32, core: Option<CoreWatch>) -> Machine {
    Box::new(move || {
        let running = running::of_thread(tid)?;
        Some(ThreadUsage {
            ran_ns: running.ran_ns,
            runnable: running.runnable,
            core_ran_ns: core.as_ref().map(CoreWatch::ran_ns),
        })
    })
}

/// What the scheduler's thread asks of the probes.
pub fn attention(plan: &Plan) -> Arc<Attention> {
    let scheduler = planned(plan, Role::Scheduler);
    let pinned = scheduler.filter(|thread| thread.reservation.is_none());
    Arc::new(Attention::from_core(
        pinned.map(|thread| usize::from(thread.core)),
    ))
}

/// One probe for each core of the plan.
pub fn stall_probes(
    plan: &Plan,
    attention: &Arc<Attention>,
) -> Result<Vec<StallProbe>, StartupError> {
    let probes = plan.threads.iter().filter(|t| t.role == Role::StallProbe);
    let start = |thread: &ThreadPlan| {
        let name = format!("stall/{}", thread.core);
        let spec = ThreadSpec::new(name, Some(usize::from(thread.core)), thread.priority);
        StallProbe::start(spec, Arc::clone(attention), STALLS_LISTED).map_err(StartupError::from)
    };
    probes.map(start).collect()
}

/// The preprocessors of one intake thread: networks of equal inputs share one.
#[derive(Default)]
struct Preprocessors {
    specs: Vec<PreprocessSpec>,
    made: Vec<Preprocessor>,
}

impl Preprocessors {
    /// Which one prepares such inputs.
    fn of(&mut self, spec: &PreprocessSpec) -> Result<usize, PreprocessError> {
        if let Some(known) = self.specs.iter().position(|known| known == spec) {
            return Ok(known);
        }
        self.made.push(Preprocessor::new(spec)?);
        self.specs.push(*spec);
        Ok(self.specs.len() - 1)
    }
}

impl ThreadFactory<'_> {
    fn plan(&self) -> &Plan {
        &self.validated.plan
    }

    fn spec(&self, role: Role, name: impl Into<String>) -> ThreadSpec {
        let planned = self.plan().threads.iter().find(|t| t.role == role);
        let planned = planned.expect("a plan places each of its threads");
        let cores = &self.plan().housekeeping_cores;
        let reservation = planned.reservation.map(|reservation| Reservation {
            runtime_ns: reservation.runtime_ns,
            period_ns: reservation.period_ns,
            cores: cores.iter().copied().map(usize::from).collect(),
        });
        ThreadSpec {
            reservation,
            ..ThreadSpec::new(name, Some(usize::from(planned.core)), planned.priority)
        }
    }

    fn intake(
        &mut self,
        ends: IntakeEnds,
        devices: &DeviceSet,
        frames: Option<SharedPreparer>,
    ) -> Result<ManagedThread<Intake>, StartupError> {
        let client = ends.client;
        let slot = self.plan().client_slots[client.index()];
        let tasks = slot.tasks().chain(slot.parts());
        let mut preprocessors = Preprocessors::default();
        let targets: Vec<Target> = self
            .served(tasks.clone())
            .map(|task| {
                let work = self.works_of(client).position(|of| of == task);
                self.target(task, devices, &mut preprocessors, work)
            })
            .collect::<Result<_, _>>()?;
        let made = preprocessors.made;
        let copy_len = made.iter().map(Preprocessor::copy_len_max).max();
        let numbers = tasks
            .clone()
            .map(|task| self.plan().task(task).channel.vectors);
        let is_brief = tasks
            .clone()
            .all(|task| looking::is_brief(self.plan(), task));
        let stop = Arc::new(Flag::default());
        let wakeup = Wakeup::Bell(Arc::clone(&ends.bell));
        let heart = Arc::default();
        let intake = Intake {
            ends,
            stop: Arc::clone(&stop),
            heart: Arc::clone(&heart),
            housekeeping: self.housekeeping.clone(),
            // All of these tasks have the same frames and vectors.
            copy: vec![0; copy_len.unwrap_or_default()].into(),
            numbers: vec![0.0; numbers.max().unwrap_or_default() as usize].into(),
            targets: targets.into(),
            preprocessors: made.into(),
            frames,
            reader: None,
            pictures: self.sinks.picture(client),
            metrics: Arc::clone(&self.metrics),
            attends: is_brief && looking::may_attend(&self.plan().threads, client),
        };
        let spec = self.spec(
            Role::Intake { client: client.0 },
            format!("intake/{}", client.0),
        );
        Ok(ManagedThread::start(spec, stop, wakeup, heart, || {
            intake.serve()
        })?)
    }

    /// The client's own tasks whose frames the GPU prepares.
    fn works_of(&self, client: ClientId) -> impl Iterator<Item = TaskId> {
        let tasks = self.plan().client_slots[client.index()].tasks();
        tasks.filter(|task| self.plan().task(*task).arrival.prepared_by == PreparedBy::Gpu)
    }

    /// What prepares the client's frames on the GPU; none if cores prepare all of them.
    fn preparer(
        &self,
        client: ClientId,
        devices: &DeviceSet,
    ) -> Result<Option<SharedPreparer>, StartupError> {
        let works = self.works_of(client).map(|id| self.frame_work(id));
        let works: Vec<FrameWork> = works.collect();
        if works.is_empty() {
            return Ok(None);
        }
        Ok(Some(devices.frame_preparer(&works)?))
    }

    fn frame_work(&self, id: TaskId) -> FrameWork {
        let plan = self.plan();
        let task = plan.task(id);
        let input = self.validated.package(task.model).network().input;
        let (mean, std) = input.form.normalisation();
        let longest_ns = FRAMES_TIMES * task.arrival.prepare.as_nanos() + FRAMES_FLOOR_NS;
        FrameWork {
            model: task.model,
            partition: task.partition,
            layout: task.frame.layout(),
            crop: task.frame.crop,
            mean: [mean[0], mean[1], mean[2]],
            std: [std[0], std[1], std[2]],
            // Before the watchdog takes the intake to be stuck.
            limit_ns: longest_ns.min(plan.watchdog.as_nanos() / 4 * 3),
        }
    }

    /// These tasks and those that they offload frames to, rising.
    fn served(&self, tasks: impl Iterator<Item = TaskId> + Clone) -> impl Iterator<Item = TaskId> {
        let config = &self.plan().scheduler.tasks;
        let takers = tasks
            .clone()
            .filter_map(|task| config[task.index()].offload_to);
        let mut served: Vec<TaskId> = tasks.chain(takers).collect();
        served.sort_unstable();
        served.dedup();
        served.into_iter()
    }

    /// A task to prepare inputs for.
    fn target(
        &self,
        id: TaskId,
        devices: &DeviceSet,
        preprocessors: &mut Preprocessors,
        work: Option<usize>,
    ) -> Result<Target, StartupError> {
        let task = self.plan().task(id);
        let input = self.validated.package(task.model).network().input;
        let (mean, std) = input.form.normalisation();
        let preprocessor = preprocessors.of(&PreprocessSpec {
            frame: task.frame.layout(),
            crop: task.frame.crop,
            output: Size {
                width: input.width,
                height: input.height,
            },
            channels: input.channels,
            fit: task.frame.fit,
            mean,
            std,
        });
        let preprocessor = preprocessor.map_err(|source| StartupError::Preprocess {
            task: task.name.clone(),
            source,
        })?;
        let inputs = devices.inputs(task.model);
        let (buffers, model) = inputs.expect("a model of the plan");
        Ok(Target {
            task: id,
            model,
            buffers,
            preprocessor,
            work,
            vectors: task.vectors.clone().into(),
        })
    }

    fn port(
        &self,
        ends: PortEnds,
        devices: &DeviceSet,
        facts: &Arc<Facts>,
        overdrawn: &Arc<Overdrawn>,
    ) -> Result<ManagedThread<Port>, StartupError> {
        let client = ends.client;
        let slot = self.plan().client_slots[client.index()];
        // Of tasks that share a client's place the table says all that counts here.
        let task = slot.task;
        let clients = self.plan().client_slots.len();
        let planned = self.plan().task(task);
        let period = planned.entry.submission_period;
        let is_promised = planned.criticality == Criticality::RealTime;
        let promised = planned.period.filter(|_| is_promised);
        let stop = Arc::new(Flag::default());
        let wakeup = Wakeup::Poller(ends.poller.waker());
        let heart = Arc::default();
        let partition = self.plan().scheduler.tasks[task.index()].partition;
        let port = Port {
            tasks: slot.tasks().collect(),
            leader: devices
                .leader(partition)
                .filter(|_| looking::may_sleep_deeply(self.plan())),
            is_brief: slot
                .tasks()
                .all(|task| looking::is_brief(self.plan(), task)),
            pace: period.map(|period| Pace::new(period, ends.slots)),
            egress_ns_max: egress::longest_ns(planned.deadline),
            reads: Pace::of_reads(promised, clients, ends.slots),
            ends,
            metrics: Arc::clone(&self.metrics),
            facts: Arc::clone(facts),
            drain: Arc::clone(&self.drain),
            stop: Arc::clone(&stop),
            heart: Arc::clone(&heart),
            housekeeping: self.housekeeping.clone(),
            overdrawn: Arc::clone(overdrawn),
            client: PresentClient::default(),
            recorder: self.sinks.sent.clone(),
        };
        let spec = self.spec(
            Role::Port { client: client.0 },
            format!("port/{}", client.0),
        );
        Ok(ManagedThread::start(spec, stop, wakeup, heart, || {
            port.serve()
        })?)
    }

    fn scheduler(
        &mut self,
        ends: SchedulerEnds,
        devices: DeviceSet,
        drained: &Arc<Flag>,
    ) -> Result<ManagedThread<Driver<DeviceSet>>, StartupError> {
        let stop = Arc::new(Flag::default());
        let wakeup = Wakeup::Bell(Arc::clone(&ends.bell));
        let (metrics, drain) = (Arc::clone(&self.metrics), Arc::clone(&self.drain));
        let partitions = self.plan().partitions.len();
        let trackers = Trackers {
            weights: WeightTracker::new(&self.plan().scheduler),
            running: self.plan().scheduler.tasks_by_model(),
            outputs: self.lent_areas(&devices),
            tasks: TaskOfBuffer::new(&self.plan().scheduler),
        };
        let starvable = starvable(self.plan(), self.probes);
        let world = DaemonWorld::new(ends, devices, partitions, trackers, metrics, drain)
            .on_partitions(starvable, Arc::clone(&self.attention))
            .of_pipelines(self.pipelines())
            .recorded_by(self.sinks.steps.take(), self.sinks.boxes.take())
            .telling(self.housekeeping.clone());
        let heart = Arc::clone(&world.heart);
        let driver = Driver::new(
            self.plan(),
            world,
            Arc::clone(drained),
            Arc::clone(&stop),
            self.housekeeping.clone(),
        )?;
        let spec = self.spec(Role::Scheduler, "scheduler");
        Ok(ManagedThread::start(spec, stop, wakeup, heart, || {
            driver.serve()
        })?)
    }

    /// By client.
    fn pipelines(&self) -> Vec<Option<Pipeline>> {
        let slots = 0..self.plan().client_slots.len();
        slots
            .map(|slot| Pipeline::of_client(self.validated, slot))
            .collect()
    }

    /// Where the outputs go that clients get.
    fn lent_areas(&self, devices: &DeviceSet) -> LentAreas {
        let plan = self.plan();
        let outputs = (0..).map(TaskId).zip(&plan.tasks).map(|(id, task)| {
            let (inputs, _) = devices.inputs(task.model)?;
            let given = !task.outputs.is_empty();
            given.then(|| TaskOutputs {
                regions: Arc::clone(inputs.regions()),
                parts: describe::parts(plan, id),
            })
        });
        LentAreas::new(outputs.collect(), plan.scheduler.request_buffers)
    }
}

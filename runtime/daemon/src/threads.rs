//! Phase 3: every real-time thread of the plan, on its core and at its priority.

use std::sync::Arc;

use punctual_core::{PartitionId, TaskId};
use punctual_kernels::preprocess::{PreprocessSpec, Preprocessor};
use punctual_plan::{Plan, Role};
use punctual_platform::Missing;
use punctual_platform::heartbeat::Pulse;
use punctual_platform::poll::{Poller, Waker};
use punctual_platform::running;
use punctual_platform::stall::{CoreWatch, StallProbe};
use punctual_platform::thread::{self, RealtimeThread, Reservation, ThreadSpec};
use punctual_types::Size;

use crate::channels::{
    Channels, EgressEnds, HousekeepingEnds, IngressEnds, IntakeEnds, SchedulerEnds,
};
use crate::describe;
use crate::drain::{DrainOrder, Flag};
use crate::driver::Driver;
use crate::egress::Egress;
use crate::error::StartupError;
use crate::ingress::{Ingress, Place};
use crate::intake::{Intake, Target};
use crate::managed_thread::{ManagedThread, Wakeup};
use crate::metrics::Metrics;
use crate::validate::Validated;
use crate::watchdog::{Machine, ThreadUsage, Watched, bounds};
use crate::world::{DaemonWorld, LentAreas, TaskOfBuffer, TaskOutputs, WeightTracker};
use punctual_device::DeviceSet;

/// Stalls that each probe lists one by one.
const STALLS_LISTED: usize = 1024;

/// The daemon's real-time threads, but for the workers, which are the devices'.
pub struct Threads {
    pub ingress: ManagedThread<Ingress>,
    pub ingress_waker: Waker,
    pub scheduler: ManagedThread<Driver<DeviceSet>>,
    pub egress: ManagedThread<Egress>,
    pub intakes: Vec<ManagedThread<Intake>>,
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
}

impl Threads {
    /// Starts all of them; what is left of the channels is housekeeping's.
    pub fn start(
        factory: &ThreadFactory<'_>,
        devices: DeviceSet,
        channels: Channels,
    ) -> Result<(Self, HousekeepingEnds), StartupError> {
        let worker_tids: Vec<i32> = devices.tids().collect();
        let leaders = devices.pulses();
        let drained = Arc::new(Flag::default());
        let intakes = channels
            .intakes
            .into_iter()
            .map(|ends| factory.intake(ends, &devices))
            .collect::<Result<_, _>>()?;
        let (ingress, ingress_waker) = factory.ingress(channels.ingress)?;
        let threads = Self {
            intakes,
            egress: factory.egress(channels.egress, &ingress_waker)?,
            scheduler: factory.scheduler(channels.scheduler, devices, &drained)?,
            ingress,
            ingress_waker,
            drained,
            worker_tids,
            leaders,
        };
        Ok((threads, channels.housekeeping))
    }

    /// What the machine did not grant them, with repetitions.
    pub fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        missing.extend_from_slice(self.ingress.thread.missing());
        missing.extend_from_slice(self.scheduler.thread.missing());
        missing.extend_from_slice(self.egress.thread.missing());
        for intake in &self.intakes {
            missing.extend_from_slice(intake.thread.missing());
        }
        missing
    }

    /// Kernel ids of them and of the workers.
    pub fn tids(&self) -> Vec<i32> {
        let mut tids = vec![
            self.ingress.thread.tid(),
            self.scheduler.thread.tid(),
            self.egress.thread.tid(),
        ];
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
            Watched::new(name, pulse, bound_ns).run_by(machine(tid, core))
        };
        let mut watched = vec![
            watch("ingress".into(), Role::Ingress, self.ingress.pulse()),
            watch("scheduler".into(), Role::Scheduler, self.scheduler.pulse()),
            watch("egress".into(), Role::Egress, self.egress.pulse()),
        ];
        for (client, intake) in (0..).zip(&self.intakes) {
            let name = format!("intake/{client}");
            watched.push(watch(name, Role::Intake { client }, intake.pulse()));
        }
        for (index, pulse) in (0..).zip(self.leaders.drain(..)) {
            let partition = PartitionId(index);
            let name = format!("{}/0", plan.partitions[partition.index()].name);
            let role = Role::Worker { partition, unit: 0 };
            watched.push(watch(name, role, pulse));
        }
        watched
    }

    /// Whether one has ended without being told to, which only a panic can do.
    pub fn any_ended(&self) -> bool {
        fn ended<T>(thread: &RealtimeThread<T>) -> bool {
            thread.is_finished()
        }
        ended(&self.ingress.thread)
            || ended(&self.scheduler.thread)
            || ended(&self.egress.thread)
            || self.intakes.iter().any(|intake| ended(&intake.thread))
    }

    /// Ends them in the order in which work flows, so that each finds the last of the one before.
    /// False if one had panicked. To `leave_devices` is to leave them as they are, for the end of the process to end.
    pub fn stop_and_join(self, leave_devices: bool) -> bool {
        // What they worked with is dropped here, on an ordinary thread; the device joins its
        // workers then, which may wait for a driver that never returns.
        let ingress = self.ingress.stop_and_join().is_some();
        let driver = self.scheduler.stop_and_join();
        let scheduler = driver.is_some();
        if leave_devices {
            std::mem::forget(driver);
        } else {
            drop(driver);
        }
        let egress = self.egress.stop_and_join().is_some();
        let intakes = self.intakes.into_iter().map(ManagedThread::stop_and_join);
        let intakes = intakes.fold(true, |all, intake| all & intake.is_some());
        ingress & scheduler & egress & intakes
    }
}

/// The probe's core that a thread of the plan is pinned to; none if it may run on several.
fn core_of(plan: &Plan, role: Role, probes: &[StallProbe]) -> Option<CoreWatch> {
    let planned = match role {
        Role::Worker { partition, unit: 0 } => plan.leader(partition)?,
        role => plan.threads.iter().find(|thread| thread.role == role)?,
    };
    let probed = plan.threads.iter().filter(|t| t.role == Role::StallProbe);
    let at = probed
        .map(|thread| thread.core)
        .position(|core| core == planned.core)?;
    // A thread with a reservation may run on each of the daemon's cores (decision 11).
    let pinned = planned.reservation.is_none();
    probes.get(at).filter(|_| pinned).map(StallProbe::core)
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

/// One probe for each core of the plan.
pub fn stall_probes(plan: &Plan) -> Result<Vec<StallProbe>, StartupError> {
    let probes = plan.threads.iter().filter(|t| t.role == Role::StallProbe);
    let start = |thread: &punctual_plan::ThreadPlan| {
        let name = format!("stall/{}", thread.core);
        let spec = ThreadSpec::new(name, Some(usize::from(thread.core)), thread.priority);
        StallProbe::start(spec, STALLS_LISTED).map_err(StartupError::from)
    };
    probes.map(start).collect()
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
        &self,
        ends: IntakeEnds,
        devices: &DeviceSet,
    ) -> Result<ManagedThread<Intake>, StartupError> {
        let client = ends.client;
        let task = self.plan().client_slots[client.index()].task;
        let offload_to = self.plan().scheduler.tasks[task.index()].offload_to;
        let own = self.target(task, devices)?;
        let offload_to = offload_to
            .map(|task| self.target(task, devices))
            .transpose()?;
        let stop = Arc::new(Flag::default());
        let wakeup = Wakeup::Bell(Arc::clone(&ends.bell));
        let heart = Arc::default();
        let intake = Intake {
            ends,
            stop: Arc::clone(&stop),
            heart: Arc::clone(&heart),
            housekeeping: self.housekeeping.clone(),
            // The task of `offload_to` has the same frames, so their rows fit too.
            copy: vec![0; own.preprocessor.copy_len_max()].into(),
            // So do its vectors.
            numbers: vec![0.0; self.plan().task(task).channel.vectors as usize].into(),
            own,
            offload_to,
            reader: None,
        };
        let spec = self.spec(
            Role::Intake { client: client.0 },
            format!("intake/{}", client.0),
        );
        Ok(ManagedThread::start(spec, stop, wakeup, heart, || {
            intake.serve()
        })?)
    }

    /// A task to prepare inputs for.
    fn target(&self, id: TaskId, devices: &DeviceSet) -> Result<Target, StartupError> {
        let task = self.plan().task(id);
        let input = self.validated.package(task.model).network().input;
        let (mean, std) = input.form.normalisation();
        let preprocessor = Preprocessor::new(&PreprocessSpec {
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
            vectors: task.vectors.clone().into(),
        })
    }

    fn egress(
        &self,
        ends: EgressEnds,
        ingress: &Waker,
    ) -> Result<ManagedThread<Egress>, StartupError> {
        let stop = Arc::new(Flag::default());
        let wakeup = Wakeup::Bell(Arc::clone(&ends.bell));
        let heart = Arc::default();
        let egress = Egress {
            ends,
            stop: Arc::clone(&stop),
            heart: Arc::clone(&heart),
            metrics: Arc::clone(&self.metrics),
            housekeeping: self.housekeeping.clone(),
            ingress: ingress.clone(),
            facts: describe::facts(self.validated),
            clients: self.plan().client_slots.iter().map(|_| None).collect(),
        };
        let spec = self.spec(Role::Egress, "egress");
        Ok(ManagedThread::start(spec, stop, wakeup, heart, || {
            egress.serve()
        })?)
    }

    fn scheduler(
        &self,
        ends: SchedulerEnds,
        devices: DeviceSet,
        drained: &Arc<Flag>,
    ) -> Result<ManagedThread<Driver<DeviceSet>>, StartupError> {
        let stop = Arc::new(Flag::default());
        let wakeup = Wakeup::Bell(Arc::clone(&ends.bell));
        let (metrics, drain) = (Arc::clone(&self.metrics), Arc::clone(&self.drain));
        let partitions = self.plan().partitions.len();
        let trackers = (
            WeightTracker::new(&self.plan().scheduler),
            self.lent_areas(&devices),
            TaskOfBuffer::new(&self.plan().scheduler),
        );
        let world = DaemonWorld::new(ends, devices, partitions, trackers, metrics, drain);
        let heart = Arc::clone(&world.heart);
        let driver = Driver::new(
            self.plan(),
            world,
            (Arc::clone(drained), Arc::clone(&stop)),
            self.housekeeping.clone(),
        )?;
        let spec = self.spec(Role::Scheduler, "scheduler");
        Ok(ManagedThread::start(spec, stop, wakeup, heart, || {
            driver.serve()
        })?)
    }

    /// Where the outputs go that clients get.
    fn lent_areas(&self, devices: &DeviceSet) -> LentAreas {
        let plan = self.plan();
        let outputs = (0..).map(TaskId).zip(&plan.tasks).map(|(id, task)| {
            let (inputs, _) = devices.inputs(task.model)?;
            let given = !task.outputs.is_empty();
            given.then(|| TaskOutputs {
                regions: Arc::clone(inputs.regions()),
                halves: describe::halves(plan, id),
            })
        });
        LentAreas::new(outputs.collect(), plan.scheduler.request_buffers)
    }

    fn ingress(&self, ends: IngressEnds) -> Result<(ManagedThread<Ingress>, Waker), StartupError> {
        let slots = &self.plan().client_slots;
        let place = |id| {
            let task = self.plan().task(id);
            Place::new(id, task.channel.slots, task.entry.submission_period)
        };
        // Each client's bell, and its end.
        let reports = 2 * slots.len();
        let poller = Poller::new(reports)?;
        let stop = Arc::new(Flag::default());
        let waker = poller.waker();
        let heart = Arc::default();
        let ingress = Ingress {
            ends,
            poller,
            ready: Vec::with_capacity(reports),
            clients: slots.iter().map(|slot| place(slot.task)).collect(),
            metrics: Arc::clone(&self.metrics),
            drain: Arc::clone(&self.drain),
            stop: Arc::clone(&stop),
            heart: Arc::clone(&heart),
            housekeeping: self.housekeeping.clone(),
            drained: false,
        };
        let spec = self.spec(Role::Ingress, "ingress");
        let wakeup = Wakeup::Poller(waker.clone());
        let thread = ManagedThread::start(spec, stop, wakeup, heart, || ingress.serve())?;
        Ok((thread, waker))
    }
}

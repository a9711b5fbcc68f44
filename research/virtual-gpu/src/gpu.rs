//! The daemon's GPU device on a driver in virtual time, as the simulator takes devices.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use emulated_cuda::{
    BegunLaunch, Config, Emulator, LaunchCost, LibraryError, LoadCosts, Loads, Pace,
};
use punctual_core::{
    ActionId, Event, Infer, Instant, ModelId, Nanos, PartitionId, RequestId, StageId,
};
use punctual_device::{Device, DeviceSpec, SubmitError};
use punctual_device_cuda::driver::{Driver, Gpu, OpenError};
use punctual_device_cuda::host::Host;
use punctual_device_cuda::partition::offer::{self, How, OfferError, UnknownMechanism};
use punctual_device_cuda::partition::{Mechanism, Partitioner, StreamError, Trial, record};
use punctual_device_cuda::{Counts, CudaSpec, Next, StartError, SteppedDevice};
use punctual_platform::clock::Clock;
use punctual_simulator::device::TimedDevice;
use punctual_simulator::samples::Answers;
use punctual_simulator::virtual_device::Oracle;

/// Why there is no such device.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Driver(#[from] OpenError),
    #[error(transparent)]
    Offer(#[from] OfferError),
    #[error(transparent)]
    Mechanism(#[from] UnknownMechanism),
    #[error("outcome of the trial of masks: {0}")]
    Record(#[from] std::io::Error),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("the emulated driver's masks did not pass their trial: {said}")]
    Refused { said: String },
    #[error(transparent)]
    Start(#[from] StartError),
}

/// What launches cost.
pub trait Costs {
    /// Of a launch of the stage that `infer` runs.
    fn cost(&self, infer: &Infer, launch: &BegunLaunch) -> LaunchCost;
}

/// An emulated GPU whose masks passed the daemon's trial. One a process at a time.
pub struct Machine {
    emulator: Emulator,
    pub gpu: Gpu,
    pub partitioner: Arc<Partitioner>,
}

impl Machine {
    /// A GPU of `tpcs` TPCs of `sms_per_tpc` multiprocessors each.
    ///
    /// # Errors
    /// If there is no emulated driver next to this program, or its masks do not hold.
    pub fn start(tpcs: u32, sms_per_tpc: u32) -> Result<Self, GpuError> {
        let config = Config {
            tpcs,
            sms_per_tpc,
            memory_bytes: 16 << 30,
            // As the programs ask the driver for it.
            connections: Some(32),
            ..Config::default()
        };
        let emulator = Emulator::start(&config)?;
        let gpu = Driver::open()?.device(0)?;
        let partitioner = Arc::new(partitioner(gpu, &config)?);
        Ok(Self {
            emulator,
            gpu,
            partitioner,
        })
    }
}

impl Machine {
    /// What the driver has loaded so far.
    pub fn loads(&self) -> Loads {
        self.emulator.loads()
    }
}

/// What masks the streams of a device: found by the trial that the daemon makes, in this process.
fn partitioner(gpu: Gpu, config: &Config) -> Result<Partitioner, GpuError> {
    let mechanism = Mechanism::StreamMask;
    let folder: PathBuf = std::env::temp_dir().join(format!("virtual-gpu-{}", std::process::id()));
    let how = How {
        host: Host::at(&folder),
        order: vec![mechanism],
        ..How::usual(None, Some(folder.clone()))?
    };
    let facts = offer::look(gpu, 0, &how)?.facts;
    let trial = Trial {
        mechanism,
        device: 0,
        version: facts.version,
        compute_capability: config.compute,
        libsmctrl: OsString::new(),
        place: None,
    };
    let outcome = trial.run();
    if let Err(refusal) = &outcome {
        let said = refusal.to_string();
        return Err(GpuError::Refused { said });
    }
    record::write(&folder, &facts.key(mechanism, &how), &outcome)?;
    let offer = offer::look(gpu, 0, &how)?;
    std::fs::remove_dir_all(&folder)?;
    Ok(offer.partitioner(gpu)?)
}

/// See the module. What launches compute is not computed: answers are the simulator's pictures'.
pub struct VirtualGpu<C> {
    /// Before the machine, whose driver it uses.
    device: SteppedDevice,
    machine: Machine,
    costs: C,
    answers: Answers,
    now_ns: Arc<AtomicU64>,
    /// When something happens next, if nothing is submitted; worked out anew after each change.
    next: Option<Instant>,
    settled: bool,
    ready: VecDeque<Event>,
    /// Actions that were submitted and are not over.
    open: Vec<Open>,
    /// By partition, its TPCs.
    units: Box<[u16]>,
    busy: u128,
    /// What comes in turn, if that takes its time here.
    loading: Option<Loading>,
}

/// What loading costs, in addition to the driver's calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartCosts {
    pub loads: LoadCosts,
    /// To pack a byte of weights on the host.
    pub packed_byte_ns: f64,
    /// Of those, the bytes that were packed before the device was there.
    pub packed_before: u64,
}

/// The thread that loads.
struct Loading {
    costs: StartCosts,
    /// When it is done with what it loads.
    until: Instant,
    /// What is said then.
    held: VecDeque<Event>,
    over: bool,
}

/// As the recovery thread looks for gaps.
const LOOK: Nanos = Nanos::from_millis(2);

/// What an event's answers come from.
struct Open {
    action: ActionId,
    partition: PartitionId,
    model: ModelId,
    stage: StageId,
    members: Vec<RequestId>,
}

impl<C: Costs> VirtualGpu<C> {
    /// Starts the device, with whatever that takes, and then the clock.
    ///
    /// # Errors
    /// If the device does not start.
    pub fn start(
        machine: Machine,
        spec: &DeviceSpec<'_>,
        cuda: &CudaSpec,
        pace: Pace,
        costs: C,
        answers: Answers,
    ) -> Result<Self, GpuError> {
        let now_ns = Arc::new(AtomicU64::new(0));
        let clock = Clock::Virtual(now_ns.clone());
        let device = SteppedDevice::start(machine.gpu.driver(), spec, cuda, &clock)?;
        machine.emulator.begin_virtual_time(pace);
        Ok(Self {
            device,
            machine,
            costs,
            answers,
            now_ns,
            next: None,
            settled: false,
            ready: VecDeque::new(),
            open: Vec::new(),
            units: spec
                .partitions
                .iter()
                .map(|p| p.tpcs.len() as u16)
                .collect(),
            busy: 0,
            loading: None,
        })
    }

    /// What the driver has loaded so far.
    #[must_use]
    pub fn loads(&self) -> Loads {
        self.machine.loads()
    }

    /// From now on what comes in turn is loaded, by a thread that takes its time for it.
    pub fn load_in_turn(&mut self, costs: StartCosts) {
        self.loading = Some(Loading {
            costs,
            until: self.now(),
            held: VecDeque::new(),
            over: false,
        });
        self.settled = false;
    }

    /// Has the thread that loads do what it does at this instant. Says whether anything came of it.
    fn load(&mut self) -> bool {
        let now = self.now();
        let Some(loading) = &mut self.loading else {
            return false;
        };
        if loading.until > now {
            return false;
        }
        let told = !loading.held.is_empty();
        self.ready.append(&mut loading.held);
        if loading.over {
            return told;
        }
        let before = self.machine.loads();
        // A module that is refused is said by the device's readiness.
        let next = self.device.load_next(now).unwrap_or(Next::Loaded);
        let loads = self.machine.loads() - before;
        let packed = loads
            .copied_bytes
            .saturating_sub(loading.costs.packed_before);
        loading.costs.packed_before = loading
            .costs
            .packed_before
            .saturating_sub(loads.copied_bytes);
        let packing = packed as f64 * loading.costs.packed_byte_ns;
        loading.over = next == Next::Over;
        loading.until = match next {
            Next::Waits => now + LOOK,
            Next::Loaded | Next::Over => {
                now + Nanos::new(loading.costs.loads.of(loads) + packing as u64)
            }
        };
        true
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.device.device().counters().read()
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ns.load(Ordering::Relaxed))
    }

    /// Lets leaders and the GPU do what they do at this instant.
    fn settle(&mut self) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        loop {
            let loaded = self.load();
            let (changed, opens) = self.device.carry_on();
            let passed = self.pass(self.now());
            while let Some(event) = self.device.device_mut().poll() {
                let event = self.answered(event);
                match (&event, &mut self.loading) {
                    (Event::Readiness(_), Some(loading)) => loading.held.push_back(event),
                    _ => self.ready.push_back(event),
                }
            }
            if !loaded && !changed && !passed.changed {
                let next = passed.next_ns.map(Instant::from_nanos);
                let loading = self.loading.as_ref();
                let loading = loading.filter(|loading| !loading.over || !loading.held.is_empty());
                let loading = loading.map(|loading| loading.until);
                self.next = next.into_iter().chain(opens).chain(loading).min();
                return;
            }
        }
    }

    fn pass(&mut self, until: Instant) -> emulated_cuda::Passed {
        let (device, costs) = (&self.device, &self.costs);
        let passed = self.machine.emulator.pass(until.as_nanos(), &mut |launch| {
            let infer = device.running_in(launch.stream);
            infer.map_or(LaunchCost::alone(1), |infer| costs.cost(infer, launch))
        });
        // Relaxed: see `Clock`.
        self.now_ns.store(passed.now_ns, Ordering::Relaxed);
        passed
    }

    /// An event with the answers that the pictures have.
    fn answered(&mut self, mut event: Event) -> Event {
        let action = match &event {
            Event::Finished(finished) => finished.action,
            Event::NotRun { action } | Event::Preempted { action } | Event::Failed { action } => {
                *action
            }
            _ => return event,
        };
        let at = self.open.iter().position(|open| open.action == action);
        let Some(at) = at else { return event };
        let open = self.open.swap_remove(at);
        if let Event::Finished(finished) = &mut event {
            let units = self.units[open.partition.index()];
            self.busy += u128::from(finished.measured.as_nanos()) * u128::from(units);
            for (answer, request) in finished.members.iter_mut().zip(open.members) {
                *answer = self.answers.answer(request, open.model, open.stage);
            }
        }
        event
    }
}

impl<C> Drop for VirtualGpu<C> {
    /// What the driver has must be over before the device frees what it uses.
    fn drop(&mut self) {
        let emulator = &self.machine.emulator;
        while emulator
            .pass(u64::MAX / 2, &mut |_| LaunchCost::alone(1))
            .changed
        {}
    }
}

impl<C: Costs + ?Sized> Costs for &C {
    fn cost(&self, infer: &Infer, launch: &BegunLaunch) -> LaunchCost {
        (**self).cost(infer, launch)
    }
}

impl<C: Costs> Device for VirtualGpu<C> {
    fn submit(&mut self, infer: &Infer) -> Result<(), SubmitError> {
        self.device.device_mut().submit(infer)?;
        self.open.push(Open {
            action: infer.id,
            partition: infer.partition,
            model: infer.model,
            stage: infer.stage,
            members: infer.members.iter().copied().collect(),
        });
        self.settled = false;
        Ok(())
    }

    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), SubmitError> {
        self.device.device_mut().load(action, model)
    }

    fn unload(&mut self, model: ModelId) -> Result<(), SubmitError> {
        self.device.device_mut().unload(model)
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        self.device.device_mut().preempt(partition, action);
        self.settled = false;
    }

    fn poll(&mut self) -> Option<Event> {
        self.settle();
        self.ready.pop_front()
    }
}

impl<C: Costs> TimedDevice for VirtualGpu<C> {
    fn next_event(&mut self) -> Option<Instant> {
        self.settle();
        if self.ready.is_empty() {
            self.next
        } else {
            Some(self.now())
        }
    }

    fn advance_to(&mut self, now: Instant) {
        self.settle();
        while let Some(next) = self.next.filter(|next| *next <= now) {
            self.pass(next);
            self.settled = false;
            self.settle();
        }
        if now > self.now() {
            self.pass(now);
            self.settled = false;
            self.settle();
        }
    }

    fn put(&mut self, buffer: u16, sample: u32) {
        self.answers.put(buffer, sample);
    }

    /// TPCs of partitions times nanoseconds that stages which were done had them.
    fn busy(&self) -> u128 {
        self.busy
    }
}

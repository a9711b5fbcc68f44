//! Weights that come and go: where a device keeps them, and the thread that brings them in.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};
use punctual_core::{ActionId, ModelId, Nanos, Readiness, StageId};
use punctual_platform::thread::{RealtimeThread, ThreadError, ThreadSpec, spawn_realtime};
use punctual_platform::{Doorbell, Missing, affinity, allocator, clock};

use crate::spec::CacheSpec;

/// Failed loads that wait to be asked for; further ones are counted by their events alone.
const FAILURES_MAX: usize = 16;

/// Memory for the weights of a device's models, as the thread that submits sees it. It does what it
/// is told: [`Shell`](crate::shell::Shell) knows what is there and what may be asked.
pub trait WeightStore: Send {
    /// Pages that a model's weights fill; none for a pinned model.
    fn pages(&self, model: ModelId) -> Option<u32>;

    /// Gives an absent model its pages, of which there are enough, and has the loader fill them.
    fn load(&mut self, action: ActionId, model: ModelId);

    /// Takes back the pages of a model that is not in use.
    fn unload(&mut self, model: ModelId);

    /// The next load that has ended. A failed one has given its pages back.
    fn poll(&mut self) -> Option<Loaded>;

    /// Whether a stage of a pinned model can run. Always after a whole start.
    fn is_ready(&self, model: ModelId, stage: StageId) -> bool {
        let _ = (model, stage);
        true
    }

    /// The next change of how much of a pinned model can run, oldest first. None after a whole start.
    fn poll_readiness(&mut self) -> Option<Readiness> {
        None
    }
}

/// The store of a device on which all weights are pinned.
pub struct Resident;

impl WeightStore for Resident {
    fn pages(&self, _model: ModelId) -> Option<u32> {
        None
    }

    fn load(&mut self, _action: ActionId, _model: ModelId) {}

    fn unload(&mut self, _model: ModelId) {}

    fn poll(&mut self) -> Option<Loaded> {
        None
    }
}

/// A load that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub action: ActionId,
    pub model: ModelId,
    /// How long it took; none if it failed.
    pub took: Option<Nanos>,
}

/// A load that failed, and why. For ordinary threads, which may format it.
#[derive(Debug)]
pub struct LoadFailure {
    pub model: ModelId,
    /// The network runs all the same: general solutions stay in the place of what could not be loaded.
    pub stays_general: bool,
    pub reason: Box<dyn Error + Send + Sync>,
}

/// Where threads that load say why they cannot.
#[derive(Clone, Debug)]
pub struct Complaints(Sender<LoadFailure>);

impl Complaints {
    /// Never waits.
    pub fn say(&self, failure: LoadFailure) {
        // Full: failures were not read for a while, and the events report them too.
        let _ = self.0.try_send(failure);
    }
}

/// Fills pages, on a thread of its own.
pub trait Loader: Send + 'static {
    /// Why weights cannot be brought in.
    type Error: Error + Send + Sync + 'static;

    /// Rings when an order is there.
    fn bell(&self) -> &Arc<Doorbell>;

    /// Carries out the next order; none if there is none.
    fn carry_out_next(&mut self) -> Option<Result<(), (ModelId, Self::Error)>>;

    /// Where no order waits, does a little of a start in turn: as much as an order may wait for, and the end of the
    /// thread. `now_ns` is the time.
    ///
    /// # Errors
    /// What of the start could not be done; it goes on with the rest.
    fn carry_on_start(&mut self, now_ns: u64) -> Result<Progress, (ModelId, Self::Error)> {
        let _ = now_ns;
        Ok(Progress::Over)
    }
}

/// How a start in turn goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something was done that needs no report.
    Quiet,
    /// Something was done, and there is something to poll.
    Told,
    /// It would disturb stages now: look again at this time, in nanoseconds.
    Waits(u64),
    /// Nothing is left to do.
    Over,
}

/// The thread of a [`Loader`]. Dropped, it ends after what it carries out; the rest of a start in turn is not done.
pub struct LoaderThread {
    ended: Arc<AtomicBool>,
    bell: Arc<Doorbell>,
    complaints: Complaints,
    failures: Option<Receiver<LoadFailure>>,
    /// None once it has been joined.
    thread: Option<RealtimeThread<()>>,
}

impl LoaderThread {
    /// Starts it; `report` is rung after each order. A start in turn begins on the core `first`, if there is one, and goes
    /// on where `cache` says as soon as something can run.
    ///
    /// # Errors
    /// When there can be no such thread.
    pub fn start<L: Loader>(
        mut loader: L,
        cache: &CacheSpec,
        first: Option<usize>,
        report: &Arc<Doorbell>,
    ) -> Result<Self, ThreadError> {
        let (complaints, failures) = bounded(FAILURES_MAX);
        let complaints = Complaints(complaints);
        let ended = Arc::new(AtomicBool::new(false));
        let bell = loader.bell().clone();
        // Only from there to its own: without one it could not leave.
        let first = first.filter(|_| cache.core.is_some());
        let mut later = first.and(cache.core);
        let spec = ThreadSpec::new("loader", first.or(cache.core), cache.priority);
        let others = complaints.clone();
        let (end, orders) = (ended.clone(), bell.clone());
        let report = Report {
            bell: report.clone(),
            complaints,
        };
        let body = move || {
            loop {
                // Read before looking: a ring in between ends the wait.
                let seen = orders.count();
                if let Some(result) = loader.carry_out_next() {
                    report.tell(result);
                    continue;
                }
                // Relaxed: published by the ring that follows it.
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let progress = loader.carry_on_start(clock::now_ns());
                if !matches!(progress, Ok(Progress::Quiet))
                    && let Some(core) = later.take()
                {
                    // It was granted a core before.
                    let _ = affinity::pin_current_thread(core);
                }
                match progress {
                    Ok(Progress::Quiet) => {}
                    Ok(Progress::Told) => report.tell::<L::Error>(Ok(())),
                    Ok(Progress::Waits(until_ns)) => {
                        orders.wait(seen, Some(until_ns));
                    }
                    Ok(Progress::Over) => {
                        orders.wait(seen, None);
                    }
                    Err(failed) => report.tell(Err(failed)),
                }
            }
        };
        Ok(Self {
            thread: Some(spawn_realtime(spec, body)?),
            complaints: others,
            failures: Some(failures),
            ended,
            bell,
        })
    }

    /// Why loads failed; once, for a thread that may wait.
    #[must_use]
    pub fn failures(&mut self) -> Option<Receiver<LoadFailure>> {
        self.failures.take()
    }

    /// Where another thread that loads something says why it cannot.
    #[must_use]
    pub fn complaints(&self) -> Complaints {
        self.complaints.clone()
    }

    /// What the machine did not grant it.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        self.thread.as_ref().map_or(&[], RealtimeThread::missing)
    }

    /// The kernel's id of the thread.
    #[must_use]
    pub fn tid(&self) -> Option<i32> {
        self.thread.as_ref().map(RealtimeThread::tid)
    }
}

/// Where a loader tells how its work ends.
struct Report {
    bell: Arc<Doorbell>,
    complaints: Complaints,
}

impl Report {
    fn tell<E: Error + Send + Sync + 'static>(&self, result: Result<(), (ModelId, E)>) {
        self.bell.ring();
        if let Err((model, error)) = result {
            let reason = allocator::permit(|| error.into());
            self.complaints.say(LoadFailure {
                model,
                stays_general: false,
                reason,
            });
        }
    }
}

impl Drop for LoaderThread {
    fn drop(&mut self) {
        // Relaxed: partner of the load in the thread's loop; the ring publishes it.
        self.ended.store(true, Ordering::Relaxed);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

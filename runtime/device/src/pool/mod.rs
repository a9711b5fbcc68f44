//! Partitions staffed with pinned threads: what devices that compute on the machine's cores have in
//! common, whatever runs their stages.
//!
//! A partition holds up to two actions. Its leader takes them from a ring, waits for each one's
//! window, claims the members' request buffers, lets an [`Engine`] run the stage, and reports through
//! another ring and the scheduler's bell. Best-effort actions run at ordinary priority and can be
//! stopped. Nothing here allocates or blocks once the threads run.
//!
//! Partitions of a GPU that name one leader core share one leader. A stage that the GPU computes is a state which the
//! leader carries on by steps that never wait ([`Engine::advance`]), so several partitions of one leader run at once;
//! those that have a TPC in common run one after the other.

mod cancel;
mod partition;
mod priority;
mod stepped;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use punctual_core::{
    ActionId, Answer, Confidence, Criticality, Event, Infer, ModelId, PartitionId, StageId,
};
use punctual_kernels::softmax_top1;
use punctual_model::ScoreForm;
use punctual_platform::clock::Clock;
use punctual_platform::heartbeat::Pulse;
use punctual_platform::thread::{RealtimeThread, ThreadError, ThreadSpec, spawn_realtime};
use punctual_platform::{Doorbell, Missing};

use crate::mechanism::Mechanism;
pub use crate::regions::BufferGuard;
use crate::request_buffers::InputBuffers;
use crate::spec::PartitionSpec;
pub use cancel::CancelFlag;
use partition::{LeaderLink, Partition};
use priority::Priorities;
pub use stepped::SteppedLeader;
use worker::{Served, Worker};

/// Flags that workers read between operators, and their priority back: [decision 3](../../../../docs/decisions/0003-preemption-on-the-cpu.md).
pub const MECHANISM: Mechanism = Mechanism(1);

/// How running a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The scores are there, and the request buffers hold what is carried over.
    Done,
    /// Told to stop; the request buffers hold what they held before, as far as stages read it.
    Interrupted,
    /// Something is wrong with the engine.
    Fault,
}

/// What a leader runs stages with. It lives on the leader's thread.
pub trait Engine: Send + 'static {
    /// Begins a stage for the members whose request buffers are claimed. The model, the stage and the
    /// number of members are known to fit. It may write the outputs of the stage's exit to their areas already.
    ///
    /// An engine that computes the stage itself returns when it is over; one that has it computed returns
    /// [`Poll::Pending`], and [`advance`](Self::advance) is called with the same members until it is over.
    fn begin(
        &mut self,
        model: ModelId,
        stage: StageId,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Poll<Outcome>;

    /// Carries on what was begun, as far as that needs no waiting.
    fn advance(
        &mut self,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Poll<Outcome> {
        let _ = (members, interrupt);
        unreachable!("its stages are over when `begin` returns")
    }

    /// What a member of the stage that was last [`Outcome::Done`] is, and how surely; `claim` is that member's. Of a
    /// stage that ends in no exit it is not looked at.
    fn answer(
        &mut self,
        model: ModelId,
        stage: StageId,
        member: usize,
        claim: &mut BufferGuard<'_>,
    ) -> Answer;

    /// Writes the outputs of that member's exit to its area, as the model's
    /// [`OutputLayout`](punctual_model::OutputLayout) says, unless the stage has.
    fn deliver(
        &mut self,
        model: ModelId,
        stage: StageId,
        member: usize,
        claim: &mut BufferGuard<'_>,
        area: &mut [u8],
    ) {
        let _ = (model, stage, member, claim, area);
    }

    /// What wakes its leader; engines with one leader give the same.
    fn bell(&self) -> Arc<Doorbell> {
        Arc::new(Doorbell::new())
    }

    /// Makes a stage that runs right now end soon, called from the scheduler's thread after its
    /// [`CancelFlag`] was set: for engines that cannot look at that while they run.
    fn stopper(&self) -> Option<Stopper> {
        None
    }
}

/// The answer of scores, or of the confidence that the network itself gives; both may be missing.
#[must_use]
pub fn answer_of(scores: Option<(&[f32], ScoreForm)>, confidence: Option<f32>) -> Answer {
    let (class, of_scores) = match scores {
        None | Some(([], _)) => (0, None),
        Some((scores, ScoreForm::Softmax)) => {
            let top = softmax_top1(scores);
            (top.class, Some(top.confidence))
        }
        Some((scores, form)) => {
            let (class, score) = largest(scores);
            let sure = match form {
                ScoreForm::Sigmoid => 1.0 / (1.0 + (-score).exp()),
                _ => score,
            };
            (class, Some(sure))
        }
    };
    // What is not said is no confidence at all, so that no threshold is reached by it.
    let confidence = confidence.or(of_scores).unwrap_or(0.0);
    Answer {
        class,
        confidence: Confidence::from_probability(confidence),
    }
}

/// The largest score, the first of equals, and its position. What is no number is never the largest.
fn largest(scores: &[f32]) -> (u16, f32) {
    let better = |best: (usize, f32), (at, &score): (usize, &f32)| {
        if score > best.1 { (at, score) } else { best }
    };
    let (at, score) = scores
        .iter()
        .enumerate()
        .fold((0, f32::NEG_INFINITY), better);
    (at as u16, score)
}

/// How a leader waits for stages that it need not compute itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Looks all the time. Its core does nothing else.
    Spin,
    /// Looks every so often, and at once when there is something to do. The end of a stage may be seen later by this time.
    Sleep {
        /// Nanoseconds between two looks.
        ns: u64,
    },
}

/// A leader, for a thread that knows of a frame before the scheduler does.
#[derive(Clone)]
pub struct Leader(Arc<LeaderLink>);

impl Leader {
    /// An action may come: its core leaves its idle state. Never blocks.
    pub fn wake(&self) {
        self.0.nudge();
    }

    /// An action comes within [`LOOK_NS`](punctual_platform::doorbell::LOOK_NS), most probably: it also looks for it so long. Never
    /// blocks.
    pub fn announce(&self) {
        self.0.announce();
    }
}

/// See [`Engine::stopper`].
pub type Stopper = Box<dyn Fn() + Send + Sync>;

/// What a thread does in addition to the leader, until the leader ends.
pub type Helper = Box<dyn FnOnce() + Send>;

/// All partitions of a device, and their threads.
pub struct WorkerPool {
    inputs: InputBuffers,
    report: Arc<Doorbell>,
    partitions: Vec<Partition>,
    /// Where the next poll looks first, so that no partition can keep another from being heard.
    polled: usize,
    workers: Vec<RealtimeThread<()>>,
    missing: Vec<Missing>,
}

impl WorkerPool {
    /// No partition yet. `report` is rung after each event.
    #[must_use]
    pub fn new(inputs: InputBuffers, report: Arc<Doorbell>) -> Self {
        Self {
            inputs,
            report,
            partitions: Vec::new(),
            polled: 0,
            workers: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Adds the next partition: its leader on the first core, with `engine`, and `helpers` on the
    /// others, which end when the engine is dropped.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn add_partition(
        &mut self,
        spec: &PartitionSpec,
        engine: impl Engine,
        helpers: Vec<Helper>,
    ) -> Result<(), ThreadError> {
        let link = leader_link(spec, engine.bell(), helpers.len());
        let served = vec![self.serve(&link, spec, engine)];
        self.start_leader(spec, link, Wait::Spin, served, helpers)
    }

    /// Adds the next partitions, each with its engine. Those that share a leader
    /// ([`PartitionSpec::shares_leader_with`]) are served by one thread, which has the name of the first of them. `wait`
    /// is how it waits while stages run.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn add_partitions<E: Engine>(
        &mut self,
        partitions: impl IntoIterator<Item = (PartitionSpec, E)>,
        wait: Wait,
    ) -> Result<(), ThreadError> {
        for (first, link, served) in self.leaders(partitions) {
            self.start_leader(&first, link, wait, served, Vec::new())?;
        }
        Ok(())
    }

    /// The same without threads: leaders that their owner advances, on a virtual clock.
    pub fn add_stepped_partitions<E: Engine>(
        &mut self,
        partitions: impl IntoIterator<Item = (PartitionSpec, E)>,
        clock: &Clock,
    ) -> Vec<SteppedLeader<E>> {
        let leaders = self.leaders(partitions).into_iter();
        let leaders = leaders.map(|(_, leader, served)| Worker {
            leader,
            served: served.into(),
            report: self.report.clone(),
            wait: Wait::Spin,
            clock: clock.clone(),
        });
        let requests = self.inputs.regions();
        leaders
            .map(|worker| SteppedLeader::new(worker, requests))
            .collect()
    }

    /// The leaders of the next partitions: of the first that each serves, its link, and all that it serves.
    fn leaders<E: Engine>(
        &mut self,
        partitions: impl IntoIterator<Item = (PartitionSpec, E)>,
    ) -> Vec<(PartitionSpec, Arc<LeaderLink>, Vec<Served<E>>)> {
        let mut leaders: Vec<(PartitionSpec, Arc<LeaderLink>, Vec<Served<E>>)> = Vec::new();
        for (spec, engine) in partitions {
            let shared = leaders
                .iter()
                .position(|(first, ..)| spec.shares_leader_with(first));
            let leader = shared.unwrap_or_else(|| {
                let link = leader_link(&spec, engine.bell(), 0);
                leaders.push((spec.clone(), link, Vec::new()));
                leaders.len() - 1
            });
            let (_, link, served) = &mut leaders[leader];
            served.push(self.serve(link, &spec, engine));
        }
        leaders
    }

    /// The leader's end of the next partition.
    fn serve<E: Engine>(
        &mut self,
        leader: &Arc<LeaderLink>,
        spec: &PartitionSpec,
        engine: E,
    ) -> Served<E> {
        let (end, post) = partition::partition(leader.clone(), engine.stopper());
        self.partitions.push(end);
        Served::new(post, engine, spec.tpcs.clone())
    }

    /// Starts a leader, and helpers on the other cores of `spec`.
    fn start_leader<E: Engine>(
        &mut self,
        spec: &PartitionSpec,
        link: Arc<LeaderLink>,
        wait: Wait,
        served: Vec<Served<E>>,
        helpers: Vec<Helper>,
    ) -> Result<(), ThreadError> {
        let worker = Worker {
            leader: link.clone(),
            served: served.into(),
            report: self.report.clone(),
            wait,
            clock: Clock::Machine,
        };
        let requests = self.inputs.regions().clone();
        let thread = |unit: usize| {
            let name = format!("{}/{unit}", spec.name);
            ThreadSpec::new(name, Some(spec.cores[unit]), spec.priority)
        };
        let first = self.workers.len();
        self.spawn(thread(0), move || worker.serve(&requests))?;
        for (unit, helper) in (1..).zip(helpers) {
            self.spawn(thread(unit), helper)?;
        }
        let workers = &self.workers[first..];
        for (unit, worker) in workers.iter().enumerate() {
            link.priorities.started(unit, worker.tid());
        }
        let lacks = |worker: &RealtimeThread<()>| worker.missing().contains(&Missing::Realtime);
        if !workers.iter().any(lacks) {
            link.priorities.grant();
        }
        Ok(())
    }

    fn spawn(
        &mut self,
        spec: ThreadSpec,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), ThreadError> {
        let thread = spawn_realtime(spec, body)?;
        self.missing.extend_from_slice(thread.missing());
        self.missing.sort_unstable();
        self.missing.dedup();
        self.workers.push(thread);
        Ok(())
    }

    /// What the machine did not grant the threads, without repetition.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// The kernel's ids of the threads, leaders and helpers of partition after partition; a leader that several
    /// partitions share counts once.
    pub fn tids(&self) -> impl Iterator<Item = i32> {
        self.workers.iter().map(RealtimeThread::tid)
    }

    /// The leaders' pulses, partition after partition: partitions that share a leader have the same pulse. A leader
    /// beats between actions; how long one may take is the watcher's decision.
    pub fn pulses(&self) -> impl Iterator<Item = Arc<dyn Pulse>> {
        let links = self.partitions.iter().map(|partition| &partition.leader);
        links.map(|link| Arc::clone(link) as Arc<dyn Pulse>)
    }

    /// The leader of a partition, to be told what is about to come; none if it does not exist.
    #[must_use]
    pub fn leader(&self, partition: PartitionId) -> Option<Leader> {
        let partition = self.partitions.get(partition.index())?;
        Some(Leader(Arc::clone(&partition.leader)))
    }

    /// Whether a partition holds all the actions that it can; none if it does not exist.
    #[must_use]
    pub fn is_full(&self, partition: PartitionId) -> Option<bool> {
        Some(self.partitions.get(partition.index())?.is_full())
    }

    /// Hands over an action.
    ///
    /// # Panics
    /// If the partition does not exist or is full.
    pub fn submit(&mut self, infer: &Infer) {
        let index = infer.partition.index();
        let leader = &self.partitions[index].leader;
        let led = |other: &Partition| Arc::ptr_eq(&other.leader, leader);
        // What is in front may run right now, at ordinary priority.
        let behind_best_effort = infer.criticality == Criticality::RealTime
            && (self.partitions.iter()).any(|other| led(other) && other.begins_with_best_effort());
        self.partitions[index].submit(infer, behind_best_effort);
    }

    /// Asks for a best-effort action to be stopped; without effect if it is not there.
    pub fn preempt(&self, partition: PartitionId, action: ActionId) {
        if let Some(partition) = self.partitions.get(partition.index()) {
            partition.preempt(action);
        }
    }

    /// The next event, and the model that it is about.
    pub fn poll(&mut self) -> Option<(ModelId, Event)> {
        for offset in 1..=self.partitions.len() {
            let index = (self.polled + offset) % self.partitions.len();
            if let Some(event) = self.partitions[index].poll() {
                self.polled = index;
                return Some(event);
            }
        }
        None
    }
}

/// Of a leader and `helpers` helpers.
fn leader_link(spec: &PartitionSpec, bell: Arc<Doorbell>, helpers: usize) -> Arc<LeaderLink> {
    let priorities = Priorities::new(1 + helpers, spec.priority);
    Arc::new(LeaderLink::new(bell, priorities))
}

impl Drop for WorkerPool {
    /// Ends the threads after the actions that they run, and waits for them.
    fn drop(&mut self) {
        for partition in &self.partitions {
            // Published to the leader by the ring; a leader that ends drops its engine.
            partition.leader.ended.store(true, Ordering::Relaxed);
            partition.leader.bell.ring();
        }
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so.
            let _ = worker.join();
        }
    }
}

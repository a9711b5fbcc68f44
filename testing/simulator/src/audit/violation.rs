//! What the auditor can find.

use punctual_core::{ActionId, Instant, ModelId, Nanos, PartitionId, RequestId, TaskId, Verdict};

/// A breach of one of the invariants, with what it takes to find it in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A submission has no verdict at the end of the run.
    #[error("task {}: the submission {sequence} of {arrived:?} never got a verdict", task.0)]
    Lost {
        task: TaskId,
        sequence: u64,
        arrived: Instant,
    },
    /// An arrival was neither refused nor given to the intake in its own step.
    #[error("task {}: nothing was decided about the arrival {sequence}", task.0)]
    Undecided { task: TaskId, sequence: u64 },
    /// A verdict for a submission that has one already, or was never made, or under another name.
    #[error("task {}: a verdict for the submission {sequence}, which is not open so", task.0)]
    VerdictWithoutSubmission {
        /// The task that the verdict names.
        task: TaskId,
        sequence: u64,
    },
    /// A request has waited beyond the bound on verdicts.
    #[error("task {}: {request:?} still has no verdict, {overdue} after the bound", task.0)]
    Overdue {
        task: TaskId,
        request: RequestId,
        overdue: Nanos,
    },
    /// A window that ends before it begins, or begins in the past.
    #[error("{action:?}: ordered at {at:?} for the window {earliest:?} to {latest:?}")]
    WrongWindow {
        action: ActionId,
        at: Instant,
        earliest: Instant,
        latest: Instant,
    },
    /// An action ran although it was not started inside its window.
    #[error("{action:?}: started at {started:?}, outside {earliest:?} to {latest:?}")]
    StartedOutsideWindow {
        action: ActionId,
        started: Instant,
        earliest: Instant,
        latest: Instant,
    },
    /// An action ordered on units that another action holds.
    #[error("{action:?} on partition {}: its units are held by {holder:?}", partition.0)]
    UnitsHeld {
        action: ActionId,
        partition: PartitionId,
        holder: ActionId,
    },
    /// Two actions ran on one unit at the same time.
    #[error("{action:?}: started at {started:?} on units that were busy until {busy_until:?}")]
    RanTogether {
        action: ActionId,
        started: Instant,
        busy_until: Instant,
    },
    /// An action on a partition, model or stage that the plan does not have, or a used name.
    #[error(
        "{action:?} names a partition, model, stage or batch that there is not, or is no new name"
    )]
    UnknownPlace { action: ActionId },
    /// A buffer that does not exist, is held, or may still be written to by an action.
    #[error("task {}: got {request:?}, whose buffer is not free", task.0)]
    BufferInUse { task: TaskId, request: RequestId },
    /// A name that was used before.
    #[error("task {}: got {request:?}, a name that was used before", task.0)]
    StaleName { task: TaskId, request: RequestId },
    /// A verdict while the intake or a device may touch the request's buffer.
    #[error("task {}: {request:?} got its verdict while its buffer was in use", task.0)]
    BufferTouched { task: TaskId, request: RequestId },
    /// More requests of a task inside than its queue allows.
    #[error("task {}: {open} requests inside, the queue allows {queue_max}", task.0)]
    QueueBound {
        task: TaskId,
        open: usize,
        queue_max: u16,
    },
    /// Refused for lack of room, though there is room: a buffer leaked.
    #[error(
        "task {}: refused for lack of room with {open} of its requests inside and {held} buffers \
         held", task.0
    )]
    RoomDenied {
        task: TaskId,
        /// How many of its requests are inside.
        open: usize,
        held: usize,
    },
    /// Weights loaded beyond the pages there are.
    #[error("model {}: loading it takes {taken} pages, there are {pages}", model.0)]
    PagesExceeded {
        model: ModelId,
        taken: u64,
        pages: u64,
    },
    /// An action on weights that are not there, or a load of weights that are, or the eviction of weights in use.
    #[error("model {}: its weights are not in the state that the action needs", model.0)]
    WrongWeights { model: ModelId },
    /// Weights ordered while others are on their way: the two would share the bus, and neither keep to its time.
    #[error("model {}: loaded while another transfer is under way", model.0)]
    TwoTransfers { model: ModelId },
    /// A request whose deadline was promised did not make it, though every assumption held.
    #[error(
        "task {}: {request:?} was promised for {deadline:?} and got {verdict:?} at {at:?}", task.0
    )]
    PromiseBroken {
        task: TaskId,
        request: RequestId,
        deadline: Instant,
        verdict: Verdict,
        at: Instant,
    },
    /// A reserved task that kept to its contract was refused, though every assumption held.
    #[error("task {}: the submission {sequence} kept to its contract and got {verdict:?}", task.0)]
    ReservationDenied {
        task: TaskId,
        sequence: u64,
        verdict: Verdict,
    },
    /// A frame took the place of an older one, and was not through its mandatory part by the deadline
    /// that was promised to that one, though every assumption held.
    #[error("task {}: {request:?} took a place promised for {place:?} and was there at {at:?}", task.0)]
    PlaceLate {
        task: TaskId,
        request: RequestId,
        /// What was promised to the older one.
        place: Instant,
        at: Instant,
    },
    /// A frame was superseded, and no newer one of its client was accepted.
    #[error("task {}: submission {sequence} was superseded, but no newer one of its client was accepted", task.0)]
    SupersededByNobody { task: TaskId, sequence: u64 },
    /// A model lost its promises without having overrun so often, or while nothing else ran, or twice;
    /// or got them back too soon.
    #[error("partition {}: model {} is demoted or reinstated without a reason", partition.0, model.0)]
    WrongDemotion {
        partition: PartitionId,
        model: ModelId,
    },
    /// A stage that its device cannot run yet.
    #[error("{action:?}: its stage is not loaded")]
    NotLoaded { action: ActionId },
    /// A frame was given a buffer though its mandatory exit cannot run yet.
    #[error("task {}: a frame was prepared though its network is not loaded", task.0)]
    PreparedUnready { task: TaskId },
    /// A stage of a model that does not run as it was measured, in a batch.
    #[error("{action:?}: its model does not run as it was measured, and it has several members")]
    UnmeasuredTogether { action: ActionId },
    /// Best-effort work that runs on, or was started, while it must be given up.
    #[error("{action:?} is best-effort and runs on although such work is to be given up")]
    NotShed { action: ActionId },
    /// Best-effort work that waits on although it must be given up.
    #[error("task {}: {request:?} is best-effort and waits on although such work is to be given up", task.0)]
    NotGivenUp { task: TaskId, request: RequestId },
    /// Best-effort work runs on where promised work is ready, and was not preempted in that step.
    #[error("task {}: {request:?} is promised and ready, and {action:?} was not preempted", task.0)]
    NotToldToStop {
        task: TaskId,
        request: RequestId,
        action: ActionId,
    },
    /// Promised work is ready, and its partition has nothing to do.
    #[error("task {}: {request:?} is promised and ready, and its partition idles", task.0)]
    IdleWhilePromised { task: TaskId, request: RequestId },
    /// Best-effort work stood in the way of promised work for longer than it may.
    #[error("task {}: {request:?} waited {waited} for best-effort work, at most {bound}", task.0)]
    BestEffortInTheWay {
        task: TaskId,
        request: RequestId,
        /// How long, the device's own fault left out.
        waited: Nanos,
        /// The device's preemption bound and one dispatch.
        bound: Nanos,
    },
    /// A preparation that no arrival of this step asked for.
    #[error("task {}: a preparation that no arrival asked for", task.0)]
    UnaskedPreparation { task: TaskId },
    /// A member that is not there, not prepared, in another action, or named twice.
    #[error("{action:?}: its member {member:?} is not ready")]
    MemberNotReady { action: ActionId, member: RequestId },
    /// A member at another stage, of another model or another criticality, or elsewhere.
    #[error("{action:?}: its member {member:?} does not belong into it")]
    WrongMember { action: ActionId, member: RequestId },
    /// A batch that does not hold its members, is larger than they need or than a task allows.
    #[error("{action:?}: a batch of {batch} for {members} members")]
    WrongBatch {
        action: ActionId,
        batch: u8,
        members: usize,
    },
    /// Told to stop: an action that is not in flight, not best-effort, or was told before.
    #[error("{action:?} was preempted, but does not run, or was preempted before, or is real-time")]
    WrongPreemption { action: ActionId },
    /// A verdict that does not fit what happened.
    #[error("task {}: the submission {sequence} got {verdict:?} at {at:?}, due {deadline:?}", task.0)]
    WrongVerdict {
        task: TaskId,
        sequence: u64,
        verdict: Verdict,
        at: Instant,
        deadline: Instant,
    },
    /// An answer that is missing, is not the deepest one reached, or comes from too shallow an exit.
    #[error("task {}: the submission {sequence} got an answer that is not its own", task.0)]
    WrongAnswer { task: TaskId, sequence: u64 },
    /// An answer before the verdict that is not wanted, not the deepest or not at once; or a verdict that takes back what
    /// the client has.
    #[error("task {}: the submission {sequence} has an answer delivered wrongly, or not at once", task.0)]
    WrongDelivery { task: TaskId, sequence: u64 },
    /// A follower is told of a frame that is not the next, has no answer, or fewer parts.
    #[error("task {}: told of parts captured at {captured:?}, which are not those to come next", task.0)]
    WrongAnnouncement { task: TaskId, captured: Instant },
    /// A part that was not announced, or of another capture time or client than its frame.
    #[error("task {}: the submission {sequence} is no part of the frame that was announced last", task.0)]
    StrayPart { task: TaskId, sequence: u64 },
    /// Parts of a query never came, or a follower was never told of it.
    #[error("task {}: the query of the submission {sequence} was never over", task.0)]
    QueryOpen {
        /// The root.
        task: TaskId,
        sequence: u64,
    },
    /// A query that kept to the reservation of its root was not on time, though every assumption held.
    #[error("task {}: the query of the submission {sequence} was promised and is not on time", task.0)]
    QueryMissed {
        /// The root.
        task: TaskId,
        sequence: u64,
    },
}

/// The five invariants of the scheduler's contract, and the order of the record that they rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// 1: no request is lost; each gets exactly one verdict in bounded time.
    Verdicts,
    /// 2: an action starts inside its window or is reported.
    Windows,
    /// 3: partitions never overlap; pages, slots and request buffers are conserved.
    Resources,
    /// 4: what was promised is kept.
    Promises,
    /// 5: best-effort work yields within the device's bound.
    BestEffort,
    /// Orders and verdicts make sense at all.
    WellFormed,
}

impl Violation {
    #[must_use]
    pub const fn invariant(&self) -> Invariant {
        match self {
            Self::Lost { .. }
            | Self::Undecided { .. }
            | Self::VerdictWithoutSubmission { .. }
            | Self::QueryOpen { .. }
            | Self::Overdue { .. } => Invariant::Verdicts,
            Self::WrongWindow { .. } | Self::StartedOutsideWindow { .. } => Invariant::Windows,
            Self::UnitsHeld { .. }
            | Self::RanTogether { .. }
            | Self::BufferInUse { .. }
            | Self::StaleName { .. }
            | Self::BufferTouched { .. }
            | Self::QueueBound { .. }
            | Self::RoomDenied { .. }
            | Self::PagesExceeded { .. }
            | Self::TwoTransfers { .. }
            | Self::WrongWeights { .. } => Invariant::Resources,
            Self::PromiseBroken { .. }
            | Self::IdleWhilePromised { .. }
            | Self::PlaceLate { .. }
            | Self::SupersededByNobody { .. }
            | Self::WrongDemotion { .. }
            | Self::UnmeasuredTogether { .. }
            | Self::QueryMissed { .. }
            | Self::ReservationDenied { .. } => Invariant::Promises,
            Self::BestEffortInTheWay { .. }
            | Self::NotToldToStop { .. }
            | Self::NotShed { .. }
            | Self::NotGivenUp { .. } => Invariant::BestEffort,
            Self::UnknownPlace { .. }
            | Self::UnaskedPreparation { .. }
            | Self::MemberNotReady { .. }
            | Self::NotLoaded { .. }
            | Self::PreparedUnready { .. }
            | Self::WrongMember { .. }
            | Self::WrongBatch { .. }
            | Self::WrongPreemption { .. }
            | Self::WrongVerdict { .. }
            | Self::WrongAnswer { .. }
            | Self::WrongAnnouncement { .. }
            | Self::StrayPart { .. }
            | Self::WrongDelivery { .. } => Invariant::WellFormed,
        }
    }
}

/// A violation, and when it was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {} ns: {violation}", at.as_nanos())]
pub struct Finding {
    pub at: Instant,
    pub violation: Violation,
}

/// What was found, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    total: u64,
}

/// Findings kept in full; one fault can lead to millions.
const KEPT: usize = 100;

impl Findings {
    pub(super) fn add(&mut self, at: Instant, violation: Violation) {
        self.total += 1;
        if self.list.len() < KEPT {
            self.list.push(Finding { at, violation });
        }
    }

    /// The first hundred.
    #[must_use]
    pub fn list(&self) -> &[Finding] {
        &self.list
    }

    /// How many there are, with those that were not kept.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    #[must_use]
    pub fn first(&self) -> Option<&Finding> {
        self.list.first()
    }
}

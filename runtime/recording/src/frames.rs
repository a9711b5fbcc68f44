//! What became of frames and stages, followed step by step.
//!
//! A recording has steps; people ask about frames. A [`Follower`] is given its entries in order and gives back each [`Run`] of a
//! stage, each [`Frame`] and each transfer of weights as it ends, and what else happened ([`Note`]).
//!
//! The memory of a follower is bounded, whatever a recording says. A black box begins in the middle, and entries may be lost: a
//! frame of which something is missing says so ([`Submission::is_whole`]), and nothing is guessed.

use std::sync::Arc;

use punctual_core::{
    ActionId, Answer, ClientId, Criticality, Demotion, Failure, Instant, ModelId, Nanos,
    PartitionId, Readiness, Reply, RequestId, StageId, StageTime, TaskId, Ticket, Verdict, Window,
};

mod follower;

pub use follower::Follower;

/// What a [`Follower`] gives back.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A stage ended, or the recording did before it ([`Run::end`]).
    Run(Arc<Run>),
    /// A frame has its verdict, and its record is sent. Frames come in the order of their verdicts, and up to a second later.
    Frame(Box<Frame>),
    /// A frame whose verdict is not in the recording.
    Open(Box<Submission>),
    /// A transfer ended, or the recording did before it ([`Transfer::end`]).
    Transfer(Transfer),
    Note(Note),
}

/// A frame as people call it: `TASK/CLIENT/SEQUENCE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId {
    /// The task that it was submitted to.
    pub task: TaskId,
    pub ticket: Ticket,
}

/// A stage that was ordered, for a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub action: ActionId,
    pub partition: PartitionId,
    pub model: ModelId,
    pub stage: StageId,
    pub batch: u8,
    pub members: Vec<Member>,
    pub criticality: Criticality,
    /// The time of the step that ordered it.
    pub ordered: Instant,
    pub window: Window,
    /// What the plan has for it; none: it has no such stage, batch or partition.
    pub time: Option<StageTime>,
    /// None while it runs, and where the recording does not tell.
    pub end: Option<RunEnd>,
}

/// A member of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub request: RequestId,
    /// None: it arrived before the recording began, or in a part of it that is lost.
    pub frame: Option<FrameId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// When the scheduler learned of it.
    pub learned: Instant,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Finished { started: Instant, measured: Nanos },
    NotRun,
    Preempted,
    Failed,
}

impl Run {
    /// When the device started it, and when it ended there; none of one that did not finish.
    #[must_use]
    pub fn span(&self) -> Option<(Instant, Instant)> {
        match self.end?.outcome {
            Outcome::Finished { started, measured } => Some((started, started + measured)),
            Outcome::NotRun | Outcome::Preempted | Outcome::Failed => None,
        }
    }

    /// How long it ran, if it finished.
    #[must_use]
    pub fn measured(&self) -> Option<Nanos> {
        self.span().map(|(started, ended)| ended.since(started))
    }

    /// How much longer than its budget it ran.
    #[must_use]
    pub fn overrun(&self) -> Nanos {
        match (self.measured(), self.time) {
            (Some(measured), Some(time)) => measured.saturating_sub(time.budget),
            _ => Nanos::ZERO,
        }
    }
}

/// What happened to a frame, from its submission on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    pub id: FrameId,
    pub captured: Instant,
    /// The deadline that its client asked for; the task's own may be earlier.
    pub deadline: Option<Instant>,
    /// How long answers took lately until this client had them, at most.
    pub egress: Nanos,
    /// The time of the step that learned of it; none: that step is not in the recording.
    pub arrived: Option<Instant>,
    /// None: it was rejected when it arrived, or that step is not in the recording.
    pub preparation: Option<Preparation>,
    /// The stages that it was a member of, in the order in which they were ordered.
    pub runs: Vec<Share>,
    /// Answers before the verdict.
    pub deliveries: Vec<Delivered>,
    /// Whether all that happened to it is in the recording, and here.
    pub is_whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    pub request: RequestId,
    /// The task whose network answers it: another than its own if it was offloaded.
    pub task: TaskId,
    pub ordered: Instant,
    pub end: Option<PreparationEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparationEnd {
    /// When the scheduler learned of it.
    pub learned: Instant,
    pub measured: Nanos,
    pub ready: Result<(), Failure>,
}

/// A frame's part in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub run: Arc<Run>,
    /// Its answer at this exit, once the stage has finished.
    pub answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The time of the step.
    pub decided: Instant,
    pub reply: Reply,
    /// None: the recording does not tell.
    pub sent: Option<Sending>,
}

/// The way of a record from the scheduler to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// When the scheduler's thread handed it to the port.
    pub decided: Instant,
    /// When the port took it up.
    pub began: Instant,
    /// When it was in the client's ring, and the client was woken.
    pub ended: Instant,
}

/// A frame that has its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub submission: Submission,
    /// The time of the step that gave the verdict.
    pub decided: Instant,
    pub reply: Reply,
    /// None: the recording does not tell. Simulations send nothing.
    pub sent: Option<Sending>,
}

impl Frame {
    /// When the answer that the verdict is about was given: its delivery, or the verdict. None without an answer.
    #[must_use]
    pub fn answered(&self) -> Option<Instant> {
        match self.reply.verdict {
            Verdict::OnTime | Verdict::Late => Some(self.reply.delivered.unwrap_or(self.decided)),
            Verdict::Rejected(_) | Verdict::Failed(_) => None,
        }
    }

    /// When the client had that answer, as far as the recording tells: else when it was given.
    #[must_use]
    pub fn received(&self) -> Option<Instant> {
        let answered = self.answered()?;
        let sent = match self.reply.delivered {
            None => self.sent,
            Some(at) => {
                let mut deliveries = self.submission.deliveries.iter();
                deliveries
                    .find(|delivered| delivered.decided == at)
                    .and_then(|delivered| delivered.sent)
            }
        };
        Some(sent.map_or(answered, |sent| sent.ended))
    }

    /// From its capture until its client had the answer ([`Frame::received`]).
    #[must_use]
    pub fn latency(&self) -> Option<Nanos> {
        Some(self.received()?.since(self.reply.captured))
    }

    /// From then until the deadline; negative: it was late.
    #[must_use]
    pub fn margin_ns(&self) -> Option<i64> {
        let (due, received) = (self.due()?.as_nanos(), self.received()?.as_nanos());
        let wide = i128::from(due) - i128::from(received);
        Some(i64::try_from(wide).unwrap_or(i64::MAX))
    }

    /// The deadline, unless its task has none.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        Some(self.reply.deadline).filter(|deadline| *deadline != Instant::FAR_FUTURE)
    }
}

/// A transfer of a model's weights to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub action: ActionId,
    pub model: ModelId,
    pub ordered: Instant,
    /// What the plan has for it; none: it has no such model, or one without paged weights.
    pub budget: Option<Nanos>,
    /// None while it runs, and where the recording does not tell.
    pub end: Option<TransferEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferEnd {
    /// When the scheduler learned of it.
    pub learned: Instant,
    /// None: it failed.
    pub measured: Option<Nanos>,
}

/// Something that has no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub at: Instant,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Unloaded {
        model: ModelId,
    },
    Demoted(Demotion),
    Reinstated {
        partition: PartitionId,
        model: ModelId,
    },
    /// The scheduler ordered the preemption of an action; the run says whether it came in time.
    Preempted {
        partition: PartitionId,
        action: ActionId,
    },
    /// The machine does not run a partition's threads (true), or does so again.
    Starved {
        partition: PartitionId,
        starved: bool,
    },
    /// Best-effort work is shed from here (true), or no more.
    Shed {
        hold: bool,
    },
    /// A device says how much of a model it can run.
    Ready(Readiness),
    ClientGone {
        client: ClientId,
    },
    Drain,
    Segment {
        number: u64,
    },
    /// This many steps are not in the recording.
    Lost {
        steps: u64,
    },
}

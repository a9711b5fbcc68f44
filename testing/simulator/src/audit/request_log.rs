//! Submissions without a verdict, and the request buffers that they hold.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{ActionId, Answer, Instant, Nanos, RequestId, StageId, TaskId, Ticket};

/// Names a submission: client, slot, the client's own number.
pub(super) type Key = (u16, u16, u64);

pub(super) const fn key(ticket: Ticket) -> Key {
    (ticket.client.0, ticket.slot, ticket.sequence)
}

/// Where a request with a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Arriving,
    Preparing,
    /// Its input could not be read.
    Unreadable,
    Waiting,
    Running(ActionId),
}

/// An answer that went to the client before the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) answer: (StageId, Answer),
    pub(super) at: Instant,
}

/// A submission without a verdict.
#[derive(Clone, Debug)]
pub(super) struct Submission {
    /// Under whose rules it is: who submitted it, until another task takes it on.
    pub(super) task: TaskId,
    pub(super) origin: TaskId,
    pub(super) arrived: Instant,
    /// When it was captured, as far as that can be true.
    pub(super) captured: Instant,
    /// Its own or its task's, whichever is earlier; `FAR_FUTURE`: none.
    pub(super) deadline: Instant,
    /// An answer that counts leaves by then, although a deeper stage may still run.
    pub(super) leave_by: Instant,
    pub(super) request: Option<RequestId>,
    pub(super) place: Place,
    pub(super) gone: bool,
    pub(super) next_stage: u8,
    pub(super) answer: Option<(StageId, Answer)>,
    /// The last answer that its client got before the verdict, and when.
    pub(super) delivered: Option<Delivered>,
    /// It came when its task's contract allows it.
    pub(super) in_contract: bool,
    /// Its deadline was promised, in this epoch of the claims.
    pub(super) promised_in: Option<u64>,
    /// Counted among the mandatory work of its domain.
    pub(super) mandatory: bool,
    /// How long it has waited for best-effort work.
    pub(super) behind_best_effort: Nanos,
    /// Its entry among the bounds on verdicts.
    pub(super) limit: Option<Instant>,
    /// Its promise was taken back, as a model of its task is demoted.
    pub(super) demoted: bool,
    pub(super) order: u64,
    /// The earliest deadline that was promised to those whose place it took, and in which epoch.
    pub(super) inherited: Option<(Instant, u64)>,
}

#[derive(Clone, Debug)]
pub(super) struct RequestLog {
    pub(super) open: BTreeMap<Key, Submission>,
    /// By request buffer: who holds it.
    holders: Vec<Option<Key>>,
    /// By request buffer: the last generation seen.
    generations: Vec<Option<u32>>,
    /// By request buffer: whether its request is over, but not the action that uses it.
    locked: Vec<bool>,
    /// How many buffers are held or locked.
    pub(super) held: usize,
    /// By task: how many of the requests under its rules hold a buffer.
    pub(super) inside: Vec<usize>,
    /// Bounds on verdicts, earliest first.
    pub(super) limits: BTreeSet<(Instant, Key)>,
}

/// Why a buffer cannot be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    InUse,
    StaleName,
}

impl RequestLog {
    pub(super) fn new(buffers: u16, tasks: usize) -> Self {
        Self {
            open: BTreeMap::new(),
            holders: vec![None; usize::from(buffers)],
            generations: vec![None; usize::from(buffers)],
            locked: vec![false; usize::from(buffers)],
            held: 0,
            inside: vec![0; tasks],
            limits: BTreeSet::new(),
        }
    }

    /// Gives a buffer to an open submission, which is under the rules of `task` from now on.
    pub(super) fn give(&mut self, key: Key, id: RequestId, task: TaskId) -> Result<(), Refusal> {
        let buffer = usize::from(id.buffer);
        let free = self.holders.get(buffer).is_some_and(Option::is_none);
        if !free || self.locked[buffer] {
            return Err(Refusal::InUse);
        }
        if self.generations[buffer].is_some_and(|last| id.generation <= last) {
            return Err(Refusal::StaleName);
        }
        self.generations[buffer] = Some(id.generation);
        self.holders[buffer] = Some(key);
        self.held += 1;
        if let Some(submission) = self.open.get_mut(&key) {
            submission.request = Some(id);
            submission.place = Place::Preparing;
            submission.task = task;
            self.inside[task.index()] += 1;
        }
        Ok(())
    }

    /// Closes a submission and takes its buffer back, at once or when the action has ended that it is a member of.
    pub(super) fn close(&mut self, key: Key) -> Option<Submission> {
        let submission = self.open.remove(&key)?;
        if let Some(id) = submission.request {
            let buffer = usize::from(id.buffer);
            self.holders[buffer] = None;
            self.locked[buffer] = matches!(submission.place, Place::Running(_));
            self.held -= usize::from(!self.locked[buffer]);
            self.inside[submission.task.index()] -= 1;
        }
        if let Some(limit) = submission.limit {
            self.limits.remove(&(limit, key));
        }
        Some(submission)
    }

    /// The action that a buffer's request was a member of has ended.
    pub(super) fn unlock(&mut self, id: RequestId) {
        if let Some(locked) = self.locked.get_mut(usize::from(id.buffer)) {
            self.held -= usize::from(std::mem::take(locked));
        }
    }

    /// The submission that a name stands for, if the name is not stale.
    pub(super) fn find(&mut self, id: RequestId) -> Option<(Key, &mut Submission)> {
        let key = self
            .holders
            .get(usize::from(id.buffer))
            .copied()
            .flatten()?;
        let submission = self.open.get_mut(&key)?;
        (submission.request == Some(id)).then_some((key, submission))
    }

    /// Sets the time by which a submission must have its verdict.
    pub(super) fn bound(&mut self, key: Key, limit: Instant) {
        if let Some(submission) = self.open.get_mut(&key) {
            if let Some(old) = submission.limit.replace(limit) {
                self.limits.remove(&(old, key));
            }
            self.limits.insert((limit, key));
        }
    }
}

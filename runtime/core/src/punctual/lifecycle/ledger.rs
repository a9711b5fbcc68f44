//! What became of each task's requests, and which of the places kept for them are taken.

use alloc::boxed::Box;

use crate::action::{Action, Rejection, Reply, Verdict};
use crate::actions::Actions;
use crate::counters::Counters;
use crate::event::Arrival;
use crate::ids::{RequestId, TaskId};
use crate::punctual::lifecycle::requests::{Request, Requests, State};
use crate::time::Instant;

/// What happens to a request between its arrival and its verdict, and is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    Spilled,
    Conforming,
    NotRun,
    Preempted,
    Overran,
    /// A stage took so many thousandths of its budget.
    Took(u64),
    Demoted,
    Reinstated,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    counters: Counters,
    /// Open requests under its rules: its own but for those it spilled, and those spilled to it.
    inside: u64,
    /// Kept buffers that its requests hold.
    reserved_held: u16,
}

/// All tasks' accounts.
///
/// Promises: of each task, submitted = open + verdicts; each request that was submitted gets one
/// verdict, told and counted at once.
#[derive(Clone, Debug)]
pub struct Ledger {
    accounts: Box<[Account]>,
}

impl Ledger {
    pub fn new(tasks: usize) -> Self {
        Self {
            accounts: alloc::vec![Account::default(); tasks].into(),
        }
    }

    pub fn counters(&self, task: TaskId) -> &Counters {
        &self.accounts[task.index()].counters
    }

    /// Kept buffers that a task's requests hold.
    pub fn reserved_held(&self, task: TaskId) -> u16 {
        self.accounts[task.index()].reserved_held
    }

    /// Open requests under a task's rules in other buffers than those kept for it.
    pub fn others_inside(&self, task: TaskId) -> u64 {
        let account = &self.accounts[task.index()];
        // A locked buffer is held by nobody who is open.
        account
            .inside
            .saturating_sub(u64::from(account.reserved_held))
    }

    /// Something was submitted to `origin`: it is refused or let in by the end of the step.
    pub fn submitted(&mut self, origin: TaskId) {
        self.accounts[origin.index()].counters.submitted += 1;
    }

    /// It is let in, under the rules of `task`.
    pub(super) fn enter(&mut self, origin: TaskId, task: TaskId, holds_reserved_buffer: bool) {
        self.accounts[origin.index()].counters.open += 1;
        let account = &mut self.accounts[task.index()];
        account.inside += 1;
        account.reserved_held += u16::from(holds_reserved_buffer);
    }

    pub fn note(&mut self, origin: TaskId, note: Note) {
        let counters = &mut self.accounts[origin.index()].counters;
        let counter = match note {
            Note::Spilled => &mut counters.spilled,
            Note::Conforming => &mut counters.conforming,
            Note::NotRun => &mut counters.not_run,
            Note::Preempted => &mut counters.preempted,
            Note::Overran => &mut counters.overruns,
            Note::Demoted => &mut counters.demotions,
            Note::Reinstated => &mut counters.reinstatements,
            Note::Took(ratio) => {
                counters.overrun_worst = counters.overrun_worst.max(ratio);
                return;
            }
        };
        *counter += 1;
    }

    /// Says what became of an open request.
    pub(super) fn finish(
        &mut self,
        id: RequestId,
        request: &Request,
        verdict: Verdict,
        actions: &mut Actions,
    ) {
        let answered = matches!(verdict, Verdict::OnTime | Verdict::Late);
        let answer = request.answer.filter(|_| answered);
        self.accounts[request.task.index()].inside -= 1;
        let counters = &mut self.accounts[request.origin.index()].counters;
        counters.open -= 1;
        counters.count(verdict, answer.map(|(exit, _)| exit));
        actions.push(Action::Reply(Reply {
            request: Some(id),
            task: request.origin,
            ticket: request.ticket,
            verdict,
            answer,
            captured: request.captured,
            deadline: request.deadline,
        }));
    }

    /// Nobody writes to a request's buffer any more.
    pub(super) fn let_go(&mut self, request: &Request) {
        self.accounts[request.task.index()].reserved_held -=
            u16::from(request.holds_reserved_buffer);
    }

    /// Refuses a submission that never got a buffer.
    pub fn refuse(
        &mut self,
        arrival: &Arrival,
        deadline: Instant,
        reason: Rejection,
        actions: &mut Actions,
    ) {
        let verdict = Verdict::Rejected(reason);
        let counters = &mut self.accounts[arrival.task.index()].counters;
        counters.count(verdict, None);
        actions.push(Action::Reply(Reply {
            request: None,
            task: arrival.task,
            ticket: arrival.ticket,
            verdict,
            answer: None,
            captured: arrival.captured,
            deadline,
        }));
    }

    /// Recounts. What is wrong, if anything is.
    pub fn check(&self, requests: &Requests) -> Result<(), &'static str> {
        for (task, account) in self.accounts.iter().enumerate() {
            let counters = &account.counters;
            let verdicts =
                counters.on_time + counters.late + counters.rejected() + counters.failed();
            let (mut open, mut inside, mut reserved_held) = (0, 0, 0);
            for buffer in 0..requests.buffers() {
                let request = requests.get(buffer);
                let is_open = request.state.is_open();
                open += u64::from(is_open && request.origin.index() == task);
                inside += u64::from(is_open && request.task.index() == task);
                let held = request.state != State::Free && request.holds_reserved_buffer;
                reserved_held += u16::from(held && request.task.index() == task);
            }
            if counters.submitted != counters.open + verdicts {
                return Err("a submission has no verdict and is not open, or two");
            }
            if (open, inside, reserved_held)
                != (counters.open, account.inside, account.reserved_held)
            {
                return Err("open requests or kept buffers are miscounted");
            }
        }
        Ok(())
    }
}

/// What [`Ledger::check`] must find, and how to plant it.
#[cfg(test)]
pub const FAULTS: &[crate::punctual::fault::Fault<Ledger>] = &[
    (
        "a submission has no verdict and is not open, or two",
        |it| it.accounts[0].counters.submitted += 1,
    ),
    ("open requests or kept buffers are miscounted", |it| {
        it.accounts[0].inside += 1
    }),
    ("open requests or kept buffers are miscounted", |it| {
        it.accounts[0].reserved_held += 1
    }),
];

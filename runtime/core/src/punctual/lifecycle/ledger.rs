//! Counts each task's requests by what became of them, and the reserved buffers that they hold.

use serde::{Deserialize, Serialize};

use alloc::boxed::Box;

use crate::action::{Action, Rejection, Reply, Verdict};
use crate::actions::Actions;
use crate::counters::Counters;
use crate::event::Arrival;
use crate::ids::{RequestId, TaskId};
use crate::punctual::lifecycle::requests::{Request, Requests, State};
use crate::time::Instant;

/// What the ledger counts between a request's arrival and its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    Offloaded,
    Conforming,
    NotRun,
    Preempted,
    Overran,
    /// A stage took this many thousandths of its budget.
    Took(u64),
    Demoted,
    Reinstated,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Account {
    counters: Counters,
    /// Open requests that run under this task's rules: those offloaded to it count, those that it
    /// offloaded do not.
    assigned: u64,
    /// Reserved buffers that its requests hold.
    reserved_held: u16,
}

/// All tasks' accounts.
///
/// Promises: for each task, submitted = open + verdicts. Each submitted request gets one verdict. The
/// function that sends a verdict also counts it, so that no step can do only one of the two.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ledger {
    accounts: Box<[Account]>,
}

impl Ledger {
    /// Whether it is of as many tasks as another.
    pub fn fits(&self, other: &Self) -> bool {
        self.accounts.len() == other.accounts.len()
    }

    pub fn new(tasks: usize) -> Self {
        Self {
            accounts: alloc::vec![Account::default(); tasks].into(),
        }
    }

    pub fn counters(&self, task: TaskId) -> &Counters {
        &self.accounts[task.index()].counters
    }

    /// Reserved buffers that a task's requests hold.
    pub fn reserved_held(&self, task: TaskId) -> u16 {
        self.accounts[task.index()].reserved_held
    }

    /// Open requests under a task's rules that hold no reserved buffer.
    pub fn shared_held(&self, task: TaskId) -> u64 {
        let account = &self.accounts[task.index()];
        // Saturates, because a locked request is no longer open but still holds its reserved buffer.
        account
            .assigned
            .saturating_sub(u64::from(account.reserved_held))
    }

    /// Counts a submission to `origin`. The same step rejects it or admits it; until then `submitted`
    /// is one above `open + verdicts`.
    pub fn submitted(&mut self, origin: TaskId) {
        self.accounts[origin.index()].counters.submitted += 1;
    }

    /// Counts an admitted submission: open for the task that it was submitted to, assigned to the
    /// task whose queue and buffers it takes. The two differ if it was offloaded.
    pub(super) fn enter(&mut self, origin: TaskId, task: TaskId, holds_reserved_buffer: bool) {
        self.accounts[origin.index()].counters.open += 1;
        let account = &mut self.accounts[task.index()];
        account.assigned += 1;
        account.reserved_held += u16::from(holds_reserved_buffer);
    }

    pub fn note(&mut self, origin: TaskId, note: Note) {
        let counters = &mut self.accounts[origin.index()].counters;
        let counter = match note {
            Note::Offloaded => &mut counters.offloaded,
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

    /// Sends the verdict of an open request and counts it.
    pub(super) fn finish(
        &mut self,
        id: RequestId,
        request: &Request,
        verdict: Verdict,
        actions: &mut Actions,
    ) {
        // A rejected or failed request may hold an answer of an exit that does not count.
        let answered = matches!(verdict, Verdict::OnTime | Verdict::Late);
        let answer = request.answer.filter(|_| answered);
        debug_assert!(
            answer.is_some() || !answered,
            "{id:?} has no answer to send"
        );
        self.accounts[request.task.index()].assigned -= 1;
        // A client knows only the task that it submitted to.
        let counters = &mut self.accounts[request.origin.index()].counters;
        counters.open -= 1;
        counters.count(verdict, answer.map(|(exit, _)| exit));
        actions.push(Action::Reply(Reply {
            answer,
            ..request.reply(id, verdict)
        }));
    }

    /// Releases a request's buffer, to which nothing writes any longer. For a lost action this is
    /// later than the verdict, so [`Self::finish`] does not do it.
    pub(super) fn release(&mut self, request: &Request) {
        debug_assert!(
            self.reserved_held(request.task) >= u16::from(request.holds_reserved_buffer),
            "{:?} releases a reserved buffer that it does not hold",
            request.task
        );
        self.accounts[request.task.index()].reserved_held -=
            u16::from(request.holds_reserved_buffer);
    }

    /// Rejects a submission that never got a buffer.
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
            delivered: None,
        }));
    }

    /// Recounts everything from the requests.
    ///
    /// # Errors
    /// The first count that is wrong.
    pub fn check(&self, requests: &Requests) -> Result<(), &'static str> {
        for (task, account) in self.accounts.iter().enumerate() {
            let counters = &account.counters;
            let verdicts =
                counters.on_time + counters.late + counters.rejected() + counters.failed();
            let (mut open, mut assigned, mut reserved_held) = (0, 0, 0);
            for buffer in 0..requests.buffers() {
                let request = requests.get(buffer);
                let is_open = request.state.is_open();
                open += u64::from(is_open && request.origin.index() == task);
                assigned += u64::from(is_open && request.task.index() == task);
                // A locked request is not open, but keeps its buffer.
                let held = request.state != State::Free && request.holds_reserved_buffer;
                reserved_held += u16::from(held && request.task.index() == task);
            }
            if counters.submitted != counters.open + verdicts {
                return Err("a submission is neither open nor has one verdict");
            }
            if (open, assigned, reserved_held)
                != (counters.open, account.assigned, account.reserved_held)
            {
                return Err("open requests or reserved buffers are miscounted");
            }
        }
        Ok(())
    }
}

/// What [`Ledger::check`] must find, and how a test plants it.
#[cfg(test)]
pub const FAULTS: &[crate::punctual::fault::Fault<Ledger>] = &[
    ("a submission is neither open nor has one verdict", |it| {
        it.accounts[0].counters.submitted += 1
    }),
    ("open requests or reserved buffers are miscounted", |it| {
        it.accounts[0].assigned += 1
    }),
    ("open requests or reserved buffers are miscounted", |it| {
        it.accounts[0].reserved_held += 1
    }),
];

//! Which submissions of a run are open, and what became of the others.

use std::collections::VecDeque;

use punctual_core::{ClientId, Instant, Reply, TaskId, Ticket};
use punctual_types::Random;

use crate::arrivals::{Preparation, Submission};
use crate::outcome::Served;
use crate::samples::Samples;
use crate::summary::Tally;

/// A submission without a verdict.
#[derive(Clone, Copy, Debug)]
struct Open {
    task: TaskId,
    tag: u64,
    intended: Instant,
    submitted: Instant,
    sample: u32,
    preparation: Option<Preparation>,
}

/// What is known of a submission when its preparation begins.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The task that it was submitted to.
    pub origin: TaskId,
    /// The picture that it shows.
    pub sample: u32,
    /// How its preparation goes, if that is known.
    pub preparation: Option<Preparation>,
}

#[derive(Debug)]
pub struct Ledger {
    /// By sequence number, from `first` on; none: it has its verdict.
    open: VecDeque<Option<Open>>,
    first: u64,
    unanswered: usize,
    samples: Samples,
    /// Which picture a task's next request shows: a stream a task, so that every policy sees the same ones.
    pictures: Vec<Random>,
    keep: bool,
    pub total: Tally,
    pub tasks: Vec<Tally>,
    pub served: Vec<Served>,
    /// Verdicts on submissions that are not open.
    pub stray: u64,
}

impl Ledger {
    /// An empty ledger of `tasks` tasks, which keeps each request if `keep`.
    pub fn new(samples: Samples, tasks: usize, seed: u64, keep: bool) -> Self {
        let random = Random::new(seed);
        Self {
            open: VecDeque::new(),
            first: 0,
            unanswered: 0,
            samples,
            pictures: (0..tasks as u64)
                .map(|task| random.stream("samples", task))
                .collect(),
            keep,
            total: Tally::default(),
            tasks: vec![Tally::default(); tasks],
            served: Vec::new(),
            stray: 0,
        }
    }

    /// Whether every submission has its verdict.
    pub const fn settled(&self) -> bool {
        self.unanswered == 0
    }

    /// Enters a submission; returns its ticket.
    pub fn enter(&mut self, submission: &Submission, now: Instant) -> Ticket {
        let task = submission.task;
        let pictures = u64::from(self.samples.count(task));
        let pick = &mut self.pictures[task.index()];
        let known = submission.known;
        let sample = known.map_or_else(|| pick.below(pictures) as u32, |known| known.sample);
        let sequence = self.first + self.open.len() as u64;
        self.open.push_back(Some(Open {
            task,
            tag: submission.tag,
            intended: submission.intended,
            submitted: now,
            sample,
            preparation: known.and_then(|known| known.preparation),
        }));
        self.unanswered += 1;
        ticket(submission.client, sequence)
    }

    /// What is known of an open submission.
    pub fn shown(&self, ticket: Ticket) -> Option<Shown> {
        let index = ticket.sequence.checked_sub(self.first)?;
        let open = (*self.open.get(index as usize)?)?;
        Some(Shown {
            origin: open.task,
            sample: open.sample,
            preparation: open.preparation,
        })
    }

    /// Enters a verdict; returns the source's name for the submission, unless that has a verdict already.
    pub fn close(&mut self, now: Instant, reply: &Reply) -> Option<u64> {
        let open = self.take(reply.ticket.sequence);
        let Some(open) = open else {
            self.stray += 1;
            return None;
        };
        let exit = reply.answer.map(|(exit, _)| exit);
        let right = |exit| self.samples.correct(open.task, open.sample, exit);
        self.count(Served {
            task: open.task,
            intended: open.intended,
            submitted: open.submitted,
            deadline: reply.deadline,
            ended: now,
            verdict: Some(reply.verdict),
            exit,
            correct: exit.is_some_and(right),
            correct_at_full_depth: self.samples.correct_at_full_depth(open.task, open.sample),
            sample: open.sample,
        });
        Some(open.tag)
    }

    /// Enters everything that is still open as lost.
    pub fn lose_the_rest(&mut self, now: Instant) {
        for open in std::mem::take(&mut self.open).into_iter().flatten() {
            self.count(Served {
                task: open.task,
                intended: open.intended,
                submitted: open.submitted,
                deadline: Instant::FAR_FUTURE,
                ended: now,
                verdict: None,
                exit: None,
                correct: false,
                correct_at_full_depth: self.samples.correct_at_full_depth(open.task, open.sample),
                sample: open.sample,
            });
        }
        self.unanswered = 0;
    }

    fn take(&mut self, sequence: u64) -> Option<Open> {
        let index = sequence.checked_sub(self.first)?;
        let open = self.open.get_mut(index as usize)?.take()?;
        self.unanswered -= 1;
        while self.open.front().is_some_and(Option::is_none) {
            self.open.pop_front();
            self.first += 1;
        }
        Some(open)
    }

    fn count(&mut self, served: Served) {
        self.total.count(&served);
        self.tasks[served.task.index()].count(&served);
        if self.keep {
            self.served.push(served);
        }
    }
}

/// The slot number goes round: no client has more payloads open than that.
const fn ticket(client: ClientId, sequence: u64) -> Ticket {
    Ticket {
        client,
        slot: sequence as u16,
        part: 0,
        sequence,
    }
}

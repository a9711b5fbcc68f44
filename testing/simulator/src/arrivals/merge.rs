//! One source out of the streams of all tasks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_core::{ClientId, Instant, Nanos, Reply, TaskId};
use punctual_types::Random;

use super::open::{Due, Open};
use super::pattern::{Parts, Pattern, PatternError};
use super::reactive::{Reaction, Reactive};
use super::{Source, Submission};

/// Bits of a tag that hold the request's number in its stream; the task is above them.
const SEQUENCE_BITS: u32 = 48;

/// The name of a task's request, the `sequence`-th from 0.
pub(crate) const fn tag(task: TaskId, sequence: u64) -> u64 {
    (task.0 as u64) << SEQUENCE_BITS | sequence
}

/// The merged arrivals of a run, by rising time of submission; at the same time by task, and
/// within a task in the order in which they were meant.
#[derive(Debug)]
pub struct Arrivals {
    streams: Vec<Stream>,
    /// For each task, the streams that wait for its answers.
    waiting: Vec<Vec<u16>>,
    /// When each stream's next submission is due. Entries that its stream has overtaken are
    /// dropped when they come to the top.
    order: BinaryHeap<Reverse<(u64, u16)>>,
}

#[derive(Debug)]
struct Stream {
    kind: Kind,
    first_client: u16,
    clients: u16,
    sequence: u64,
}

#[derive(Debug)]
enum Kind {
    Open(Open, Option<Due>),
    Reactive(Reactive),
    /// It submits nothing itself.
    Parts,
}

impl Arrivals {
    /// The streams of all tasks, the i-th pattern (and its number of clients) being task i's, for
    /// `span` from [`Instant`] 0. `load` multiplies the rates.
    pub fn new(
        tasks: &[(&Pattern, u16)],
        load: f64,
        span: Nanos,
        random: &Random,
    ) -> Result<Self, PatternError> {
        let end = span.as_nanos();
        let mut arrivals = Self {
            streams: Vec::with_capacity(tasks.len()),
            waiting: vec![Vec::new(); tasks.len()],
            order: BinaryHeap::with_capacity(tasks.len() + 1),
        };
        let mut first_client = 0u16;
        for (index, (pattern, clients)) in tasks.iter().enumerate() {
            pattern.check()?;
            for after in pattern.waits_for() {
                let Some(waiting) = arrivals.waiting.get_mut(after.index()) else {
                    let (task, after, tasks) = (index as u16, after.0, tasks.len());
                    return Err(PatternError::Waits { task, after, tasks });
                };
                waiting.push(index as u16);
            }
            if let Pattern::Parts(Parts { of, .. }) = pattern
                && matches!(tasks[of.index()].0, Pattern::Parts(_))
            {
                let (task, of) = (index as u16, of.0);
                return Err(PatternError::PartsOfParts { task, of });
            }
            let draws = random.stream("arrivals", index as u64);
            let clients = (*clients).max(1);
            arrivals.streams.push(Stream {
                kind: kind(pattern, load, end, draws),
                first_client,
                clients,
                sequence: 0,
            });
            first_client = first_client.saturating_add(clients);
            arrivals.enlist(index as u16);
        }
        Ok(arrivals)
    }

    /// How many clients there are; their ids count from 0, task by task.
    #[must_use]
    pub fn clients(&self) -> u16 {
        let last = self.streams.last();
        last.map_or(0, |stream| stream.first_client + stream.clients)
    }

    fn enlist(&mut self, task: u16) {
        if let Some(due) = self.due(task) {
            self.order.push(Reverse((due.submitted, task)));
        }
        self.drop_overtaken();
    }

    /// Afterwards the top of the heap is what its stream would submit next.
    fn drop_overtaken(&mut self) {
        while let Some(Reverse((at, task))) = self.order.peek() {
            if self.due(*task).is_some_and(|due| due.submitted == *at) {
                return;
            }
            self.order.pop();
        }
    }

    fn due(&self, task: u16) -> Option<Due> {
        self.streams[usize::from(task)].due()
    }
}

impl Source for Arrivals {
    fn peek(&self) -> Option<Instant> {
        let Reverse((at, _)) = self.order.peek()?;
        Some(Instant::from_nanos(*at))
    }

    fn take(&mut self) -> Option<Submission> {
        let Reverse((_, task)) = self.order.pop()?;
        let due = self.due(task)?;
        let stream = &mut self.streams[usize::from(task)];
        stream.advance();
        let sequence = stream.sequence;
        stream.sequence += 1;
        let client = stream.first_client + (sequence % u64::from(stream.clients)) as u16;
        self.enlist(task);
        let intended = Instant::from_nanos(due.intended);
        Some(Submission {
            task: TaskId(task),
            client: ClientId(client),
            intended,
            submitted: Instant::from_nanos(due.submitted),
            captured: intended,
            deadline: due.deadline.map(|deadline| intended + deadline),
            egress: Nanos::ZERO,
            tag: tag(TaskId(task), sequence),
            known: None,
        })
    }

    fn replied(&mut self, now: Instant, tag: u64, reply: &Reply) {
        let task = (tag >> SEQUENCE_BITS) as u16;
        let reaction = Reaction {
            now: now.as_nanos(),
            task: TaskId(task),
            sequence: tag & ((1 << SEQUENCE_BITS) - 1),
            verdict: reply.verdict,
        };
        if let Kind::Reactive(stream) = &mut self.streams[usize::from(task)].kind {
            stream.own(&reaction);
            self.enlist(task);
        }
        for position in 0..self.waiting[usize::from(task)].len() {
            let waiting = self.waiting[usize::from(task)][position];
            if let Kind::Reactive(stream) = &mut self.streams[usize::from(waiting)].kind {
                stream.awaited(&reaction);
                self.enlist(waiting);
            }
        }
    }
}

impl Stream {
    fn due(&self) -> Option<Due> {
        match &self.kind {
            Kind::Open(_, next) => *next,
            Kind::Reactive(stream) => stream.peek().map(Due::at),
            Kind::Parts => None,
        }
    }

    fn advance(&mut self) {
        match &mut self.kind {
            Kind::Open(stream, next) => *next = stream.next(),
            Kind::Reactive(stream) => {
                stream.take();
            }
            Kind::Parts => {}
        }
    }
}

fn kind(pattern: &Pattern, load: f64, end: u64, random: Random) -> Kind {
    if matches!(pattern, Pattern::Parts(_)) {
        return Kind::Parts;
    }
    match Reactive::new(pattern, load, end, random.clone()) {
        Some(stream) => Kind::Reactive(stream),
        None => {
            let mut stream =
                Open::new(pattern, load, end, random).expect("a pattern is open-loop or reacts");
            let next = stream.next();
            Kind::Open(stream, next)
        }
    }
}

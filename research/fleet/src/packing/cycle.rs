//! One node: the duty cycle of the sessions on it.

use punctual_core::Nanos;
use serde::Serialize;

use super::rate::Rate;
use super::times::BatchTimes;

/// All requests for one model with one deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// From a request to its answer, at most.
    pub deadline: Nanos,
    pub rate: Rate,
    /// L(b) on each kind of partition; `None` where it cannot run.
    pub times: Vec<Option<BatchTimes>>,
    /// The blocks of weights that it needs, by position in [`Shelf::weights`](super::Shelf).
    pub weights: Vec<usize>,
}

/// A session's requests, or a part of them, that one node is to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub session: usize,
    pub rate: Rate,
}

/// What a node does in turn, over and over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cycle {
    /// From the start of a batch to the start of the same session's next.
    pub length: Nanos,
    /// One batch of each session, in order.
    pub runs: Vec<Run>,
}

/// One session's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    pub session: usize,
    /// The part of its requests that is served here.
    pub rate: Rate,
    /// The most requests that a cycle brings.
    pub batch: u32,
    pub time: Nanos,
}

impl Cycle {
    #[must_use]
    pub fn busy(&self) -> Nanos {
        self.runs
            .iter()
            .fold(Nanos::ZERO, |sum, run| sum + run.time)
    }

    /// The part of the time that the node is busy, at most 1.
    #[must_use]
    pub fn occupancy(&self) -> f64 {
        self.busy().as_nanos() as f64 / self.length.as_nanos() as f64
    }

    pub fn loads(&self) -> impl Iterator<Item = Load> + '_ {
        self.runs.iter().map(|run| Load {
            session: run.session,
            rate: run.rate,
        })
    }
}

impl Session {
    /// How many partitions of a kind it keeps busy if it shares none: whole ones, and a part of one
    /// more. `None` if it cannot be on time there.
    #[must_use]
    pub fn busy_alone(&self, kind: usize) -> Option<f64> {
        let on = On {
            sessions: std::slice::from_ref(self),
            kind,
        };
        let (batch, time) = on.times(0)?.most_efficient(self.half())?;
        let (whole, rate) = self.rate.divide(Rate::of(batch, time));
        if rate == Rate::ZERO {
            return Some(whole as f64);
        }
        let rest = on.alone(Load { session: 0, rate })?;
        Some(whole as f64 + rest.occupancy())
    }

    /// What two batches in a row may take, each.
    pub(super) fn half(&self) -> Nanos {
        Nanos::new(self.deadline.as_nanos() / 2)
    }
}

/// Sessions, on one kind of partition.
#[derive(Clone, Copy)]
pub(super) struct On<'s> {
    pub(super) sessions: &'s [Session],
    pub(super) kind: usize,
}

impl<'s> On<'s> {
    pub(super) fn times(&self, session: usize) -> Option<&'s BatchTimes> {
        self.sessions[session].times[self.kind].as_ref()
    }

    /// `loads` in a cycle of `length`, if they fit into it and are all on time.
    pub(super) fn cycle(&self, length: Nanos, loads: impl Iterator<Item = Load>) -> Option<Cycle> {
        let mut runs = Vec::new();
        for Load { session, rate } in loads {
            let batch = rate.within(length);
            let time = self.times(session)?.time(batch)?;
            if length + time > self.sessions[session].deadline {
                return None;
            }
            runs.push(Run {
                session,
                rate,
                batch,
                time,
            });
        }
        let cycle = Cycle { length, runs };
        (length > Nanos::ZERO && cycle.busy() <= length).then_some(cycle)
    }

    /// A load on a node of its own: the cycle in which it takes the least part of the time, of several
    /// the longest. A load so slow that its deadline does not wait for a second request runs alone.
    ///
    /// Published is the largest batch with b / r + L(b) within the deadline. This is the same where
    /// larger batches are more efficient, as is assumed there, and better where they are not.
    pub(super) fn alone(&self, load: Load) -> Option<Cycle> {
        let deadline = self.sessions[load.session].deadline;
        let cycles = self.times(load.session)?.points().iter().rev();
        cycles
            .filter_map(|&(size, time)| {
                let length = load.rate.span_of(size).min(deadline.saturating_sub(time));
                self.cycle(length, std::iter::once(load))
            })
            .min_by(|a, b| a.occupancy().total_cmp(&b.occupancy()))
    }

    /// Any cycle that serves all `loads`: the fullest that there is.
    ///
    /// Where batches stay the same, a longer cycle is better until a deadline forbids it. So only
    /// the longest cycle for each size of each load needs a look, cut to what the deadlines leave.
    pub(super) fn any(&self, loads: &[Load]) -> Option<Cycle> {
        let mut lengths = Vec::new();
        for load in loads {
            let sizes = self.times(load.session)?.points();
            lengths.extend(sizes.iter().map(|(size, _)| load.rate.span_of(*size)));
        }
        let cut = |length: Nanos| {
            let mut cut = length;
            for load in loads {
                let time = self.times(load.session)?.time(load.rate.within(length))?;
                cut = cut.min(self.sessions[load.session].deadline.saturating_sub(time));
            }
            Some(cut)
        };
        lengths
            .into_iter()
            .filter_map(|length| self.cycle(cut(length)?, loads.iter().copied()))
            .max_by(|a, b| a.occupancy().total_cmp(&b.occupancy()))
    }
}

//! The generators of open-loop streams.

use std::collections::VecDeque;

use punctual_core::Nanos;
use punctual_types::Random;

use super::distribution::log_normal;
use super::minutes::Minutes;
use super::open::{Due, Open};
use super::{Bursts, TraceEntry};

/// Makes requests by rising intended time, until there are none before `end` (ns) or for ever.
pub(super) trait Generator: std::fmt::Debug + Send {
    /// The next request; draws come from `random`.
    fn next(&mut self, random: &mut Random, end: u64) -> Option<Due>;
}

#[derive(Debug)]
pub(super) struct Periodic {
    pub(super) interval: f64,
    pub(super) phase: u64,
    pub(super) jitter: u64,
    pub(super) turn: u64,
}

impl Generator for Periodic {
    fn next(&mut self, random: &mut Random, _: u64) -> Option<Due> {
        let intended = self.phase + (self.interval * self.turn as f64) as u64;
        self.turn += 1;
        let behind = (random.unit() * self.jitter as f64) as u64;
        Some(Due {
            submitted: intended + behind,
            ..Due::at(intended)
        })
    }
}

/// Independent intervals: exponential, or Gamma with a shape.
#[derive(Debug)]
pub(super) struct Renewal {
    pub(super) mean: f64,
    pub(super) shape: Option<f64>,
    pub(super) at: f64,
}

impl Generator for Renewal {
    fn next(&mut self, random: &mut Random, _: u64) -> Option<Due> {
        self.at += match self.shape {
            None => random.exponential(self.mean),
            Some(shape) => random.gamma(shape) * self.mean / shape,
        };
        Some(Due::at(self.at as u64))
    }
}

#[derive(Debug)]
pub(super) struct Groups {
    bursts: Bursts,
    mean: f64,
    at: f64,
    left: u16,
    deadline: Option<Nanos>,
}

impl Groups {
    pub(super) fn new(bursts: &Bursts, mean: f64) -> Self {
        Self {
            bursts: bursts.clone(),
            mean,
            at: 0.0,
            left: 0,
            deadline: None,
        }
    }
}

impl Generator for Groups {
    fn next(&mut self, random: &mut Random, _: u64) -> Option<Due> {
        let bursts = &self.bursts;
        if self.left == 0 {
            self.at += random.exponential(self.mean);
            let size = log_normal(random, bursts.median, bursts.sigma).round();
            self.left = size.clamp(1.0, f64::from(bursts.most)) as u16;
            let by_size = bursts.deadlines.get(usize::from(self.left) - 1);
            self.deadline = by_size.or(bursts.deadlines.last()).copied();
        }
        self.left -= 1;
        Some(Due {
            deadline: self.deadline,
            ..Due::at(self.at as u64)
        })
    }
}

/// Recorded times, played `load` times as fast.
#[derive(Debug)]
pub(super) struct Recording {
    entries: Vec<TraceEntry>,
    span: Option<Nanos>,
    load: f64,
    next: usize,
    round: u64,
}

impl Recording {
    pub(super) fn new(entries: &[TraceEntry], span: Option<Nanos>, load: f64) -> Self {
        Self {
            entries: entries.to_vec(),
            span,
            load,
            next: 0,
            round: 0,
        }
    }
}

impl Generator for Recording {
    fn next(&mut self, _: &mut Random, _: u64) -> Option<Due> {
        if self.next == self.entries.len() {
            self.next = 0;
            self.round += 1;
        }
        let begin = match (self.span, self.round) {
            (_, 0) => 0,
            (Some(span), round) => span.as_nanos().saturating_mul(round),
            (None, _) => return None,
        };
        let entry = self.entries.get(self.next)?;
        self.next += 1;
        let at = begin.saturating_add(entry.at.as_nanos()) as f64 / self.load;
        Some(Due {
            deadline: entry.deadline,
            ..Due::at(at as u64)
        })
    }
}

impl Generator for Minutes {
    fn next(&mut self, random: &mut Random, end: u64) -> Option<Due> {
        self.arrival(random, end).map(Due::at)
    }
}

/// A rate that models share which join one after the other.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) total_hz: f64,
    pub(super) every: f64,
    pub(super) models: f64,
    pub(super) start: f64,
    pub(super) at: f64,
}

impl Generator for Shared {
    fn next(&mut self, random: &mut Random, _: u64) -> Option<Due> {
        let since = self.at - self.start;
        self.at = shared_next(self.total_hz, self.every, self.models, since, random) + self.start;
        Some(Due::at(self.at as u64))
    }
}

/// Groups the requests of a stream by window.
#[derive(Debug)]
pub(super) struct Collected {
    window: u64,
    deadlines: Vec<Nanos>,
    stream: Open,
    /// The first request after those of this window.
    ahead: Option<Due>,
    /// What is left of this window.
    group: VecDeque<Due>,
}

impl Collected {
    pub(super) fn new(window: Nanos, deadlines: &[Nanos], stream: Open) -> Self {
        Self {
            window: window.as_nanos(),
            deadlines: deadlines.to_vec(),
            stream,
            ahead: None,
            group: VecDeque::new(),
        }
    }
}

impl Generator for Collected {
    fn next(&mut self, _: &mut Random, _: u64) -> Option<Due> {
        if self.group.is_empty() {
            let first = self.ahead.take().or_else(|| self.stream.next())?;
            let released = first.submitted.div_ceil(self.window) * self.window;
            self.group.push_back(first);
            self.ahead = loop {
                match self.stream.next() {
                    Some(due) if due.submitted <= released => self.group.push_back(due),
                    other => break other,
                }
            };
            let by_size = self.deadlines.get(self.group.len() - 1);
            let deadline = by_size.or(self.deadlines.last()).copied();
            for due in &mut self.group {
                *due = Due {
                    deadline: deadline.or(due.deadline),
                    ..Due::at(released)
                };
            }
        }
        self.group.pop_front()
    }
}

/// The next arrival at a model after `since` (ns since the first one joined), when the k-th joins
/// at `k * every` and all that joined share `total_hz`. The number that joined is taken as the
/// smooth `since / every + 1`, which makes the integral of the rate a logarithm.
fn shared_next(total_hz: f64, every: f64, models: f64, since: f64, random: &mut Random) -> f64 {
    let amount = random.exponential(1.0);
    let all_joined = every * (models - 1.0).max(0.0);
    if since >= all_joined {
        return since + amount * models * 1e9 / total_hz;
    }
    let per_join = total_hz * every / 1e9;
    let until = |time: f64| per_join * ((time / every + 1.0) / (since / every + 1.0)).ln();
    if amount <= until(all_joined) {
        return every * ((since / every + 1.0) * (amount / per_join).exp() - 1.0);
    }
    all_joined + (amount - until(all_joined)) * models * 1e9 / total_hz
}

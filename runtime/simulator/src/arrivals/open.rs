//! Open-loop streams: what comes does not depend on the answers.

use std::collections::VecDeque;

use punctual_core::Nanos;

use super::distribution::log_normal;
use super::minutes::Minutes;
use super::{Bursts, Pattern, TraceEntry};
use crate::random::Random;

/// A request to come. Times are in nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) intended: u64,
    pub(super) submitted: u64,
    /// Relative to `intended`.
    pub(super) deadline: Option<Nanos>,
}

impl Due {
    pub(super) fn at(at: u64) -> Self {
        Self {
            intended: at,
            submitted: at,
            deadline: None,
        }
    }
}

/// Groups the requests of a stream by window.
#[derive(Debug)]
struct Collected {
    window: u64,
    deadlines: Vec<Nanos>,
    stream: Box<Open>,
    /// The first request after those of this window.
    ahead: Option<Due>,
    /// What is left of this window.
    group: VecDeque<Due>,
}

impl Collected {
    fn next(&mut self) -> Option<Due> {
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

/// An open-loop stream; by rising time of submission.
#[derive(Debug)]
pub(super) struct Open {
    generator: Generator,
    random: Random,
    end: u64,
    submitted: u64,
}

#[derive(Debug)]
enum Generator {
    Periodic {
        interval: f64,
        phase: u64,
        jitter: u64,
        turn: u64,
    },
    Renewal {
        mean: f64,
        shape: Option<f64>,
        at: f64,
    },
    Bursts {
        bursts: Bursts,
        mean: f64,
        at: f64,
        left: u16,
        deadline: Option<Nanos>,
    },
    Trace {
        entries: Vec<TraceEntry>,
        span: Option<Nanos>,
        load: f64,
        next: usize,
        round: u64,
    },
    Minutes(Minutes),
    Collected(Collected),
    Shared {
        total_hz: f64,
        every: f64,
        models: f64,
        start: f64,
        at: f64,
    },
}

impl Open {
    /// The stream of an open-loop pattern until `end` (ns); `None` for one that reacts.
    pub(super) fn new(pattern: &Pattern, load: f64, end: u64, mut random: Random) -> Option<Self> {
        let interval = |rate_hz: f64| 1e9 / (rate_hz * load);
        let generator = match pattern {
            Pattern::Periodic {
                rate_hz,
                phase,
                jitter,
            } => Generator::Periodic {
                interval: interval(*rate_hz),
                phase: phase.as_nanos(),
                jitter: jitter.as_nanos(),
                turn: 0,
            },
            Pattern::Poisson { rate_hz } => Generator::Renewal {
                mean: interval(*rate_hz),
                shape: None,
                at: 0.0,
            },
            Pattern::Gamma { rate_hz, shape } => Generator::Renewal {
                mean: interval(*rate_hz),
                shape: Some(*shape),
                at: 0.0,
            },
            Pattern::Bursts(bursts) => Generator::Bursts {
                mean: interval(bursts.groups_hz),
                bursts: bursts.clone(),
                at: 0.0,
                left: 0,
                deadline: None,
            },
            Pattern::Trace { entries, span } => Generator::Trace {
                entries: entries.clone(),
                span: *span,
                load,
                next: 0,
                round: 0,
            },
            Pattern::Minutes { rate_hz, shape } => {
                Generator::Minutes(Minutes::new(*shape, rate_hz * load, &mut random))
            }
            Pattern::Shared {
                total_hz,
                before,
                models,
                every,
                start,
            } => {
                let (every, start) = (every.as_nanos() as f64, start.as_nanos() as f64);
                Generator::Shared {
                    total_hz: total_hz * load,
                    every,
                    models: f64::from(*models),
                    start,
                    at: start + every * f64::from(*before),
                }
            }
            Pattern::Collected {
                window,
                deadlines,
                of,
            } => Generator::Collected(Collected {
                window: window.as_nanos(),
                deadlines: deadlines.clone(),
                stream: Box::new(Self::new(of, load, end, random.clone())?),
                ahead: None,
                group: VecDeque::new(),
            }),
            Pattern::ClosedLoop { .. }
            | Pattern::Continuous
            | Pattern::Dependent { .. }
            | Pattern::Query { .. } => return None,
        };
        Some(Self {
            generator,
            random,
            end,
            submitted: 0,
        })
    }

    /// The next request before the end.
    pub(super) fn next(&mut self) -> Option<Due> {
        let mut due = self.generator.next(&mut self.random, self.end)?;
        // A jittered request may be overtaken by its successor on the way, but a client's
        // requests come in order.
        self.submitted = self.submitted.max(due.submitted);
        due.submitted = self.submitted;
        (due.submitted < self.end).then_some(due)
    }
}

impl Generator {
    fn next(&mut self, random: &mut Random, end: u64) -> Option<Due> {
        match self {
            Self::Periodic {
                interval,
                phase,
                jitter,
                turn,
            } => {
                let intended = *phase + (*interval * *turn as f64) as u64;
                *turn += 1;
                let behind = (random.unit() * *jitter as f64) as u64;
                Some(Due {
                    submitted: intended + behind,
                    ..Due::at(intended)
                })
            }
            Self::Renewal { mean, shape, at } => {
                *at += match *shape {
                    None => random.exponential(*mean),
                    Some(shape) => random.gamma(shape) * *mean / shape,
                };
                Some(Due::at(*at as u64))
            }
            Self::Bursts {
                bursts,
                mean,
                at,
                left,
                deadline,
            } => {
                if *left == 0 {
                    *at += random.exponential(*mean);
                    let size = log_normal(random, bursts.median, bursts.sigma).round();
                    *left = size.clamp(1.0, f64::from(bursts.most)) as u16;
                    let by_size = bursts.deadlines.get(usize::from(*left) - 1);
                    *deadline = by_size.or(bursts.deadlines.last()).copied();
                }
                *left -= 1;
                Some(Due {
                    deadline: *deadline,
                    ..Due::at(*at as u64)
                })
            }
            Self::Trace {
                entries,
                span,
                load,
                next,
                round,
            } => {
                if *next == entries.len() {
                    *next = 0;
                    *round += 1;
                }
                let begin = match (span, *round) {
                    (_, 0) => 0,
                    (Some(span), round) => span.as_nanos().saturating_mul(round),
                    (None, _) => return None,
                };
                let entry = entries.get(*next)?;
                *next += 1;
                let at = begin.saturating_add(entry.at.as_nanos()) as f64 / *load;
                Some(Due {
                    deadline: entry.deadline,
                    ..Due::at(at as u64)
                })
            }
            Self::Minutes(minutes) => minutes.next(random, end).map(Due::at),
            Self::Collected(collected) => collected.next(),
            Self::Shared {
                total_hz,
                every,
                models,
                start,
                at,
            } => {
                *at = shared_next(*total_hz, *every, *models, *at - *start, random) + *start;
                Some(Due::at(*at as u64))
            }
        }
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

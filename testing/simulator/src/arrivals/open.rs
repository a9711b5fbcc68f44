//! Open-loop streams: what comes does not depend on the answers.

use punctual_core::Nanos;
use punctual_types::Random;

use super::Pattern;
use super::generators::{Collected, Generator, Groups, Periodic, Recording, Renewal, Shared};
use super::minutes::Minutes;

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

/// An open-loop stream; by rising time of submission.
#[derive(Debug)]
pub(super) struct Open {
    generator: Box<dyn Generator>,
    random: Random,
    end: u64,
    submitted: u64,
}

impl Open {
    /// The stream of an open-loop pattern until `end` (ns); `None` for one that reacts.
    pub(super) fn new(pattern: &Pattern, load: f64, end: u64, mut random: Random) -> Option<Self> {
        Some(Self {
            generator: generator(pattern, load, end, &mut random)?,
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

fn generator(
    pattern: &Pattern,
    load: f64,
    end: u64,
    random: &mut Random,
) -> Option<Box<dyn Generator>> {
    let interval = |rate_hz: f64| 1e9 / (rate_hz * load);
    let renewal = |rate_hz: f64, shape| Renewal {
        mean: interval(rate_hz),
        shape,
        at: 0.0,
    };
    Some(match pattern {
        Pattern::Periodic {
            rate_hz,
            phase,
            jitter,
        } => Box::new(Periodic {
            interval: interval(*rate_hz),
            phase: phase.as_nanos(),
            jitter: jitter.as_nanos(),
            turn: 0,
        }),
        Pattern::Poisson { rate_hz } => Box::new(renewal(*rate_hz, None)),
        Pattern::Gamma { rate_hz, shape } => Box::new(renewal(*rate_hz, Some(*shape))),
        Pattern::Bursts(bursts) => Box::new(Groups::new(bursts, interval(bursts.groups_hz))),
        Pattern::Trace { entries, span } => Box::new(Recording::new(entries, *span, load)),
        Pattern::Minutes { rate_hz, shape } => {
            Box::new(Minutes::new(*shape, rate_hz * load, random))
        }
        Pattern::Collected {
            window,
            deadlines,
            of,
        } => {
            let stream = Open::new(of, load, end, random.clone())?;
            Box::new(Collected::new(*window, deadlines, stream))
        }
        Pattern::Shared {
            total_hz,
            before,
            models,
            every,
            start,
        } => {
            let (every, start) = (every.as_nanos() as f64, start.as_nanos() as f64);
            Box::new(Shared {
                total_hz: total_hz * load,
                every,
                models: f64::from(*models),
                start,
                at: start + every * f64::from(*before),
            })
        }
        Pattern::ClosedLoop { .. }
        | Pattern::Continuous
        | Pattern::Dependent { .. }
        | Pattern::Query { .. }
        | Pattern::Parts { .. } => return None,
    })
}

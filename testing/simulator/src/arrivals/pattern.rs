//! What a task's clients do, as plain data.

use punctual_core::{Nanos, TaskId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Shape;

/// How the requests of one task come in. Rates are in requests a second at load 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One request a period, from `phase` on; each up to `jitter` later than its turn (uniform).
    Periodic {
        rate_hz: f64,
        /// When the first one is due.
        phase: Nanos,
        /// Most that a request is behind its turn.
        jitter: Nanos,
    },
    Poisson {
        /// Mean requests a second.
        rate_hz: f64,
    },
    /// Independent intervals from a Gamma distribution: `shape` below 1 is burstier than Poisson,
    /// above 1 more regular. The coefficient of variation is `1 / sqrt(shape)`.
    Gamma {
        /// Mean requests a second.
        rate_hz: f64,
        shape: f64,
    },
    /// Groups of images that arrive at once.
    Bursts(Bursts),
    /// `outstanding` clients, each of which asks again as soon as it has its answer.
    ClosedLoop {
        /// Requests open at any time; the load factor multiplies it.
        outstanding: u16,
        /// Pause after an answer.
        think: Nanos,
        /// Pause after a request that got no answer: without one, a client that is refused at
        /// once would ask again at the same instant, for ever.
        retry: Nanos,
    },
    /// What `of` brings, released at the end of the collection window that it falls into, and
    /// meant for that time: SEEB-GPU lets all methods collect requests for 100 ms (section 5.5).
    Collected {
        /// The windows; the first begins at 0.
        window: Nanos,
        /// Relative deadline of the requests that are released together by their number, from 1;
        /// more have the last. Empty: those of `of`.
        deadlines: Vec<Nanos>,
        /// An open-loop pattern.
        of: Box<Pattern>,
    },
    /// One request open at all times, whatever the load factor: DISB's best-effort clients.
    Continuous,
    /// Recorded times; the load factor plays them faster.
    Trace {
        /// By rising time.
        entries: Vec<TraceEntry>,
        /// The length of the recording, after which it starts again; none: it plays once.
        span: Option<Nanos>,
    },
    /// Asks when all of these tasks have answered their n-th request (DISB's dependent loads).
    Dependent {
        /// The tasks waited for, at most 64.
        after: Vec<TaskId>,
    },
    /// Tasks chained by the client (Nexus): each answer of the task `after` brings `fan_out` requests on average, all at
    /// once, captured then: the whole part always, one more with the probability of the fraction.
    Query {
        /// The first stage.
        after: TaskId,
        fan_out: f64,
    },
    /// Tasks chained by the daemon ([`pipelines`](crate::pipelines)).
    Parts(Parts),
    /// Counts a minute in the shape of a serverless trace (Clockwork, section 6.5).
    Minutes {
        /// Mean requests a second over the day.
        rate_hz: f64,
        shape: Shape,
    },
    /// A rate shared evenly by models that join one after the other (Clockwork, section 6.2):
    /// Poisson with `total_hz / joined` from the time this one joins.
    Shared {
        /// Requests a second of all that have joined, together.
        total_hz: f64,
        /// How many join before this one.
        before: u32,
        /// How many there are in the end.
        models: u32,
        /// Time between two that join; the first joins at `start`.
        every: Nanos,
        /// When the first one joins.
        start: Nanos,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEntry {
    /// Time since the start of the recording.
    pub at: Nanos,
    /// Deadline relative to `at`; none: the task's own.
    pub deadline: Option<Nanos>,
}

/// What the answer of another task brings to this one: parts of a frame, captured when the frame was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// The root of the pipeline.
    pub of: TaskId,
    pub at_most: u8,
    /// How many there are on average: the whole part always, one more with the probability of the fraction. None: any
    /// number up to `at_most`, each as often.
    pub fan_out: Option<f64>,
    /// From the root's reply until the parts arrive.
    pub hand_over: Nanos,
    /// The client sends them, as in [`Query`](Pattern::Query): not announced, captured when they arrive.
    pub by_client: bool,
}

/// Groups of images that arrive at once, their number heavy-tailed: the shape of the PAI trace as SEEB-GPU uses it
/// (section 4, Figure 6a). The trace itself is not used; this is synthesised: Poisson groups, log-normal sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    pub groups_hz: f64,
    /// Median number of images in a group.
    pub median: f64,
    /// Standard deviation of the logarithm of that number.
    pub sigma: f64,
    pub most: u16,
    /// Relative deadline of a group's images by its size, from 1; larger groups have the last. Empty: the task's own.
    pub deadlines: Vec<Nanos>,
}

/// Why a pattern cannot be played.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PatternError {
    #[error("{name} is {value}; it must be {rule}")]
    Number {
        name: &'static str,
        value: f64,
        rule: &'static str,
    },
    #[error("entry {entry} of the trace is earlier than the one before it; sort the trace by time")]
    TraceOrder { entry: usize },
    /// A recording that repeats before it ended.
    #[error("the trace repeats after {span}, but its last entry is at {last}; lengthen the span")]
    TraceSpan { span: Nanos, last: Nanos },
    /// Requests are collected, or repeated, that answers bring.
    #[error(
        "only an open-loop pattern can be collected: no closed loop, dependent, query or parts"
    )]
    CollectedReaction,
    /// More tasks to wait for than there are bits.
    #[error("{found} tasks to wait for; 1 to 64 are possible")]
    Dependencies { found: usize },
    /// The root of a pipeline is a follower itself.
    #[error(
        "task {task} takes parts of task {of}, whose requests are parts themselves; a pipeline has one root"
    )]
    PartsOfParts { task: u16, of: u16 },
    /// A task waits for one that does not exist, or for itself.
    #[error("task {task} waits for task {after}; it must be another task of the {tasks} there are")]
    Waits { task: u16, after: u16, tasks: usize },
}

/// The highest rate a pattern may ask for: one request a nanosecond is no rate.
const RATE_MAX_HZ: f64 = 1e8;

impl Pattern {
    /// Whether the pattern can be played.
    pub fn check(&self) -> Result<(), PatternError> {
        match self {
            Self::Periodic { rate_hz, .. } | Self::Poisson { rate_hz } => rate(*rate_hz),
            Self::Minutes { rate_hz, .. } => rate(*rate_hz),
            Self::Gamma { rate_hz, shape } => {
                rate(*rate_hz)?;
                number("shape", *shape, "0.01 to 1000", 0.01..=1e3)
            }
            Self::Bursts(bursts) => bursts.check(),
            Self::ClosedLoop {
                outstanding, retry, ..
            } => {
                let open = f64::from(*outstanding);
                number("outstanding", open, "at least 1", 1.0..=65_535.0)?;
                let pause = retry.as_nanos() as f64;
                number("retry (ns)", pause, "at least 1000", 1e3..=1e18)
            }
            Self::Continuous => Ok(()),
            Self::Collected { window, of, .. } => {
                if of.reacts() {
                    return Err(PatternError::CollectedReaction);
                }
                let length = window.as_nanos() as f64;
                number("window (ns)", length, "at least 1000", 1e3..=1e18)?;
                of.check()
            }
            Self::Trace { entries, span } => check_trace(entries, *span),
            Self::Dependent { after } if (1..=64).contains(&after.len()) => Ok(()),
            Self::Dependent { after } => Err(PatternError::Dependencies { found: after.len() }),
            Self::Query { fan_out, .. } => number("fan_out", *fan_out, "0 to 1000", 0.0..=1e3),
            Self::Parts(parts) => parts.check(),
            Self::Shared {
                total_hz,
                before,
                models,
                ..
            } => {
                rate(*total_hz)?;
                let (index, most) = (f64::from(*before), f64::from(*models) - 1.0);
                number("before", index, "less than models", 0.0..=most)
            }
        }
    }

    /// Whether its requests are brought by answers.
    #[must_use]
    pub const fn reacts(&self) -> bool {
        matches!(
            self,
            Self::ClosedLoop { .. }
                | Self::Continuous
                | Self::Dependent { .. }
                | Self::Query { .. }
                | Self::Parts(_)
        )
    }

    /// The tasks whose answers bring requests of this one.
    #[must_use]
    pub fn waits_for(&self) -> &[TaskId] {
        match self {
            Self::Dependent { after } => after,
            Self::Query { after, .. } => std::slice::from_ref(after),
            Self::Parts(parts) => std::slice::from_ref(&parts.of),
            _ => &[],
        }
    }

    /// Mean requests a second at load 1, where that is known beforehand.
    #[must_use]
    pub fn rate_hz(&self) -> Option<f64> {
        match self {
            Self::Periodic { rate_hz, .. }
            | Self::Poisson { rate_hz }
            | Self::Gamma { rate_hz, .. }
            | Self::Minutes { rate_hz, .. } => Some(*rate_hz),
            Self::Collected { of, .. } => of.rate_hz(),
            Self::Bursts(bursts) => {
                let mean = bursts.median * (bursts.sigma * bursts.sigma / 2.0).exp();
                Some(bursts.groups_hz * mean.min(f64::from(bursts.most)))
            }
            Self::Shared {
                total_hz, models, ..
            } => Some(total_hz / f64::from(*models)),
            Self::Trace { entries, span } => {
                let last = entries.last().map(|entry| entry.at);
                let span = span.or(last)?.as_nanos().max(1) as f64;
                Some(entries.len() as f64 * 1e9 / span)
            }
            Self::ClosedLoop { .. }
            | Self::Continuous
            | Self::Dependent { .. }
            | Self::Query { .. }
            | Self::Parts(_) => None,
        }
    }
}

impl Parts {
    /// The bound on the time from capture to the last prepared part: the root has this deadline, each part takes `prepare`.
    #[must_use]
    pub fn jitter(&self, prepare: Nanos, of_root: Option<Nanos>) -> Nanos {
        let prepared = prepare.saturating_mul(u64::from(self.at_most));
        of_root.unwrap_or(Nanos::ZERO) + self.hand_over + prepared
    }

    fn check(&self) -> Result<(), PatternError> {
        let at_most = f64::from(self.at_most);
        number("at_most", at_most, "at least 1", 1.0..=255.0)?;
        let fan_out = self.fan_out.unwrap_or(at_most);
        number("fan_out", fan_out, "0 to at_most", 0.0..=at_most)
    }
}

impl Bursts {
    fn check(&self) -> Result<(), PatternError> {
        rate(self.groups_hz)?;
        number("median", self.median, "1 to 65535", 1.0..=65_535.0)?;
        number("sigma", self.sigma, "0 to 5", 0.0..=5.0)?;
        number("most", f64::from(self.most), "at least 1", 1.0..=65_535.0)
    }
}

fn check_trace(entries: &[TraceEntry], span: Option<Nanos>) -> Result<(), PatternError> {
    let falls = entries.windows(2).position(|pair| pair[1].at < pair[0].at);
    if let Some(before) = falls {
        return Err(PatternError::TraceOrder { entry: before + 1 });
    }
    let last = entries.last().map_or(Nanos::ZERO, |entry| entry.at);
    match span {
        Some(span) if span <= last => Err(PatternError::TraceSpan { span, last }),
        _ => Ok(()),
    }
}

fn rate(value: f64) -> Result<(), PatternError> {
    const RULE: &str = "more than 0 and at most 100,000,000 a second";
    number("rate", value, RULE, f64::MIN_POSITIVE..=RATE_MAX_HZ)
}

/// Not a number is out of every range.
fn number(
    name: &'static str,
    value: f64,
    rule: &'static str,
    range: std::ops::RangeInclusive<f64>,
) -> Result<(), PatternError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(PatternError::Number { name, value, rule })
}

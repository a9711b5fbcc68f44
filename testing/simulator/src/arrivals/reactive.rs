//! Streams whose requests are brought by answers.

use std::collections::{BTreeMap, VecDeque};

use punctual_core::{Nanos, TaskId, Verdict};
use punctual_types::Random;

use super::Pattern;
use super::distribution::rounded;

/// A verdict, as the streams that wait for it see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reaction {
    /// When it was given (ns since the start of the run).
    pub(super) now: u64,
    pub(super) task: TaskId,
    /// Which request of the task, from 0.
    pub(super) sequence: u64,
    pub(super) verdict: Verdict,
}

impl Reaction {
    fn answered(&self) -> bool {
        matches!(self.verdict, Verdict::OnTime | Verdict::Late)
    }
}

/// A stream that reacts. What it has ready is submitted in the order in which it became so.
#[derive(Debug)]
pub(super) struct Reactive {
    rule: Rule,
    ready: VecDeque<u64>,
    end: u64,
}

#[derive(Debug)]
enum Rule {
    Closed {
        think: Nanos,
        retry: Nanos,
    },
    /// For each open sequence number, which of the tasks have answered it.
    Dependent {
        after: Vec<TaskId>,
        answered: BTreeMap<u64, u64>,
    },
    Query {
        after: TaskId,
        fan_out: f64,
        random: Random,
    },
}

/// The pause of a continuous client after a refusal.
const CONTINUOUS_RETRY: Nanos = Nanos::from_millis(1);

impl Reactive {
    /// The stream of a pattern that reacts, `None` for an open-loop one.
    pub(super) fn new(pattern: &Pattern, load: f64, end: u64, random: Random) -> Option<Self> {
        let (rule, open) = match pattern {
            Pattern::ClosedLoop {
                outstanding,
                think,
                retry,
            } => {
                let open = (f64::from(*outstanding) * load)
                    .round()
                    .clamp(1.0, 65_535.0);
                let (think, retry) = (*think, *retry);
                (Rule::Closed { think, retry }, open as usize)
            }
            Pattern::Continuous => {
                let (think, retry) = (Nanos::ZERO, CONTINUOUS_RETRY);
                (Rule::Closed { think, retry }, 1)
            }
            Pattern::Dependent { after } => {
                let (after, answered) = (after.clone(), BTreeMap::new());
                (Rule::Dependent { after, answered }, 0)
            }
            Pattern::Query { after, fan_out } => {
                let (after, fan_out) = (*after, *fan_out);
                let rule = Rule::Query {
                    after,
                    fan_out,
                    random,
                };
                (rule, 0)
            }
            _ => return None,
        };
        Some(Self {
            rule,
            ready: std::iter::repeat_n(0, open).collect(),
            end,
        })
    }

    pub(super) fn peek(&self) -> Option<u64> {
        self.ready.front().copied()
    }

    pub(super) fn take(&mut self) -> Option<u64> {
        self.ready.pop_front()
    }

    /// A verdict on a request of this stream's own task.
    pub(super) fn own(&mut self, reaction: &Reaction) {
        if let Rule::Closed { think, retry } = self.rule {
            let pause = if reaction.answered() { think } else { retry };
            self.push(reaction.now + pause.as_nanos(), 1);
        }
    }

    /// A verdict on a request of a task that this stream waits for.
    pub(super) fn awaited(&mut self, reaction: &Reaction) {
        if !reaction.answered() {
            return;
        }
        let brought = match &mut self.rule {
            Rule::Closed { .. } => 0,
            Rule::Dependent { after, answered } => u32::from(complete(after, answered, reaction)),
            Rule::Query {
                after,
                fan_out,
                random,
            } if *after == reaction.task => {
                let mut draw = random.stream("fan-out", reaction.sequence);
                rounded(&mut draw, *fan_out)
            }
            Rule::Query { .. } => 0,
        };
        self.push(reaction.now, brought);
    }

    /// Pauses differ (think, retry), so a later verdict may be ready earlier.
    fn push(&mut self, at: u64, times: u32) {
        if at >= self.end {
            return;
        }
        let place = self.ready.partition_point(|ready| *ready <= at);
        for _ in 0..times {
            self.ready.insert(place, at);
        }
    }
}

/// Notes an answer; true when it was the last one of its sequence number. Older numbers that are
/// still incomplete are given up then, as DISB does.
fn complete(after: &[TaskId], answered: &mut BTreeMap<u64, u64>, reaction: &Reaction) -> bool {
    let Some(bit) = after.iter().position(|task| *task == reaction.task) else {
        return false;
    };
    let seen = answered.entry(reaction.sequence).or_insert(0);
    *seen |= 1 << bit;
    if seen.count_ones() as usize != after.len() {
        return false;
    }
    *answered = answered.split_off(&(reaction.sequence + 1));
    true
}

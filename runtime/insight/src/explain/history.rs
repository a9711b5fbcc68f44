//! Which stages ran lately: the ones that a frame waited for are asked for when it has its verdict.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use punctual_core::{Instant, Nanos, PartitionId};
use punctual_recording::Names;
use punctual_recording::frames::{Follower, Outcome, Run};
use serde::Serialize;

use super::bounds::Bounds;

/// Frames come back up to a second after their verdicts; what they waited for was some time before.
const KEPT: Nanos = Nanos::from_millis(5_000);
const RUNS_MAX: usize = 16_384;

/// The runs of the newest seconds, by their ends.
#[derive(Debug, Default)]
pub struct History {
    runs: VecDeque<Arc<Run>>,
}

/// A stage for a group of tasks that ran while a frame waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Occupant {
    pub model: String,
    /// 0 is the first.
    pub stage: u8,
    /// Its members' tasks.
    pub tasks: Vec<String>,
    pub runs: u64,
    /// The part of the wait in which it ran.
    pub took_ns: Nanos,
}

/// An interval of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: Instant,
    pub to: Instant,
}

impl Span {
    pub fn length(self) -> Nanos {
        self.to.since(self.from)
    }

    fn common(self, other: Self) -> Nanos {
        let (from, to) = (self.from.max(other.from), self.to.min(other.to));
        to.since(from)
    }
}

impl History {
    pub fn add(&mut self, run: Arc<Run>, now: Instant) {
        self.runs.push_back(run);
        while let Some(oldest) = self.runs.front()
            && (self.runs.len() > RUNS_MAX || now.since(ended(oldest)) > KEPT)
        {
            self.runs.pop_front();
        }
    }

    /// What ran on compute units of a partition meanwhile, the longest first. `follower` has what still runs.
    pub fn during(
        &self,
        wait: Span,
        partition: PartitionId,
        follower: &Follower,
        bounds: Bounds,
        names: &Names,
    ) -> Vec<Occupant> {
        let mut occupants: Vec<Occupant> = Vec::new();
        let lately = self.runs.iter().rev();
        let lately = lately.take_while(|run| ended(run) >= wait.from);
        for run in lately.chain(follower.running()) {
            let took = held(run).map_or(Nanos::ZERO, |held| held.common(wait));
            if took == Nanos::ZERO || !bounds.overlap(run.partition, partition) {
                continue;
            }
            let new = Occupant::of(run, names, took);
            let is_same = |old: &&mut Occupant| {
                (&old.model, old.stage, &old.tasks) == (&new.model, new.stage, &new.tasks)
            };
            match occupants.iter_mut().find(is_same) {
                Some(old) => {
                    old.runs += 1;
                    old.took_ns += took;
                }
                None => occupants.push(new),
            }
        }
        occupants.sort_by_key(|occupant| std::cmp::Reverse(occupant.took_ns));
        occupants
    }
}

impl Occupant {
    pub fn of(run: &Run, names: &Names, took: Nanos) -> Self {
        let members = run.members.iter().filter_map(|member| member.frame);
        let tasks: BTreeSet<String> = members.map(|frame| names.task(frame.task)).collect();
        Self {
            model: names.model(run.model),
            stage: run.stage.0,
            tasks: tasks.into_iter().collect(),
            runs: 1,
            took_ns: took,
        }
    }
}

fn ended(run: &Run) -> Instant {
    run.end.map_or(run.ordered, |end| end.learned)
}

/// When it kept others from its compute units, as far as the recording tells.
fn held(run: &Run) -> Option<Span> {
    if let Some((from, to)) = run.span() {
        return Some(Span { from, to });
    }
    let (from, to) = match run.end {
        None => (run.ordered, Instant::FAR_FUTURE),
        Some(end) if end.outcome == Outcome::NotRun => return None,
        Some(end) => (run.ordered, end.learned),
    };
    Some(Span { from, to })
}

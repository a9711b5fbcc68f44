//! What ran where and when, for a chart.

use std::collections::BTreeMap;

use punctual_core::usage::Tally;
use punctual_core::{Action, Config, Infer, Instant, PartitionId, StageId, TaskId};
use serde::{Serialize, Serializer};

use punctual_simulator::observer::{Observer, Span};

use super::lending::Lending;

/// Most bars of a chart: what a browser draws at once without delay.
pub const BARS_MAX: usize = 1_500;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Start, in microseconds.
    pub from: f64,
    /// End, in microseconds.
    pub to: f64,
    /// The first of its compute units.
    pub first: u16,
    pub count: u16,
    /// The first member's task.
    pub task: u16,
    pub stage: u8,
    pub members: u8,
    /// Whether it came to its end.
    pub finished: bool,
}

/// As `[from, to, first, count, task, stage, members, finished]`: a page has thousands of them.
impl Serialize for Bar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (
            self.from,
            self.to,
            self.first,
            self.count,
            self.task,
            self.stage,
            self.members,
            u8::from(self.finished),
        )
            .serialize(serializer)
    }
}

/// What was recorded of a run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The first actions, in the order of their ends.
    pub bars: Vec<Bar>,
    /// Of the whole run; none if the plan has no places.
    pub lending: Option<Lending>,
}

/// Records the first actions of a run from a given time on, and whose compute units all of them used.
#[derive(Debug)]
pub struct Recorder {
    from: Instant,
    config: Config,
    /// The task of the request in each buffer.
    tasks: Vec<TaskId>,
    ordered: BTreeMap<u64, Ordered>,
    bars: Vec<Bar>,
    tallies: BTreeMap<(TaskId, PartitionId), Tally>,
}

/// An action that is not over.
#[derive(Debug)]
struct Ordered {
    stage: StageId,
    /// Of its members, in their order.
    tasks: Vec<TaskId>,
}

impl Recorder {
    /// For a run of `config`; what starts before `from` is not recorded.
    #[must_use]
    pub fn new(config: &Config, from: Instant) -> Self {
        Self {
            from,
            config: config.clone(),
            tasks: vec![TaskId(0); usize::from(config.request_buffers)],
            ordered: BTreeMap::new(),
            bars: Vec::new(),
            tallies: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn into_record(self) -> Record {
        let tally = |task, at| self.tallies.get(&(task, at)).copied().unwrap_or_default();
        let lending = self.config.has_places();
        Record {
            lending: lending.then(|| Lending::new(&self.config, tally)),
            bars: self.bars,
        }
    }

    fn task_of(&self, buffer: u16) -> TaskId {
        let task = self.tasks.get(usize::from(buffer));
        task.copied().unwrap_or_default()
    }

    fn order(&mut self, infer: &Infer) {
        let members = infer.members.iter();
        let ordered = Ordered {
            stage: infer.stage,
            tasks: members.map(|member| self.task_of(member.buffer)).collect(),
        };
        self.ordered.insert(infer.id.0, ordered);
    }

    fn count(&mut self, span: &Span, tasks: &[TaskId]) {
        for task in tasks {
            let tally = self.tallies.entry((*task, span.partition)).or_default();
            tally.members += 1;
        }
        if let Some(first) = tasks.first() {
            let tally = self.tallies.entry((*first, span.partition)).or_default();
            tally.ran.stages += 1;
            tally.ran.busy += span.to.since(span.from);
        }
    }
}

impl Observer for Recorder {
    fn action(&mut self, _now: Instant, action: &Action) {
        match action {
            Action::Prepare { request, task, .. } => {
                if let Some(of) = self.tasks.get_mut(usize::from(request.buffer)) {
                    *of = *task;
                }
            }
            Action::Infer(infer) if self.config.has_places() || self.bars.len() < BARS_MAX => {
                self.order(infer);
            }
            _ => {}
        }
    }

    fn ran(&mut self, span: &Span) {
        let Some(Ordered { stage, tasks }) = self.ordered.remove(&span.action.0) else {
            return;
        };
        if span.finished && self.config.has_places() {
            self.count(span, &tasks);
        }
        if span.from < self.from || self.bars.len() >= BARS_MAX {
            return;
        }
        let units = self.config.units(span.partition);
        let microseconds = |at: Instant| at.as_nanos() as f64 / 1e3;
        self.bars.push(Bar {
            from: microseconds(span.from),
            to: microseconds(span.to),
            first: units.first,
            count: units.count,
            task: tasks.first().copied().unwrap_or_default().0,
            stage: stage.0,
            members: tasks.len() as u8,
            finished: span.finished,
        });
    }
}

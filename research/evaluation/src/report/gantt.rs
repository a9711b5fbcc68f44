//! What ran where and when, for a chart.

use std::collections::BTreeMap;

use punctual_core::{Action, Config, Instant, StageId, TaskId, Units};
use serde::{Serialize, Serializer};

use punctual_simulator::observer::{Observer, Span};

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

/// Records the first actions of a run from a given time on.
#[derive(Debug)]
pub struct Recorder {
    from: Instant,
    units: Vec<Units>,
    /// The task of the request in each buffer.
    tasks: Vec<TaskId>,
    ordered: BTreeMap<u64, (TaskId, StageId, u8)>,
    bars: Vec<Bar>,
}

impl Recorder {
    /// For a run of `config`; what starts before `from` is not recorded.
    #[must_use]
    pub fn new(config: &Config, from: Instant) -> Self {
        Self {
            from,
            units: config.partitions.iter().map(|p| p.units).collect(),
            tasks: vec![TaskId(0); usize::from(config.request_buffers)],
            ordered: BTreeMap::new(),
            bars: Vec::new(),
        }
    }

    /// What was recorded, in the order of ends.
    #[must_use]
    pub fn into_bars(self) -> Vec<Bar> {
        self.bars
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
            Action::Infer(infer) if self.bars.len() < BARS_MAX => {
                let first = infer.members.first();
                let task = first.and_then(|id| self.tasks.get(usize::from(id.buffer)));
                let task = task.copied().unwrap_or_default();
                let members = infer.members.len() as u8;
                self.ordered
                    .insert(infer.id.0, (task, infer.stage, members));
            }
            _ => {}
        }
    }

    fn ran(&mut self, span: &Span) {
        let Some((task, stage, members)) = self.ordered.remove(&span.action.0) else {
            return;
        };
        if span.from < self.from || self.bars.len() >= BARS_MAX {
            return;
        }
        let units = self.units[span.partition.index()];
        let microseconds = |at: Instant| at.as_nanos() as f64 / 1e3;
        self.bars.push(Bar {
            from: microseconds(span.from),
            to: microseconds(span.to),
            first: units.first,
            count: units.count,
            task: task.0,
            stage: stage.0,
            members,
            finished: span.finished,
        });
    }
}

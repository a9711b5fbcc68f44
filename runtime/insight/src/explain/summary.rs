//! What a recording has, in figures.

use std::collections::BTreeMap;

use punctual_core::{Instant, Nanos, TaskId, Verdict};
use punctual_recording::Names;
use punctual_recording::frames::{Frame, Note, Submission, What};
use punctual_recording::messages::reason;
use serde::Serialize;

use super::story::Story;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The time of the first step, and of the last.
    pub from_ns: Instant,
    pub until_ns: Instant,
    pub steps: u64,
    pub tasks: Vec<Task>,
    /// How many frames were rejected, or failed, for which reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// How many late frames have which part as the first that broke its bound.
    pub broke: BTreeMap<String, u64>,
    /// The frame with the longest latency.
    pub slowest: Option<Slowest>,
    /// Frames of which not all is in the recording.
    pub partial: u64,
    /// Frames whose verdict is not in the recording.
    pub open: u64,
    /// Steps that are not in the recording.
    pub lost: u64,
    /// Why the file ends before its writer ended it.
    pub cut: Option<String>,
}

/// The verdicts of a task's frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Task {
    pub task: String,
    pub frames: u64,
    pub on_time: u64,
    pub late: u64,
    pub rejected: u64,
    pub failed: u64,
    pub latency_max_ns: Option<Nanos>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slowest {
    pub frame: String,
    pub latency_ns: Nanos,
}

/// Tasks beyond these are a damaged recording's.
const TASKS_MAX: usize = 1024;
/// Names of parts: those of a plan's stages.
const BROKE_MAX: usize = 1024;

/// Counts a recording's frames.
#[derive(Debug, Default)]
pub struct Counting {
    summary: Summary,
    tasks: BTreeMap<TaskId, Task>,
}

impl Counting {
    pub fn step(&mut self, now: Instant) {
        let summary = &mut self.summary;
        if summary.steps == 0 {
            summary.from_ns = now;
        }
        summary.steps += 1;
        summary.until_ns = now;
    }

    pub fn note(&mut self, note: &Note) {
        if let What::Lost { steps } = note.what {
            self.summary.lost = self.summary.lost.saturating_add(steps);
        }
    }

    pub fn open(&mut self, _: &Submission) {
        self.summary.open += 1;
    }

    pub fn frame(&mut self, frame: &Frame, names: &Names) {
        let summary = &mut self.summary;
        summary.partial += u64::from(!frame.submission.is_whole);
        if let Some(reason) = reason(frame.reply.verdict) {
            *summary.reasons.entry(reason).or_default() += 1;
        }
        let latency = frame.latency();
        let longest = summary.slowest.as_ref().map(|slowest| slowest.latency_ns);
        if let Some(latency) = latency.filter(|latency| longest < Some(*latency)) {
            summary.slowest = Some(Slowest {
                frame: names.frame(frame.submission.id),
                latency_ns: latency,
            });
        }
        let id = frame.submission.id.task;
        if self.tasks.len() == TASKS_MAX && !self.tasks.contains_key(&id) {
            return;
        }
        let task = self.tasks.entry(id).or_insert_with(|| Task {
            task: names.task(id),
            ..Task::default()
        });
        task.frames += 1;
        match frame.reply.verdict {
            Verdict::OnTime => task.on_time += 1,
            Verdict::Late => task.late += 1,
            Verdict::Rejected(_) => task.rejected += 1,
            Verdict::Failed(_) => task.failed += 1,
        }
        task.latency_max_ns = task.latency_max_ns.max(latency);
    }

    pub fn late(&mut self, story: &Story) {
        let broke = &mut self.summary.broke;
        let name = story.broken().map_or("none", |part| &part.name);
        if broke.len() < BROKE_MAX || broke.contains_key(name) {
            *broke.entry(name.to_owned()).or_default() += 1;
        }
    }

    pub fn finish(self) -> Summary {
        Summary {
            tasks: self.tasks.into_values().collect(),
            ..self.summary
        }
    }
}

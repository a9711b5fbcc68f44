//! The demo's result: what the cameras saw, joined with what the daemon reports.

use punctual_daemon::{DecisionReport, StallReport};
use serde::Serialize;

use crate::report::{CameraReport, LatencyUs};

/// `demo --json`: one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How long the cameras sent frames.
    pub seconds: f64,
    pub board: String,
    /// The device and the instruction set its kernels chose.
    pub device: String,
    pub tasks: Vec<TaskSummary>,
    /// Stalls of the machine over 1 ms that the daemon's probe thread saw after ready.
    pub host_stalls: u64,
    /// The longest of them, in microseconds.
    pub host_stall_us_max: u64,
    /// Allocations on real-time threads after ready.
    pub allocations_after_ready: u64,
    /// Allocations on the daemon's ordinary threads after ready.
    pub allocations_elsewhere: u64,
    /// Page faults of the daemon's process after ready.
    pub page_faults_after_ready: u64,
    /// Time that one scheduling decision took.
    pub decision_us: DecisionUs,
    /// What the daemon asked the system for and did not get.
    pub privileges_missing: Vec<String>,
    /// Whether every process ended cleanly.
    pub clean: bool,
    /// Whether a signal ended it before its time.
    pub interrupted: bool,
}

/// One camera's row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskSummary {
    pub name: String,
    /// `real-time` or `best-effort`.
    pub criticality: String,
    pub submitted: u64,
    pub on_time: u64,
    pub late: u64,
    /// Answered; there was no deadline.
    pub without_deadline: u64,
    /// Those of the late ones that overlap a stall of the machine over 1 ms.
    pub late_in_host_stall: u64,
    pub rejected: u64,
    pub failed: u64,
    /// Without any verdict.
    pub lost: u64,
    /// Frames the camera dropped itself because all its slots were in flight.
    pub skipped: u64,
    /// Answers by exit.
    pub exits: Vec<u64>,
    /// Share of answers whose class was right; none if answers are boxes.
    pub accuracy: Option<f64>,
    /// Mean average precision at overlap 0.5 of answers that are boxes.
    pub map50: Option<f64>,
    /// The same, where nothing was found in a frame without an answer in time.
    pub map50_of_all: Option<f64>,
    pub latency_us: LatencyUs,
}

/// Quantiles of the time one decision took, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DecisionUs {
    pub p50: f64,
    /// 99 of 100 are not above it.
    pub p99: f64,
    pub max: f64,
}

impl From<DecisionReport> for DecisionUs {
    fn from(report: DecisionReport) -> Self {
        Self {
            p50: report.p50,
            p99: report.p99,
            max: report.max,
        }
    }
}

impl TaskSummary {
    /// A camera's last report against the stalls of the machine.
    #[must_use]
    pub fn new(criticality: &str, camera: &CameraReport, stalls: &[StallReport]) -> Self {
        let overlaps = |span: &&[u64; 2]| {
            stalls
                .iter()
                .any(|stall| stall.start_ns <= span[1] && span[0] <= stall.end_ns)
        };
        Self {
            name: camera.task.clone(),
            criticality: criticality.to_owned(),
            submitted: camera.submitted,
            on_time: camera.on_time,
            late: camera.late,
            without_deadline: camera.without_deadline,
            late_in_host_stall: camera.late_spans_ns.iter().filter(overlaps).count() as u64,
            rejected: camera.rejected,
            failed: camera.failed,
            lost: camera.submitted.saturating_sub(camera.settled()),
            skipped: camera.skipped,
            exits: camera.exits.clone(),
            accuracy: camera.accuracy(),
            map50: camera.map50,
            map50_of_all: camera.map50_of_all,
            latency_us: camera.latency_us,
        }
    }
}

impl Summary {
    /// Whether the demo did its job: nothing lost, every process ended cleanly.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.clean && self.tasks.iter().all(|task| task.lost == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn camera() -> CameraReport {
        CameraReport {
            task: "signs".to_owned(),
            submitted: 10,
            on_time: 6,
            late: 2,
            rejected: 1,
            exits: vec![5, 2, 1],
            correct: 4,
            late_spans_ns: vec![[100, 200], [300, 400]],
            finished: true,
            ..CameraReport::default()
        }
    }

    #[test]
    fn a_submission_without_a_verdict_counts_as_lost_and_fails_the_demo() {
        let task = TaskSummary::new("real-time", &camera(), &[]);
        assert_eq!(task.lost, 1);
        let summary = Summary {
            seconds: 1.0,
            board: "host".to_owned(),
            device: "cpu".to_owned(),
            tasks: vec![task],
            host_stalls: 0,
            host_stall_us_max: 0,
            allocations_after_ready: 0,
            allocations_elsewhere: 0,
            page_faults_after_ready: 0,
            decision_us: DecisionUs::default(),
            privileges_missing: Vec::new(),
            clean: true,
            interrupted: false,
        };
        assert!(!summary.succeeded());
    }

    #[test]
    fn a_late_answer_is_excused_only_by_a_stall_that_overlaps_it() {
        let beside = StallReport {
            start_ns: 201,
            end_ns: 299,
        };
        let across = StallReport {
            start_ns: 390,
            end_ns: 1000,
        };
        assert_eq!(
            TaskSummary::new("", &camera(), &[beside]).late_in_host_stall,
            0
        );
        assert_eq!(
            TaskSummary::new("", &camera(), &[beside, across]).late_in_host_stall,
            1
        );
    }

    #[test]
    fn accuracy_counts_answers_and_not_submissions() {
        assert_eq!(TaskSummary::new("", &camera(), &[]).accuracy, Some(0.5));
        assert_eq!(CameraReport::default().accuracy(), None);
    }
}

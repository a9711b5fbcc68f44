//! Counting verdicts against what is known of the frames.

use hdrhistogram::Histogram;
use punctual_client::{ResultRecord, Verdict};

use crate::report::{CameraReport, LATE_SPANS_MAX, LatencyUs};

/// The longest latency that is told apart: a minute, in microseconds.
const LATENCY_US_MAX: u64 = 60_000_000;

/// More than a client can have without verdicts.
const OPEN_MAX: usize = 1024;

/// The verdicts of a camera's frames so far.
pub struct Tally {
    report: CameraReport,
    latency_us: Histogram<u64>,
    /// The label of submission `n` at `n % OPEN_MAX`.
    labels: [usize; OPEN_MAX],
}

impl Tally {
    /// Nothing yet; `report` names the task.
    pub fn new(report: CameraReport) -> Self {
        Self {
            report,
            latency_us: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)
                .expect("the bounds are constants"),
            labels: [0; OPEN_MAX],
        }
    }

    pub fn submitted(&self) -> u64 {
        self.report.submitted
    }

    /// The camera has captured for so long.
    pub fn reach(&mut self, captured_ns: u64) {
        self.report.seconds = (captured_ns / 1_000_000) as f64 / 1e3;
    }

    pub fn submit(&mut self, sequence: u64, label: usize) {
        self.report.submitted += 1;
        self.labels[sequence as usize % OPEN_MAX] = label;
    }

    /// A frame was not submitted, as no slot was free.
    pub fn skip(&mut self) {
        self.report.skipped += 1;
    }

    /// A verdict that arrived at `received_ns`.
    pub fn count(&mut self, result: &ResultRecord, received_ns: u64) {
        let report = &mut self.report;
        match result.verdict {
            Verdict::OnTime | Verdict::Late => {}
            Verdict::Rejected(_) => return report.rejected += 1,
            Verdict::Failed(_) => return report.failed += 1,
        }
        // An answer that is read after its deadline is late for whoever reads it.
        if !result.has_deadline() {
            report.without_deadline += 1;
        } else if result.verdict == Verdict::OnTime && received_ns <= result.deadline_ns {
            report.on_time += 1;
        } else {
            report.late += 1;
            if report.late_spans_ns.len() < LATE_SPANS_MAX {
                report.late_spans_ns.push([result.captured_ns, received_ns]);
            }
        }
        let latency_us = received_ns.saturating_sub(result.captured_ns) / 1000;
        self.latency_us.saturating_record(latency_us.max(1));
        if let Some(answer) = result.answer {
            let exit = usize::from(answer.exit);
            if report.exits.len() <= exit {
                report.exits.resize(exit + 1, 0);
            }
            report.exits[exit] += 1;
            let label = self.labels[result.sequence as usize % OPEN_MAX];
            let is_label = answer
                .class
                .is_some_and(|class| usize::from(class) == label);
            report.correct += u64::from(is_label);
        }
    }

    /// The counts, without the list of late ones.
    pub fn now(&self) -> CameraReport {
        CameraReport {
            latency_us: LatencyUs::of(&self.latency_us),
            late_spans_ns: Vec::new(),
            ..self.report.clone()
        }
    }

    pub fn last(self, finished: bool) -> CameraReport {
        CameraReport {
            latency_us: LatencyUs::of(&self.latency_us),
            finished,
            ..self.report
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_client::{Answer, Failure, Rejection};

    fn result(sequence: u64, verdict: Verdict, exit: Option<u8>) -> ResultRecord {
        ResultRecord {
            sequence,
            slot: 0,
            verdict,
            answer: exit.map(|exit| Answer::of_class(exit, 7, 60_000)),
            captured_ns: 1_000_000,
            deadline_ns: 5_000_000,
            finished_ns: 3_000_000,
        }
    }

    #[test]
    fn every_verdict_is_counted_once_and_an_answer_is_held_against_its_label() {
        let mut tally = Tally::new(CameraReport::default());
        for (sequence, label) in [(1, 7), (2, 8), (3, 7), (4, 7)] {
            tally.submit(sequence, label);
        }
        tally.count(&result(2, Verdict::OnTime, Some(0)), 3_500_000);
        tally.count(&result(1, Verdict::OnTime, Some(2)), 4_000_000);
        tally.count(
            &result(3, Verdict::Rejected(Rejection::NoSlack), None),
            4_000_000,
        );
        tally.count(&result(4, Verdict::Failed(Failure::Shed), None), 4_000_000);
        let report = tally.last(true);
        assert_eq!((report.submitted, report.settled()), (4, 4));
        assert_eq!((report.on_time, report.rejected, report.failed), (2, 1, 1));
        assert_eq!((report.correct, report.exits), (1, vec![1, 0, 1]));
        // To three digits, as the histogram keeps it.
        assert!((3_000..=3_003).contains(&report.latency_us.max));
    }

    #[test]
    fn an_answer_to_a_frame_without_a_deadline_is_neither_on_time_nor_late() {
        let mut tally = Tally::new(CameraReport::default());
        tally.submit(1, 7);
        let mut answered = result(1, Verdict::OnTime, Some(0));
        answered.deadline_ns = u64::MAX;
        tally.count(&answered, 9_000_000_000);
        let report = tally.last(true);
        assert_eq!((report.on_time, report.late), (0, 0));
        assert_eq!((report.without_deadline, report.settled()), (1, 1));
    }

    #[test]
    fn an_answer_that_is_read_after_its_deadline_is_late_whatever_the_daemon_says() {
        let mut tally = Tally::new(CameraReport::default());
        tally.submit(1, 7);
        tally.count(&result(1, Verdict::OnTime, Some(0)), 5_000_001);
        let report = tally.last(true);
        assert_eq!((report.on_time, report.late), (0, 1));
        assert_eq!(report.late_spans_ns, [[1_000_000, 5_000_001]]);
    }
}

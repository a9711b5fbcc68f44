//! The verdicts of a camera's frames.

use std::collections::BTreeMap;

use punctual_client::{ResultRecord, Verdict};
use punctual_platform::output::{self, OutputError};
use serde::Serialize;

use crate::fault::Fault;

/// Counts of frames. What was submitted is the sum of the verdicts and `missing`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Frames that the driver handed over.
    pub captured: u64,
    /// Frames that the driver's own count says it dropped in between.
    pub dropped_by_driver: u64,
    /// Frames for which there was no free slot, or no daemon; not submitted.
    pub skipped: u64,
    pub submitted: u64,
    pub on_time: u64,
    pub late: u64,
    /// Verdicts: answered; there was no deadline.
    pub without_deadline: u64,
    pub rejected: u64,
    /// Verdicts: failed, those of a daemon that went away included.
    pub failed: u64,
    /// Submissions without a verdict at the end.
    pub missing: u64,
    /// Frames that could not be used, by fault; not submitted.
    faults: BTreeMap<&'static str, u64>,
    /// Verdicts without an answer, in words.
    reasons: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Counts a verdict; whether it is the first that gives this reason for no answer.
    pub fn count(&mut self, result: &ResultRecord) -> bool {
        match result.verdict {
            Verdict::OnTime | Verdict::Late if !result.has_deadline() => self.without_deadline += 1,
            Verdict::OnTime => self.on_time += 1,
            Verdict::Late => self.late += 1,
            Verdict::Rejected(_) => self.rejected += 1,
            Verdict::Failed(_) => self.failed += 1,
        }
        let without_answer = matches!(result.verdict, Verdict::Rejected(_) | Verdict::Failed(_));
        without_answer && is_first(&mut self.reasons, words(result.verdict))
    }

    /// Counts a frame that cannot be used; whether it is the first of this fault.
    pub fn count_fault(&mut self, fault: Fault) -> bool {
        is_first(&mut self.faults, fault.name())
    }

    /// Says it, for people or for machines.
    pub fn print(&self, json: bool) -> Result<(), OutputError> {
        if json {
            // A struct of numbers and maps from words to numbers always becomes JSON.
            return output::line(serde_json::json!(self));
        }
        output::line(format_args!(
            "{} frames captured ({} dropped by the driver), {} skipped, {} submitted:",
            self.captured, self.dropped_by_driver, self.skipped, self.submitted
        ))?;
        let answered = match self.without_deadline {
            0 => format!("{} on time, {} late", self.on_time, self.late),
            answered => format!("{answered} answered (no deadline)"),
        };
        output::line(format_args!(
            "{answered}, {} rejected, {} failed, {} missing",
            self.rejected, self.failed, self.missing
        ))?;
        for (reason, count) in &self.reasons {
            output::line(format_args!("{count} {reason}"))?;
        }
        for (fault, count) in &self.faults {
            output::line(format_args!("{count} unusable: {fault}"))?;
        }
        Ok(())
    }
}

fn words(verdict: Verdict) -> &'static str {
    verdict.text().to_str().expect("our own words are ASCII")
}

fn is_first(counts: &mut BTreeMap<&'static str, u64>, of: &'static str) -> bool {
    let count = counts.entry(of).or_default();
    *count += 1;
    *count == 1
}

#[cfg(test)]
mod tests {
    use punctual_client::{Failure, Rejection};
    use serde_json::json;

    use super::*;
    use crate::stamps::StampFault;

    fn verdict(verdict: Verdict) -> ResultRecord {
        ResultRecord {
            sequence: 1,
            slot: 0,
            verdict,
            answer: None,
            part: None,
            left_out: 0,
            captured_ns: 1,
            deadline_ns: 2,
            finished_ns: 3,
            sent_ns: 3,
            is_final: true,
        }
    }

    #[test]
    fn verdicts_without_an_answer_are_counted_by_their_reason_and_the_first_of_each_is_news() {
        let mut tally = Tally::default();
        let full = verdict(Verdict::Rejected(Rejection::QueueFull));
        let device = verdict(Verdict::Failed(Failure::Device));
        assert!(tally.count(&full) && !tally.count(&full) && tally.count(&device));
        assert!(!tally.count(&verdict(Verdict::Late)));
        let json = json!(tally);
        assert_eq!((tally.rejected, tally.failed, tally.late), (2, 1, 1));
        assert_eq!(
            json["reasons"],
            json!({
                "rejected: its task's queue is full": 2,
                "failed: the device reported an error": 1,
            })
        );
    }

    #[test]
    fn faults_are_counted_by_kind_whatever_their_figures() {
        let mut tally = Tally::default();
        let short = |bytes| Fault::Short { bytes, needed: 9 };
        assert!(tally.count_fault(short(1)) && !tally.count_fault(short(2)));
        assert!(tally.count_fault(Fault::Stamp(StampFault::Repeated)));
        let faults = json!({ "short": 2, "stamp_repeated": 1 });
        assert_eq!(json!(tally)["faults"], faults);
    }
}

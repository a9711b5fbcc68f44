//! The verdicts of a camera's frames.

use punctual_client::{ResultRecord, Verdict};
use punctual_platform::output::{self, OutputError};
use serde::Serialize;

/// Counts of frames. What was submitted is the sum of the verdicts and `missing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Frames that the driver handed over.
    pub captured: u64,
    /// Frames that the driver's own count says it dropped in between.
    pub dropped_by_driver: u64,
    /// Frames that the driver called damaged; not submitted.
    pub damaged: u64,
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
}

impl Tally {
    pub fn count(&mut self, result: &ResultRecord) {
        match result.verdict {
            Verdict::OnTime | Verdict::Late if !result.has_deadline() => self.without_deadline += 1,
            Verdict::OnTime => self.on_time += 1,
            Verdict::Late => self.late += 1,
            Verdict::Rejected(_) => self.rejected += 1,
            Verdict::Failed(_) => self.failed += 1,
        }
    }

    /// Says it, for people or for machines.
    pub fn print(&self, json: bool) -> Result<(), OutputError> {
        if json {
            // A struct of numbers always becomes JSON.
            return output::line(serde_json::json!(self));
        }
        output::line(format_args!(
            "{} frames captured ({} dropped by the driver, {} damaged), {} skipped, {} submitted:",
            self.captured, self.dropped_by_driver, self.damaged, self.skipped, self.submitted
        ))?;
        let answered = match self.without_deadline {
            0 => format!("{} on time, {} late", self.on_time, self.late),
            answered => format!("{answered} answered (no deadline)"),
        };
        output::line(format_args!(
            "{answered}, {} rejected, {} failed, {} missing",
            self.rejected, self.failed, self.missing
        ))
    }
}

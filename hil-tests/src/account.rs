//! The part of a daemon's report that the rig reads. What it does not know it passes over, so that
//! it can read the reports of other versions.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::outcome::Failure;
use crate::records::CameraCounts;

/// What a daemon reports about itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Account {
    pub version: String,
    pub plan: String,
    /// The device that runs the stages.
    pub device: String,
    pub tasks: Vec<TaskAccount>,
    pub clients: ClientsAccount,
    /// Clients that wrote what no client writes.
    pub channel_faults: u64,
    /// Times in which the machine stood still.
    pub host_stalls: Stalls,
    /// Allocations by real-time threads.
    pub allocations_after_ready: u64,
    /// What it asked the system for and did not get.
    pub missing: Vec<String>,
    pub recorder: RecorderAccount,
}

/// Of a daemon that records itself.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RecorderAccount {
    pub steps: u64,
    /// Steps that a second scheduler decided otherwise.
    pub differing: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TaskAccount {
    pub name: String,
    pub submitted: u64,
    pub on_time: u64,
    pub late: u64,
    /// Not taken on, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Taken on, then not answered, by reason.
    pub failed: BTreeMap<String, u64>,
    pub open: u64,
    /// Without a verdict at the end.
    pub lost: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClientsAccount {
    pub in_use: u64,
    pub accepted: u64,
    pub refused: u64,
    pub gone: u64,
}

/// Times in which the machine stood still.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Stalls {
    pub count: u64,
    pub longest_us: u64,
    pub list: Vec<Stall>,
}

/// One of them, monotonic.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Stall {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl TaskAccount {
    fn verdicts(&self) -> u64 {
        let refused: u64 = self.rejected.values().sum();
        let failed: u64 = self.failed.values().sum();
        self.on_time + self.late + refused + failed
    }
}

impl Account {
    /// What clients submitted to a task.
    #[must_use]
    pub fn submitted(&self, task: &str) -> u64 {
        let ours = self.tasks.iter().find(|account| account.name == task);
        ours.map_or(0, |account| account.submitted)
    }

    /// The daemon's own sum: every submission has one verdict, and every decision can be taken again.
    pub fn adds_up(&self) -> Result<(), Failure> {
        let RecorderAccount { steps, differing } = self.recorder;
        if differing > 0 {
            return Err(Failure::DecidesOtherwise { steps });
        }
        for task in &self.tasks {
            if task.submitted != task.verdicts() || task.open + task.lost > 0 {
                let lost = task
                    .submitted
                    .saturating_sub(task.verdicts())
                    .max(task.lost);
                let (task, submitted) = (task.name.clone(), task.submitted);
                return Err(Failure::Lost {
                    task,
                    lost,
                    submitted,
                });
            }
        }
        Ok(())
    }

    /// Compares the cameras' counts of a task with the daemon's: for cameras that stayed from
    /// beginning to end, and a daemon that did.
    pub fn agrees_with(&self, task: &str, counts: &[&CameraCounts]) -> Result<(), Failure> {
        let ours = self.tasks.iter().find(|account| account.name == task);
        let none = TaskAccount::default();
        let ours = ours.unwrap_or(&none);
        let sum = |count: fn(&CameraCounts) -> u64| {
            counts.iter().map(|counts| count(counts)).sum::<u64>()
        };
        let rows = [
            ("submitted", sum(|counts| counts.submitted), ours.submitted),
            (
                "rejected",
                sum(CameraCounts::rejected_total),
                ours.rejected.values().sum(),
            ),
            (
                "failed",
                sum(CameraCounts::failed_total),
                ours.failed.values().sum(),
            ),
            // Which of them are late depends on who looks at the clock.
            (
                "answered",
                sum(|counts| counts.on_time + counts.late),
                ours.on_time + ours.late,
            ),
        ];
        match rows
            .into_iter()
            .find(|(_, cameras, daemon)| cameras != daemon)
        {
            None => Ok(()),
            Some((what, cameras, daemon)) => Err(Failure::Disagree {
                task: task.to_owned(),
                what,
                cameras,
                daemon,
            }),
        }
    }

    /// The late answers of a camera that no stall of the machine explains.
    #[must_use]
    pub fn unexcused(&self, counts: &CameraCounts) -> u64 {
        let spans = counts.late_spans_ns.iter();
        counts.late - spans.filter(|span| self.stood_still(span)).count() as u64
    }

    /// The late answers of a camera that neither a stall of the machine explains, nor its wake.
    #[must_use]
    pub fn late_unexplained(&self, counts: &CameraCounts) -> u64 {
        let spans = counts.late_spans_ns.iter();
        counts.late - spans.filter(|span| self.held_up(span)).count() as u64
    }

    /// The frames of a camera that were refused or failed, likewise.
    #[must_use]
    pub fn unserved_unexplained(&self, counts: &CameraCounts) -> u64 {
        let spans = counts.unserved_spans_ns.iter();
        let explained = spans.filter(|span| self.held_up(span)).count() as u64;
        counts.rejected_total() + counts.failed_total() - explained
    }

    /// Whether the machine stood still within this span, or so shortly before that it served what that
    /// had held up: less than half of its time is promised, so that takes no longer than the stall did.
    fn held_up(&self, span: &[u64; 2]) -> bool {
        let mut stalls = self.host_stalls.list.iter();
        stalls.any(|stall| {
            let wake_ns = stall.end_ns + (stall.end_ns - stall.start_ns);
            stall.start_ns <= span[1] && span[0] <= wake_ns
        })
    }

    /// Whether the machine stood still within this span, monotonic.
    fn stood_still(&self, span: &[u64; 2]) -> bool {
        let mut stalls = self.host_stalls.list.iter();
        stalls.any(|stall| stall.start_ns <= span[1] && span[0] <= stall.end_ns)
    }

    /// How long the machine stood still within this span, at most all of it.
    #[must_use]
    pub fn stalled_ns(&self, span: &[u64; 2]) -> u64 {
        let stalls = self.host_stalls.list.iter();
        let within = stalls.map(|stall| {
            let (since, until) = (stall.start_ns.max(span[0]), stall.end_ns.min(span[1]));
            until.saturating_sub(since)
        });
        within.sum::<u64>().min(span[1].saturating_sub(span[0]))
    }

    /// The frames of a camera that were not answered on time, and no stall of the machine explains
    /// why, as a share of what the camera captured.
    #[must_use]
    pub fn missed_share(&self, counts: &CameraCounts) -> f64 {
        let unanswered = counts.rejected_total() + counts.failed_total() + counts.skipped;
        let missed = self.unexcused(counts) + unanswered;
        missed as f64 / (counts.submitted + counts.skipped).max(1) as f64
    }
}

/// Whether a camera's counts are complete: it finished, and each frame has exactly one verdict.
pub fn whole(counts: &CameraCounts) -> Result<(), Failure> {
    let task = counts.task.clone();
    if counts.unasked > 0 {
        return Err(Failure::Unasked {
            task,
            unasked: counts.unasked,
        });
    }
    if counts.lost() > 0 {
        return Err(Failure::Lost {
            task,
            lost: counts.lost(),
            submitted: counts.submitted,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(submitted: u64, on_time: u64) -> Account {
        let task = TaskAccount {
            name: "front".to_owned(),
            submitted,
            on_time,
            ..Default::default()
        };
        Account {
            tasks: vec![task],
            ..Account::default()
        }
    }

    #[test]
    fn a_verdict_that_is_missing_in_either_account_is_found() {
        assert!(account(3, 3).adds_up().is_ok());
        assert!(matches!(
            account(3, 2).adds_up(),
            Err(Failure::Lost { lost: 1, .. })
        ));
        let counts = CameraCounts {
            task: "front".to_owned(),
            submitted: 3,
            on_time: 2,
            ..CameraCounts::default()
        };
        assert!(matches!(whole(&counts), Err(Failure::Lost { lost: 1, .. })));
        let wrong = account(3, 3).agrees_with("front", &[&counts]);
        assert!(matches!(
            wrong,
            Err(Failure::Disagree {
                what: "answered",
                ..
            })
        ));
    }

    #[test]
    fn late_answers_are_excused_only_by_a_stall_that_overlaps_them() {
        let mut account = account(2, 0);
        account.host_stalls.list = vec![Stall {
            start_ns: 10,
            end_ns: 20,
        }];
        let spans = vec![[15, 30], [21, 40]];
        let counts = CameraCounts {
            late: 2,
            late_spans_ns: spans,
            ..CameraCounts::default()
        };
        assert_eq!(account.unexcused(&counts), 1);
        let counts = CameraCounts {
            submitted: 3,
            skipped: 1,
            ..counts
        };
        assert!(
            (account.missed_share(&counts) - 0.5).abs() < 1e-9,
            "one late, one skipped, of four"
        );
    }

    #[test]
    fn what_a_stall_held_up_is_explained_for_as_long_again() {
        let mut account = account(2, 0);
        account.host_stalls.list = vec![Stall {
            start_ns: 10,
            end_ns: 20,
        }];
        let counts = CameraCounts {
            late: 3,
            late_spans_ns: vec![[5, 9], [30, 40], [31, 40]],
            unserved_spans_ns: vec![[25, 26], [50, 51]],
            rejected: [("NoSlack".to_owned(), 2)].into(),
            failed: [("Shed".to_owned(), 1)].into(),
            ..CameraCounts::default()
        };
        assert_eq!(account.late_unexplained(&counts), 2);
        assert_eq!(account.unserved_unexplained(&counts), 2);
    }

    #[test]
    fn only_the_time_of_stalls_is_taken_off_a_span() {
        let stall = |start_ns, end_ns| Stall { start_ns, end_ns };
        let mut account = Account::default();
        account.host_stalls.list = vec![stall(0, 15), stall(20, 22), stall(95, 300)];
        assert_eq!(account.stalled_ns(&[10, 100]), 5 + 2 + 5);
        assert_eq!(account.stalled_ns(&[30, 40]), 0);
        // Two cores may stand still at once.
        account.host_stalls.list.push(stall(0, 15));
        assert_eq!(account.stalled_ns(&[10, 15]), 5);
    }

    #[test]
    fn a_report_of_another_version_is_read_as_far_as_it_goes() {
        let text = r#"{"version":"9","tasks":[{"name":"a","rejected":{"new":2},"novelty":[]}]}"#;
        let account: Account = serde_json::from_str(text).expect("a report");
        assert_eq!(account.tasks[0].rejected["new"], 2);
    }
}

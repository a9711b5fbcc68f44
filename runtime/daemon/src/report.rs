//! The report: what the daemon says about itself, as JSON, live on the metrics socket and in
//! `--report FILE` at termination. The same form in both places.

mod clients;
mod lending;
mod stages;
mod start;
mod tasks;
mod verdicts;

use std::io::Read;
use std::path::{Path, PathBuf};

use punctual_platform::files::write_whole;
use punctual_platform::timed::Timed;
use punctual_platform::{clock, read, socket_path};
use serde::{Deserialize, Serialize};

pub use crate::gpu_watch::GpuReport;
pub use crate::granted::ThreadReport;
pub use crate::recorder::RecorderReport;
pub use crate::watchdog::{SilentReport, WatchdogReport};
pub use clients::{ClientReport, ClientsReport};
pub use lending::{HomeReport, LendingReport, LoanReport, RanReport, WidthReport, WidthsReport};
pub use stages::{RunningReport, StageReport};
pub use start::{ModelFailureReport, StartReport, TaskStartReport};
pub use tasks::{SlackReport, TaskReport};
pub use verdicts::{FailedReport, RejectedReport};

/// The form's version; raised when a field changes its meaning or goes.
pub const REPORT_FORMAT: u32 = 1;

/// A longer answer than this is not a report.
const REPORT_BYTES_MAX: u64 = 32 << 20;

/// A daemon that lives answers in a few milliseconds, whatever it serves.
const LIVE_NS: u64 = 1_000_000_000;

/// One snapshot of a daemon. All counts are since the ready signal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`REPORT_FORMAT`].
    pub format: u32,
    pub version: String,
    pub pid: u32,
    pub board: String,
    /// The device that runs the stages, e.g. `cpu`.
    pub device: String,
    /// Hash of the plan it serves.
    pub plan: String,
    /// The manifest that it was made from.
    #[serde(default)]
    pub manifest: String,
    /// The scheduling policy.
    #[serde(default)]
    pub policy: String,
    /// Where clients connect.
    #[serde(default)]
    pub socket: String,
    /// Whether that is of the last good configuration, since the present one cannot be served.
    #[serde(default)]
    pub last_good: bool,
    pub state: State,
    /// How far the start is.
    #[serde(default)]
    pub start: StartReport,
    /// When the ready signal was given, in nanoseconds of the monotonic clock.
    pub ready_ns: u64,
    /// Seconds since then.
    pub seconds: f64,
    /// One entry a task, in the plan's order.
    pub tasks: Vec<TaskReport>,
    pub clients: ClientsReport,
    /// Channel faults that cost a client its connection: it wrote what no client writes.
    pub channel_faults: u64,
    /// Allocations by real-time threads.
    pub allocations_after_ready: u64,
    /// Allocations by all other threads.
    pub allocations_elsewhere: u64,
    /// Page faults (minor and major) of real-time threads.
    pub page_faults_after_ready: u64,
    /// Time from before a decision to after its actions were handed over.
    pub decision_us: DecisionReport,
    /// Times in which the machine stood still.
    pub host_stalls: StallsReport,
    pub partitions: Vec<PartitionReport>,
    /// Stages that ran, by model, stage, batch size and partition.
    #[serde(default)]
    pub stages: Vec<StageReport>,
    /// What tasks borrowed and lent; none if the plan has no places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lending: Option<LendingReport>,
    /// The GPU; none if no partition is on it.
    #[serde(default)]
    pub gpu: Option<GpuReport>,
    #[serde(default)]
    pub paging: PagingReport,
    #[serde(default)]
    pub memory: MemoryReport,
    /// How the real-time threads are scheduled.
    #[serde(default)]
    pub threads: Vec<ThreadReport>,
    /// Whether the real-time threads live.
    #[serde(default)]
    pub watchdog: WatchdogReport,
    /// What is recorded; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<RecorderReport>,
    /// The last lines of the log, by time.
    #[serde(default)]
    pub notes: Vec<NoteReport>,
    /// Records of the real-time log that found its ring full.
    pub log_dropped: u64,
    /// Lines of the log that were dropped because standard error was full.
    #[serde(default)]
    pub lines_dropped: u64,
    /// Facilities that the daemon asked for and did not get, e.g. `real-time priority`.
    pub missing: Vec<String>,
}

/// A line of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteReport {
    /// In nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// The event's name in the list of events.
    pub event: String,
    /// `error`, `warn` or `info`.
    pub level: String,
    pub text: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// The plan's sum, as `punctual check` prints it: with every client there.
    pub planned_bytes: u64,
    /// The most that was ever resident; 0 if the kernel does not tell, as for the following.
    pub peak_bytes: u64,
    /// Resident now.
    #[serde(default)]
    pub resident_bytes: u64,
    /// Locked address space. With a GPU far more than is resident: its driver reserves much that is never there.
    #[serde(default)]
    pub locked_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// No task is ready yet.
    Starting,
    #[default]
    Serving,
    Draining,
    Terminated,
}

/// What requests for models whose weights come and go found, and what was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagingReport {
    /// Requests whose weights were on the device when they arrived.
    pub hits: u64,
    /// Those whose weights were not.
    pub misses: u64,
    /// Models whose pages were freed for others.
    pub evictions: u64,
    pub failed: u64,
    pub load_us: LatencyReport,
}

/// Quantiles in microseconds; each is the upper edge of a bucket less than 2% wide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    pub count: u64,
    pub p50: u64,
    pub p99: u64,
    /// 99.9%.
    pub p999: u64,
    /// Largest, exact.
    pub max: u64,
}

/// Quantiles in microseconds of something that takes few of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecisionReport {
    pub count: u64,
    pub p50: f64,
    pub p99: f64,
    /// 99.9%.
    pub p999: f64,
    /// Largest, exact.
    pub max: f64,
}

/// Times over 1 ms in which a probe thread of the highest priority did not run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallsReport {
    pub count: u64,
    pub total_us: u64,
    pub longest_us: u64,
    /// By time. A core's probe lists its first 1024.
    pub list: Vec<StallReport>,
    /// Further ones, which are not in the figures above.
    pub unlisted: u64,
}

/// One stall, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallReport {
    /// Last time the probe ran before.
    pub start_ns: u64,
    /// First time it ran again.
    pub end_ns: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionReport {
    pub name: String,
    /// The device that it is on: `cpu`, `cuda`.
    #[serde(default)]
    pub device: String,
    /// Its compute units: cores, TPCs.
    #[serde(default)]
    pub units: u64,
    pub actions: u64,
    /// Their members, so members / actions is the mean batch.
    pub members: u64,
    pub finished: u64,
    /// Stopped when told.
    pub preempted: u64,
    /// Not started inside their window.
    pub not_run: u64,
    pub failed: u64,
    /// Sum of the measured times of finished actions.
    pub busy_us: u64,
    /// The part of `busy_us` that was best-effort work.
    #[serde(default)]
    pub best_effort_us: u64,
    /// Its cores; the leader's alone if it is one of the GPU.
    #[serde(default)]
    pub cores: Vec<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<RunningReport>,
}

/// Why a report could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("{path}: {source}; check that the daemon runs and was ready")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the report cannot be written to {path}: {source}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: not a punctuald report: {source}")]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{path}: report format {found}; this program reads format {REPORT_FORMAT}")]
    Format { path: PathBuf, found: u32 },
}

impl Report {
    /// Reads a report that `--report` wrote.
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        let file = read::open(path).map_err(|source| io_error(path, source))?;
        Self::from_reader(path, file)
    }

    /// Asks the daemon whose clients connect at `socket` for a snapshot, for at most a second.
    pub fn live(socket: &Path) -> Result<Self, ReportError> {
        let path = metrics_socket(socket);
        let stream =
            socket_path::connected_stream(&path).map_err(|source| io_error(&path, source))?;
        Self::from_reader(&path, Timed::until(stream, clock::now_ns() + LIVE_NS))
    }

    /// Writes it where [`read`](Self::read) reads it: first next to it, then renamed, so that a reader
    /// sees all of it or none. A pipe or a device is written into ([`punctual_platform::files`]).
    pub fn write(&self, path: &Path) -> Result<(), ReportError> {
        let mut text = serde_json::to_vec_pretty(self).expect("plain data always serialises");
        text.push(b'\n');
        write_whole(path, &text).map_err(|source| ReportError::Write {
            path: path.into(),
            source,
        })
    }

    fn from_reader(path: &Path, reader: impl Read) -> Result<Self, ReportError> {
        let mut text = Vec::new();
        reader
            .take(REPORT_BYTES_MAX)
            .read_to_end(&mut text)
            .map_err(|source| io_error(path, source))?;
        let report: Self = serde_json::from_slice(&text).map_err(|source| ReportError::Json {
            path: path.into(),
            source,
        })?;
        if report.format != REPORT_FORMAT {
            return Err(ReportError::Format {
                path: path.into(),
                found: report.format,
            });
        }
        Ok(report)
    }
}

fn io_error(path: &Path, source: std::io::Error) -> ReportError {
    ReportError::Io {
        path: path.into(),
        source,
    }
}

/// Where the daemon whose clients connect at `socket` serves its metrics: a stream socket that
/// writes one JSON object to each connection and closes it.
#[must_use]
pub fn metrics_socket(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(punctual_plan::METRICS_SUFFIX);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_its_json_form() {
        let report = Report {
            format: REPORT_FORMAT,
            tasks: vec![TaskReport {
                name: "signs".into(),
                exits: vec![1, 2, 3],
                ..TaskReport::default()
            }],
            ..Report::default()
        };
        let text = serde_json::to_vec(&report).expect("serialises");
        let back = Report::from_reader(Path::new("memory"), text.as_slice()).expect("parses");
        assert_eq!(back, report);
    }

    /// The value at a path such as `tasks[].failed.payload`.
    fn figure<'a>(report: &'a serde_json::Value, path: &str) -> Option<&'a serde_json::Value> {
        path.split('.')
            .try_fold(report, |at, part| match part.strip_suffix("[]") {
                Some(list) => at.get(list)?.get(0),
                None => at.get(part),
            })
    }

    #[test]
    fn the_figures_that_count_events_are_in_the_report() {
        let report = Report {
            tasks: vec![TaskReport::default()],
            partitions: vec![PartitionReport::default()],
            gpu: Some(GpuReport::default()),
            recorder: Some(RecorderReport::default()),
            ..Report::default()
        };
        let report = serde_json::to_value(&report).expect("serialises");
        let counted = punctual_events::declarations().filter_map(|event| event.counted_in);
        for path in counted {
            assert!(figure(&report, path).is_some(), "{path}");
        }
        assert!(figure(&report, "tasks[].no-such-figure").is_none());
    }

    #[test]
    fn without_places_the_report_says_nothing_of_them() {
        let text = serde_json::to_string(&Report::default()).expect("serialises");
        assert!(!text.contains("lending"), "{text}");
    }

    #[test]
    fn a_report_of_another_form_is_refused_by_its_number() {
        let report = Report {
            format: REPORT_FORMAT + 1,
            ..Report::default()
        };
        let text = serde_json::to_vec(&report).expect("serialises");
        let error = Report::from_reader(Path::new("memory"), text.as_slice()).unwrap_err();
        assert!(matches!(error, ReportError::Format { found, .. } if found == REPORT_FORMAT + 1));
    }
}

//! `punctuald` as a library: start-up, the real-time threads, shutdown and metrics.
//!
//! [`run`] is the whole daemon; the `punctuald` binary and `punctual daemon` only parse
//! [`Options`] and call it.
#![forbid(unsafe_code)]

mod options;
mod report;
mod startup;
mod termination;

pub use options::{AFTER_HELP, Options};
pub use report::{
    ClientsReport, FailedReport, IngressReport, LatencyReport, PartitionReport, REPORT_FORMAT,
    RejectedReport, Report, ReportError, StallReport, StallsReport, State, TaskReport,
    metrics_socket,
};
pub use startup::run;
pub use termination::Termination;

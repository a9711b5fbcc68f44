//! `punctuald` as a library: start-up, the real-time threads, shutdown and metrics.
//!
//! [`run`] is the whole daemon; the `punctuald` binary and `punctual daemon` only parse
//! [`Options`] and call it.
#![forbid(unsafe_code)]

mod door;
mod drain;
mod driver;
mod egress;
mod error;
mod frame;
mod hired;
pub mod host;
mod housekeeping;
mod ingress;
mod intake;
mod messages;
mod metrics;
mod metrics_socket;
mod observer;
mod options;
mod page_faults;
mod record;
mod report;
mod reserve;
mod rt_notes;
mod say;
mod startup;
mod termination;
mod threads;
mod validate;
mod wiring;
mod world;

pub use error::StartupError;
pub use options::{AFTER_HELP, Options};
pub use report::{
    ClientsReport, DecisionReport, FailedReport, LatencyReport, PartitionReport, REPORT_FORMAT,
    RejectedReport, Report, ReportError, StallReport, StallsReport, State, TaskReport,
    metrics_socket,
};
pub use startup::{plan, run};
pub use termination::Termination;

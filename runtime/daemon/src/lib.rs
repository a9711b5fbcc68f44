//! `punctuald` as a library: start-up, the real-time threads, shutdown and metrics.
//!
//! [`run`] is the whole daemon; the `punctuald` binary and `punctual daemon` only parse
//! [`Options`] and call it.
//!
//! | what | where |
//! |---|---|
//! | phases of the start | `startup`: `validate`, `reserve`, `threads`; then `start`: ready with the first task, in the order of `start_order` |
//! | a frame's way | `port` → `world` (the scheduler's, in `driver`) → `intake` → `world` → `port` |
//! | what goes from thread to thread | `messages`, over the rings of `channels` |
//! | the configuration that is served if the present one cannot be | `last_good` |
//! | clients in and out, log, signals, the end | `housekeeping`, `acceptor` |
//! | what a client can make slow | `pools`, threads that no other waits for |
//! | whether the threads live, and whether the machine runs them | `watchdog`, `starved` |
//! | the daemon as another program's child | [`Process`] |
//! | what is counted and reported | `metrics`, `observer`, [`Report`] |
//!
//! Real-time threads share atomics, rings and doorbells, and nothing else. Whatever one of them
//! is to free goes back to housekeeping through a ring, or with the thread's end.
#![forbid(unsafe_code)]

mod acceptor;
mod admission;
mod blocking;
mod boxes;
mod channels;
mod client_places;
mod crops;
mod describe;
mod devices;
mod drain;
mod driver;
mod egress;
mod error;
mod gate;
pub mod gpu;
mod gpu_watch;
mod granted;
pub mod host;
mod housekeeping;
mod intake;
mod introduction;
mod last_good;
mod limits;
mod looking;
pub mod lookup;
mod managed_thread;
mod manager;
mod messages;
mod metrics;
mod metrics_socket;
mod observer;
mod openings;
mod options;
mod pace;
mod page_faults;

mod pools;
mod port;
mod process;
mod program;
mod rate_limit;
mod record;
mod recorder;
mod reload;
mod report;
mod reserve;
mod rt_events;
mod start;
mod start_order;
mod startup;
mod starved;
mod termination;
mod threads;
mod validate;
mod wake_budget;
mod watchdog;
mod world;

pub use error::StartupError;
pub use last_good::keep;
pub use limits::LimitError;
pub use options::{AFTER_HELP, CONFIGURATION, ManifestSource, NoManifest, Options};
pub use process::{Process, ProcessError};
pub use reload::reload;
pub use report::{
    ClientReport, ClientsReport, DecisionReport, FailedReport, GpuReport, HomeReport,
    LatencyReport, LendingReport, LoanReport, MemoryReport, ModelFailureReport, NoteReport,
    PartitionReport, REPORT_FORMAT, RanReport, RecorderReport, RejectedReport, Report, ReportError,
    RunningReport, SilentReport, SlackReport, StageReport, StallReport, StallsReport, StartReport,
    State, TaskReport, TaskStartReport, ThreadReport, WatchdogReport, WidthReport, WidthsReport,
    metrics_socket,
};
pub use startup::{plan, plan_inputs, run};
pub use termination::Termination;

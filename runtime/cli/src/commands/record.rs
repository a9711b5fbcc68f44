//! `punctual record dump`: has a daemon write what its black box has.

use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use punctual_daemon::RecorderReport;
use punctual_platform::clock;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};

use crate::live::daemon::{Daemon, LiveError};

/// Orders for the recorder of a daemon.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Options {
    /// Have the daemon write the newest seconds of what its scheduler was told and decided.
    Dump(Dump),
}

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual record dump
  punctual record dump --socket /run/punctual/socket
  punctual record dump --json | jq -r .file

Prints the file's name. It takes as long as the disk; up to ten seconds more if another recording was just written. The daemon is
sent SIGUSR2, so this has to run as its user, or as root. Look at the file with `punctual explain`, `trace` and `replay`, or
with any program that reads MCAP.

TERMINATION CODES: 0 it is written; 1 it could not be written, or nothing is recorded; 3 several daemons serve; 4 there is none;
5 the daemon may not be asked or sent a signal.")]
pub struct Dump {
    /// Where the daemon's clients connect; by default where the daemon of this machine has them connect.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print the file's name and the recorder's counts as JSON.
    #[arg(long)]
    json: bool,
}

/// A recording follows the last one after ten seconds at least; then the disk takes its time.
const LIMIT_NS: u64 = 30_000_000_000;

/// How often the daemon is asked whether it is written.
const LOOK_NS: u64 = 50_000_000;

#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error(
        "the daemon at {socket} records nothing: its manifest says so, or gives no `[recorder] directory` and there is no state \
         directory",
        socket = socket.display()
    )]
    Off { socket: PathBuf },
    #[error(
        "the daemon, process {pid}, cannot be sent SIGUSR2: {source}; run this as its user, or as root"
    )]
    Signal { pid: u32, source: Errno },
    #[error("nothing could be written into {directory}: the daemon's log says why", directory = directory.display())]
    NotWritten { directory: PathBuf },
    #[error("nothing was written into {directory} for {seconds} s", directory = directory.display())]
    Slow { directory: PathBuf, seconds: u64 },
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for DumpError {
    fn termination(&self) -> Termination {
        match self {
            Self::Live(error) => error.termination(),
            Self::Off { .. } | Self::NotWritten { .. } | Self::Slow { .. } => {
                Termination::BadResult
            }
            Self::Signal { .. } => Termination::Resources,
            Self::Output(error) => error.termination(),
        }
    }
}

pub fn run(options: &Options) -> Result<(), DumpError> {
    let Options::Dump(options) = options;
    let recorder = dump(&Daemon::find(options.socket.as_deref())?)?;
    let file = recorder.last.clone().unwrap_or_default();
    if options.json {
        let json = serde_json::json!({ "file": file, "recorder": recorder });
        return Ok(output::line(
            serde_json::to_string_pretty(&json).expect("plain data"),
        )?);
    }
    Ok(output::line(file.display())?)
}

/// Has the daemon write its black box, and waits until it is on the disk: [`RecorderReport::last`].
pub fn dump(daemon: &Daemon) -> Result<RecorderReport, DumpError> {
    let Recorder { pid, now: before } = recorder_of(daemon)?;
    let process = Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX));
    kill(process, Signal::SIGUSR2).map_err(|source| DumpError::Signal { pid, source })?;
    let limit_ns = clock::now_ns() + LIMIT_NS;
    loop {
        clock::sleep_until_ns(clock::now_ns() + LOOK_NS);
        let now = recorder_of(daemon)?.now;
        let directory = now.directory.clone();
        if now.written > before.written {
            return Ok(now);
        }
        if now.failed > before.failed {
            return Err(DumpError::NotWritten { directory });
        }
        if clock::now_ns() > limit_ns {
            let seconds = LIMIT_NS / 1_000_000_000;
            return Err(DumpError::Slow { directory, seconds });
        }
    }
}

/// A daemon that records.
struct Recorder {
    pid: u32,
    now: RecorderReport,
}

fn recorder_of(daemon: &Daemon) -> Result<Recorder, DumpError> {
    let report = daemon.report()?;
    let off = || DumpError::Off {
        socket: daemon.socket.clone(),
    };
    Ok(Recorder {
        pid: report.pid,
        now: report.recorder.ok_or_else(off)?,
    })
}

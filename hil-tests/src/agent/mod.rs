//! What runs on the target: this program, copied over, in one of these roles. It writes JSON, one
//! object a line, whose forms are in [`crate::records`].

mod attack;
mod camera;
mod floor;
mod hog;
mod probe;
mod sample;
mod service;

use std::io::{self, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use punctual_client::{Lost, SubmitError, now_ns};
use serde::Serialize;

use crate::records::Moment;
use crate::target::child::pause;

/// The roles.
#[derive(Debug, clap::Subcommand)]
pub enum Role {
    /// Send frames to a daemon, reconnect when it ends, and count verdicts.
    Camera(camera::Options),
    /// Act as a service manager: start a daemon, record its notifications and its end, restart it.
    Service(service::Options),
    /// Put load on the processor, the memory or the disk.
    Hog(hog::Options),
    /// Act as a hostile client.
    Attack(attack::Options),
    /// Query a daemon's metrics repeatedly, and connect as a client now and then.
    Probe(probe::Options),
    /// Measure the wake-up latency of a sleeping thread, as `cyclictest` does.
    Floor(floor::Options),
    /// Sample a process's memory, descriptors and threads.
    Sample(sample::Options),
    /// Print a daemon's metrics.
    Metrics {
        /// The daemon's socket for clients.
        #[arg(long)]
        socket: PathBuf,
    },
    /// Listen at a path without accepting connections.
    Listen {
        /// The path.
        #[arg(long)]
        path: PathBuf,
    },
    /// Send a signal to a process, and print the time.
    Signal {
        /// Which process.
        #[arg(long)]
        pid: i32,
        /// Which signal, e.g. `KILL`.
        #[arg(long, value_parser = signal_named)]
        signal: Signal,
    },
    /// Stop a process as a debugger does, for a while.
    Trace {
        /// Which process.
        #[arg(long)]
        pid: i32,
        /// For so long, in ms.
        #[arg(long)]
        ms: u16,
    },
    /// Print the monotonic time.
    Now,
}

fn signal_named(name: &str) -> Result<Signal, Errno> {
    format!("SIG{name}").parse()
}

/// Why the agent stopped before its time.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No daemon, and none to hope for.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// A frame could not be submitted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error("{what}: {source}")]
    Io {
        what: &'static str,
        source: io::Error,
    },
}

impl AgentError {
    fn io(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    fn os(what: &'static str) -> impl Fn(Errno) -> Self {
        move |source| Self::Io {
            what,
            source: source.into(),
        }
    }
}

/// Plays a role until it is over or SIGTERM comes.
pub fn play(role: &Role) -> Result<(), AgentError> {
    match role {
        Role::Camera(options) => camera::run(options),
        Role::Service(options) => service::run(options),
        Role::Hog(options) => hog::run(options),
        Role::Attack(options) => attack::run(options),
        Role::Probe(options) => probe::run(options),
        Role::Floor(options) => floor::run(options),
        Role::Sample(options) => sample::run(options),
        Role::Metrics { socket } => {
            say_text(&sample::metrics(socket)?);
            Ok(())
        }
        Role::Listen { path } => {
            let signals = signals(&[])?;
            let _listener = UnixListener::bind(path).map_err(AgentError::io("a socket"))?;
            while !told_to_end(&signals) {
                pause(10);
            }
            Ok(())
        }
        Role::Signal { pid, signal } => {
            let at_ns = now_ns();
            kill(Pid::from_raw(*pid), *signal).map_err(AgentError::os("kill"))?;
            say(&Moment { at_ns });
            Ok(())
        }
        Role::Trace { pid, ms } => trace(Pid::from_raw(*pid), *ms),
        Role::Now => {
            say(&Moment { at_ns: now_ns() });
            Ok(())
        }
    }
}

/// Not one of its threads runs meanwhile.
fn trace(pid: Pid, ms: u16) -> Result<(), AgentError> {
    ptrace::seize(pid, ptrace::Options::empty()).map_err(AgentError::os("ptrace"))?;
    ptrace::interrupt(pid).map_err(AgentError::os("ptrace"))?;
    waitpid(pid, Some(WaitPidFlag::__WALL)).map_err(AgentError::os("waitpid"))?;
    pause(ms);
    ptrace::detach(pid, None).map_err(AgentError::os("ptrace"))
}

/// One line on standard output.
fn say(line: &impl Serialize) {
    say_text(&serde_json::to_string(line).expect("plain data serialises"));
}

fn say_text(line: &str) {
    // One write a line, so that a killed agent leaves whole lines; a reader that went away is no
    // reason to fail.
    let _ = io::stdout()
        .lock()
        .write_all(format!("{line}\n").as_bytes());
}

/// SIGTERM (and SIGCHLD, for the service) as something to look at.
fn signals(more: &[Signal]) -> Result<SignalFd, AgentError> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    more.iter().for_each(|signal| set.add(*signal));
    set.thread_block().map_err(AgentError::os("sigprocmask"))?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    SignalFd::with_flags(&set, flags).map_err(AgentError::os("signalfd"))
}

/// Whether SIGTERM has come.
fn told_to_end(signals: &SignalFd) -> bool {
    let found = signals.read_signal();
    matches!(found, Ok(Some(info)) if info.ssi_signo == Signal::SIGTERM as u32)
}

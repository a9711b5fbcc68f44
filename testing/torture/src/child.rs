//! What every client process does first: takes its orders and its ledger, and connects.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use punctual_ipc::{ClientChannel, ConnectError, Hello, PixelFormat, Refusal};
use punctual_platform::clock::{now_ns, sleep_until_ns};
use punctual_platform::output;

use crate::ledger::{Entry, Ledger, Phase};
use crate::{healthy, hostile};

/// How long a client tries to get a place that another has just died on, in ns.
const ENTRY_NS: u64 = 5_000_000_000;
/// How long it waits between attempts, in ns.
const ATTEMPT_NS: u64 = 200_000;

/// What kind of client a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Keeps the protocol and checks the verdicts.
    Healthy,
    /// Writes to all memory that it can.
    Hostile,
}

/// What a client knows of the answers that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// Nothing: only that they are its frames'.
    Unknown,
    /// A function of the frame's name: this program's own daemon side.
    Computed,
    /// The frame's pixels, in an output "output": a network that gives its input.
    Mirrored,
}

/// What a client process is told on its command line. Its ledger is its standard input.
#[derive(Clone, Debug, clap::Args)]
pub struct Orders {
    /// Healthy or hostile
    #[arg(long)]
    pub role: Role,
    /// The daemon's socket
    #[arg(long)]
    pub socket: PathBuf,
    /// The task to feed
    #[arg(long)]
    pub task: String,
    /// Seed of its random choices, with its process id
    #[arg(long)]
    pub seed: u64,
    /// A verdict later than this counts as late, in ns
    #[arg(long)]
    pub late_ns: u64,
    /// What it knows of the answers
    #[arg(long)]
    pub answers: Answers,
}

impl Orders {
    /// As arguments of a command line.
    #[must_use]
    pub fn arguments(&self) -> Vec<std::ffi::OsString> {
        let role = match self.role {
            Role::Healthy => "healthy",
            Role::Hostile => "hostile",
        };
        let answers = match self.answers {
            Answers::Unknown => "unknown",
            Answers::Computed => "computed",
            Answers::Mirrored => "mirrored",
        };
        vec![
            "--role".into(),
            role.into(),
            "--socket".into(),
            self.socket.clone().into(),
            "--task".into(),
            self.task.clone().into(),
            format!("--seed={}", self.seed).into(),
            format!("--late-ns={}", self.late_ns).into(),
            "--answers".into(),
            answers.into(),
        ]
    }
}

/// A client process's life.
pub fn live(orders: &Orders) -> io::Result<()> {
    // The process that tortures may itself be killed: no client outlives it.
    set_pdeathsig(Signal::SIGKILL)?;
    let ledger = Ledger::given(io::stdin().as_fd().try_clone_to_owned()?);
    match orders.role {
        Role::Healthy => healthy::live(orders, ledger),
        Role::Hostile => hostile::live(orders, &ledger),
    }
}

/// The opening for a task.
#[must_use]
pub fn hello(task: &str) -> Hello {
    Hello::new(task, PixelFormat::Rgb8)
}

/// Connects, if need be after the daemon has noticed that the place's last holder is dead; none if it is not admitted.
pub(crate) fn connect(
    orders: &Orders,
    ledger: &Ledger,
    entry: &mut Entry,
) -> io::Result<Option<ClientChannel>> {
    let began_ns = now_ns();
    let hello = hello(&orders.task);
    loop {
        match ClientChannel::connect(&orders.socket, &hello) {
            Ok(channel) => {
                entry.phase = Phase::Connected;
                entry.entry_ns = now_ns() - began_ns;
                ledger.write(entry)?;
                return Ok(Some(channel));
            }
            // The killed and hostile clients that run at the same time are of the same user.
            Err(ConnectError::Refused(Refusal::Full { .. } | Refusal::Unfinished { .. }))
                if now_ns() - began_ns < ENTRY_NS =>
            {
                sleep_until_ns(now_ns() + ATTEMPT_NS);
            }
            Err(error) => {
                output::note(format_args!(
                    "channel-torture: the daemon did not admit a client: {error}"
                ));
                return Ok(None);
            }
        }
    }
}

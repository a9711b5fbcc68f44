//! What a client process is told: which kind of client it is, and whose.

use std::path::PathBuf;

use punctual_ipc::{Hello, PixelFormat};

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

/// The opening for a task.
#[must_use]
pub fn hello(task: &str) -> Hello {
    Hello::new(task, PixelFormat::Rgb8)
}

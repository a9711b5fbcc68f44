//! One start: a daemon, and clients that submit until each has an answer.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use clap::ValueEnum;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use punctual_client::{Client, Crop, Lost, Options, now_ns};
use punctual_platform::clock::sleep_until_ns;
use punctual_platform::termination::{Terminates, Termination};
use punctual_platform::{poll, read};
use serde::Serialize;
use serde_json::Value;

use super::workload::{MANIFEST, Task, Workload};
use crate::programs::{self, ProgramError, Programs};

/// What the kernel keeps of the files that a start reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Nothing.
    Cold,
    /// All.
    Warm,
}

impl Cache {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

pub struct Turn<'w> {
    pub workload: &'w Workload,
    pub cache: Cache,
}

/// A moment of a start, in milliseconds from just before the process was started.
pub struct Moment {
    pub name: String,
    pub ms: f64,
}

#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the daemon's pipe: {0}")]
    Pipe(io::Error),
    #[error("the daemon terminated before it was ready; its messages are above")]
    NotReady,
    #[error("task {task}: the daemon was lost: {source}")]
    Lost { task: &'static str, source: Lost },
    #[error("task {task}: a frame could not be submitted: {reason}")]
    Submit { task: &'static str, reason: String },
    #[error("task {task} got no answer within 30 s")]
    NoAnswer { task: &'static str },
}

impl Terminates for TurnError {
    fn termination(&self) -> Termination {
        match self {
            Self::Program(error) => error.termination(),
            Self::File { .. } => Termination::File,
            Self::Pipe(_) => Termination::Resources,
            _ => Termination::BadResult,
        }
    }
}

/// How long a task's first answer may take.
const LIMIT_NS: u64 = 30_000_000_000;
/// Between two tries to connect.
const CONNECT_NS: u64 = 1_000_000;
/// From a rejected frame to the next one.
const AGAIN_NS: u64 = 2_000_000;

impl Turn<'_> {
    /// Waits after the clients' first answers until the daemon says that nothing is left to load, but no longer than
    /// `patience_ns`: one that loads everything first may say nothing of that.
    pub fn run(&self, programs: &Programs, patience_ns: u64) -> Result<Start, TurnError> {
        if self.cache == Cache::Cold {
            self.workload
                .files
                .iter()
                .try_for_each(|file| forget(file))?;
        }
        let folder = &self.workload.folder;
        let (socket, report) = (folder.path("socket"), folder.path("report.json"));
        let begun_ns = now_ns();
        let mut program = programs.command("punctuald");
        // Not close-on-exec: the daemon inherits the write end under the number it is told.
        let pipe = nix::unistd::pipe().map_err(io::Error::from);
        let (said_there, told) = pipe.map_err(TurnError::Pipe)?;
        program
            .command
            .arg(folder.path(MANIFEST))
            .arg("--socket")
            .arg(&socket)
            .arg("--report")
            .arg(&report)
            .args(["--log", "error", "--end-with-parent", "--ready-fd"])
            .arg(told.as_raw_fd().to_string())
            .stdout(Stdio::null());
        let child = program.spawn()?;
        drop(told);
        let mut said = Said {
            pipe: said_there.into(),
            begun_ns,
            moments: Vec::new(),
        };
        let firsts = thread::scope(|scope| {
            let tasks = self.workload.tasks.iter();
            let clients = tasks.map(|task| scope.spawn(|| first_answer(&socket, task)));
            let clients: Vec<_> = clients.collect();
            said.listen(patience_ns, || clients.iter().all(|c| c.is_finished()))?;
            let firsts = clients.into_iter();
            let firsts = firsts.map(|client| client.join().expect("no panic"));
            firsts.collect::<Result<Vec<u64>, TurnError>>()
        })?;
        programs::stop(child)?;
        let says_over = said.moments.iter().any(|moment| moment.name == OVER);
        let mut moments = said.moments;
        for (task, first_ns) in self.workload.tasks.iter().zip(firsts) {
            let name = format!("{} first", task.name);
            moments.push(Moment::at(&name, first_ns, begun_ns));
        }
        moments.extend(reported(&report)?);
        Ok(Start { moments, says_over })
    }
}

/// How a daemon started.
pub struct Start {
    pub moments: Vec<Moment>,
    /// Whether it said that nothing was left to load.
    pub says_over: bool,
}

/// What a daemon says when nothing is left to load.
const OVER: &str = "over";

/// The lines that a daemon writes into a pipe about its start.
struct Said {
    pipe: File,
    begun_ns: u64,
    moments: Vec<Moment>,
}

impl Said {
    /// Until the pipe's end, or until the clients have been answered for so long.
    fn listen(
        &mut self,
        patience_ns: u64,
        are_answered: impl Fn() -> bool,
    ) -> Result<(), TurnError> {
        const LOOK_NS: u64 = 5_000_000;
        let mut answered_ns = None;
        let (mut line, mut bytes) = (Vec::new(), [0; 64]);
        loop {
            let now = now_ns();
            if poll::wait_readable(self.pipe.as_fd(), Some(now + LOOK_NS)) {
                let count = self.pipe.read(&mut bytes).map_err(TurnError::Pipe)?;
                if count == 0 {
                    break;
                }
                self.take(&mut line, &bytes[..count]);
                continue;
            }
            if are_answered() && now >= *answered_ns.get_or_insert(now) + patience_ns {
                break;
            }
        }
        if self.moments.is_empty() {
            return Err(TurnError::NotReady);
        }
        Ok(())
    }

    /// A moment for each line that ends here.
    fn take(&mut self, line: &mut Vec<u8>, bytes: &[u8]) {
        for byte in bytes {
            if *byte != b'\n' {
                line.push(*byte);
                continue;
            }
            let name = String::from_utf8_lossy(line);
            let moment = Moment::at(name.trim(), now_ns(), self.begun_ns);
            self.moments.push(moment);
            line.clear();
        }
    }
}

impl Moment {
    fn at(name: &str, at_ns: u64, begun_ns: u64) -> Self {
        Self {
            name: name.to_owned(),
            ms: at_ns.saturating_sub(begun_ns) as f64 / 1e6,
        }
    }
}

/// When a client that submits from the beginning has its first answer.
fn first_answer(socket: &Path, task: &Task) -> Result<u64, TurnError> {
    let (name, limit_ns) = (task.name, now_ns() + LIMIT_NS);
    let mut client = connected(socket, task, limit_ns)?;
    let lost = |source| TurnError::Lost { task: name, source };
    while now_ns() < limit_ns {
        let slot = client.slot(Some(limit_ns)).map_err(lost)?;
        let mut slot = slot.ok_or(TurnError::NoAnswer { task: name })?;
        slot.pixels().fill(1);
        let submitted = slot.submit(now_ns(), None, Crop { x: 0, y: 0 });
        submitted.map_err(|error| TurnError::Submit {
            task: name,
            reason: error.to_string(),
        })?;
        let response = client.answer(Some(limit_ns)).map_err(lost)?;
        if response.is_some_and(|response| response.answer.is_some()) {
            return Ok(now_ns());
        }
        sleep_until_ns(now_ns() + AGAIN_NS);
    }
    Err(TurnError::NoAnswer { task: name })
}

fn connected(socket: &Path, task: &Task, limit_ns: u64) -> Result<Client, TurnError> {
    while now_ns() < limit_ns {
        // Whatever is wrong: the daemon may be starting.
        if let Ok(client) = Options::new(socket, task.name, task.format).connect() {
            return Ok(client);
        }
        sleep_until_ns(now_ns() + CONNECT_NS);
    }
    Err(TurnError::NoAnswer { task: task.name })
}

/// Much more than the report of a few tasks takes.
const REPORT_BYTES_MAX: u64 = 16 << 20;

/// What the report tells in addition. An older daemon's has none of it.
fn reported(path: &Path) -> Result<Vec<Moment>, TurnError> {
    let file = |source| TurnError::File {
        path: path.to_owned(),
        source,
    };
    let text = read::text(path, REPORT_BYTES_MAX).map_err(file)?;
    let report: Value = serde_json::from_str(&text).map_err(|error| file(error.into()))?;
    let tasks = report["tasks"].as_array();
    let moments = tasks.into_iter().flatten().flat_map(|task| {
        let name = task["name"].as_str().unwrap_or("?");
        ["ready", "whole"].into_iter().filter_map(move |moment| {
            Some(Moment {
                name: format!("{name} {moment}"),
                ms: task["start"][format!("{moment}_ms")].as_f64()?,
            })
        })
    });
    Ok(moments.collect())
}

/// Has the kernel drop what it keeps of a file.
fn forget(path: &Path) -> Result<(), TurnError> {
    let forgotten = read::open(path).and_then(|file| {
        file.sync_all()?;
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).map_err(io::Error::from)
    });
    forgotten.map_err(|source| TurnError::File {
        path: path.to_owned(),
        source,
    })
}

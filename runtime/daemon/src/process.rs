//! A daemon as another program's child: of a demonstration, a benchmark, a test.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe};
use punctual_platform::clock;
use punctual_platform::logging::ENVIRONMENT;
use punctual_platform::termination::{Terminates, Termination};

/// A process that drains when it is asked to end: a daemon, or a camera. Killed with this, if it still runs.
#[derive(Debug)]
pub struct Process(Child);

/// Why a daemon does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("a process cannot be started: {0}")]
    Spawn(#[from] io::Error),
    #[error("the daemon terminated before it was ready ({status}); its messages are above")]
    NotReady { status: ExitStatus },
}

impl Terminates for ProcessError {
    fn termination(&self) -> Termination {
        match self {
            Self::Spawn(_) => Termination::Resources,
            Self::NotReady { .. } => Termination::BadResult,
        }
    }
}

impl From<Child> for Process {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Process {
    /// Starts a daemon, which ends with this process, and waits until it has loaded everything. Standard output stays the
    /// caller's own, and so does standard error unless something is wrong, or the environment has another level.
    pub fn start(command: &mut Command) -> Result<Self, ProcessError> {
        // Not close-on-exec: the daemon inherits the write end under the number it is told.
        let (ready, told) = pipe().map_err(io::Error::from)?;
        if std::env::var_os(ENVIRONMENT).is_none() {
            command.env(ENVIRONMENT, "warn");
        }
        let child = command
            .arg("--ready-fd")
            .arg(told.as_raw_fd().to_string())
            .arg("--end-with-parent")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        drop(told);
        let mut process = Self(child);
        let mut lines = BufReader::new(File::from(ready)).lines();
        while let Some(line) = lines.next().transpose()? {
            if line == "over" {
                return Ok(process);
            }
        }
        let status = process.wait()?;
        Err(ProcessError::NotReady { status })
    }

    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Asks it to drain and end.
    pub fn terminate(&self) {
        // Fails only when it is gone already.
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
    }

    /// Its death, without a chance to clean up.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.0.kill()?;
        self.wait()
    }

    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait()
    }

    /// Its end; it is killed if that takes longer than the limit.
    pub fn wait_for(&mut self, limit_ms: u64) -> io::Result<ExitStatus> {
        const STEP_NS: u64 = 5_000_000;
        let until_ns = clock::now_ns() + limit_ms * 1_000_000;
        while clock::now_ns() < until_ns {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            clock::sleep_until_ns(clock::now_ns() + STEP_NS);
        }
        self.kill()
    }

    pub fn has_ended(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(Some(_)) | Err(_))
    }

    /// What it writes to its standard error until it ends. Nothing, unless that was piped.
    pub fn words(&mut self) -> io::Result<String> {
        let mut words = String::new();
        if let Some(said) = &mut self.0.stderr {
            said.read_to_string(&mut words)?;
        }
        Ok(words)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended by itself where all went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

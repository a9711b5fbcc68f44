//! The programs that a benchmark starts, and the folder that they are started with.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use punctual_daemon::{Process, ProcessError, Report, ReportError};
use punctual_platform::termination::{Terminates, Termination};

#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("{path}: {source}", path = path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} cannot be started: {source}; --bin says where it is", path = path.display())]
    Start {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{what} failed; its messages are above")]
    Failed { what: &'static str },
    #[error(transparent)]
    Daemon(#[from] ProcessError),
    #[error("the daemon's report: {0}")]
    Report(#[from] ReportError),
}

impl Terminates for ProgramError {
    fn termination(&self) -> Termination {
        match self {
            Self::File { .. } => Termination::File,
            Self::Start { .. } => Termination::Resources,
            Self::Failed { .. } | Self::Report(_) => Termination::BadResult,
            Self::Daemon(error) => error.termination(),
        }
    }
}

/// Where `punctual` and `punctuald` are.
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// In `folder`, or in the folder of this program.
    pub fn new(folder: Option<&Path>) -> Self {
        let own = std::env::current_exe().unwrap_or_default();
        let beside = own.parent().unwrap_or(Path::new("."));
        Self {
            folder: folder.unwrap_or(beside).to_owned(),
        }
    }

    pub fn command(&self, name: &str) -> Program {
        let path = self.folder.join(name);
        let mut command = Command::new(&path);
        command.env_remove("PUNCTUAL_LOG").stdin(Stdio::null());
        Program { path, command }
    }

    /// Measures the models of a manifest on this machine; the profiles lie next to their packages.
    pub fn profile(&self, manifest: &Path) -> Result<(), ProgramError> {
        let mut program = self.command("punctual");
        program.command.arg("profile").arg(manifest).arg("--quick");
        program.command.stdout(Stdio::null());
        let what = "punctual profile";
        program.output(what).map(|_| ())
    }

    /// Starts a daemon that listens at `socket`, with further arguments, and waits until it is ready.
    pub fn daemon<'a>(
        &self,
        manifest: &Path,
        socket: &Path,
        further: impl IntoIterator<Item = &'a OsStr>,
    ) -> Result<Process, ProgramError> {
        start(self.command("punctuald"), manifest, socket, further)
    }

    /// Starts a daemon that leaves a report, and waits until it is ready. Its warnings are those of the plan, each time; what
    /// it did not get is in its report.
    pub fn reporting(
        &self,
        serves: Serves,
        manifest: &Path,
        folder: &Folder,
    ) -> Result<Reporting, ProgramError> {
        let (socket, written) = (folder.path("socket"), folder.path("report.json"));
        let further = ["--log", "error", "--report"].map(OsStr::new);
        let further = further.into_iter().chain([written.as_os_str()]);
        let mut program = self.command(serves.program());
        if serves == Serves::Lab {
            program.command.arg("daemon");
        }
        let daemon = start(program, manifest, &socket, further)?;
        Ok(Reporting {
            daemon,
            socket,
            written,
        })
    }

    /// Makes the plan of a manifest and prints it nowhere.
    pub fn check(&self, manifest: &Path) -> Result<(), ProgramError> {
        let mut program = self.command("punctual");
        program.command.arg("check").arg(manifest);
        program.output("punctual check").map(|_| ())
    }
}

/// Which program is the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    Daemon,
    /// With the published policies.
    Lab,
}

impl Serves {
    const fn program(self) -> &'static str {
        match self {
            Self::Daemon => "punctuald",
            Self::Lab => "punctual-lab",
        }
    }
}

/// A daemon that serves, and leaves a report.
pub struct Reporting {
    daemon: Process,
    socket: PathBuf,
    written: PathBuf,
}

impl Reporting {
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn id(&self) -> u32 {
        self.daemon.id()
    }

    /// Has it drain and end; what it reports.
    pub fn stop(self) -> Result<Report, ProgramError> {
        stop(self.daemon)?;
        Ok(Report::read(&self.written)?)
    }
}

fn start<'a>(
    Program { path, mut command }: Program,
    manifest: &Path,
    socket: &Path,
    further: impl IntoIterator<Item = &'a OsStr>,
) -> Result<Process, ProgramError> {
    command
        .arg(manifest)
        .arg("--socket")
        .arg(socket)
        .args(further);
    Process::start(&mut command).map_err(|error| match error {
        ProcessError::Spawn(source) => ProgramError::Start { path, source },
        error => error.into(),
    })
}

/// How long a daemon may take to drain and end.
const END_MS: u64 = 10_000;

/// Asks a daemon to drain and waits for its end, with which it writes its report.
pub fn stop(mut daemon: Process) -> Result<(), ProgramError> {
    daemon.terminate();
    daemon.wait_for(END_MS).map_err(ProcessError::from)?;
    Ok(())
}

/// A program that is not started yet.
pub struct Program {
    path: PathBuf,
    pub command: Command,
}

impl Program {
    /// Starts a program that drains when it is asked to end.
    pub fn spawn(mut self) -> Result<Process, ProgramError> {
        let child = self.command.spawn();
        let path = self.path;
        let started = child.map_err(|source| ProgramError::Start { path, source });
        started.map(Process::from)
    }

    /// Runs it to its end. Returns what it wrote to standard output, unless that goes elsewhere.
    pub fn output(mut self, what: &'static str) -> Result<String, ProgramError> {
        let output = self.command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|source| ProgramError::Start {
            path: self.path,
            source,
        })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let succeeded = output.status.success().then_some(text);
        succeeded.ok_or(ProgramError::Failed { what })
    }
}

/// What the daemons are started with; gone with this.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// For the benchmark `of`, in the folder of temporary files.
    pub fn new(of: &str) -> Result<Self, ProgramError> {
        let name = format!("punctual-bench-{of}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(Self { path }),
            Err(source) => Err(ProgramError::File { path, source }),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), ProgramError> {
        let path = self.path(name);
        std::fs::write(&path, content).map_err(|source| ProgramError::File { path, source })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about what stays there.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

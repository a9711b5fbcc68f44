//! The demo's processes: the daemon and the cameras, each started as this very program.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use punctual_daemon::Process;

use super::error::DemoError;

/// A running camera and what it has said so far.
pub struct Camera {
    process: Process,
    stdout: ChildStdout,
    pending: Vec<u8>,
    open: bool,
}

/// This program's own file, to start it again under another role. In a process group of its own: an interrupt from the
/// keyboard is for the command alone, which ends the others in its order.
pub fn this_program() -> io::Result<Command> {
    let mut program = Command::new(std::env::current_exe()?);
    program.process_group(0);
    Ok(program)
}

/// Starts the daemon and waits until it says that it is ready.
pub fn daemon(manifest: &Path, socket: &Path, report: &Path) -> Result<Process, DemoError> {
    let mut program = this_program().map_err(DemoError::Spawn)?;
    program
        .arg("daemon")
        .arg(manifest)
        .arg("--socket")
        .arg(socket)
        .arg("--report")
        .arg(report);
    Ok(Process::start(&mut program)?)
}

impl Camera {
    /// Starts a camera with these arguments after `camera`.
    pub fn start(arguments: &[String]) -> Result<Self, DemoError> {
        let mut child = this_program()
            .map_err(DemoError::Spawn)?
            .arg("camera")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(DemoError::Spawn)?;
        let stdout = child.stdout.take().expect("stdout was piped above");
        let flags = OFlag::O_NONBLOCK;
        fcntl(&stdout, FcntlArg::F_SETFL(flags)).map_err(|e| DemoError::Spawn(e.into()))?;
        Ok(Self {
            process: child.into(),
            stdout,
            pending: Vec::new(),
            open: true,
        })
    }

    /// Whether its standard output is still open.
    pub fn open(&self) -> bool {
        self.open
    }

    /// Whole lines that came since the last call.
    pub fn lines(&mut self) -> Vec<String> {
        let mut chunk = [0; 4096];
        loop {
            match self.stdout.read(&mut chunk) {
                Ok(0) => {
                    self.open = false;
                    break;
                }
                Ok(n) => self.pending.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.open = false;
                    break;
                }
            }
        }
        let mut lines = Vec::new();
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).trim().to_owned());
        }
        lines
    }

    /// Asks it to stop submitting, collect what is open and report.
    pub fn stop(&self) {
        self.process.terminate();
    }

    /// Waits for its end and the rest of its output; kills it after `timeout_ms`.
    pub fn wait(mut self, timeout_ms: u64) -> (io::Result<ExitStatus>, Vec<String>) {
        let status = self.process.wait_for(timeout_ms);
        (status, self.lines())
    }
}

/// Waits until a camera says something or `timeout_ms` is over.
pub fn wait_for_words(cameras: &[Camera], timeout_ms: u64) {
    let mut waiting: Vec<PollFd<'_>> = cameras
        .iter()
        .filter(|camera| camera.open)
        .map(|camera| PollFd::new(camera.stdout.as_fd(), PollFlags::POLLIN))
        .collect();
    let timeout = PollTimeout::try_from(timeout_ms).unwrap_or(PollTimeout::MAX);
    // Interrupted by a signal or timed out: the caller looks at the clock either way.
    let _ = poll(&mut waiting, timeout);
}

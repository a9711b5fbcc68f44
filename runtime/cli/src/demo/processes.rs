//! The demo's processes: the daemon and the cameras, each started as this very program.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::DemoError;

pub struct Daemon {
    child: Child,
}

/// A running camera and what it has said so far.
pub struct Camera {
    child: Child,
    stdout: ChildStdout,
    pending: Vec<u8>,
    open: bool,
}

/// This program's own file, to start it again under another role. In a process group of its own: an interrupt from the
/// keyboard is the demo's alone, which ends the cameras before the daemon.
fn this_program() -> Result<Command, DemoError> {
    let mut program = Command::new(std::env::current_exe().map_err(DemoError::Spawn)?);
    program.process_group(0);
    Ok(program)
}

impl Daemon {
    /// Starts the daemon and waits until it says that it is ready.
    pub fn start(manifest: &Path, socket: &Path, report: &Path) -> Result<Self, DemoError> {
        // Not close-on-exec: the daemon inherits the write end under the number it is told.
        let (ready, told) = nix::unistd::pipe().map_err(|e| DemoError::Spawn(e.into()))?;
        let child = this_program()?
            .arg("daemon")
            .arg(manifest)
            .arg("--socket")
            .arg(socket)
            .arg("--report")
            .arg(report)
            .arg("--ready-fd")
            .arg(told.as_raw_fd().to_string())
            .arg("--end-with-parent")
            .stdin(Stdio::null())
            // Standard output belongs to the demo's own result.
            .stdout(Stdio::null())
            .spawn()
            .map_err(DemoError::Spawn)?;
        drop(told);
        let mut daemon = Self { child };
        let mut line = String::new();
        BufReader::new(File::from(ready))
            .read_line(&mut line)
            .map_err(DemoError::Spawn)?;
        if line.is_empty() {
            let status = daemon.child.wait().map_err(DemoError::Spawn)?;
            return Err(DemoError::NotReady { status });
        }
        Ok(daemon)
    }

    /// Asks it to drain and waits for its end; ends it by force after `timeout_ms`.
    pub fn stop(mut self, timeout_ms: u64) -> io::Result<ExitStatus> {
        terminate(&self.child);
        wait_bounded(&mut self.child, timeout_ms)
    }

    /// Whether it has terminated already.
    pub fn terminated(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
    }
}

impl Camera {
    /// Starts a camera with these arguments after `camera`.
    pub fn start(arguments: &[String]) -> Result<Self, DemoError> {
        let mut child = this_program()?
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
            child,
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
        terminate(&self.child);
    }

    /// Waits for its end and the rest of its output; kills it after `timeout_ms`.
    pub fn wait(mut self, timeout_ms: u64) -> (io::Result<ExitStatus>, Vec<String>) {
        let status = wait_bounded(&mut self.child, timeout_ms);
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

fn terminate(child: &Child) {
    // Fails only when it is gone already.
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
}

/// Waits for `child`'s end without blocking longer than `timeout_ms`; kills it then.
fn wait_bounded(child: &mut Child, timeout_ms: u64) -> io::Result<ExitStatus> {
    let step_ms = 5;
    for _ in 0..timeout_ms / step_ms {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        // An empty set: waits for nothing but the time.
        let _ = poll(&mut [], PollTimeout::from(step_ms as u16));
    }
    child.kill()?;
    child.wait()
}

//! A service manager for one daemon: starts it, hears what it says, sees how it ends, starts it
//! again. What it does is what a unit with `Type=notify` and `Restart=on-failure` does.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use punctual_client::now_ns;

use super::{AgentError, say, signals};
use crate::records::ServiceEvent;

/// What to look after.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Where the daemon sends its notes; made here.
    #[arg(long)]
    notify: PathBuf,
    /// Start it again when it ends, unless it was told to.
    #[arg(long)]
    restart: bool,
    /// Kill it after this many milliseconds without a keep-alive, as `WatchdogSec=` does.
    #[arg(long, value_name = "MS")]
    watchdog_ms: Option<u64>,
    /// File that the daemon's output is appended to.
    #[arg(long)]
    log: PathBuf,
    /// Program and arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Starts the daemon and looks after it until it has ended for good.
pub fn run(options: &Options) -> Result<(), AgentError> {
    super::attack::own::take_hang_ups();
    let signals = signals(&[Signal::SIGCHLD])?;
    // One of an earlier service in this folder.
    let _ = std::fs::remove_file(&options.notify);
    let notes = UnixDatagram::bind(&options.notify).map_err(AgentError::io("notify socket"))?;
    notes
        .set_nonblocking(true)
        .map_err(AgentError::io("notify socket"))?;
    let mut service = Service {
        options,
        signals,
        notes,
        told: false,
        heard_ns: 0,
    };
    loop {
        let child = service.start()?;
        service.look_after(child)?;
        if service.told || !options.restart {
            return Ok(());
        }
    }
}

struct Service<'a> {
    options: &'a Options,
    signals: SignalFd,
    notes: UnixDatagram,
    told: bool,
    /// When the daemon last said that all is well.
    heard_ns: u64,
}

impl Service<'_> {
    fn start(&self) -> Result<Child, AgentError> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.options.log);
        let log = log.map_err(AgentError::io("log"))?;
        let watchdog = self
            .options
            .watchdog_ms
            .map(|ms| ("WATCHDOG_USEC", (ms * 1000).to_string()));
        let child = Command::new(&self.options.command[0])
            .args(&self.options.command[1..])
            .env("NOTIFY_SOCKET", &self.options.notify)
            // Each daemon keeps a black box: its second scheduler checks every decision.
            .env("STATE_DIRECTORY", self.options.log.with_extension("state"))
            .envs(watchdog)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(AgentError::io("the daemon's program"))?;
        say(&ServiceEvent::Started {
            pid: child.id(),
            at_ns: now_ns(),
        });
        Ok(child)
    }

    /// Until the child has ended.
    fn look_after(&mut self, mut child: Child) -> Result<(), AgentError> {
        self.heard_ns = u64::MAX;
        loop {
            let mut waiting = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.notes.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut waiting, self.patience()) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(AgentError::os("poll")(error)),
            }
            while let Ok(Some(info)) = self.signals.read_signal() {
                if info.ssi_signo == Signal::SIGTERM as u32 {
                    self.told = true;
                    // Fails only when it is gone, which is seen below.
                    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
                }
            }
            // What it said before it ended comes before its end.
            self.hear();
            if self.is_silent() {
                // Once is enough; a stopped process dies of it too.
                let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
                self.heard_ns = u64::MAX;
            }
            if let Some(status) = child.try_wait().map_err(AgentError::io("wait"))? {
                self.hear();
                let (code, signal) = (status.code(), status.signal());
                say(&ServiceEvent::Ended {
                    code,
                    signal,
                    at_ns: now_ns(),
                });
                return Ok(());
            }
        }
    }

    /// How long to wait for notes: until a silence would be too long.
    fn patience(&self) -> PollTimeout {
        let Some(ms) = self
            .options
            .watchdog_ms
            .filter(|_| self.heard_ns != u64::MAX)
        else {
            return PollTimeout::NONE;
        };
        let due_ns = self.heard_ns + ms * 1_000_000;
        let left_ms = due_ns.saturating_sub(now_ns()).div_ceil(1_000_000);
        PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX)
    }

    /// Whether a daemon that is ready has said nothing for too long.
    fn is_silent(&self) -> bool {
        let limit_ns = self
            .options
            .watchdog_ms
            .map_or(u64::MAX, |ms| ms * 1_000_000);
        self.heard_ns != u64::MAX && now_ns().saturating_sub(self.heard_ns) >= limit_ns
    }

    fn hear(&mut self) {
        let mut note = [0; 4096];
        while let Ok(bytes) = self.notes.recv(&mut note) {
            let at_ns = now_ns();
            for line in String::from_utf8_lossy(&note[..bytes]).lines() {
                // It is watched from its readiness on, and its starts may take as long as they do.
                if line == "READY=1" || (line == "WATCHDOG=1" && self.heard_ns != u64::MAX) {
                    self.heard_ns = at_ns;
                }
                if line == "READY=1" {
                    say(&ServiceEvent::Ready { at_ns });
                } else if let Some(words) = line.strip_prefix("STATUS=") {
                    say(&ServiceEvent::Status {
                        words: words.to_owned(),
                        at_ns,
                    });
                }
            }
        }
    }
}

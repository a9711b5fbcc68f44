//! Where the tests happen: this machine or one behind ssh. Everything is a shell script with
//! arguments and standard input, run within a limit; so both kinds of target do the same.

pub mod child;
pub mod process;

use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use child::Ended;
pub use child::Output;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Local,
    /// The one that the system's `ssh` reaches under this name, without a password.
    Ssh {
        /// As `ssh` takes it: a host, `user@host`, or a name of its configuration.
        host: String,
    },
}

impl FromStr for Place {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "local" => Ok(Self::Local),
            // A host that begins with a dash would be an option of ssh.
            Some(("ssh", host)) if !host.is_empty() && !host.starts_with('-') => Ok(Self::Ssh {
                host: host.to_owned(),
            }),
            _ => Err("must be `local` or `ssh:HOST`"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => formatter.write_str("local"),
            Self::Ssh { host } => write!(formatter, "ssh:{host}"),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Script {
    /// What it is for, in a few words, for errors.
    pub purpose: &'static str,
    /// For `sh`; its arguments are `$1`, `$2`, ...
    pub text: &'static str,
    /// Taken literally, whatever they contain.
    pub arguments: Vec<String>,
    pub input: Vec<u8>,
}

impl Script {
    /// Without arguments or input.
    #[must_use]
    pub fn new(purpose: &'static str, text: &'static str) -> Self {
        Self {
            purpose,
            text,
            ..Self::default()
        }
    }

    #[must_use]
    pub fn with<T: Into<String>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// With this on its standard input.
    #[must_use]
    pub fn fed(mut self, input: &[u8]) -> Self {
        self.input = input.to_vec();
        self
    }
}

/// Why something could not be done on the target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The shell or `ssh` did not run.
    #[error("to {purpose}: cannot run {program}: {source}")]
    Spawn {
        purpose: &'static str,
        program: &'static str,
        source: io::Error,
    },
    /// It ended in another way than well.
    #[error("to {purpose}: the target's shell ended with {}: {}", code.map_or("a signal".to_owned(), |code| format!("code {code}")), stderr.trim())]
    Failed {
        purpose: &'static str,
        /// Its code; none if a signal ended it.
        code: Option<i32>,
        stderr: String,
    },
    /// It was killed at its limit.
    #[error("to {purpose}: not done within its time limit, and killed")]
    OutOfTime { purpose: &'static str },
    #[error("to {purpose}: not begun, as the run was interrupted")]
    Interrupted { purpose: &'static str },
    /// `ssh` could not reach the machine.
    #[error("{place} cannot be reached without a password: {}; try `ssh -o BatchMode=yes HOST true`", stderr.trim())]
    Unreachable { place: Place, stderr: String },
}

/// `ssh` ends with this code when the connection itself failed.
const SSH_FAILED: i32 = 255;

/// A machine to do things on.
#[derive(Debug)]
pub struct Target {
    place: Place,
    /// One connection for all commands: a socket in this folder, for `ssh` to share.
    control: PathBuf,
    /// SIGINT and SIGTERM, if they are taken over.
    signals: Option<SignalFd>,
    interrupted: Cell<bool>,
}

impl Target {
    /// The machine at `place`; nothing is done yet.
    #[must_use]
    pub fn new(place: Place) -> Self {
        let name = format!("punctual-hil-{}.ssh", std::process::id());
        Self {
            place,
            control: std::env::temp_dir().join(name),
            signals: None,
            interrupted: Cell::new(false),
        }
    }

    /// From now on SIGINT and SIGTERM do not end this process; the next thing to be done on the
    /// target fails instead, once, so that what was started can be cleared away.
    pub fn interruptible(mut self) -> io::Result<Self> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGINT);
        set.add(Signal::SIGTERM);
        set.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        self.signals = Some(SignalFd::with_flags(&set, flags)?);
        Ok(self)
    }

    #[must_use]
    pub fn was_interrupted(&self) -> bool {
        self.interrupted.get()
    }

    /// An error if SIGINT or SIGTERM came since the last look.
    pub fn go_on(&self, purpose: &'static str) -> Result<(), TargetError> {
        let signals = self.signals.as_ref();
        if let Some(Ok(Some(_))) = signals.map(SignalFd::read_signal) {
            self.interrupted.set(true);
            return Err(TargetError::Interrupted { purpose });
        }
        Ok(())
    }

    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Runs a script until `until_ns` (monotonic), and says how it ended, whatever its code.
    pub fn try_run(&self, script: &Script, until_ns: u64) -> Result<Output, TargetError> {
        let purpose = script.purpose;
        self.go_on(purpose)?;
        let (program, mut command) = self.command(script);
        let spawn = |source| TargetError::Spawn {
            purpose,
            program,
            source,
        };
        match child::run(&mut command, &script.input, until_ns).map_err(spawn)? {
            Ended::AtTheLimit => Err(TargetError::OutOfTime { purpose }),
            Ended::Itself(Output {
                code: Some(SSH_FAILED),
                stderr,
                ..
            }) if program == "ssh" => Err(TargetError::Unreachable {
                place: self.place.clone(),
                stderr,
            }),
            Ended::Itself(output) => Ok(output),
        }
    }

    /// As [`try_run`](Self::try_run); another code than 0 is an error.
    pub fn run(&self, script: &Script, until_ns: u64) -> Result<Output, TargetError> {
        let output = self.try_run(script, until_ns)?;
        match output.code {
            Some(0) => Ok(output),
            code => Err(TargetError::Failed {
                purpose: script.purpose,
                code,
                stderr: output.stderr,
            }),
        }
    }

    fn command(&self, script: &Script) -> (&'static str, Command) {
        match &self.place {
            Place::Local => {
                let mut command = Command::new("sh");
                command
                    .args(["-c", script.text, "sh"])
                    .args(&script.arguments);
                ("sh", command)
            }
            Place::Ssh { host } => {
                let mut command = Command::new("ssh");
                command
                    .args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"])
                    .args(["-o", "ControlMaster=auto", "-o", "ControlPersist=60"])
                    .arg("-o")
                    .arg(format!("ControlPath={}", self.control.display()))
                    .args([host, "--", "exec sh -c"])
                    .arg(quoted(script.text))
                    .arg("sh")
                    .args(script.arguments.iter().map(|argument| quoted(argument)));
                ("ssh", command)
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Place::Ssh { host } = &self.place {
            // The shared connection would end by itself a minute later.
            let mut goodbye = Command::new("ssh");
            goodbye
                .args(["-o", "BatchMode=yes", "-O", "exit", "-o"])
                .arg(format!("ControlPath={}", self.control.display()))
                .arg(host);
            let _ = child::run(&mut goodbye, &[], punctual_client::now_ns() + 5_000_000_000);
        }
    }
}

/// One word for the login shell behind `ssh`, which gets its command as text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_client::now_ns;

    #[test]
    fn a_place_is_local_or_a_host() {
        assert_eq!("local".parse(), Ok(Place::Local));
        let host = "nano@10.0.0.7".to_owned();
        assert_eq!("ssh:nano@10.0.0.7".parse(), Ok(Place::Ssh { host }));
        for wrong in ["", "ssh:", "ssh", "ssh:-oProxyCommand=evil", "tcp:host"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn arguments_arrive_as_they_are() {
        let target = Target::new(Place::Local);
        let odd = "a'b \"c\" $HOME `x` \\ \n*";
        let script = Script::new("echo", "printf %s \"$1\"").with([odd]);
        let output = target
            .run(&script, now_ns() + 60_000_000_000)
            .expect("printf runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), odd);
    }

    #[test]
    fn a_failure_has_the_shells_own_words() {
        let target = Target::new(Place::Local);
        let script = Script::new("fail", "echo why >&2; exit 7");
        let error = target.run(&script, now_ns() + 60_000_000_000).unwrap_err();
        assert_eq!(
            error.to_string(),
            "to fail: the target's shell ended with code 7: why"
        );
    }
}

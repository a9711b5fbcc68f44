//! A child process with an end: what it is given, what it says, and a limit that is kept.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use punctual_client::now_ns;

/// What a command said and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its code; none if a signal ended it.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    /// Standard error, as text.
    pub stderr: String,
}

impl Output {
    /// Standard output as text, without the last line's end.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }
}

#[derive(Debug)]
pub enum Ended {
    Itself(Output),
    /// By us, with its whole process group: the limit was over.
    AtTheLimit,
}

/// Runs `command` in a process group of its own, feeds it `input`, and takes what it says, until
/// `until_ns` (monotonic). Then the group is killed.
pub fn run(command: &mut Command, input: &[u8], until_ns: u64) -> io::Result<Ended> {
    let mut child = command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let talk = Talk::with(&mut child, input).and_then(|mut talk| {
        let closed = talk.until(until_ns)?;
        Ok((closed, talk))
    });
    let status = match &talk {
        Ok((true, _)) => wait(&mut child, until_ns)?,
        _ => None,
    };
    let Some(status) = status else {
        // Fails only when the whole group is gone already.
        let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
        child.wait()?;
        return talk.map(|_| Ended::AtTheLimit);
    };
    let (_, talk) = talk?;
    Ok(Ended::Itself(Output {
        code: status.code(),
        stdout: talk.said,
        stderr: String::from_utf8_lossy(&talk.complained).into_owned(),
    }))
}

/// Waits for the end of a child that has closed its pipes already.
fn wait(child: &mut Child, until_ns: u64) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if now_ns() >= until_ns {
            return Ok(None);
        }
        pause(1);
    }
}

/// Waits for nothing but the time, in milliseconds.
pub fn pause(milliseconds: u16) {
    // Interrupted by a signal: every caller looks at the clock and comes again.
    let _ = poll(&mut [], PollTimeout::from(milliseconds));
}

/// The three pipes of a child.
struct Talk<'a> {
    stdin: Option<std::process::ChildStdin>,
    input: &'a [u8],
    stdout: Option<std::process::ChildStdout>,
    said: Vec<u8>,
    stderr: Option<std::process::ChildStderr>,
    complained: Vec<u8>,
}

impl<'a> Talk<'a> {
    fn with(child: &mut Child, input: &'a [u8]) -> io::Result<Self> {
        let talk = Self {
            stdin: child.stdin.take(),
            input,
            stdout: child.stdout.take(),
            said: Vec::new(),
            stderr: child.stderr.take(),
            complained: Vec::new(),
        };
        if let Some(pipe) = &talk.stdin {
            unblocked(pipe.as_fd())?;
        }
        if let Some(pipe) = &talk.stdout {
            unblocked(pipe.as_fd())?;
        }
        if let Some(pipe) = &talk.stderr {
            unblocked(pipe.as_fd())?;
        }
        Ok(talk)
    }

    /// Talks until the child has closed both of its ends (true) or the time is over.
    fn until(&mut self, until_ns: u64) -> io::Result<bool> {
        while self.stdout.is_some() || self.stderr.is_some() {
            let left_ns = until_ns.saturating_sub(now_ns());
            if left_ns == 0 {
                return Ok(false);
            }
            self.wait(left_ns.div_ceil(1_000_000))?;
            self.feed();
            if drain(&mut self.stdout, &mut self.said)? {
                self.stdout = None;
            }
            if drain(&mut self.stderr, &mut self.complained)? {
                self.stderr = None;
            }
        }
        Ok(true)
    }

    fn wait(&self, limit_ms: u64) -> io::Result<()> {
        let mut waiting = Vec::with_capacity(3);
        let stdin = self
            .stdin
            .as_ref()
            .map(|pipe| (pipe.as_fd(), PollFlags::POLLOUT));
        let stdout = self
            .stdout
            .as_ref()
            .map(|pipe| (pipe.as_fd(), PollFlags::POLLIN));
        let stderr = self
            .stderr
            .as_ref()
            .map(|pipe| (pipe.as_fd(), PollFlags::POLLIN));
        for (pipe, wanted) in [stdin, stdout, stderr].into_iter().flatten() {
            waiting.push(PollFd::new(pipe, wanted));
        }
        let limit = PollTimeout::try_from(limit_ms).unwrap_or(PollTimeout::MAX);
        match poll(&mut waiting, limit) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands over what the pipe takes; closes it after the last byte, or when it has no reader.
    fn feed(&mut self) {
        let Some(pipe) = &mut self.stdin else { return };
        match pipe.write(self.input) {
            Ok(taken) => self.input = &self.input[taken..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => self.input = &[],
        }
        if self.input.is_empty() {
            self.stdin = None;
        }
    }
}

fn unblocked(pipe: BorrowedFd<'_>) -> io::Result<()> {
    fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Reads what is there; true at the end of the stream.
fn drain(pipe: &mut Option<impl Read>, into: &mut Vec<u8>) -> io::Result<bool> {
    let Some(pipe) = pipe else { return Ok(true) };
    let mut chunk = [0; 64 * 1024];
    loop {
        match pipe.read(&mut chunk) {
            Ok(0) => return Ok(true),
            Ok(n) => into.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn shell(script: &str, input: &[u8], limit_ns: u64) -> Ended {
        run(
            Command::new("sh").args(["-c", script]),
            input,
            now_ns() + limit_ns,
        )
        .expect("sh runs")
    }

    #[test]
    fn what_goes_in_comes_out_however_long() {
        let input = vec![b'x'; 1 << 20];
        let Ended::Itself(output) = shell("cat; echo done >&2; exit 3", &input, 60 * SECOND_NS)
        else {
            panic!("cat ends by itself");
        };
        assert_eq!(output.stdout, input);
        assert_eq!((output.code, output.stderr.as_str()), (Some(3), "done\n"));
    }

    #[test]
    fn at_the_limit_the_whole_group_dies() {
        let began_ns = now_ns();
        // The second shell is the first's child and holds the pipe open.
        let ended = shell("sh -c 'sleep 1000' & wait", &[], SECOND_NS / 5);
        assert!(matches!(ended, Ended::AtTheLimit), "{ended:?}");
        assert!(now_ns() - began_ns < 30 * SECOND_NS);
    }

    #[test]
    fn a_child_that_reads_nothing_is_no_error() {
        let input = vec![0; 1 << 20];
        assert!(matches!(
            shell("exec 0<&-; true", &input, 60 * SECOND_NS),
            Ended::Itself(_)
        ));
    }
}

//! A call that may end the process, made in a process that may end.

use std::io;
use std::time::Duration;

/// How a child process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ended by itself with this code: 0 if the call came back, another one if the call itself
    /// called `exit`, as libsmctrl does.
    Exited(i32),
    /// A signal ended it, e.g. 11: it wrote where nothing was.
    Killed(i32),
    /// It was still there after the time limit, and was killed.
    Silent(Duration),
}

/// What a child said and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub ending: Ending,
    /// What `call` returned, if it did.
    pub said: Option<u64>,
}

/// Runs `call` in a child process and waits for its end, `limit` (up to weeks) at most.
///
/// # Errors
/// If the operating system cannot make a pipe or a process.
///
/// # Safety
/// The child is a copy of this process in which only the calling thread lives, so `call` must not need
/// what another thread may hold in this instant (locks, above all), and not CUDA if this process has
/// initialised it. Before other threads are started both are a matter of course.
pub unsafe fn in_child(limit: Duration, call: impl FnOnce() -> u64) -> io::Result<Report> {
    let [read, write] = pipe()?;
    // SAFETY: the child runs `call`, for which the caller promises, and functions that may be called
    // after a fork.
    match unsafe { libc::fork() } {
        -1 => {
            let error = io::Error::last_os_error();
            close(read);
            close(write);
            Err(error)
        }
        0 => {
            close(read);
            // No unwinding out of here: the child must not run destructors and exit handlers of the parent.
            let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
            let code = match said {
                Ok(said) => i32::from(!send(write, said)),
                Err(_) => PANICKED,
            };
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) }
        }
        child => {
            // Before reading: the end of the child shows as the end of the pipe only if no other end is open.
            close(write);
            let (said, silent) = receive(read, limit);
            close(read);
            if silent {
                // SAFETY: a child of ours that was not waited for: its number is still its own.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
            let ending = match wait(child)? {
                _ if silent => Ending::Silent(limit),
                ending => ending,
            };
            Ok(Report { ending, said })
        }
    }
}

/// The code of a child whose `call` panicked.
const PANICKED: i32 = 101;

fn pipe() -> io::Result<[i32; 2]> {
    let mut ends = [0; 2];
    // SAFETY: there is room for both descriptors.
    match unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } {
        0 => Ok(ends),
        _ => Err(io::Error::last_os_error()),
    }
}

fn close(descriptor: i32) {
    // SAFETY: a descriptor of ours, closed once.
    unsafe { libc::close(descriptor) };
}

fn send(to: i32, said: u64) -> bool {
    let bytes = said.to_ne_bytes();
    // SAFETY: the bytes are there; so few are written at once or not at all (pipe(7)).
    let written = unsafe { libc::write(to, bytes.as_ptr().cast(), bytes.len()) };
    written == bytes.len() as isize
}

/// What arrives, and whether the other end is still open after the limit.
fn receive(from: i32, limit: Duration) -> (Option<u64>, bool) {
    let mut said = None;
    loop {
        let mut ready = libc::pollfd {
            fd: from,
            events: libc::POLLIN,
            revents: 0,
        };
        let limit_ms = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one entry, which is there. A signal starts the wait anew.
        match unsafe { libc::poll(&raw mut ready, 1, limit_ms) } {
            0 => return (said, true),
            -1 => continue,
            _ => {}
        }
        let mut bytes = [0; size_of::<u64>()];
        // SAFETY: there is room for this number of bytes.
        let read = unsafe { libc::read(from, bytes.as_mut_ptr().cast(), bytes.len()) };
        match usize::try_from(read) {
            Ok(0) => return (said, false),
            Ok(all) if all == bytes.len() => said = Some(u64::from_ne_bytes(bytes)),
            _ => {}
        }
    }
}

fn wait(child: i32) -> io::Result<Ending> {
    let mut status = 0;
    loop {
        // SAFETY: a child of ours; there is room for its status.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(if libc::WIFSIGNALED(status) {
        Ending::Killed(libc::WTERMSIG(status))
    } else {
        Ending::Exited(libc::WEXITSTATUS(status))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn report(limit: Duration, call: impl FnOnce() -> u64) -> Report {
        // SAFETY: none of the calls below takes a lock or allocates.
        unsafe { in_child(limit, call) }.expect("a process can be made")
    }

    #[test]
    fn a_call_that_comes_back_says_its_result() {
        let expected = Report {
            ending: Ending::Exited(0),
            said: Some(u64::MAX - 1),
        };
        assert_eq!(report(LIMIT, || u64::MAX - 1), expected);
    }

    #[test]
    fn a_call_that_ends_its_process_ends_the_child_only() {
        let expected = Report {
            ending: Ending::Exited(3),
            said: None,
        };
        // SAFETY: ends the child.
        assert_eq!(report(LIMIT, || unsafe { libc::_exit(3) }), expected);
    }

    #[test]
    fn a_call_that_is_killed_is_said_to_be() {
        // SAFETY: signals the child itself.
        let killed = || unsafe { u64::from(libc::raise(libc::SIGKILL) == 0) };
        assert_eq!(report(LIMIT, killed).ending, Ending::Killed(libc::SIGKILL));
    }

    #[test]
    fn a_call_that_never_comes_back_is_ended_after_the_limit() {
        let limit = Duration::from_millis(1);
        let never = || loop {
            // SAFETY: waits for a signal that does not come.
            unsafe { libc::pause() };
        };
        let expected = Report {
            ending: Ending::Silent(limit),
            said: None,
        };
        assert_eq!(report(limit, never), expected);
    }
}

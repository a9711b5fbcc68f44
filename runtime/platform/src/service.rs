//! The service manager: readiness and watchdog messages (sd_notify(3)) and passed sockets
//! (sd_listen_fds(3)). Small enough that a dependency would weigh more.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use crate::error::OsError;

/// Where to send messages; does nothing when the process was not started by a service manager.
#[derive(Debug, Default)]
pub struct Notifier {
    manager: Option<(UnixDatagram, SocketAddr)>,
}

impl Notifier {
    /// To the manager that `NOTIFY_SOCKET` names, if it does.
    pub fn from_environment() -> Result<Self, OsError> {
        match std::env::var_os("NOTIFY_SOCKET") {
            Some(address) => Self::to(Path::new(&address)),
            None => Ok(Self::default()),
        }
    }

    /// To the socket `address`: a path, or `@` and an abstract name.
    pub fn to(address: &Path) -> Result<Self, OsError> {
        let failed = |source: io::Error| OsError {
            call: "socket",
            source,
        };
        let target = match address.as_os_str().as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(address),
        };
        let socket = UnixDatagram::unbound().map_err(failed)?;
        // A manager that does not read its messages must not block this process.
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Self {
            manager: Some((socket, target.map_err(failed)?)),
        })
    }

    /// The start-up is complete; `status` is shown from now on.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The process has begun to terminate; `status` says how.
    pub fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={status}"));
    }

    /// The start or the end, whichever goes on, may take `us` microseconds from now, whatever
    /// `TimeoutStartSec=` or `TimeoutStopSec=` say. To be repeated before that time is over.
    pub fn extend_timeout(&self, us: u64) {
        self.send(&format!("EXTEND_TIMEOUT_USEC={us}"));
    }

    /// The process is alive (for `WatchdogSec=`).
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Shown by `systemctl status`.
    pub fn status(&self, text: &str) {
        self.send(&format!("STATUS={text}"));
    }

    /// Whether there is a service manager to send to.
    #[must_use]
    pub fn has_manager(&self) -> bool {
        self.manager.is_some()
    }

    /// Messages are advice: one that cannot be delivered is not an error.
    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.manager {
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

/// How often the service manager wants to hear [`Notifier::alive`] at least (`WatchdogSec=`), in
/// nanoseconds; none if it does not, or means another process.
#[must_use]
pub fn watchdog_interval_ns() -> Option<u64> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    // Without a pid, each process that inherited the variables is meant (sd_watchdog_enabled(3)).
    let meant = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let us = number("WATCHDOG_USEC").filter(|us| *us > 0 && meant)?;
    Some(us.saturating_mul(1_000))
}

/// Ends the process now, without the handlers that libraries have for its end: one of them may wait
/// for the very thread that is stuck (the CUDA driver's does).
pub fn end_now(code: u8) -> ! {
    // SAFETY: no preconditions; does not return.
    unsafe { libc::_exit(i32::from(code)) }
}

/// The socket that the service manager passed under `name` (`FileDescriptorName=`), if it passed it; the
/// only one if it gave no names. Call it once, before threads start and before anything opens descriptors;
/// the caller owns the descriptor. Programs that this one starts inherit none of those passed.
#[must_use]
pub fn passed_socket(name: &str) -> Option<OwnedFd> {
    let (wanted, count) = passed(|name| std::env::var(name).ok(), std::process::id(), name)?;
    for number in FIRST_PASSED..FIRST_PASSED + count {
        // SAFETY: plain numbers; a descriptor that is not open is an error that changes nothing.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: the manager's protocol says that its descriptors are open and ours, and by the
    // caller's promise no other part of the program owns this one.
    Some(unsafe { OwnedFd::from_raw_fd(wanted) })
}

/// SD_LISTEN_FDS_START of sd_listen_fds(3).
const FIRST_PASSED: RawFd = 3;

/// The descriptor that was passed as `name`, and how many were passed.
fn passed(
    variable: impl Fn(&str) -> Option<String>,
    own_pid: u32,
    name: &str,
) -> Option<(RawFd, RawFd)> {
    let number = |name| variable(name)?.parse::<u32>().ok();
    let count = RawFd::try_from(number("LISTEN_FDS")?).ok()?;
    if number("LISTEN_PID")? != own_pid || count == 0 {
        return None;
    }
    let position = match variable("LISTEN_FDNAMES") {
        Some(names) => names.split(':').position(|given| given == name)?,
        None if count == 1 => 0,
        None => return None,
    };
    let position = RawFd::try_from(position).ok()?;
    (position < count).then_some((FIRST_PASSED + position, count))
}

/// Takes over the descriptor `number` that the process was started with; none if it was not. For
/// numbers that the starting process gave on the command line: call it once for each, before
/// anything else opens descriptors, since no other part of the program may own it.
#[must_use]
pub fn inherited(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: plain numbers; asks only.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    // Standard input, output and error belong to the standard library.
    if flags == -1 || number <= libc::STDERR_FILENO {
        return None;
    }
    // SAFETY: the descriptor is open, and by the caller's promise no other part of the program owns it.
    let descriptor = unsafe {
        libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC);
        OwnedFd::from_raw_fd(number)
    };
    Some(descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_that_was_stopped_holds_nobody_up() {
        let name = format!("punctual-stopped-manager-{}", std::process::id());
        let manager =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let notifier = Notifier::to(Path::new(&format!("@{name}"))).unwrap();
        let sent = 10_000;
        for _ in 0..sent {
            notifier.alive();
        }
        manager.set_nonblocking(true).unwrap();
        let heard = std::iter::from_fn(|| manager.recv(&mut [0; 64]).ok()).count();
        assert!(heard > 0 && heard < sent, "{heard}");
    }

    #[test]
    fn messages_arrive_at_an_abstract_address() {
        let name = format!("punctual-notify-{}", std::process::id());
        let manager =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let notifier = Notifier::to(Path::new(&format!("@{name}"))).unwrap();
        notifier.extend_timeout(2_000_000);
        notifier.ready("serving");
        let mut text = [0; 64];
        let length = manager.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"EXTEND_TIMEOUT_USEC=2000000");
        let length = manager.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"READY=1\nSTATUS=serving");
    }

    fn of<'a>(set: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn a_passed_socket_is_found_by_its_name() {
        let two = [
            ("LISTEN_PID", "7"),
            ("LISTEN_FDS", "2"),
            ("LISTEN_FDNAMES", "metrics:clients"),
        ];
        assert_eq!(passed(of(&two), 7, "clients"), Some((4, 2)));
        assert_eq!(passed(of(&two), 7, "other"), None);
        assert_eq!(passed(of(&two), 8, "clients"), None, "another process's");
        assert_eq!(passed(of(&two[..2]), 7, "clients"), None, "which one?");
        let unnamed = [("LISTEN_PID", "7"), ("LISTEN_FDS", "1")];
        assert_eq!(passed(of(&unnamed), 7, "clients"), Some((3, 1)));
    }

    #[test]
    fn what_no_manager_would_say_about_sockets_is_no_socket() {
        for (fds, names) in [
            ("0", ""),
            ("-1", "clients"),
            ("1", "a:clients"),
            ("x", "clients"),
        ] {
            let set = [
                ("LISTEN_PID", "7"),
                ("LISTEN_FDS", fds),
                ("LISTEN_FDNAMES", names),
            ];
            assert_eq!(passed(of(&set), 7, "clients"), None, "{fds} {names}");
        }
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        Notifier::default().ready("serving");
        Notifier::default().stopping("draining");
        Notifier::default().alive();
    }
}

//! Signals as something to wait for, without a handler that could interrupt anything; and for programs that have nothing to
//! clear up, a handler that ends them.

use std::io::IsTerminal as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use crate::error::{OsError, check};
use crate::poll;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, from a service manager: to terminate.
    Terminate,
    /// SIGINT, from a terminal: to terminate.
    Interrupt,
    /// SIGHUP, from a terminal or a session that ended: to terminate.
    HangUp,
    /// SIGQUIT, from a terminal: to terminate.
    Quit,
    /// SIGUSR1: to say how it is, and to go on.
    Report,
    /// SIGUSR2: to write what it recorded, and to go on.
    Record,
}

impl Signal {
    const OF_PROGRAMS: [Self; 2] = [Self::Terminate, Self::Interrupt];
    const OF_SERVICES: [Self; 6] = [
        Self::Terminate,
        Self::Interrupt,
        Self::HangUp,
        Self::Quit,
        Self::Report,
        Self::Record,
    ];

    const fn number(self) -> libc::c_int {
        match self {
            Self::Terminate => libc::SIGTERM,
            Self::Interrupt => libc::SIGINT,
            Self::HangUp => libc::SIGHUP,
            Self::Quit => libc::SIGQUIT,
            Self::Report => libc::SIGUSR1,
            Self::Record => libc::SIGUSR2,
        }
    }
}

/// What a service ignores. Each would end or stop the process. Some are of timers that this process does not set. For the others a write has an error: a file that may not grow (`EFBIG`), a pipe
/// without a reader, a terminal that belongs to another process group.
const IGNORED: [libc::c_int; 8] = [
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGXFSZ,
    libc::SIGPIPE,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

fn is_ignored(number: libc::c_int) -> bool {
    // SAFETY: a sigaction is plain data; without a new action the present one is only read, into `action`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(number, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// What is written when SIGINT or SIGTERM ends the process.
static LAST_WORDS: OnceLock<String> = OnceLock::new();

extern "C" fn end(number: libc::c_int) {
    let words = LAST_WORDS.get().map_or("", String::as_str);
    // SAFETY: both calls are safe in a handler, and `words` is valid for reads; that it is there was settled before the
    // handler was installed.
    unsafe {
        libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
        libc::_exit(128 + number);
    }
}

/// From now on SIGINT and SIGTERM end the process at once, with a line that names the program, unless the process
/// [takes them over](TerminationSignals::take_over). Codes are those of shells: 130 and 143. A signal that is ignored stays so, as
/// in the background of a shell without job control.
pub fn end_at_once(program: &str) {
    // A progress bar may have hidden the cursor, and its line has no end yet.
    let restored = if std::io::stderr().is_terminal() {
        "\x1b[?25h\n"
    } else {
        ""
    };
    let _ = LAST_WORDS.set(format!("{restored}{program}: interrupted\n"));
    for number in [libc::SIGINT, libc::SIGTERM] {
        if !is_ignored(number) {
            let handler = end as extern "C" fn(libc::c_int) as libc::sighandler_t;
            // SAFETY: the handler makes only calls that are allowed in one.
            unsafe { libc::signal(number, handler) };
        }
    }
}

#[derive(Debug)]
pub struct TerminationSignals {
    descriptor: OwnedFd,
}

impl TerminationSignals {
    /// SIGTERM and SIGINT. Blocks them on the calling thread and those that it starts from now on.
    /// Call it before starting any thread: the kernel may give a signal to any thread that does not block it.
    /// Then its default action ends the process.
    pub fn take_over() -> Result<Self, OsError> {
        Self::of(&Signal::OF_PROGRAMS)
    }

    /// As [`take_over`](Self::take_over), every [`Signal`]; what else would end or stop the process without
    /// need is ignored from now on. SIGHUP stays ignored where it was at the start, as after nohup(1).
    pub fn take_over_for_service() -> Result<Self, OsError> {
        for number in IGNORED {
            // SAFETY: no handler is installed; fails only for numbers that are no signals.
            unsafe { libc::signal(number, libc::SIG_IGN) };
        }
        Self::of(&Signal::OF_SERVICES)
    }

    fn of(signals: &[Signal]) -> Result<Self, OsError> {
        // SAFETY: a sigset_t is a bit mask that sigemptyset initialises; the numbers are signals'.
        let set = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                // nohup(1) ignores SIGHUP. The kernel keeps a blocked signal even so, and the descriptor would
                // give it. SIGINT and SIGQUIT are taken in any case: a shell ignores them for whatever it
                // starts in the background.
                if *signal != Signal::HangUp || !is_ignored(signal.number()) {
                    libc::sigaddset(&raw mut set, signal.number());
                }
            }
            set
        };
        // SAFETY: `set` is initialised; the old mask is not asked for.
        let code =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if code != 0 {
            return Err(OsError::from_code("pthread_sigmask", code));
        }
        // SAFETY: `set` is initialised; -1 asks for a new descriptor, which we own.
        let descriptor = unsafe {
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            OwnedFd::from_raw_fd(check(
                "signalfd",
                libc::signalfd(-1, &raw const set, flags),
            )?)
        };
        Ok(Self { descriptor })
    }

    /// The next signal, waiting for it until `until_ns` (absolute; none: no limit).
    #[must_use]
    pub fn next(&self, until_ns: Option<u64>) -> Option<Signal> {
        loop {
            // SAFETY: a signalfd_siginfo is plain integers.
            let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
            let size = size_of_val(&info);
            // SAFETY: `info` is valid for writes of `size` bytes.
            let read =
                unsafe { libc::read(self.descriptor.as_raw_fd(), (&raw mut info).cast(), size) };
            if read == size as isize {
                let number = info.ssi_signo as i32;
                let mut all = Signal::OF_SERVICES.into_iter();
                return all.find(|signal| signal.number() == number);
            }
            if !poll::wait_readable(self.as_fd(), until_ns) {
                return None;
            }
        }
    }
}

impl AsFd for TerminationSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

//! A system call that failed, and a privilege that is missing.

use std::fmt;
use std::io;

#[derive(Debug, thiserror::Error)]
#[error("{call} failed: {source}")]
pub struct OsError {
    /// The call, as in section 2 of the manual.
    pub call: &'static str,
    pub source: io::Error,
}

impl OsError {
    /// The error that `errno` holds now, right after `call` returned.
    pub(crate) fn last(call: &'static str) -> Self {
        Self {
            call,
            source: io::Error::last_os_error(),
        }
    }

    /// From an error number that a call returned rather than stored in `errno`.
    pub(crate) fn from_code(call: &'static str, code: i32) -> Self {
        Self {
            call,
            source: io::Error::from_raw_os_error(code),
        }
    }

    /// The error number, if the kernel gave one.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

/// `result` of a system call that reports failure by -1.
pub(crate) fn check(call: &'static str, result: libc::c_int) -> Result<libc::c_int, OsError> {
    if result == -1 {
        Err(OsError::last(call))
    } else {
        Ok(result)
    }
}

/// Something the machine did not grant. Punctual works without it, but promises less: the daemon
/// reports it once, with [`Missing::how_to_grant`], and goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Missing {
    /// `SCHED_FIFO` was refused: threads run at ordinary priority and other programs can delay them.
    Realtime,
    /// `SCHED_DEADLINE` was refused: the thread has its `SCHED_FIFO` priority instead.
    Reservation,
    /// `/dev/cpu_dma_latency` is not there, or not ours to write: cores sleep as deeply as they like.
    IdleHold,
    /// Memory could not be locked: pages can be written out, and reading them back takes milliseconds.
    MemoryLock,
    /// The thread could not be pinned to its core.
    Affinity,
}

impl Missing {
    /// What the administrator can do about it.
    #[must_use]
    pub const fn how_to_grant(self) -> &'static str {
        match self {
            Self::Realtime => {
                "run under systemd with LimitRTPRIO=95, or `sudo setcap cap_sys_nice,cap_ipc_lock+ep` \
                 on the binary, or add `@realtime - rtprio 95` to /etc/security/limits.conf"
            }
            Self::Reservation => {
                "[daemon] cores must be all cores of the machine or of an exclusive cpuset \
                 (cpuset.cpus.partition = root), with CAP_SYS_NICE and room below sched_rt_runtime_us"
            }
            Self::IdleHold => {
                "give the daemon's user write access to /dev/cpu_dma_latency (the systemd unit's \
                 DeviceAllow= does), or leave out [daemon] idle_latency_us; many virtual machines \
                 have no such device"
            }
            Self::MemoryLock => {
                "run under systemd with LimitMEMLOCK=infinity, or `sudo setcap \
                 cap_sys_nice,cap_ipc_lock+ep` on the binary, or add `@realtime - memlock unlimited` \
                 to /etc/security/limits.conf"
            }
            Self::Affinity => {
                "name only cores that the process may use (`taskset -p $$` shows them; in a \
                 container, widen its cpuset)"
            }
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Realtime => "real-time scheduling (SCHED_FIFO)",
            Self::Reservation => "reserved processor time (SCHED_DEADLINE)",
            Self::IdleHold => "keeping cores out of deep idle states (/dev/cpu_dma_latency)",
            Self::MemoryLock => "locking of memory (mlockall)",
            Self::Affinity => "pinning of threads to cores",
        })
    }
}

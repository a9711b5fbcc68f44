//! What this process may have at most (getrlimit(2)), and how much of it it has.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryResource {
    AddressSpace,
    /// What is mapped writable and private.
    Data,
}

impl MemoryResource {
    pub const ALL: [Self; 2] = [Self::AddressSpace, Self::Data];

    /// Its limit, in bytes; none if there is none.
    #[must_use]
    pub fn limit_bytes(self) -> Option<u64> {
        let limit = get(match self {
            Self::AddressSpace => libc::RLIMIT_AS,
            Self::Data => libc::RLIMIT_DATA,
        })?;
        (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
    }

    /// What the process has of it now, in bytes; 0 if the kernel does not tell.
    #[must_use]
    pub fn used_bytes(self) -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let name = match self {
            Self::AddressSpace => "VmSize:",
            Self::Data => "VmData:",
        };
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB"));
        let kibibytes: Option<u64> = kibibytes.and_then(|number| number.trim().parse().ok());
        kibibytes.map_or(0, |kibibytes| kibibytes * 1024)
    }
}

impl std::fmt::Display for MemoryResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::AddressSpace => "address space (RLIMIT_AS, `ulimit -v`, LimitAS=)",
            Self::Data => "data (RLIMIT_DATA, `ulimit -d`, LimitDATA=)",
        })
    }
}

/// The highest `SCHED_FIFO` priority that the process may take without a capability; 0: none.
#[must_use]
pub fn realtime_priority() -> u64 {
    get(libc::RLIMIT_RTPRIO).map_or(0, |limit| limit.rlim_cur)
}

/// Whether the process may lock as much memory as it likes without a capability.
#[must_use]
pub fn locks_any_memory() -> bool {
    get(libc::RLIMIT_MEMLOCK).is_some_and(|limit| limit.rlim_max == libc::RLIM_INFINITY)
}

/// Lets the process open as many files as it is entitled to: the usual soft limit is there for programs
/// that use select(2), and this one does not.
pub fn raise_open_files() {
    if let Some(mut limit) = get(libc::RLIMIT_NOFILE) {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is valid for reads. It is never refused, and without it less is had.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

/// How many files the process may open at most, and how many it has open; none if either is not told.
#[must_use]
pub fn open_files() -> Option<(u64, u64)> {
    let limit = get(libc::RLIMIT_NOFILE)?.rlim_cur;
    match std::fs::read_dir("/proc/self/fd") {
        // One is the folder's own.
        Ok(open) => Some((limit, open.count().saturating_sub(1) as u64)),
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => Some((limit, limit)),
        Err(_) => None,
    }
}

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

fn get(resource: Resource) -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes.
    let result = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (result == 0).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_counts() {
        let before = MemoryResource::ALL.map(MemoryResource::used_bytes);
        let buffer = std::hint::black_box(vec![0_u8; 64 << 20]);
        let after = MemoryResource::ALL.map(MemoryResource::used_bytes);
        for (before, after) in before.into_iter().zip(after) {
            // Other tests come and go.
            assert!(
                before > 0 && after > before + (32 << 20),
                "{before} {after}"
            );
        }
        drop(buffer);
    }
}

//! Memory that is there before it is needed: locked, pre-faulted, never given back.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Missing, OsError, check};

/// The size of a page. Larger ones (16 and 64 KiB on some aarch64 kernels) are multiples, so
/// touching every 4 KiB touches every page.
pub const PAGE_BYTES: usize = 4096;

/// The size of this kernel's pages, where a range must be of whole ones.
#[must_use]
pub fn kernel_page_bytes() -> usize {
    // SAFETY: no pointers are involved.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(PAGE_BYTES)
}

/// Memory of this process, as the kernel counts it; 0 where it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The most that was ever resident.
    pub peak_bytes: u64,
    pub resident_bytes: u64,
    /// Locked address space. A GPU's driver reserves much of it that is never resident.
    pub locked_bytes: u64,
}

impl Usage {
    #[must_use]
    pub fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let bytes = |key| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let kibibytes =
                line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
            kibibytes.map_or(0, |kibibytes: u64| kibibytes * 1024)
        };
        Self {
            peak_bytes: bytes("VmHWM:"),
            resident_bytes: bytes("VmRSS:"),
            locked_bytes: bytes("VmLck:"),
        }
    }
}

/// Locks everything that is mapped now, and everything mapped later.
pub fn lock_all() -> Result<(), Missing> {
    // Under a limit on locked memory, MCL_FUTURE makes later allocations fail (mlockall(2)): better none is locked.
    if !may_lock_without_limit() {
        return Err(Missing::MemoryLock);
    }
    // SAFETY: mlockall changes residency only.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    if result != 0 {
        return Err(Missing::MemoryLock);
    }
    // Relaxed: set before threads start.
    LOCKS.store(true, Ordering::Relaxed);
    Ok(())
}

/// Whether everything that is mapped is locked.
static LOCKS: AtomicBool = AtomicBool::new(false);

/// Has the pages of a fresh mapping locked one by one, as they are first touched, rather than all at once as soon as they may be
/// used: a process can map nothing else meanwhile. Nothing is done where nothing is locked.
pub(crate) fn lock_when_touched(start: *mut libc::c_void, bytes: usize) -> Result<(), OsError> {
    // Relaxed: as above.
    if !LOCKS.load(Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: changes residency only, and the kernel checks the addresses itself.
    check("mlock2", unsafe {
        libc::mlock2(start, bytes, libc::MLOCK_ONFAULT)
    })
    .map(drop)
}

fn may_lock_without_limit() -> bool {
    /// The bit of CAP_IPC_LOCK, from linux/capability.h.
    const CAP_IPC_LOCK: u32 = 14;
    let privileged = std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 == 1)
    });
    privileged || raise_lock_limit()
}

/// Raises the soft limit to the hard one; true if that is no limit.
fn raise_lock_limit() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } != 0 {
        return false;
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is valid for reads.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) } == 0;
    raised && limit.rlim_max == libc::RLIM_INFINITY
}

/// Touches `bytes` of the calling thread's stack below the caller, so that using them later
/// faults no page in. The caller makes sure that the stack is that large.
pub fn prefault_stack(bytes: usize) {
    #[inline(never)]
    fn touch(pages: usize) -> u8 {
        let mut page = [0_u8; PAGE_BYTES];
        std::hint::black_box(&mut page);
        let below = if pages > 1 { touch(pages - 1) } else { 0 };
        // Used after the call, so that the recursion is not turned into a loop on one frame.
        std::hint::black_box(&page)[0].wrapping_add(below)
    }
    if bytes > 0 {
        std::hint::black_box(touch(bytes.div_ceil(PAGE_BYTES)));
    }
}

/// Makes the heap keep what it has (glibc only: no trimming, no mappings of its own for large blocks),
/// then grows it by `bytes`, touched, for allocations of ordinary threads after the ready signal.
pub fn prefault_heap(bytes: usize) {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt only sets parameters; called before the threads that rely on them start.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_MMAP_MAX, 0);
    }
    let mut block = Vec::<u8>::with_capacity(bytes);
    for at in (0..bytes).step_by(PAGE_BYTES) {
        block.spare_capacity_mut()[at].write(0);
    }
    std::hint::black_box(&block);
}

/// Has all threads share one heap (glibc only), rather than each have its own with 64 MiB of addresses:
/// for processes whose address space is limited. To be called before threads start.
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt only sets a parameter.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Leaves `bytes` from `start` on out of a core dump: gigabytes of weights and frames would be written
/// for seconds before the next daemon starts, and say nothing about a defect. Advice only: what the kernel does
/// not take (`start` must be a page's) is dumped.
pub fn leave_out_of_dumps(start: *const u8, bytes: usize) {
    // SAFETY: the kernel checks the addresses itself, and this advice changes no content of any mapping.
    unsafe { libc::madvise(start.cast_mut().cast(), bytes, libc::MADV_DONTDUMP) };
}

/// What a core dump of this process holds from now on: anonymous memory and headers of files; not memory
/// shared with clients, nor files (core(5)). For the daemon's start. False if the kernel has no such setting.
pub fn keep_dumps_small() -> bool {
    /// Bits of core(5): private anonymous mappings, ELF headers, private huge pages.
    const FILTER: &str = "0x31";
    std::fs::write("/proc/self/coredump_filter", FILTER).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults;
    use crate::thread::current_tid;

    #[test]
    fn pages_of_the_kernel_are_multiples_of_the_smallest() {
        let bytes = kernel_page_bytes();
        assert!(bytes.is_power_of_two() && bytes.is_multiple_of(PAGE_BYTES));
    }

    #[test]
    fn what_is_left_out_of_core_dumps_is_so_for_the_kernel() {
        #[repr(align(4096))]
        struct Page([u8; PAGE_BYTES]);
        let pages: Box<[Page]> = (0..256).map(|_| Page([1; PAGE_BYTES])).collect();
        leave_out_of_dumps(pages.as_ptr().cast(), size_of_val(&*pages));
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{:x}-", pages.as_ptr().addr());
        let flags = maps
            .split_once(&start)
            .and_then(|(_, rest)| rest.lines().find(|line| line.starts_with("VmFlags:")));
        // `dd`: do not dump.
        assert!(
            flags.unwrap().split_whitespace().any(|flag| flag == "dd"),
            "{flags:?}"
        );
        std::hint::black_box(pages[0].0);
    }

    #[test]
    fn a_prefaulted_stack_is_used_without_faults() {
        let faults = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    #[inline(never)]
                    fn use_stack() {
                        std::hint::black_box(&mut [1_u8; 200 << 10]);
                    }
                    prefault_stack(256 << 10);
                    let before = faults::of_thread(current_tid());
                    use_stack();
                    faults::of_thread(current_tid()).unwrap() - before.unwrap()
                })
                .join()
                .unwrap()
        });
        assert!(faults < 8, "{faults} faults");
    }
}

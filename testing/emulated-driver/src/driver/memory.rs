//! Device memory and page-locked host memory: ranges of this process that the driver tracks.
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use punctual_ptx::{Region, Space};

use crate::code::{Code, Outcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    /// `cuMemHostAlloc`: host memory that the driver owns.
    Host,
    /// `cuMemHostRegister`: host memory that the program owns.
    Registered,
    /// `cuExternalMemoryGetMappedBuffer`: memory of another driver, which kernels only read here.
    External,
}

pub(super) struct Range {
    pub(super) bytes: usize,
    pub(super) kind: Kind,
    /// Given back with the range; none: not ours.
    pub(super) _mapping: Option<Mapping>,
}

/// The ranges, by address.
pub(crate) struct Memory {
    pub(super) total: u64,
    pub(super) ranges: BTreeMap<usize, Range>,
    /// The same ranges, as kernels see them.
    pub(super) space: Arc<Space>,
}

/// What is allocated at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InUse {
    pub(crate) allocations: u64,
    pub(crate) bytes: u64,
}

/// Device addresses are multiples of this.
const ALIGNMENT: usize = 256;
/// Nothing is there before and behind an allocation.
const GUARD_BYTES: usize = 64 << 10;
/// Fresh memory holds no zeros, which a program might rely on, up to this size; above, filling it would take
/// pages of the machine that are not needed yet.
const SOILED_BYTES_MAX: usize = 64 << 20;

/// Pages of our own with nothing around them, so that a kernel that leaves them is noticed.
pub(super) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// Of the allocation within: its end is the end of the pages.
    offset: usize,
}

// SAFETY: the pages belong to the value, and so to the thread that holds it.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(wanted: usize) -> Option<Self> {
        let inner = wanted.next_multiple_of(ALIGNMENT);
        let pages = inner.next_multiple_of(4096);
        let bytes = pages.checked_add(2 * GUARD_BYTES)?;
        // SAFETY: a new mapping anywhere, of which only what is between the guards can be accessed.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        let mapping = Self {
            base: NonNull::new(base.cast())?,
            bytes,
            offset: GUARD_BYTES + pages - inner,
        };
        // SAFETY: within the mapping just made.
        let opened = unsafe {
            libc::mprotect(
                base.byte_add(GUARD_BYTES),
                pages,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if opened != 0 {
            return None;
        }
        if wanted <= SOILED_BYTES_MAX {
            // SAFETY: pages that no other code knows yet.
            unsafe { mapping.address().write_bytes(0xFF, inner) };
        }
        Some(mapping)
    }

    /// The first bytes of a file, to be read.
    pub(super) fn of_file(file: BorrowedFd<'_>, bytes: usize) -> Option<Self> {
        // SAFETY: a new mapping anywhere, of an open file.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        Some(Self {
            base: NonNull::new(base.cast())?,
            bytes,
            offset: 0,
        })
    }

    pub(super) fn address(&self) -> *mut u8 {
        // SAFETY: the offset lies in the mapping.
        unsafe { self.base.as_ptr().add(self.offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` or `of_file`; the code that drops it guarantees that nothing uses it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

impl Memory {
    pub(crate) fn new(total: u64) -> Self {
        Self {
            total,
            ranges: BTreeMap::new(),
            space: Arc::default(),
        }
    }

    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.space
    }

    pub(crate) fn clear(&mut self) {
        self.space.clear();
        self.ranges.clear();
    }

    pub(crate) fn in_use(&self, kind: Kind) -> InUse {
        let mut sum = InUse::default();
        for range in self.ranges.values().filter(|range| range.kind == kind) {
            sum.allocations += 1;
            sum.bytes += range.bytes as u64;
        }
        sum
    }

    pub(super) fn allocate(&mut self, bytes: usize, kind: Kind) -> Outcome<usize> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if kind == Kind::Device && self.in_use(kind).bytes.saturating_add(bytes as u64) > self.total
        {
            return Err(Code::OUT_OF_MEMORY);
        }
        let mapping = Mapping::new(bytes).ok_or(Code::OUT_OF_MEMORY)?;
        let address = mapping.address() as usize;
        let _mapping = Some(mapping);
        let (base, length) = (address as u64, bytes as u64);
        self.space.add(match kind {
            Kind::Device => Region::fresh(base, length),
            Kind::Host | Kind::Registered | Kind::External => Region::written(base, length),
        });
        self.ranges.insert(
            address,
            Range {
                bytes,
                kind,
                _mapping,
            },
        );
        Ok(address)
    }

    /// The range that `bytes` bytes at `address` lie in.
    fn around(&self, address: usize, bytes: usize) -> Option<(usize, &Range)> {
        let (&start, range) = self.ranges.range(..=address).next_back()?;
        let end = address.checked_add(bytes)?;
        (end <= start + range.bytes && address < start + range.bytes).then_some((start, range))
    }

    /// Whether the device may access these bytes.
    pub(crate) fn is_there(&self, address: usize, bytes: usize) -> bool {
        bytes == 0 || self.around(address, bytes).is_some()
    }

    /// Whether a copy may take its time with these bytes of the host.
    pub(crate) fn is_locked(&self, address: usize, bytes: usize) -> bool {
        self.around(address, bytes)
            .is_some_and(|(_, range)| matches!(range.kind, Kind::Host | Kind::Registered))
    }

    pub(super) fn overlaps(&self, address: usize, bytes: usize) -> bool {
        self.ranges
            .range(..address.saturating_add(bytes))
            .next_back()
            .is_some_and(|(&start, range)| start + range.bytes > address)
    }

    pub(super) fn remove(&mut self, address: usize, kind: Kind) -> Option<Range> {
        if self.ranges.get(&address)?.kind != kind {
            return None;
        }
        self.space.remove(address as u64);
        self.ranges.remove(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_in_one_allocation_is_there() {
        let mut memory = Memory::new(1 << 20);
        let at = memory.allocate(1000, Kind::Device).expect("there is room");
        assert_eq!(at % ALIGNMENT, 0);
        assert!(memory.is_there(at, 1000) && memory.is_there(at + 999, 1));
        assert!(!memory.is_there(at, 1001) && !memory.is_there(at + 1000, 1));
        assert!(!memory.is_there(at - 1, 1) && !memory.is_there(at, usize::MAX));
        assert!(memory.overlaps(at + 999, 1) && memory.overlaps(at - 10, 11));
        assert!(!memory.overlaps(at - 10, 10) && !memory.overlaps(at + 1000, 5));
        assert!(!memory.is_locked(at, 1), "device memory is not the host's");
    }

    #[test]
    fn no_more_is_given_than_the_device_has() {
        let mut memory = Memory::new(4096);
        let at = memory.allocate(4000, Kind::Device).expect("there is room");
        assert_eq!(memory.allocate(97, Kind::Device), Err(Code::OUT_OF_MEMORY));
        assert!(
            memory.allocate(97, Kind::Host).is_ok(),
            "host memory is elsewhere"
        );
        assert!(
            memory.remove(at, Kind::Host).is_none(),
            "it is the device's"
        );
        assert!(memory.remove(at, Kind::Device).is_some());
        assert!(memory.allocate(4096, Kind::Device).is_ok());
    }
}

//! Zeros of this process alone: what real-time threads work in, once another thread has touched all of it.

use std::alloc::{Layout, handle_alloc_error};

use crate::error::{OsError, check};
use crate::memory::{kernel_page_bytes, leave_out_of_dumps, lock_when_touched};
use crate::paging::AddressRange;

/// Some bytes at a fixed address, at which a page begins. Never given back before they are dropped, in no core dump.
///
/// As a range of addresses does, they give out a raw pointer and no slice: how threads share them is their own promise.
#[derive(Debug)]
pub struct Zeros {
    range: AddressRange,
}

impl Zeros {
    /// At least `bytes`, up to whole pages, each of which comes when it is first written to.
    ///
    /// A process that has no room ends, as it does for other memory.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let page = kernel_page_bytes();
        let whole = bytes.max(1).checked_next_multiple_of(page);
        let mapped = whole.ok_or_else(|| OsError::from_code("mmap", libc::ENOMEM));
        let layout = Layout::from_size_align(bytes, page).unwrap_or(Layout::new::<u8>());
        mapped
            .and_then(Self::map)
            .unwrap_or_else(|_| handle_alloc_error(layout))
    }

    fn map(bytes: usize) -> Result<Self, OsError> {
        // Without access at first: a process that locks its memory would have all pages cleared here and now.
        let range = AddressRange::reserve(bytes)?;
        let start = range.as_ptr().cast();
        lock_when_touched(start, bytes)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: exactly the range reserved above, to which there is no reference yet.
        check("mprotect", unsafe { libc::mprotect(start, bytes, access) })?;
        leave_out_of_dumps(range.as_ptr(), bytes);
        Ok(Self { range })
    }

    /// Its first byte; the address stays.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.range.as_ptr()
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.range.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults;
    use crate::memory::PAGE_BYTES;
    use crate::thread::current_tid;

    fn faults_of(work: impl FnOnce()) -> u64 {
        let before = faults::of_thread(current_tid()).unwrap();
        work();
        faults::of_thread(current_tid()).unwrap() - before
    }

    fn write(zeros: &Zeros) {
        for at in (0..zeros.bytes()).step_by(PAGE_BYTES) {
            // SAFETY: inside of it, and there is no reference to it.
            unsafe { zeros.as_ptr().add(at).write_volatile(1) };
        }
    }

    #[test]
    fn small_and_large_ones_are_whole_pages_of_zeros() {
        for wanted in [0, 1, 5000, 1 << 20] {
            let zeros = Zeros::new(wanted);
            assert!(zeros.bytes() >= wanted.max(1));
            assert!(zeros.bytes().is_multiple_of(kernel_page_bytes()));
            assert_eq!(zeros.as_ptr().align_offset(kernel_page_bytes()), 0);
            // SAFETY: inside of it, and there is no reference to it.
            let byte = |at| unsafe { zeros.as_ptr().add(at).read_volatile() };
            assert!((0..zeros.bytes()).step_by(512).all(|at| byte(at) == 0));
        }
    }

    #[test]
    fn they_are_written_without_faults_from_the_second_time_on() {
        let zeros = Zeros::new(512 * PAGE_BYTES);
        // The kernel may bring some pages at a time.
        assert!(faults_of(|| write(&zeros)) > 1);
        assert!(faults_of(|| write(&zeros)) < 16);
    }
}

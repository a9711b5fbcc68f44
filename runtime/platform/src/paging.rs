//! Memory that is taken once and shown wherever it is needed: equal pieces of a memory file, and
//! ranges of addresses into which they are mapped in any order.
//!
//! Like [`Mapping`](crate::shared_memory::Mapping), a range gives out a raw pointer and no slice:
//! what lies behind an address changes when something else is shown there.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use crate::error::{OsError, check};
use crate::memory::PAGE_BYTES;
use crate::shared_memory::MemoryFile;

/// Pieces of memory of one size.
#[derive(Debug)]
pub struct PageStore {
    file: MemoryFile,
    page_bytes: usize,
}

impl PageStore {
    /// Room for `pages` pieces of `page_bytes`; [`take`](Self::take) makes memory of it.
    ///
    /// # Panics
    /// If `page_bytes` is no multiple of 64 KiB, the largest page of any kernel.
    pub fn reserve(name: &CStr, page_bytes: usize, pages: usize) -> Result<Self, OsError> {
        assert!(
            page_bytes > 0 && page_bytes.is_multiple_of(64 << 10),
            "pages of {page_bytes} bytes cannot be mapped"
        );
        let bytes = (page_bytes.checked_mul(pages))
            .ok_or_else(|| OsError::from_code("memfd_create", libc::ENOMEM))?;
        let file = MemoryFile::create(name, bytes)?;
        Ok(Self { file, page_bytes })
    }

    /// Takes the memory of `count` pieces from `first` on, zeroed; those that were taken before
    /// stay as they are. So running out is an error here, and not a signal when they are used.
    ///
    /// # Panics
    /// If there are no such pieces.
    pub fn take(&self, first: usize, count: usize) -> Result<(), OsError> {
        self.assert_pieces(first, count);
        if count == 0 {
            return Ok(());
        }
        let offset = |pages: usize| {
            libc::off_t::try_from(pages * self.page_bytes)
                .map_err(|_| OsError::from_code("fallocate", libc::EFBIG))
        };
        // Asked for more memory than the machine has, the kernel ends processes before `fallocate` fails.
        if (count as u128) * (self.page_bytes as u128) > u128::from(machine_bytes()?) {
            return Err(OsError::from_code("fallocate", libc::ENOMEM));
        }
        // SAFETY: an open descriptor and plain numbers.
        let result = unsafe {
            let file = self.file.as_fd().as_raw_fd();
            libc::fallocate(file, 0, offset(first)?, offset(count)?)
        };
        check("fallocate", result).map(drop)
    }

    fn assert_pieces(&self, first: usize, count: usize) {
        let end = first.checked_add(count);
        assert!(
            end.is_some_and(|end| end <= self.pages()),
            "{count} pages from {first} on: there are {}",
            self.pages()
        );
    }

    #[must_use]
    pub fn pages(&self) -> usize {
        self.file.bytes() / self.page_bytes
    }

    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }
}

/// A range of addresses that nothing else in this process uses. Where nothing is shown, touching it ends the process.
#[derive(Debug)]
pub struct AddressRange {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a range only owns addresses; every access through the pointer is the user's own
// `unsafe`, and the kernel orders changes of the mapping.
unsafe impl Send for AddressRange {}
// SAFETY: as above.
unsafe impl Sync for AddressRange {}

impl AddressRange {
    /// Reserves addresses, no memory: `bytes`, rounded up to whole pages of the machine.
    pub fn reserve(bytes: usize) -> Result<Self, OsError> {
        let bytes = (bytes.max(1).checked_next_multiple_of(PAGE_BYTES))
            .ok_or_else(|| OsError::from_code("mmap", libc::ENOMEM))?;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(OsError::last("mmap"));
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| OsError::from_code("mmap", libc::ENOMEM))?;
        Ok(Self { start, bytes })
    }

    /// Its first byte; the address is the range's as long as the range lives.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Shows `count` pieces of `store`, from piece `first` on, at `at` bytes from the start, to
    /// read and to write, with every page present. What was shown there before no longer is.
    ///
    /// # Panics
    /// If the pieces do not exist or do not fit, or `at` is not where a page of the machine begins.
    pub fn show(
        &self,
        at: usize,
        store: &PageStore,
        first: usize,
        count: usize,
    ) -> Result<(), OsError> {
        let bytes = count * store.page_bytes;
        store.assert_pieces(first, count);
        self.assert_inside(at, bytes);
        if bytes == 0 {
            return Ok(());
        }
        let offset = libc::off_t::try_from(first * store.page_bytes)
            .map_err(|_| OsError::from_code("mmap", libc::EOVERFLOW))?;
        // SAFETY: replaces part of this range, which is ours and to which there is no reference:
        // what users make of the pointer is their own promise.
        let shown = unsafe {
            libc::mmap(
                self.start.as_ptr().add(at).cast(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE,
                store.file.as_fd().as_raw_fd(),
                offset,
            )
        };
        mapped(shown)
    }

    /// Shows nothing any more in `bytes` from `at` on.
    ///
    /// # Panics
    /// If that is not inside the range.
    pub fn hide(&self, at: usize, bytes: usize) -> Result<(), OsError> {
        self.assert_inside(at, bytes);
        if bytes == 0 {
            return Ok(());
        }
        // A mapping without access and not `munmap`, after which another mapping could get these addresses.
        // SAFETY: as for `show`.
        let hidden = unsafe {
            libc::mmap(
                self.start.as_ptr().add(at).cast(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        mapped(hidden)
    }

    fn assert_inside(&self, at: usize, bytes: usize) {
        let end = at.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.bytes) && at.is_multiple_of(PAGE_BYTES),
            "{bytes} bytes at {at} are outside a range of {}",
            self.bytes
        );
    }
}

fn mapped(result: *mut libc::c_void) -> Result<(), OsError> {
    if result == libc::MAP_FAILED {
        Err(OsError::last("mmap"))
    } else {
        Ok(())
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        // SAFETY: exactly our addresses, whatever is shown there; nothing borrows from them.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(check("munmap", result).is_ok());
    }
}

/// Bytes of memory that the machine has.
fn machine_bytes() -> Result<u64, OsError> {
    let mut info = std::mem::MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: the call fills the structure, for which all zeros are a valid value besides.
    let info = unsafe {
        check("sysinfo", libc::sysinfo(info.as_mut_ptr()))?;
        info.assume_init()
    };
    Ok(info.totalram.saturating_mul(u64::from(info.mem_unit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults;
    use crate::thread::current_tid;

    const PIECE: usize = 64 << 10;

    fn taken(pages: usize) -> PageStore {
        let store = PageStore::reserve(c"test", PIECE, pages).unwrap();
        store.take(0, pages).unwrap();
        store
    }

    fn write(range: &AddressRange, at: usize, value: u8) {
        assert!(at < range.bytes());
        // SAFETY: inside the range, where the test shows a piece.
        unsafe { range.as_ptr().add(at).write_volatile(value) };
    }

    fn read(range: &AddressRange, at: usize) -> u8 {
        assert!(at < range.bytes());
        // SAFETY: inside the range, where the test shows a piece.
        unsafe { range.as_ptr().add(at).read_volatile() }
    }

    #[test]
    fn pieces_are_shown_in_any_order_and_in_several_places() {
        let store = taken(3);
        let (a, b) = (
            AddressRange::reserve(3 * PIECE).unwrap(),
            AddressRange::reserve(PIECE).unwrap(),
        );
        a.show(0, &store, 2, 1).unwrap();
        a.show(PIECE, &store, 0, 2).unwrap();
        b.show(0, &store, 1, 1).unwrap();
        write(&a, 5, 42);
        write(&a, 2 * PIECE + 7, 43);
        assert_eq!(read(&b, 7), 43);
        b.show(0, &store, 2, 1).unwrap();
        assert_eq!((read(&b, 5), read(&b, 7)), (42, 0));
    }

    #[test]
    fn what_is_hidden_keeps_its_content() {
        let store = taken(1);
        let range = AddressRange::reserve(PIECE).unwrap();
        range.show(0, &store, 0, 1).unwrap();
        write(&range, 9, 7);
        range.hide(0, PIECE).unwrap();
        range.show(0, &store, 0, 1).unwrap();
        assert_eq!(read(&range, 9), 7);
    }

    #[test]
    fn what_is_shown_is_used_without_faults() {
        let store = taken(16);
        let range = AddressRange::reserve(16 * PIECE).unwrap();
        range.show(0, &store, 0, 16).unwrap();
        let before = faults::of_thread(current_tid()).unwrap();
        for at in (0..range.bytes()).step_by(PAGE_BYTES) {
            write(&range, at, 1);
        }
        let after = faults::of_thread(current_tid()).unwrap();
        // 256 pages; a handful may come from elsewhere on this thread.
        assert!(after - before < 16, "{}", after - before);
    }

    #[test]
    fn more_memory_than_there_is_is_an_error() {
        assert!(PageStore::reserve(c"test", PIECE, usize::MAX / PIECE).is_err());
        assert!(PageStore::reserve(c"test", PIECE, usize::MAX).is_err());
        let store = PageStore::reserve(c"test", PIECE, 1 << 40).unwrap();
        assert!(store.take(0, 1 << 40).is_err());
        assert!(AddressRange::reserve(usize::MAX).is_err());
    }

    #[test]
    #[should_panic(expected = "outside a range")]
    fn a_piece_beyond_the_end_is_a_programmers_error() {
        let store = taken(2);
        let range = AddressRange::reserve(PIECE).unwrap();
        let _ = range.show(0, &store, 0, 2);
    }
}

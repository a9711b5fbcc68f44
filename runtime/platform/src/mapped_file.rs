//! Files read through the page cache, without a copy: large, written once, replaced whole.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

use crate::error::{OsError, check};
use crate::read;

/// Number types for which every bit pattern is a value.
pub trait Plain: Copy + Send + Sync + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! plain {
    ($($t:ty),*) => { $(impl sealed::Sealed for $t {} impl Plain for $t {})* };
}
plain!(u8, u32, f32);

/// A file's content, mapped for reading. Pages come when they are first read and are never locked,
/// so a file may be larger than the memory.
///
/// # What the owner of the file must keep to
/// While it is mapped, no process writes into the file or shortens it: a file is only ever replaced, by
/// renaming another onto it ([`files::write_whole`](crate::files::write_whole)), which leaves the
/// mapping with the content that it had. Against a shortened file no check helps, since it may
/// happen after any check: reading past its new end kills the process (`SIGBUS`). So map only files
/// whose writers may also replace the program.
#[derive(Debug)]
pub struct MappedFile {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is only read.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps the whole file, as long as it is now.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = read::open(path)?;
        let bytes = usize::try_from(file.metadata()?.len())
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        Self::of(&file, bytes).map_err(|error| error.source)
    }

    fn of(file: &File, bytes: usize) -> Result<Self, OsError> {
        if bytes == 0 {
            let start = NonNull::dangling();
            return Ok(Self { start, bytes });
        }
        // Inaccessible at first: after `memory::lock_all` a new mapping is locked, and a readable
        // one would be read in whole before the lock can be taken off it again.
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(OsError::last("mmap"));
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| OsError::from_code("mmap", libc::ENOMEM))?;
        let mapped = Self { start, bytes };
        // SAFETY: exactly the mapping made above, to which there is no reference yet.
        unsafe {
            // Where locking is not allowed, neither is this, and nothing is locked; otherwise the
            // worst that can come of a failure is memory that stays.
            let _ = libc::munlock(mapped.as_ptr(), bytes);
            let readable = libc::mprotect(mapped.as_ptr(), bytes, libc::PROT_READ);
            check("mprotect", readable)?;
        }
        Ok(mapped)
    }

    fn as_ptr(&self) -> *mut libc::c_void {
        self.start.as_ptr().cast()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the file has no content.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.values(0, self.bytes)
    }

    /// `count` values in this machine's byte order, from byte `offset` on.
    ///
    /// # Panics
    /// If they do not lie in the file, or not at a multiple of their size.
    #[must_use]
    pub fn values<T: Plain>(&self, offset: usize, count: usize) -> &[T] {
        let end = count
            .checked_mul(size_of::<T>())
            .and_then(|bytes| bytes.checked_add(offset));
        assert!(
            end.is_some_and(|end| end <= self.bytes) && offset.is_multiple_of(align_of::<T>()),
            "{count} values at byte {offset} of a file of {} bytes",
            self.bytes
        );
        if count == 0 {
            return &[];
        }
        // SAFETY: in bounds and aligned, as just checked (a mapping begins at a page, and there is
        // one, as the file is not empty); every bit pattern is a T; and no process writes while the
        // mapping lives, which the type asks of the file's owner (that the mapping is private does
        // not help: only pages that this process writes to are its own).
        unsafe {
            let first = self.start.as_ptr().add(offset).cast::<T>();
            std::slice::from_raw_parts(first, count)
        }
    }

    /// Gives back the memory of all pages that were read. The next read gets them from the file again.
    pub fn release(&self) {
        if self.bytes > 0 {
            // SAFETY: our own mapping. Nothing was ever written to it, so that a page that is
            // dropped comes back from the file with the same content, also under a reference.
            let result = unsafe { libc::madvise(self.as_ptr(), self.bytes, libc::MADV_DONTNEED) };
            // It fails only for a locked mapping, whose pages shall stay.
            let _ = check("madvise", result);
        }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: exactly the mapping that `of` made, unused from here on.
            let result = unsafe { libc::munmap(self.as_ptr(), self.bytes) };
            debug_assert!(check("munmap", result).is_ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::write_whole;
    use std::path::PathBuf;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, content: &[u8]) -> Self {
            let name = format!("punctual-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            write_whole(&path, content).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_mapped_file_shows_its_content_as_bytes_and_as_values() {
        let content: Vec<u8> = (0..3_u32).flat_map(u32::to_ne_bytes).collect();
        let file = Scratch::new("values", &content);
        let mapped = MappedFile::open(&file.0).unwrap();
        assert_eq!(mapped.as_slice(), content);
        assert_eq!(mapped.values::<u32>(4, 2), [1, 2]);
        assert!(mapped.values::<u32>(12, 0).is_empty());
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_content_for_whoever_has_it_mapped() {
        let file = Scratch::new("replaced", b"before");
        let mapped = MappedFile::open(&file.0).unwrap();
        write_whole(&file.0, b"afterwards").unwrap();
        assert_eq!(mapped.as_slice(), b"before");
        mapped.release();
        assert_eq!(mapped.as_slice(), b"before", "read from the file again");
        assert_eq!(MappedFile::open(&file.0).unwrap().as_slice(), b"afterwards");
    }

    #[test]
    fn an_empty_file_is_an_empty_slice_and_a_folder_is_none() {
        let file = Scratch::new("empty", b"");
        let mapped = MappedFile::open(&file.0).unwrap();
        assert!(mapped.is_empty() && mapped.as_slice().is_empty());
        mapped.release();
        assert!(MappedFile::open(&std::env::temp_dir()).is_err());
        assert!(MappedFile::open(Path::new("no/such/file")).is_err());
    }

    #[test]
    #[should_panic(expected = "of a file of 8 bytes")]
    fn values_past_the_end_are_a_panic() {
        let file = Scratch::new("end", &[0; 8]);
        let _ = MappedFile::open(&file.0).unwrap().values::<u32>(4, 2);
    }
}

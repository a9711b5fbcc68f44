//! Memory shared between processes: sealed memory files and mappings of them.
//!
//! A mapping gives out a raw pointer and no slice: the other process may write at any time, which
//! a Rust reference forbids.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::error::{OsError, check};
use crate::memory::PAGE_BYTES;

/// What a memory file's size and content are protected from; see fcntl(2), "File Sealing".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seals(libc::c_int);

impl Seals {
    const NONE: Self = Self(0);
    /// Its size can no longer change.
    pub const SIZE: Self = Self(libc::F_SEAL_SHRINK | libc::F_SEAL_GROW);
    /// It can no longer get smaller.
    pub const SHRINK: Self = Self(libc::F_SEAL_SHRINK);
    /// No process can begin to write to it, nor punch holes into it; existing writable mappings stay.
    pub const FUTURE_WRITE: Self = Self(libc::F_SEAL_FUTURE_WRITE);
    /// It can neither be written to nor have holes punched into it.
    pub const WRITE: Self = Self(libc::F_SEAL_WRITE);
    pub const SEAL: Self = Self(libc::F_SEAL_SEAL);

    /// Those of a file, whosever it is. No file system is asked: the kernel knows.
    pub fn of(file: BorrowedFd<'_>) -> Result<Self, OsError> {
        // SAFETY: an open descriptor.
        check("fcntl(F_GET_SEALS)", unsafe {
            libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS)
        })
        .map(Self)
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
    #[must_use]
    pub const fn contain(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A file that exists in memory only, of a fixed size.
#[derive(Debug)]
pub struct MemoryFile {
    file: OwnedFd,
    bytes: usize,
}

impl MemoryFile {
    /// A zeroed file of `bytes`, whose size is sealed.
    pub fn create(name: &CStr, bytes: usize) -> Result<Self, OsError> {
        // SAFETY: `name` is a C string; we own the new descriptor.
        let file = unsafe {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            let raw = check("memfd_create", libc::memfd_create(name.as_ptr(), flags))?;
            OwnedFd::from_raw_fd(raw)
        };
        let length = libc::off_t::try_from(bytes)
            .map_err(|_| OsError::from_code("ftruncate", libc::EFBIG))?;
        // SAFETY: an open descriptor.
        check("ftruncate", unsafe {
            libc::ftruncate(file.as_raw_fd(), length)
        })?;
        let file = Self { file, bytes };
        file.seal(Seals::SIZE)?;
        Ok(file)
    }

    /// Takes over a file that another process sent.
    pub fn received(descriptor: OwnedFd) -> Result<Self, OsError> {
        let file = File::from(descriptor);
        let length = file.metadata().map_err(|source| OsError {
            call: "fstat",
            source,
        })?;
        let bytes = usize::try_from(length.len())
            .map_err(|_| OsError::from_code("fstat", libc::EOVERFLOW))?;
        Ok(Self {
            file: file.into(),
            bytes,
        })
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn seal(&self, seals: Seals) -> Result<(), OsError> {
        // SAFETY: an open descriptor and a plain number.
        check("fcntl(F_ADD_SEALS)", unsafe {
            libc::fcntl(self.file.as_raw_fd(), libc::F_ADD_SEALS, seals.0)
        })
        .map(drop)
    }

    pub fn seals(&self) -> Result<Seals, OsError> {
        Seals::of(self.file.as_fd())
    }

    /// Allocates every page, without mapping any.
    pub fn allocate(&self) -> Result<(), OsError> {
        // A signal ends a call, and what it had allocated is freed: so in calls that a timer's signals do not always end.
        const CALL: usize = 1 << 20;
        for from in (0..self.bytes).step_by(CALL) {
            let bytes = CALL.min(self.bytes - from);
            let range = [from, bytes].map(|n| n as libc::off_t);
            // SAFETY: an open descriptor and plain numbers.
            let allocated = || unsafe {
                let [from, bytes] = range;
                check(
                    "fallocate",
                    libc::fallocate(self.file.as_raw_fd(), 0, from, bytes),
                )
            };
            while let Err(error) = allocated() {
                if error.code() != Some(libc::EINTR) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Maps the whole file, touching every page.
    pub fn map(&self, access: Access) -> Result<Mapping, OsError> {
        map_shared(self.file.as_fd(), self.bytes, access)
    }

    /// Whether every page below `bytes` can be mapped and stays: the file lies on the file system of shared memory, and
    /// cannot get smaller, nor can holes be punched into it any more.
    pub fn keeps_pages(&self, bytes: usize) -> bool {
        let mut about = std::mem::MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: an open descriptor, and room for the answer.
        let asked = check("fstatfs", unsafe {
            libc::fstatfs(self.file.as_raw_fd(), about.as_mut_ptr())
        });
        // SAFETY: filled in where the call succeeded.
        let kind = asked.map(|_| unsafe { about.assume_init() }.f_type);
        let seals = self.seals().unwrap_or(Seals::NONE);
        let is_shared_memory = kind.is_ok_and(|kind| kind == libc::TMPFS_MAGIC);
        let is_sealed = seals.contain(Seals::WRITE) || seals.contain(Seals::FUTURE_WRITE);
        is_shared_memory && is_sealed && seals.contain(Seals::SHRINK) && bytes <= self.bytes
    }

    /// Maps the first `bytes` for reading, each page present.
    ///
    /// # Errors
    /// If there is not enough memory for pages that were missing, or the kernel cannot make them present (before Linux 5.14).
    pub fn map_present(&self, bytes: usize) -> Result<Mapping, OsError> {
        let mapping = map_shared(self.file.as_fd(), bytes, Access::Read)?;
        // SAFETY: our own mapping, of which pages are read.
        check("madvise(MADV_POPULATE_READ)", unsafe {
            libc::madvise(mapping.as_ptr().cast(), bytes, libc::MADV_POPULATE_READ)
        })?;
        Ok(mapping)
    }

    /// Copies bytes from `offset` on out of the file, without mapping it: pages that are missing
    /// read as zeros and stay missing. Does not allocate.
    pub fn read_at(&self, offset: usize, to: &mut [u8]) -> Result<(), OsError> {
        let mut done = 0;
        while done < to.len() {
            let rest = &mut to[done..];
            let at = libc::off_t::try_from(offset + done)
                .map_err(|_| OsError::from_code("pread", libc::EOVERFLOW))?;
            // SAFETY: an open descriptor, and a buffer of ours of that length.
            let read = unsafe {
                libc::pread(
                    self.file.as_raw_fd(),
                    rest.as_mut_ptr().cast(),
                    rest.len(),
                    at,
                )
            };
            match usize::try_from(read) {
                Ok(0) => return Err(OsError::from_code("pread", libc::ENODATA)),
                Ok(bytes) => done += bytes,
                Err(_) => {
                    let error = OsError::last("pread");
                    if error.code() != Some(libc::EINTR) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Maps the first `bytes` of a file, touching every page.
pub(crate) fn map_shared(
    file: BorrowedFd<'_>,
    bytes: usize,
    access: Access,
) -> Result<Mapping, OsError> {
    let protection = match access {
        Access::Read => libc::PROT_READ,
        Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
    };
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            protection,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(OsError::last("mmap"));
    }
    let start =
        NonNull::new(start.cast()).ok_or_else(|| OsError::from_code("mmap", libc::ENOMEM))?;
    Ok(Mapping { start, bytes })
}

impl From<MemoryFile> for OwnedFd {
    fn from(file: MemoryFile) -> Self {
        file.file
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What a mapping may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; writing through it kills the process.
    Read,
    ReadWrite,
}

/// Pages of a memory file in this process. Other processes may write to them at any time.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a Mapping only owns an address range; every access through the pointer is the user's
// own `unsafe`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Its first byte; valid as long as the mapping lives.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads one byte of every page, so that none is missing when a real-time thread comes.
    pub fn touch(&self) {
        for at in (0..self.bytes).step_by(PAGE_BYTES) {
            // SAFETY: in bounds and readable; volatile, since others may write.
            unsafe { self.start.as_ptr().add(at).read_volatile() };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `map` made; nothing borrows from it.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(check("munmap", result).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_show_the_same_bytes() {
        let file = MemoryFile::create(c"test", 8192).unwrap();
        let (a, b) = (
            file.map(Access::ReadWrite).unwrap(),
            file.map(Access::Read).unwrap(),
        );
        b.touch();
        // SAFETY: in bounds of both mappings.
        let seen = unsafe {
            a.as_ptr().add(5000).write_volatile(42);
            b.as_ptr().add(5000).read_volatile()
        };
        assert_eq!(seen, 42);
    }

    #[test]
    fn every_page_of_a_file_can_be_allocated_without_a_mapping() {
        let file = MemoryFile::create(c"test", (3 << 20) + 5).unwrap();
        let blocks = |file: &MemoryFile| {
            let copy = file.as_fd().try_clone_to_owned().unwrap();
            std::os::unix::fs::MetadataExt::blocks(&File::from(copy).metadata().unwrap())
        };
        assert_eq!(blocks(&file), 0);
        file.allocate().unwrap();
        assert!(blocks(&file) * 512 >= (3 << 20) + 5);
    }

    #[test]
    fn what_is_missing_reads_as_zeros_and_stays_missing() {
        let file = MemoryFile::create(c"test", 1 << 20).unwrap();
        let mut copy = [7; 9000];
        file.read_at(100, &mut copy).unwrap();
        assert!(copy.iter().all(|byte| *byte == 0));
        use std::os::unix::fs::MetadataExt;
        let about = File::from(file.as_fd().try_clone_to_owned().unwrap());
        assert_eq!(about.metadata().unwrap().blocks(), 0, "no page was made");
        assert!(file.read_at((1 << 20) - 10, &mut copy[..11]).is_err());
        assert!(file.read_at((1 << 20) - 10, &mut copy[..10]).is_ok());
    }

    #[test]
    fn pages_stay_only_where_no_hole_can_be_punched() {
        let file = MemoryFile::create(c"test", 8192).unwrap();
        assert!(!file.keeps_pages(8192));
        let writer = file.map(Access::ReadWrite).unwrap();
        file.seal(Seals::FUTURE_WRITE).unwrap();
        assert!(file.keeps_pages(8192) && !file.keeps_pages(8193));
        let pages = file.map_present(5000).unwrap();
        // SAFETY: in bounds of both mappings.
        unsafe {
            writer.as_ptr().add(4999).write_volatile(9);
            assert_eq!(pages.as_ptr().add(4999).read_volatile(), 9);
        }
        drop(writer);
        let constant = MemoryFile::create(c"test", 8192).unwrap();
        constant.seal(Seals::WRITE).unwrap();
        assert!(constant.keeps_pages(8192));
    }

    #[test]
    fn the_size_is_sealed_from_the_start() {
        let file = MemoryFile::create(c"test", 4096).unwrap();
        let again = File::from(file.as_fd().try_clone_to_owned().unwrap());
        assert!(again.set_len(0).is_err());
        assert!(again.set_len(8192).is_err());
        assert!(file.seals().unwrap().contain(Seals::SIZE));
    }

    #[test]
    fn after_the_write_seal_there_are_no_new_writers_and_no_holes() {
        let file = MemoryFile::create(c"test", 8192).unwrap();
        let writer = file.map(Access::ReadWrite).unwrap();
        file.seal(Seals::FUTURE_WRITE.and(Seals::SEAL)).unwrap();
        assert!(file.map(Access::ReadWrite).is_err());
        let reader = file.map(Access::Read).unwrap();
        // SAFETY: an open descriptor and plain numbers.
        let punched = unsafe {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            libc::fallocate(file.as_fd().as_raw_fd(), mode, 0, 8192)
        };
        assert_eq!(punched, -1);
        // SAFETY: the writer's own pages; fails, since removing pages is punching a hole.
        let removed = unsafe { libc::madvise(writer.as_ptr().cast(), 8192, libc::MADV_REMOVE) };
        assert_eq!(removed, -1);
        // SAFETY: in bounds of both mappings.
        unsafe {
            writer.as_ptr().write_volatile(9);
            assert_eq!(reader.as_ptr().read_volatile(), 9);
        }
        assert!(file.seal(Seals::SIZE).is_err());
    }
}

//! References that keep the kernel from merging pages of shared memory into huge ones.
//!
//! From Linux 6.1 on, any process that maps a memory file, if only for reading, can have its pages merged (`MADV_COLLAPSE`).
//! The kernel then locks and unmaps them everywhere, and a thread that touches one waits for as long as that process's thread
//! takes. It passes over a range in which a page has a reference that no mapping explains, before it locks anything. A pipe
//! that holds a page itself instead of a copy (vmsplice(2)) is such a reference, and only this process can drop it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::{OsError, check};
use crate::shared_memory::Mapping;

/// The smallest range that is merged at once. Where pages are larger than 4 KiB, ranges are multiples of it.
const RANGE_BYTES: usize = 2 << 20;

/// Pages that a pipe holds, as the kernel makes it.
const PAGES_A_PIPE: usize = 16;

/// One page of each range of a mapping. Not merged as long as this lives.
#[derive(Debug)]
pub struct Pins {
    _pipes: Vec<OwnedFd>,
}

impl Pins {
    /// Of a mapping of a whole file.
    pub fn of(mapping: &Mapping) -> Result<Self, OsError> {
        let mut pipes = Vec::with_capacity(Self::files(mapping.bytes()));
        let mut open: Option<Pipe> = None;
        for at in (0..mapping.bytes()).step_by(RANGE_BYTES) {
            let held = match &open {
                Some(pipe) => pipe.hold(mapping, at)?,
                None => false,
            };
            if !held {
                let pipe = Pipe::new()?;
                if !pipe.hold(mapping, at)? {
                    return Err(OsError::from_code("vmsplice", libc::EAGAIN));
                }
                pipes.extend(open.replace(pipe).map(|full| full.reader));
            }
        }
        pipes.extend(open.map(|last| last.reader));
        Ok(Self { _pipes: pipes })
    }

    /// Descriptors that the pins of `bytes` bytes take, unless the user has very many pipes: the kernel makes pipes smaller
    /// then.
    #[must_use]
    pub const fn files(bytes: usize) -> usize {
        bytes.div_ceil(RANGE_BYTES).div_ceil(PAGES_A_PIPE)
    }
}

/// Its pages stay until both ends are closed, so that one end is enough once it is full.
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipe {
    fn new() -> Result<Self, OsError> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors, which we own then.
        let [reader, writer] = unsafe {
            check("pipe2", libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
            ends.map(|end| OwnedFd::from_raw_fd(end))
        };
        Ok(Self { reader, writer })
    }

    /// Holds the page at this place of a mapping; false if the pipe is full.
    fn hold(&self, mapping: &Mapping, at: usize) -> Result<bool, OsError> {
        debug_assert!(at < mapping.bytes());
        let byte = libc::iovec {
            iov_base: mapping.as_ptr().wrapping_add(at).cast(),
            iov_len: 1,
        };
        // SAFETY: a mapped byte, which the kernel reads only if the pipe is read: it never is.
        let held = unsafe {
            libc::vmsplice(
                self.writer.as_raw_fd(),
                &raw const byte,
                1,
                libc::SPLICE_F_NONBLOCK,
            )
        };
        match held {
            1 => Ok(true),
            _ => match OsError::last("vmsplice") {
                error if error.code() == Some(libc::EAGAIN) => Ok(false),
                error => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::{Access, MemoryFile};

    /// Whether the kernel merges the first range of a file for somebody who may only read it.
    fn merges(file: &MemoryFile) -> bool {
        const MADV_COLLAPSE: libc::c_int = 25;
        use std::os::fd::AsFd;
        // SAFETY: a reservation of ours, and a mapping in the middle of it, at an address that huge pages need; nothing
        // refers to either, and both are unmapped.
        unsafe {
            let (none, private) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let room = libc::mmap(std::ptr::null_mut(), 2 * RANGE_BYTES, none, private, -1, 0);
            assert_ne!(room, libc::MAP_FAILED);
            let at = room
                .cast::<u8>()
                .map_addr(|at| at.next_multiple_of(RANGE_BYTES));
            let (flags, file) = (libc::MAP_SHARED | libc::MAP_FIXED, file.as_fd().as_raw_fd());
            let twin = libc::mmap(at.cast(), RANGE_BYTES, libc::PROT_READ, flags, file, 0);
            assert_ne!(twin, libc::MAP_FAILED);
            let merged = libc::madvise(twin, RANGE_BYTES, MADV_COLLAPSE) == 0;
            libc::munmap(room, 2 * RANGE_BYTES);
            merged
        }
    }

    #[test]
    fn nobody_can_merge_pages_of_a_file_as_long_as_one_is_pinned() {
        for bytes in [64 << 10, RANGE_BYTES, 5 << 20] {
            let file = MemoryFile::create(c"test", bytes).unwrap();
            let mapping = file.map(Access::ReadWrite).unwrap();
            let pins = Pins::of(&mapping).unwrap();
            assert!(!merges(&file), "{bytes} bytes");
            drop(pins);
            if !merges(&file) {
                println!("skipped: this kernel merges no shared pages on request");
            }
        }
    }

    #[test]
    fn a_page_of_each_range_is_held_by_as_few_descriptors_as_planned() {
        for (bytes, files) in [(1, 1), (32 << 20, 1), ((32 << 20) + 1, 2), (70 << 20, 3)] {
            let file = MemoryFile::create(c"test", bytes).unwrap();
            let mapping = file.map(Access::ReadWrite).unwrap();
            let pins = Pins::of(&mapping).unwrap();
            assert_eq!((pins._pipes.len(), Pins::files(bytes)), (files, files));
            let held = |pipe: &OwnedFd| {
                let mut bytes: libc::c_int = 0;
                // SAFETY: writes one int.
                let asked =
                    unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
                assert_eq!(asked, 0);
                bytes as usize
            };
            let held: usize = pins._pipes.iter().map(held).sum();
            assert_eq!(held, bytes.div_ceil(RANGE_BYTES));
        }
    }
}

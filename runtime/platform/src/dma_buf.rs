//! DMA-BUFs: memory of a device's driver, handed from process to process as a file.
//!
//! <https://docs.kernel.org/driver-api/dma-buf.html>. Not yet run with a real one by us: what is
//! tested is that nothing else is taken for one.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::error::{OsError, check};
use crate::poll;
use crate::shared_memory::{Access, Mapping, map_shared};

/// The file system that all of them are on (`DMA_BUF_MAGIC`, "DMAB").
const MAGIC: i64 = 0x444d_4142;

/// `DMA_BUF_IOCTL_SYNC`: `_IOW('b', 0, struct dma_buf_sync)`.
const SYNC: libc::Ioctl = 0x4008_6200;
const SYNC_READ: u64 = 1;
const SYNC_END: u64 = 1 << 2;

/// The call must be repeated after EINTR and EAGAIN (`linux/dma-buf.h`). No thread gets this number of signals in one
/// call: after this number of repetitions the driver is at fault.
const TRIES_MAX: u32 = 64;

#[derive(Debug)]
pub struct DmaBuffer(Arc<OwnedFd>);

impl DmaBuffer {
    /// Whether the file is one, by its own description and the file system that it is on. A file
    /// system in user space is not asked: it need not answer.
    pub fn is_one(file: BorrowedFd<'_>) -> Result<bool, OsError> {
        // The kernel writes this file; the line with the exporter's name is a DMA-BUF's only.
        let about = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
        let about = std::fs::read_to_string(about).map_err(|source| OsError {
            call: "read(/proc/self/fdinfo)",
            source,
        })?;
        if !about.lines().any(|line| line.starts_with("exp_name:")) {
            return Ok(false);
        }
        let mut about = std::mem::MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: an open descriptor, and room for the answer.
        check("fstatfs", unsafe {
            libc::fstatfs(file.as_raw_fd(), about.as_mut_ptr())
        })?;
        // SAFETY: filled in, as the call succeeded.
        let about = unsafe { about.assume_init() };
        Ok(about.f_type == MAGIC)
    }

    /// Takes over a file that [is one](Self::is_one).
    #[must_use]
    pub fn received(file: OwnedFd) -> Self {
        Self(Arc::new(file))
    }

    /// For devices that import it.
    #[must_use]
    pub fn file(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.0)
    }

    /// Maps all of it for reading, between [`begin_read`](Self::begin_read) and
    /// [`end_read`](Self::end_read).
    pub fn map(&self) -> Result<Mapping, OsError> {
        // SAFETY: an open descriptor. Seeking to the end is how its size is asked for.
        let end = unsafe { libc::lseek(self.0.as_raw_fd(), 0, libc::SEEK_END) };
        let bytes = usize::try_from(end).map_err(|_| OsError::last("lseek"))?;
        map_shared(self.0.as_fd(), bytes, Access::Read)
    }

    /// Makes what the device wrote visible to the processor, once the device has finished. To be ended
    /// by [`end_read`](Self::end_read).
    pub fn begin_read(&self, until_ns: u64) -> Result<(), OsError> {
        // The driver itself waits for the device as long as that takes, and it may never finish.
        if !poll::wait_readable(self.0.as_fd(), Some(until_ns)) {
            return Err(OsError::from_code("poll", libc::ETIMEDOUT));
        }
        sync(self.0.as_fd(), SYNC_READ)
    }

    pub fn end_read(&self) -> Result<(), OsError> {
        sync(self.0.as_fd(), SYNC_READ | SYNC_END)
    }
}

fn sync(file: BorrowedFd<'_>, flags: u64) -> Result<(), OsError> {
    let mut tries = 0;
    loop {
        // SAFETY: an open descriptor; the argument is a struct of one 64-bit number, read only.
        let result = check("ioctl(DMA_BUF_IOCTL_SYNC)", unsafe {
            libc::ioctl(file.as_raw_fd(), SYNC, &raw const flags)
        });
        tries += 1;
        match result {
            Err(error) if tries < TRIES_MAX && is_interruption(&error) => {}
            other => return other.map(drop),
        }
    }
}

fn is_interruption(error: &OsError) -> bool {
    matches!(error.code(), Some(libc::EINTR | libc::EAGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::MemoryFile;

    #[test]
    fn a_memory_file_is_none_and_cannot_be_synchronised() {
        let file = MemoryFile::create(c"test", 4096).unwrap();
        assert!(!DmaBuffer::is_one(file.as_fd()).unwrap());
        let error = sync(file.as_fd(), SYNC_READ).unwrap_err();
        assert_eq!(error.code(), Some(libc::ENOTTY));
    }

    #[test]
    fn a_device_that_does_not_finish_is_not_waited_for_for_ever() {
        // In the place of a buffer that a device still writes to: nothing to read.
        let (busy, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let buffer = DmaBuffer::received(busy.into());
        let until = crate::clock::now_ns() + 1_000_000;
        let error = buffer.begin_read(until).unwrap_err();
        assert_eq!(error.code(), Some(libc::ETIMEDOUT));
    }

    #[test]
    fn what_has_no_size_cannot_be_mapped() {
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(DmaBuffer::received(end.into()).map().is_err());
    }
}

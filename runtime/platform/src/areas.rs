//! Areas of a memory file that this process writes and others can only read.
//!
//! Unlike a [`Mapping`], an area gives out a slice: no other process can write to it, and in this one an area has one owner.

use std::any::Any;
use std::ffi::CStr;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::OsError;
use crate::pinned::Pins;
use crate::shared_memory::{Access, MemoryFile, Seals};

/// Areas begin at multiples of this many bytes, behind the head.
pub const AREA_ALIGNMENT: usize = 4096;

/// Some bytes that stay where they are.
pub struct Area {
    start: NonNull<u8>,
    bytes: usize,
    // The memory stays until the last area of it is dropped.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: an area is the only way to its bytes in this process, and no other can write to them.
unsafe impl Send for Area {}
// SAFETY: a shared area can only be read.
unsafe impl Sync for Area {}

impl fmt::Debug for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Area({} bytes at {:p})", self.bytes, self.start)
    }
}

/// A file of `count` areas of `bytes` each behind `head`, and the areas. Every page is there, and stays where it is, whatever
/// its readers do: an area's writer waits for no other thread or process. No process can write to the file except through the
/// areas, not even one that opens it anew by way of /proc.
pub fn shared(
    name: &CStr,
    head: &[u8],
    count: usize,
    bytes: usize,
) -> Result<(MemoryFile, Vec<Area>), OsError> {
    let too_large = || OsError::from_code("memfd_create", libc::EFBIG);
    let first = head.len().next_multiple_of(AREA_ALIGNMENT);
    let stride = bytes.next_multiple_of(AREA_ALIGNMENT);
    let total = stride.checked_mul(count).ok_or_else(too_large)?;
    let total = total.checked_add(first).ok_or_else(too_large)?;
    let file = MemoryFile::create(name, total.max(AREA_ALIGNMENT))?;
    let mapping = file.map(Access::ReadWrite)?;
    let pins = Pins::of(&mapping)?;
    // After our own mapping, which is the only one that can write.
    file.seal(Seals::FUTURE_WRITE.and(Seals::SEAL))?;
    let base = NonNull::new(mapping.as_ptr()).expect("mappings are not at zero");
    let owner = Arc::new((mapping, pins));
    // SAFETY: the head lies within the mapping, which no other thread or process has seen yet.
    unsafe { base.copy_from_nonoverlapping(NonNull::from(head).cast(), head.len()) };
    let area = |at: usize| Area {
        // SAFETY: within the mapping, whose size is that of the head and all strides.
        start: unsafe { base.add(first + at * stride) },
        bytes,
        _owner: owner.clone(),
    };
    Ok((file, (0..count).map(area).collect()))
}

impl Area {
    /// Zeros that no other process sees: for measurements and tests.
    #[must_use]
    pub fn private(bytes: usize) -> Self {
        // Cache lines, so that an area is aligned as a shared one is within its page.
        #[repr(C, align(64))]
        struct Line([std::cell::UnsafeCell<u8>; 64]);
        // SAFETY: only reached through the one area that is made here.
        unsafe impl Sync for Line {}
        let lines =
            (0..bytes.div_ceil(64)).map(|_| Line([const { std::cell::UnsafeCell::new(0) }; 64]));
        let owner: Arc<[Line]> = lines.collect();
        let start = NonNull::new(owner.as_ptr().cast_mut().cast()).expect("slices are not at zero");
        Self {
            start,
            bytes,
            _owner: Arc::new(owner),
        }
    }

    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: within the memory of its owner, which is initialised; no thread or process writes while the area is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above; areas do not overlap, and `&mut self` makes this the only slice of it. Other processes only
        // read, and what they see before a result says that it is complete is theirs to ignore.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_of_a_file_are_apart_and_readable_by_others() {
        let (file, mut areas) = shared(c"test", b"head", 2, 5000).unwrap();
        areas[0].as_mut_slice().fill(1);
        areas[1].as_mut_slice().fill(2);
        let reader = file.map(Access::Read).unwrap();
        let at = |at: usize| {
            assert!(at < reader.bytes());
            // SAFETY: in bounds.
            unsafe { reader.as_ptr().add(at).read_volatile() }
        };
        assert_eq!(at(3), b'd');
        let first = AREA_ALIGNMENT;
        assert_eq!([at(first), at(first + 4999), at(first + 5000)], [1, 1, 0]);
        assert_eq!([at(first + 8192), at(first + 8192 + 4999)], [2, 2]);
    }

    #[test]
    fn nobody_else_can_write_not_even_by_opening_the_file_anew() {
        use std::os::fd::{AsFd, AsRawFd};
        let (file, areas) = shared(c"test", b"", 1, 64).unwrap();
        assert!(file.map(Access::ReadWrite).is_err());
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let again = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path);
        if let Ok(again) = again {
            use std::os::unix::fs::FileExt;
            assert!(again.write_all_at(&[9], AREA_ALIGNMENT as u64).is_err());
            let again = MemoryFile::received(again.into()).unwrap();
            assert!(again.map(Access::ReadWrite).is_err());
        }
        assert!(areas[0].as_slice().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_private_area_is_aligned_and_zero() {
        let mut area = Area::private(100);
        assert_eq!(area.as_slice(), [0; 100]);
        area.as_mut_slice()[99] = 7;
        assert_eq!(area.as_slice()[99], 7);
        assert!(area.as_slice().as_ptr().addr().is_multiple_of(64));
    }
}

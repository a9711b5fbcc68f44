//! Access to memory that another process may write to at any moment.
//!
//! Only three things are ever done with it: atomic loads and stores of aligned words, reading
//! bytes by instructions that the compiler knows nothing about ([`SharedBytes`]), and handing the client its own
//! slot. No reference to anything but an atomic is made.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use punctual_platform::atomics::{AtomicU32, AtomicU64, Ordering};
use punctual_platform::shared_memory::Mapping;
use punctual_types::{HeldBytes, SharedBytes};

/// A stretch of shared memory, kept mapped by every clone of it.
#[derive(Clone)]
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    // Dropped on whichever thread drops last; see `ServerChannel::split`.
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the region is an address range kept alive by its owner; all access is atomic or by
// `SharedBytes`, both of which allow concurrent writes by other threads or processes.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} bytes at {:p})", self.bytes, self.start)
    }
}

impl Region {
    /// All of a mapping.
    #[must_use]
    pub(crate) fn of(mapping: Mapping) -> Self {
        let start = NonNull::new(mapping.as_ptr()).expect("mappings are not at zero");
        Self {
            start,
            bytes: mapping.bytes(),
            owner: Arc::new(mapping),
        }
    }

    /// Zeroed memory that no other process sees, under the same rules; for tests.
    #[must_use]
    pub fn private(bytes: usize) -> Self {
        let words = (0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0));
        let owner = Arc::new(words.collect::<Vec<_>>());
        Self {
            start: NonNull::from(owner.as_slice()).cast(),
            bytes,
            owner,
        }
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The 32-bit word at `offset`. Storing to a read-only mapping kills the process.
    ///
    /// # Panics
    /// If it is outside or not aligned: offsets come from our own layout only.
    #[must_use]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        let word = self.at(offset, size_of::<u32>()).cast();
        // SAFETY: in bounds and aligned (asserted), mapped as long as self; other writers, be
        // they in other processes, are what atomics are for. Loads of 32 bits never write, so
        // read-only pages do.
        unsafe { AtomicU32::from_ptr(word.as_ptr()) }
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Panics
    /// As for [`word32`](Self::word32).
    #[must_use]
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        let word = self.at(offset, size_of::<u64>()).cast();
        // SAFETY: as for word32; both supported architectures load 64 bits without writing.
        unsafe { AtomicU64::from_ptr(word.as_ptr()) }
    }

    /// Stores to the 64-bit word at `offset`, in no order with anything; for tests.
    ///
    /// # Panics
    /// As for [`word32`](Self::word32).
    pub fn write_word(&self, offset: usize, value: u64) {
        self.word64(offset).store(value, Ordering::Relaxed);
    }

    /// Copies the bytes from `offset` on into `to`. They may change meanwhile: what arrives is
    /// some mixture of what was there.
    ///
    /// # Panics
    /// If they are not all inside.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) {
        self.shared(offset, to.len()).copy_to(to);
    }

    /// `bytes` from `offset` on, to be read where they are. They may change meanwhile.
    ///
    /// # Panics
    /// If they are not all inside.
    pub(crate) fn shared(&self, offset: usize, bytes: usize) -> SharedBytes<'_> {
        let start = self.span(offset, bytes);
        // SAFETY: in bounds, and mapped as long as self.
        unsafe { SharedBytes::new(start, bytes) }
    }

    /// All of it, kept mapped by what is returned.
    pub(crate) fn held(&self) -> HeldBytes {
        // SAFETY: the owner keeps it mapped.
        unsafe { HeldBytes::new(self.start, self.bytes, Arc::clone(&self.owner)) }
    }

    /// Where the byte at `offset` is, for `bytes` from there on.
    ///
    /// # Panics
    /// If they are not all inside.
    pub(crate) fn span(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(
            offset <= self.bytes && bytes <= self.bytes - offset,
            "{bytes} bytes at {offset} of a region of {}",
            self.bytes
        );
        // SAFETY: in bounds.
        unsafe { self.start.add(offset) }
    }

    fn at(&self, offset: usize, size: usize) -> NonNull<u8> {
        assert!(offset.is_multiple_of(size), "unaligned word at {offset}");
        self.span(offset, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "of a region of 64")]
    fn reading_beyond_the_end_is_a_programmers_error() {
        Region::private(64).copy_out(60, &mut [0; 5]);
    }

    #[test]
    #[should_panic(expected = "unaligned")]
    fn unaligned_words_are_a_programmers_error() {
        let _ = Region::private(64).word64(4);
    }
}

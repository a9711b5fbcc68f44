//! Shared memory as the model checker sees it: every word an atomic of its own. Payloads are not
//! modelled; models put a cell of the checker in a payload's place, which notices two users at once.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use punctual_platform::atomics::{AtomicU32, AtomicU64, Ordering};
use punctual_platform::shared_memory::Mapping;
use punctual_types::{HeldBytes, SharedBytes};

/// A stretch of shared memory. Each word is used with one width only, so the two widths need not overlap.
#[derive(Clone)]
pub struct Region {
    bytes: usize,
    words32: Arc<[AtomicU32]>,
    words64: Arc<[AtomicU64]>,
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} modelled bytes)", self.bytes)
    }
}

impl Region {
    /// None: models map nothing.
    pub(crate) fn of(mapping: Mapping) -> Self {
        panic!("{} bytes mapped in a model", mapping.bytes())
    }

    /// Zeroed words.
    #[must_use]
    pub fn private(bytes: usize) -> Self {
        Self {
            bytes,
            words32: (0..bytes / 4).map(|_| AtomicU32::new(0)).collect(),
            words64: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The 32-bit word at `offset`.
    ///
    /// # Panics
    /// If it is outside or not aligned.
    #[must_use]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "unaligned word at {offset}");
        &self.words32[offset / 4]
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Panics
    /// If it is outside or not aligned.
    #[must_use]
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "unaligned word at {offset}");
        &self.words64[offset / 8]
    }

    /// Stores to the 64-bit word at `offset`, in no order with anything.
    ///
    /// # Panics
    /// As for [`word64`](Self::word64).
    pub fn write_word(&self, offset: usize, value: u64) {
        self.word64(offset).store(value, Ordering::Relaxed);
    }

    /// None: payloads are not modelled.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) {
        panic!("{} bytes at {offset} copied in a model", to.len())
    }

    /// None: payloads are not modelled.
    pub(crate) fn shared(&self, offset: usize, bytes: usize) -> SharedBytes<'_> {
        panic!("{bytes} bytes at {offset} read in a model")
    }

    /// None: payloads are not modelled.
    pub(crate) fn held(&self) -> HeldBytes {
        panic!("{} bytes held in a model", self.bytes)
    }

    /// None: payloads are not modelled.
    pub(crate) fn span(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        panic!("{bytes} bytes at {offset} touched in a model")
    }
}

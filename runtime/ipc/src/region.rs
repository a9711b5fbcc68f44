//! Access to memory that another process may write to at any moment.
//!
//! Only three things are ever done with it: atomic loads and stores of aligned words, copying
//! bytes out by instructions that the compiler knows nothing about, and handing the client its own
//! slot. No reference to anything but an atomic is made.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use punctual_platform::atomics::{AtomicU32, AtomicU64, Ordering};
use punctual_platform::shared_memory::Mapping;

/// A stretch of shared memory, kept mapped by every clone of it.
#[derive(Clone)]
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    // Dropped on whichever thread drops last; see `ServerChannel::split`.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the region is an address range kept alive by its owner; all access is atomic or a copy
// by `copy_out`, both of which allow concurrent writes by other threads or processes.
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
            _owner: Arc::new(mapping),
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
            _owner: owner,
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
        assert!(
            offset <= self.bytes && to.len() <= self.bytes - offset,
            "{} bytes at {offset} of a region of {}",
            to.len(),
            self.bytes
        );
        // SAFETY: in bounds on both sides; `to` is ours alone and cannot overlap shared memory.
        unsafe { copy_bytes(self.start.as_ptr().add(offset), to.as_mut_ptr(), to.len()) }
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

/// Copies by `rep movsb`, which is as fast as memcpy and, unlike it, no access of the abstract machine's.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`; they do not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; the direction flag is clear on entry to any asm block.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies 64 bytes at a time through vector registers, then single bytes, by instructions that are
/// no accesses of the abstract machine's.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`; they do not overlap.
#[cfg(all(target_arch = "aarch64", not(miri)))]
unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; both loops stop at `bytes`.
    unsafe {
        std::arch::asm!(
            "2:",
            "cmp {n}, #64",
            "b.lo 3f",
            "ldp {a:q}, {b:q}, [{from}], #32",
            "ldp {c:q}, {d:q}, [{from}], #32",
            "stp {a:q}, {b:q}, [{to}], #32",
            "stp {c:q}, {d:q}, [{to}], #32",
            "sub {n}, {n}, #64",
            "b 2b",
            "3:",
            "cbz {n}, 4f",
            "ldrb {byte:w}, [{from}], #1",
            "strb {byte:w}, [{to}], #1",
            "sub {n}, {n}, #1",
            "b 3b",
            "4:",
            n = inout(reg) bytes => _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            byte = out(reg) _,
            a = out(vreg) _,
            b = out(vreg) _,
            c = out(vreg) _,
            d = out(vreg) _,
            options(nostack),
        );
    }
}

/// Copies byte by byte, for Miri and architectures without a faster way.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`; they do not overlap.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    use std::sync::atomic::AtomicU8;
    for at in 0..bytes {
        // SAFETY: the caller's promise.
        unsafe {
            let byte = AtomicU8::from_ptr(from.cast_mut().add(at));
            to.add(at).write(byte.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_length_and_alignment_are_exact() {
        let region = Region::private(512);
        for at in 0..64 {
            let value = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            region.word64(at * 8).store(value, Ordering::Relaxed);
        }
        let byte = |at: usize| {
            let word = region.word64(at / 8 * 8).load(Ordering::Relaxed);
            word.to_ne_bytes()[at % 8]
        };
        for offset in [0, 1, 7, 63] {
            for length in (0..140).chain([200, 256, 449]) {
                let mut copy = [0xEE_u8; 512];
                region.copy_out(offset, &mut copy[..length]);
                assert!((0..length).all(|i| copy[i] == byte(offset + i)));
                assert!(copy[length..].iter().all(|&b| b == 0xEE));
            }
        }
    }

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

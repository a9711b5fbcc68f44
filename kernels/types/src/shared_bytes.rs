//! Bytes that another process may write to at any moment.
//!
//! A Rust reference to such memory would be unsound, and so would reads that the compiler knows: it may read twice what a
//! program reads once. Here bytes are read by instructions that are no accesses of the abstract machine's, each once, into values
//! of our own. What changes meanwhile changes those values and nothing else: places come from sizes of ours, and are checked.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// A stretch of memory that others may write to, readable for `'a`.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    start: NonNull<u8>,
    len: usize,
    mapped: PhantomData<&'a ()>,
}

// SAFETY: an address range that stays readable for `'a`, whichever thread reads; what others write meanwhile is allowed for.
unsafe impl Send for SharedBytes<'_> {}
// SAFETY: as above.
unsafe impl Sync for SharedBytes<'_> {}

impl fmt::Debug for SharedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({} at {:p})", self.len, self.start)
    }
}

impl<'a> From<&'a [u8]> for SharedBytes<'a> {
    /// Constant memory can be read in the same way.
    fn from(bytes: &'a [u8]) -> Self {
        Self {
            start: NonNull::from(bytes).cast(),
            len: bytes.len(),
            mapped: PhantomData,
        }
    }
}

/// The same, readable as long as this exists: for what a device is told to read.
#[derive(Clone)]
pub struct HeldBytes {
    start: NonNull<u8>,
    len: usize,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: as for `SharedBytes`; the owner may be dropped on any thread.
unsafe impl Send for HeldBytes {}
// SAFETY: as above.
unsafe impl Sync for HeldBytes {}

impl HeldBytes {
    /// Memory that others may write to.
    ///
    /// # Safety
    /// It is readable for `len` bytes as long as the owner exists.
    #[must_use]
    pub const unsafe fn new(
        start: NonNull<u8>,
        len: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            start,
            len,
            _owner: owner,
        }
    }

    /// All of them.
    #[must_use]
    pub const fn bytes(&self) -> SharedBytes<'_> {
        SharedBytes {
            start: self.start,
            len: self.len,
            mapped: PhantomData,
        }
    }
}

/// Memory of a client's frames, for a device that may read them where they lie.
#[derive(Clone)]
pub struct FrameMemory {
    /// As this process reads it.
    pub bytes: HeldBytes,
    /// The DMA-BUF whose bytes they are, from the first on: a device reads it by an address of its own.
    pub dma_buf: Option<Arc<OwnedFd>>,
}

impl From<HeldBytes> for FrameMemory {
    fn from(bytes: HeldBytes) -> Self {
        Self {
            bytes,
            dma_buf: None,
        }
    }
}

impl From<Arc<[u8]>> for HeldBytes {
    /// Constant memory can be read in the same way.
    fn from(bytes: Arc<[u8]>) -> Self {
        Self {
            start: NonNull::from(&*bytes).cast(),
            len: bytes.len(),
            _owner: Arc::new(bytes),
        }
    }
}

impl SharedBytes<'_> {
    /// Memory that others may write to.
    ///
    /// # Safety
    /// It is readable for `len` bytes as long as the lifetime lasts.
    #[must_use]
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self {
            start,
            len,
            mapped: PhantomData,
        }
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the first one is in this process.
    #[must_use]
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// `len` bytes from `offset` on.
    ///
    /// # Panics
    /// If they are not all inside.
    #[must_use]
    #[inline(always)]
    pub fn part(self, offset: usize, len: usize) -> Self {
        Self {
            start: self.at(offset, len),
            len,
            mapped: PhantomData,
        }
    }

    /// Eight bytes from `offset` on.
    ///
    /// # Panics
    /// If they are not all inside.
    #[must_use]
    #[inline(always)]
    pub fn eight(self, offset: usize) -> [u8; 8] {
        // SAFETY: readable for 8 bytes, as `at` has checked.
        unsafe { load_eight(self.at(offset, 8).as_ptr()) }
    }

    /// As [`eight`](Self::eight), into a vector register.
    ///
    /// # Safety
    /// On x86-64 the processor has AVX.
    ///
    /// # Panics
    /// As [`eight`](Self::eight).
    #[must_use]
    #[inline(always)]
    pub unsafe fn eight_as_vector(self, offset: usize) -> [u8; 8] {
        // SAFETY: readable for 8 bytes, as `at` has checked; of the processor the caller says so.
        unsafe { load_eight_as_vector(self.at(offset, 8).as_ptr()) }
    }

    /// Copies all of them.
    ///
    /// # Panics
    /// If the copy has another length.
    pub fn copy_to(self, copy: &mut [u8]) {
        assert!(
            copy.len() == self.len,
            "{} bytes into {}",
            self.len,
            copy.len()
        );
        // SAFETY: as long on both sides; `copy` is ours alone, so nothing overlaps.
        unsafe { copy_bytes(self.start.as_ptr(), copy.as_mut_ptr(), self.len) }
    }

    /// As [`copy_to`](Self::copy_to), through vector registers: faster for some hundred bytes.
    ///
    /// # Safety
    /// On x86-64 the processor has AVX.
    ///
    /// # Panics
    /// As [`copy_to`](Self::copy_to).
    #[inline(always)]
    pub unsafe fn copy_to_by_vectors(self, copy: &mut [u8]) {
        if copy.len() != self.len {
            outside(0, copy.len(), self.len);
        }
        // SAFETY: as in `copy_to`; of the processor the caller says so.
        unsafe { copy_bytes_by_vectors(self.start.as_ptr(), copy.as_mut_ptr(), self.len) }
    }

    #[inline(always)]
    fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        if offset > self.len || len > self.len - offset {
            outside(offset, len, self.len);
        }
        // SAFETY: in bounds.
        unsafe { self.start.add(offset) }
    }
}

/// Apart from where it is called: what it says takes registers.
#[cold]
#[inline(never)]
fn outside(offset: usize, len: usize, of: usize) -> ! {
    panic!("{len} bytes at {offset} of {of}");
}

/// # Safety
/// `from` is readable for 8 bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn load_eight(from: *const u8) -> [u8; 8] {
    let word: u64;
    // SAFETY: the caller's promise.
    unsafe {
        std::arch::asm!(
            "mov {word}, qword ptr [{from}]",
            word = out(reg) word,
            from = in(reg) from,
            options(nostack, readonly, preserves_flags),
        );
    }
    word.to_le_bytes()
}

/// # Safety
/// `from` is readable for 8 bytes, and the processor has AVX.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn load_eight_as_vector(from: *const u8) -> [u8; 8] {
    let vector: f64;
    // SAFETY: the caller's promise. In the encoding of AVX: between instructions of AVX the other one is slow.
    unsafe {
        std::arch::asm!(
            "vmovq {vector}, qword ptr [{from}]",
            vector = out(xmm_reg) vector,
            from = in(reg) from,
            options(nostack, readonly, preserves_flags),
        );
    }
    vector.to_bits().to_le_bytes()
}

/// # Safety
/// `from` is readable for 8 bytes.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
unsafe fn load_eight(from: *const u8) -> [u8; 8] {
    let vector: f64;
    // SAFETY: the caller's promise.
    unsafe {
        std::arch::asm!(
            "ldr {vector:d}, [{from}]",
            vector = out(vreg) vector,
            from = in(reg) from,
            options(nostack, readonly, preserves_flags),
        );
    }
    vector.to_bits().to_le_bytes()
}

/// Byte by byte, for Miri and architectures without a faster way.
///
/// # Safety
/// `from` is readable for 8 bytes.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline(always)]
unsafe fn load_eight(from: *const u8) -> [u8; 8] {
    // SAFETY: the caller's promise.
    std::array::from_fn(|at| unsafe { load_one(from.add(at)) })
}

/// # Safety
/// `from` is readable for 8 bytes.
#[cfg(any(miri, not(target_arch = "x86_64")))]
#[inline(always)]
unsafe fn load_eight_as_vector(from: *const u8) -> [u8; 8] {
    // SAFETY: the caller's promise.
    unsafe { load_eight(from) }
}

/// # Safety
/// `from` is readable.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline(always)]
unsafe fn load_one(from: *const u8) -> u8 {
    use std::sync::atomic::{AtomicU8, Ordering};
    // SAFETY: the caller's promise; a load of a byte never writes.
    unsafe { AtomicU8::from_ptr(from.cast_mut()).load(Ordering::Relaxed) }
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

/// Copies 32 bytes at a time, then single bytes, by instructions that are no accesses of the abstract machine's.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`; they do not overlap. The processor has AVX.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn copy_bytes_by_vectors(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; both loops stop at `bytes`.
    unsafe {
        std::arch::asm!(
            "2:",
            "cmp {n}, 32",
            "jb 3f",
            "vmovdqu {a}, xmmword ptr [{from}]",
            "vmovdqu {b}, xmmword ptr [{from} + 16]",
            "vmovdqu xmmword ptr [{to}], {a}",
            "vmovdqu xmmword ptr [{to} + 16], {b}",
            "add {from}, 32",
            "add {to}, 32",
            "sub {n}, 32",
            "jmp 2b",
            "3:",
            "test {n}, {n}",
            "jz 4f",
            "movzx {byte:e}, byte ptr [{from}]",
            "mov byte ptr [{to}], {byte:l}",
            "inc {from}",
            "inc {to}",
            "dec {n}",
            "jmp 3b",
            "4:",
            n = inout(reg) bytes => _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            byte = out(reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// # Safety
/// As [`copy_bytes`].
#[cfg(any(miri, not(target_arch = "x86_64")))]
unsafe fn copy_bytes_by_vectors(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_bytes(from, to, bytes) }
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
    for at in 0..bytes {
        // SAFETY: the caller's promise.
        unsafe { to.add(at).write(load_one(from.add(at))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 31 % 251) as u8).collect()
    }

    #[test]
    fn copies_of_every_length_and_alignment_are_exact() {
        let bytes = numbered(512);
        for offset in [0, 1, 7, 63] {
            for length in (0..140).chain([200, 256, 449]) {
                let mut copy = [0xEE_u8; 512];
                let part = SharedBytes::from(&bytes[..]).part(offset, length);
                part.copy_to(&mut copy[..length]);
                assert_eq!(copy[..length], bytes[offset..][..length]);
                assert!(copy[length..].iter().all(|&b| b == 0xEE));
                if has_avx() {
                    // SAFETY: the processor has AVX, where that is a thing to have.
                    unsafe { part.copy_to_by_vectors(&mut copy[512 - length..]) }
                    assert_eq!(copy[512 - length..], bytes[offset..][..length]);
                }
            }
        }
    }

    fn has_avx() -> bool {
        #[cfg(target_arch = "x86_64")]
        return std::arch::is_x86_feature_detected!("avx");
        #[cfg(not(target_arch = "x86_64"))]
        true
    }

    #[test]
    fn loads_at_every_alignment_are_exact() {
        let bytes = numbered(80);
        let shared = SharedBytes::from(&bytes[..]);
        for offset in 0..72 {
            assert_eq!(shared.eight(offset)[..], bytes[offset..][..8]);
            if has_avx() {
                // SAFETY: the processor has AVX, where that is a thing to have.
                let eight = unsafe { shared.eight_as_vector(offset) };
                assert_eq!(eight[..], bytes[offset..][..8]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "8 bytes at 60 of 64")]
    fn reading_beyond_the_end_is_a_programmers_error() {
        let _ = SharedBytes::from(&[0; 64][..]).eight(60);
    }
}

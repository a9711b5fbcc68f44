//! Zeroed f32 memory on cache-line boundaries.

use core::ops::{Deref, DerefMut};

/// A cache line: also the widest vector.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f32; Line::VALUES]);

impl Line {
    const VALUES: usize = 16;
}

/// A slice of f32 that starts on a 64-byte boundary, where vector loads are fastest. Allocated
/// and zeroed when made, of fixed length.
#[derive(Clone, Debug)]
pub struct AlignedBuffer {
    lines: Box<[Line]>,
    len: usize,
}

impl AlignedBuffer {
    pub fn zeroed(len: usize) -> AlignedBuffer {
        let lines = vec![Line([0.0; Line::VALUES]); len.div_ceil(Line::VALUES)];
        AlignedBuffer {
            lines: lines.into_boxed_slice(),
            len,
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `lines` holds at least `len` consecutive, initialised f32: a `Line` is 16 of
        // them without padding (64 bytes, C layout).
        unsafe { core::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `deref`; `&mut self` is the only borrow.
        unsafe { core::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_starts_on_a_cache_line_and_is_zero() {
        for len in [0, 1, 16, 17] {
            let mut buffer = AlignedBuffer::zeroed(len);
            assert_eq!(buffer.len(), len);
            assert!(buffer.as_ptr().cast::<Line>().is_aligned());
            assert!(buffer.iter().all(|&value| value == 0.0));
            buffer.fill(1.0);
            assert_eq!(buffer.iter().sum::<f32>(), len as f32);
        }
    }
}

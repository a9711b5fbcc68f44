//! Floats of memory seen as the bytes and integers that were put there.

use core::slice::{from_raw_parts, from_raw_parts_mut};

/// The bytes of `floats`.
pub(crate) fn bytes(floats: &[f32]) -> &[u8] {
    // SAFETY: the same memory, all of it initialised; a byte has any value and any address.
    unsafe { from_raw_parts(floats.as_ptr().cast(), size_of_val(floats)) }
}

/// The bytes of `floats`, to write.
pub(crate) fn bytes_mut(floats: &mut [f32]) -> &mut [u8] {
    // SAFETY: as in `bytes`; any four bytes are some f32, and the borrow is exclusive.
    unsafe { from_raw_parts_mut(floats.as_mut_ptr().cast(), size_of_val(floats)) }
}

//! The mask of a stream, written where the driver keeps it.
//!
//! A stream's handle points to a pointer to an object of the driver's, and in that object, at an
//! offset which differs from driver to driver, lie the TPCs that the stream's launches may not use
//! (Bakita and Anderson, "Hardware Compute Partitioning on NVIDIA GPUs", RTAS 2023). [`find`] looks
//! the offset up, [`candidates`] are those worth trying where it is not known, [`Layout`] says how the mask lies
//! there, [`write`] puts it there.
//!
//! An offset is a claim. A wrong one damages the driver's memory, so it is tried in a
//! process that may die, TPC by TPC, before a process that matters uses it.

mod candidates;
mod layout;
mod table;

use std::ffi::c_void;

pub use candidates::candidates;
pub use layout::{Layout, LayoutError, Place};
pub use table::{ROWS, Row, Standing, UnknownDriver, find};

use crate::mask::TpcMask;
use layout::WORDS_MAX;

/// Restricts all later launches of a stream to the TPCs of `mask`.
///
/// # Errors
/// If the layout cannot say the mask; then nothing is written.
///
/// # Safety
/// - `stream` is a `CUstream` made by `cuStreamCreate` or
///   `cuStreamCreateWithPriority` and not destroyed: none of the driver's special handles, and no stream of
///   a green context.
/// - `place` is that of the mask in that driver's stream objects. No vendor documents it; the caller
///   has tried the place in a child process, or is that child.
/// - No other thread launches into the stream meanwhile.
pub unsafe fn write(
    stream: *mut c_void,
    Place { offset, layout }: Place,
    mask: TpcMask,
) -> Result<(), LayoutError> {
    let words = layout.words_of(mask)?;
    // SAFETY: by the caller's promise.
    let place = unsafe { address(stream, offset) };
    // The flag comes last: the words that it makes valid are there then.
    for at in (0..layout.words()).rev() {
        // SAFETY: by the caller's promise the words of the mask lie from `place` on, and no other thread
        // reads them now. Volatile: the driver reads this memory, which the compiler cannot know.
        unsafe { place.add(at).write_volatile(words[at]) };
    }
    Ok(())
}

/// What a stream is restricted to.
///
/// # Safety
/// As of [`write`].
#[must_use]
pub unsafe fn read(stream: *mut c_void, Place { offset, layout }: Place) -> TpcMask {
    // SAFETY: by the caller's promise.
    let place = unsafe { address(stream, offset) };
    let mut words = [0; WORDS_MAX];
    for (at, word) in words.iter_mut().enumerate().take(layout.words()) {
        // SAFETY: as in `write`.
        *word = unsafe { place.add(at).read_volatile() };
    }
    layout.mask_of(words)
}

/// Where the mask of a stream begins. Aligned, as the driver's objects are and all offsets are multiples of four.
///
/// # Safety
/// As of [`write`].
unsafe fn address(stream: *mut c_void, offset: usize) -> *mut u32 {
    // SAFETY: a stream's handle points to a pointer to its object, and the offset lies in it.
    unsafe { stream.cast::<*mut u8>().read().add(offset).cast() }
}

#[cfg(test)]
mod tests;

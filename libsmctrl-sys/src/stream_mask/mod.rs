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
mod table;

use std::ffi::c_void;

pub use candidates::candidates;
pub use table::{ROWS, Row, Standing, UnknownDriver, find};

use crate::key::CudaVersion;
use crate::mask::TpcMask;

/// Where a driver keeps the mask of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the stream's object to the mask: a multiple of four.
    pub offset: usize,
    /// How it lies there.
    pub layout: Layout,
}

/// How a mask lies in a stream's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Up to CUDA 11.8: `{ u32 upper, u32 lower }`, for 64 TPCs. Bits 32 to 63 come first.
    UpperLower,
    /// From CUDA 12.0: `{ u32 enabled, u32 mask[4] }`, for 128 TPCs. The lowest bits come first;
    /// `enabled` is 1 where the mask counts.
    EnabledFourWords,
}

/// A mask that a layout has no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Some, but not all, of TPCs 64 to 127 are enabled.
    #[error(
        "enabled TPCs {enabled:#x}: drivers before CUDA 12.0 know TPCs 0 to 63 only; use those"
    )]
    TooManyTpcs {
        /// A set bit is an enabled TPC.
        enabled: u128,
    },
    /// Fewer bytes than the mask takes.
    #[error("{bytes} bytes are too few for a mask of {needed}")]
    TooShort {
        bytes: usize,
        /// What the layout takes.
        needed: usize,
    },
}

impl Layout {
    /// That of a driver.
    #[must_use]
    pub fn of(version: CudaVersion) -> Self {
        if version < CudaVersion::new(12, 0) {
            Self::UpperLower
        } else {
            Self::EnabledFourWords
        }
    }

    /// Bits of a mask, and so TPCs at most.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::UpperLower => 64,
            Self::EnabledFourWords => 128,
        }
    }

    /// How many 32-bit words it takes.
    #[must_use]
    pub const fn words(self) -> usize {
        match self {
            Self::UpperLower => 2,
            Self::EnabledFourWords => WORDS_MAX,
        }
    }

    /// Bytes that it takes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.words() * size_of::<u32>()
    }

    /// Writes `mask` to the first bytes of `to`, in this machine's order of bytes.
    ///
    /// # Errors
    /// If the layout cannot say it, or `to` is too short; then nothing is written.
    pub fn encode(self, mask: TpcMask, to: &mut [u8]) -> Result<(), LayoutError> {
        let needed = self.bytes();
        let bytes = to.len();
        let words = self.words_of(mask)?;
        let to = to
            .get_mut(..needed)
            .ok_or(LayoutError::TooShort { bytes, needed })?;
        for (place, word) in to.chunks_exact_mut(size_of::<u32>()).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(())
    }

    /// Reads a mask from the first bytes of `from`.
    ///
    /// # Errors
    /// If `from` is too short.
    pub fn decode(self, from: &[u8]) -> Result<TpcMask, LayoutError> {
        let needed = self.bytes();
        let bytes = from.len();
        let from = from
            .get(..needed)
            .ok_or(LayoutError::TooShort { bytes, needed })?;
        let mut words = [0; WORDS_MAX];
        for (word, place) in words.iter_mut().zip(from.chunks_exact(size_of::<u32>())) {
            *word = u32::from_ne_bytes(place.try_into().expect("chunks of four bytes"));
        }
        Ok(self.mask_of(words))
    }

    /// The words of a mask; those that the layout has not are 0.
    fn words_of(self, mask: TpcMask) -> Result<[u32; WORDS_MAX], LayoutError> {
        let word = |at: u32| (mask.disabled_bits() >> (32 * at)) as u32;
        match self {
            Self::UpperLower => match mask.disabled_bits_64() {
                Some(bits) => Ok([(bits >> 32) as u32, bits as u32, 0, 0, 0]),
                None => Err(LayoutError::TooManyTpcs {
                    enabled: mask.enabled_bits(),
                }),
            },
            Self::EnabledFourWords => Ok([1, word(0), word(1), word(2), word(3)]),
        }
    }

    fn mask_of(self, words: [u32; WORDS_MAX]) -> TpcMask {
        let join = |high: u128, word: u32| high << 32 | u128::from(word);
        match self {
            Self::UpperLower => {
                let low = [words[0], words[1]].into_iter().fold(0, join);
                // There are no further TPCs; a restricted mask disables them, too.
                let high = if low == 0 { 0 } else { u128::MAX << 64 };
                TpcMask::from_disabled_bits(high | low)
            }
            Self::EnabledFourWords if words[0] == 0 => TpcMask::UNRESTRICTED,
            Self::EnabledFourWords => {
                TpcMask::from_disabled_bits(words[1..].iter().rev().copied().fold(0, join))
            }
        }
    }
}

const WORDS_MAX: usize = 5;

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

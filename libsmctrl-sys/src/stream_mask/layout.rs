//! How a mask lies in the object of a stream.

use crate::key::CudaVersion;
use crate::mask::TpcMask;

/// Where a driver keeps the mask of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the stream's object to the mask: a multiple of four.
    pub offset: usize,
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
    TooShort { bytes: usize, needed: usize },
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
    pub(super) fn words_of(self, mask: TpcMask) -> Result<[u32; WORDS_MAX], LayoutError> {
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

    pub(super) fn mask_of(self, words: [u32; WORDS_MAX]) -> TpcMask {
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

pub(super) const WORDS_MAX: usize = 5;

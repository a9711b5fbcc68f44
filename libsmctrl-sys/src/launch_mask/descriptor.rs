//! Where the descriptor of a launch holds the mask of TPCs.
//!
//! NVIDIA publishes the fields of its descriptors ("queue meta data", QMD) in the repository `open-gpu-doc`,
//! `classes/compute/cl*qmd.h`, by bits; the offsets here are those bits in bytes (read 2026).

use crate::mask::TpcMask;

/// Which versions of descriptors the chips of a device may use: the byte of the version is at one place up to
/// Hopper and, for version 5, at another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Kepler to Ada: versions 1 to 3.
    UpToAda,
    /// Versions 3 and 4.
    Hopper,
    /// Version 5, or 4 with more words, which name TPCs from 128 on.
    Blackwell,
}

impl Generation {
    /// That of the compute capabilities with this first number.
    #[must_use]
    pub const fn of_compute_capability(major: u32) -> Self {
        match major {
            0..=8 => Self::UpToAda,
            9 => Self::Hopper,
            _ => Self::Blackwell,
        }
    }

    /// Bits of its masks, and so TPCs at most.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::UpToAda => 64,
            Self::Hopper | Self::Blackwell => 128,
        }
    }

    /// The layouts to try with descriptors of a version whose mask is not published, the likeliest first: those of this
    /// generation's versions, the newest first, then all of their neighbours.
    #[must_use]
    pub fn candidates(self) -> Vec<Layout> {
        let published = match self {
            Self::UpToAda => &[Layout::VERSIONS_1_TO_3, Layout::VERSION_4][..],
            Self::Hopper => &[
                Layout::VERSION_4,
                Layout::VERSION_5,
                Layout::VERSIONS_1_TO_3,
            ],
            Self::Blackwell => &[Layout::VERSION_5, Layout::VERSION_4],
        };
        let moved = (0..=BEYOND).step_by(STEP).flat_map(|by| {
            published.iter().flat_map(move |layout| {
                let at = |mask_at| Layout { mask_at, ..*layout };
                [
                    at(layout.mask_at.saturating_sub(by)),
                    at(layout.mask_at + by),
                ]
            })
        });
        let mut candidates: Vec<Layout> = Vec::new();
        for layout in moved.filter(|layout| layout.is_inside()) {
            if !candidates.contains(&layout) {
                candidates.push(layout);
            }
        }
        candidates
    }

    /// How a descriptor with these bytes at the two places of a version holds a mask. None for a version whose
    /// mask is not published: nothing is guessed.
    #[must_use]
    pub const fn layout(self, version: VersionBytes) -> Option<Layout> {
        match (self, version.at_58, version.at_72) {
            (Self::Blackwell, 0x50, _) => Some(Layout::VERSION_5),
            (Self::Blackwell, _, 0x40 | 0x41) | (Self::Hopper, _, 0x40) => Some(Layout::VERSION_4),
            (Self::UpToAda, _, 0x16 | 0x17 | 0x20..=0x24 | 0x30) | (Self::Hopper, _, 0x30) => {
                Some(Layout::VERSIONS_1_TO_3)
            }
            _ => None,
        }
    }
}

/// What a descriptor holds where versions are: major in the upper four bits, minor in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionBytes {
    /// Of version 5.
    pub at_58: u8,
    /// Of versions 1 to 4.
    pub at_72: u8,
}

impl VersionBytes {
    /// # Safety
    /// `descriptor` points to at least 73 bytes.
    pub(super) unsafe fn of(descriptor: *const u8) -> Self {
        // SAFETY: by the caller's promise. Volatile: the driver writes this memory, which the compiler cannot know.
        unsafe {
            Self {
                at_58: descriptor.add(58).read_volatile(),
                at_72: descriptor.add(72).read_volatile(),
            }
        }
    }
}

/// How a descriptor holds a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes from the start of the descriptor to the mask's first word: a multiple of four.
    pub mask_at: usize,
    /// Its words of 32 TPCs: 2 or 4.
    pub words: usize,
    /// Bytes to the word whose highest bit says that the mask counts, a multiple of four; none: it always does.
    pub valid_at: Option<usize>,
}

/// Bytes of a descriptor of the versions that have masks of two words, and of those with more.
const BYTES: [usize; 2] = [256, 384];
/// How far from the published places a mask is looked for, and in which steps.
const BEYOND: usize = 64;
const STEP: usize = 8;

impl Layout {
    /// `SM_DISABLE_MASK_LOWER` and `_UPPER`, bits 672 to 735.
    pub const VERSIONS_1_TO_3: Self = Self {
        mask_at: 672 / 8,
        words: 2,
        valid_at: None,
    };
    /// `TPC_DISABLE_MASK(0..4)` from bit 2432 on, which count if bit 31 is set.
    pub const VERSION_4: Self = Self {
        mask_at: 2432 / 8,
        words: 4,
        valid_at: Some(0),
    };
    /// The same from bit 2240 on, and bit 159.
    pub const VERSION_5: Self = Self {
        mask_at: 2240 / 8,
        words: 4,
        valid_at: Some(16),
    };

    /// Whether a mask and its flag are inside of a descriptor, at whole words.
    #[must_use]
    pub fn is_inside(self) -> bool {
        let bytes = if self.words == 2 { BYTES[0] } else { BYTES[1] };
        let starts = [Some(self.mask_at), self.valid_at];
        let aligned = starts
            .into_iter()
            .flatten()
            .all(|at| at % 4 == 0 && at < bytes);
        aligned && matches!(self.words, 2 | 4) && self.mask_at + 4 * self.words <= bytes
    }

    /// Bits of its masks, and so TPCs at most.
    #[must_use]
    pub const fn bits(self) -> u32 {
        32 * self.words as u32
    }

    /// Writes a mask. None, and nothing is written, if there are too few words for it.
    ///
    /// # Safety
    /// `descriptor` points to a descriptor of this layout, at a multiple of four, which nothing else uses during the call.
    pub(super) unsafe fn write(self, descriptor: *mut u8, mask: TpcMask) -> Option<()> {
        if self.words == 2 {
            mask.disabled_bits_64()?;
        }
        for word in 0..self.words {
            let bits = (mask.disabled_bits() >> (32 * word)) as u32;
            let place = self.mask_at + word * size_of::<u32>();
            // SAFETY: by the caller's promise, and all offsets are multiples of four.
            unsafe { descriptor.add(place).cast::<u32>().write_volatile(bits) };
        }
        if let Some(at) = self.valid_at {
            // SAFETY: likewise.
            unsafe {
                let place = descriptor.add(at).cast::<u32>();
                place.write_volatile(place.read_volatile() | 1 << 31);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn bytes(at_58: u8, at_72: u8) -> VersionBytes {
        VersionBytes { at_58, at_72 }
    }

    fn written(layout: Layout, mask: TpcMask) -> Option<[u32; 96]> {
        let mut descriptor = [0; 96];
        // SAFETY: 384 bytes, more than any layout has, aligned and ours.
        unsafe { layout.write(descriptor.as_mut_ptr().cast(), mask) }?;
        Some(descriptor)
    }

    /// All words but these are 0.
    fn holds(descriptor: [u32; 96], words: &[(usize, u32)]) {
        let mut expected = [0; 96];
        for (byte, word) in words {
            expected[byte / 4] = *word;
        }
        assert_eq!(descriptor, expected);
    }

    #[test]
    fn a_mask_lies_where_the_published_headers_have_it() {
        let mask = TpcMask::from_disabled_bits(0x4444_4444_3333_3333_2222_2222_1111_1111);
        let four =
            |at: usize| [0, 1, 2, 3].map(|word| (at + 4 * word, 0x1111_1111 * (word as u32 + 1)));
        let mut version_4 = vec![(0, 1 << 31)];
        version_4.extend(four(304));
        holds(
            written(Layout::VERSION_4, mask).expect("it fits"),
            &version_4,
        );
        let mut version_5 = vec![(16, 1 << 31)];
        version_5.extend(four(280));
        holds(
            written(Layout::VERSION_5, mask).expect("it fits"),
            &version_5,
        );
        let mask = TpcMask::enabling([1, 34]);
        let words = [(84, !(1 << 1)), (88, !(1 << 2))];
        holds(
            written(Layout::VERSIONS_1_TO_3, mask).expect("it fits"),
            &words,
        );
    }

    #[test]
    fn a_mask_that_two_words_cannot_hold_is_not_written() {
        assert_eq!(
            written(Layout::VERSIONS_1_TO_3, TpcMask::enabling([3, 64])),
            None
        );
    }

    #[test]
    fn only_versions_whose_mask_is_published_have_a_layout() {
        use Generation::{Blackwell, Hopper, UpToAda};
        for version in [0x16, 0x17, 0x20, 0x24, 0x30] {
            assert_eq!(
                UpToAda.layout(bytes(0, version)),
                Some(Layout::VERSIONS_1_TO_3)
            );
        }
        assert_eq!(Hopper.layout(bytes(0, 0x40)), Some(Layout::VERSION_4));
        assert_eq!(Blackwell.layout(bytes(0, 0x41)), Some(Layout::VERSION_4));
        assert_eq!(Blackwell.layout(bytes(0x50, 0)), Some(Layout::VERSION_5));
        // Version 0.6 has no mask; of 5.1 the headers name the bit that makes a mask count, and no mask.
        assert_eq!(UpToAda.layout(bytes(0, 0x06)), None);
        assert_eq!(Blackwell.layout(bytes(0x51, 0)), None);
        assert_eq!(UpToAda.layout(bytes(0x50, 0)), None);
        assert_eq!(UpToAda.layout(bytes(0, 0x40)), None);
        assert_eq!(Hopper.layout(bytes(0, 0)), None);
    }

    #[test]
    fn what_a_version_may_have_is_tried_near_what_is_published() {
        let candidates = Generation::Blackwell.candidates();
        assert_eq!(candidates[..2], [Layout::VERSION_5, Layout::VERSION_4]);
        assert!(candidates.iter().all(|layout| layout.is_inside()));
        let moved = Layout {
            mask_at: 280 + 24,
            ..Layout::VERSION_5
        };
        assert!(candidates.contains(&moved));
        for (at, layout) in candidates.iter().enumerate() {
            assert!(!candidates[..at].contains(layout), "{layout:?}");
        }
    }

    #[test]
    fn a_layout_outside_of_descriptors_is_none() {
        let outside = |mask_at, words, valid_at| {
            !Layout {
                mask_at,
                words,
                valid_at,
            }
            .is_inside()
        };
        assert!(outside(372, 4, None) && outside(252, 2, None));
        assert!(outside(8, 3, None) && outside(10, 2, None) && outside(8, 2, Some(256)));
    }

    #[test]
    fn a_generation_is_that_of_the_compute_capability() {
        let of = Generation::of_compute_capability;
        assert_eq!(of(8), Generation::UpToAda);
        assert_eq!(of(9), Generation::Hopper);
        assert_eq!(of(12), Generation::Blackwell);
        assert_eq!((of(8).bits(), of(9).bits()), (64, 128));
    }
}

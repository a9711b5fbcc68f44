//! What a stream looks like.

use punctual_types::{
    AREA_BYTES_MAX, DESCRIPTION_BYTES_MAX, OUTPUT_ALIGNMENT, VECTOR_LENGTH_MAX, VECTORS_MAX,
};
use serde::{Deserialize, Serialize};

use crate::descriptor::Crop;
use crate::frame::{FrameError, FrameSpec};

/// The most slots a client can have.
pub(crate) const SLOTS_MAX: u16 = 256;
/// The most results that can wait for a client.
pub(crate) const RESULTS_MAX: u32 = 4096;
/// The most records of a submission: one for each exit of a network, or for each part of a frame.
const RECORDS_MAX: u8 = 128;
/// Most numbers that come with a frame.
const NUMBERS_MAX: u16 = VECTORS_MAX as u16 * VECTOR_LENGTH_MAX as u16;
const _: () = assert!(NUMBERS_MAX as u32 == VECTORS_MAX as u32 * VECTOR_LENGTH_MAX);

/// What a stream looks like; fixed as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamTerms {
    /// Its number, which every descriptor repeats.
    pub stream: u32,
    /// How many frames can be on their way to the daemon at once: 1 to 256.
    pub slots: u16,
    /// How many results can wait to be read: a power of two up to 4096. At most this number of submissions may
    /// be without a result that was read.
    pub results: u32,
    /// Where the pixels lie in a slot.
    pub frame: FrameSpec,
    /// Columns of the part of the frame that the network sees.
    pub crop_width: u32,
    /// Rows of that part.
    pub crop_height: u32,
    /// What is in the outputs file.
    pub outputs: OutputTerms,
    /// How many numbers come with each frame.
    pub vectors: u16,
    /// How many records a submission gets at most: 1 is its verdict alone, more are answers before it.
    pub records: u8,
}

/// Sizes of the outputs file: a [description](crate::Description), then areas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputTerms {
    pub description_bytes: u32,
    /// How many areas; 0: answers come without outputs.
    pub areas: u16,
    /// Bytes of an area, a multiple of 64.
    pub area_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    /// Too few or too many slots.
    #[error("{0} slots: there must be 1 to {SLOTS_MAX}")]
    Slots(u16),
    /// Not a ring's size.
    #[error("room for {0} results: it must be a power of two up to {RESULTS_MAX}")]
    Results(u32),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(
        "{areas} areas of {area_bytes} bytes with a description of {description_bytes}: at most {SLOTS_MAX} of {AREA_BYTES_MAX} with {DESCRIPTION_BYTES_MAX}, all or none"
    )]
    Outputs {
        areas: u16,
        area_bytes: u32,
        description_bytes: u32,
    },
    /// More numbers than come with a frame.
    #[error("{0} numbers with each frame: at most {NUMBERS_MAX}")]
    Vectors(u16),
    /// No record for a verdict, or more than a frame has exits or parts.
    #[error("{0} records a submission: there must be 1 to {RECORDS_MAX}")]
    Records(u8),
    /// The crop is empty or larger than the frame.
    #[error("a crop of {width} x {height} in a frame of {frame_width} x {frame_height} pixels")]
    Crop {
        width: u32,
        height: u32,
        frame_width: u32,
        frame_height: u32,
    },
}

impl StreamTerms {
    /// Whether there can be such a stream.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self) -> Result<(), TermsError> {
        if !(1..=SLOTS_MAX).contains(&self.slots) {
            return Err(TermsError::Slots(self.slots));
        }
        if !self.results.is_power_of_two() || self.results > RESULTS_MAX {
            return Err(TermsError::Results(self.results));
        }
        self.frame.check()?;
        let fits = (1..=self.frame.width).contains(&self.crop_width)
            && (1..=self.frame.height).contains(&self.crop_height);
        if !fits {
            return Err(TermsError::Crop {
                width: self.crop_width,
                height: self.crop_height,
                frame_width: self.frame.width,
                frame_height: self.frame.height,
            });
        }
        if self.vectors > NUMBERS_MAX {
            return Err(TermsError::Vectors(self.vectors));
        }
        if !(1..=RECORDS_MAX).contains(&self.records) {
            return Err(TermsError::Records(self.records));
        }
        self.outputs.check()
    }

    /// How many records the ring of results has room for: whatever submissions get without a verdict that was read.
    #[must_use]
    pub const fn result_cells(&self) -> u32 {
        (self.results * self.records as u32).next_power_of_two()
    }

    /// The furthest that a crop can lie.
    #[must_use]
    pub fn crop_max(&self) -> Crop {
        Crop::furthest(&self.frame, self.crop_width, self.crop_height)
    }
}

impl OutputTerms {
    fn check(&self) -> Result<(), TermsError> {
        let Self {
            description_bytes,
            areas,
            area_bytes,
        } = *self;
        let possible = areas <= SLOTS_MAX
            && area_bytes <= AREA_BYTES_MAX
            && area_bytes.is_multiple_of(OUTPUT_ALIGNMENT)
            && (areas == 0) == (area_bytes == 0)
            && description_bytes <= DESCRIPTION_BYTES_MAX;
        possible.then_some(()).ok_or(TermsError::Outputs {
            areas,
            area_bytes,
            description_bytes,
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::frame::PixelFormat;

    pub fn terms() -> StreamTerms {
        StreamTerms {
            stream: 1,
            slots: 4,
            results: 8,
            frame: FrameSpec::packed(PixelFormat::Nv12, 640, 480),
            crop_width: 192,
            crop_height: 192,
            outputs: OutputTerms::default(),
            vectors: 0,
            records: 1,
        }
    }

    #[test]
    fn impossible_terms_are_refused_with_their_values() {
        assert_eq!(terms().check(), Ok(()));
        for (bad, error) in [
            (
                StreamTerms {
                    slots: 0,
                    ..terms()
                },
                TermsError::Slots(0),
            ),
            (
                StreamTerms {
                    slots: 257,
                    ..terms()
                },
                TermsError::Slots(257),
            ),
            (
                StreamTerms {
                    results: 0,
                    ..terms()
                },
                TermsError::Results(0),
            ),
            (
                StreamTerms {
                    results: 6,
                    ..terms()
                },
                TermsError::Results(6),
            ),
            (
                StreamTerms {
                    results: 8192,
                    ..terms()
                },
                TermsError::Results(8192),
            ),
        ] {
            assert_eq!(bad.check(), Err(error));
        }
        for records in [0, 129] {
            let bad = StreamTerms { records, ..terms() };
            assert_eq!(bad.check(), Err(TermsError::Records(records)));
        }
        let most = |vectors| StreamTerms { vectors, ..terms() };
        assert_eq!(most(16_384).check(), Ok(()));
        let more = most(16_385).check();
        assert_eq!(more, Err(TermsError::Vectors(16_385)));
        let bad = StreamTerms {
            crop_width: 641,
            ..terms()
        };
        assert!(matches!(
            bad.check(),
            Err(TermsError::Crop { width: 641, .. })
        ));
        let of = |areas, area_bytes, description_bytes| OutputTerms {
            description_bytes,
            areas,
            area_bytes,
        };
        assert_eq!(of(4, 128, 100).check(), Ok(()));
        for bad in [
            of(0, 64, 1),
            of(1, 0, 1),
            of(257, 64, 1),
            of(1, 65, 1),
            of(1, u32::MAX - 63, 1),
            of(0, 0, u32::MAX),
        ] {
            let refused = matches!(bad.check(), Err(TermsError::Outputs { .. }));
            assert!(refused, "{bad:?}");
        }
    }
}

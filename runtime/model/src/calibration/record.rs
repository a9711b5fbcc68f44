//! One answer to a held-out sample: how sure it was, and how good.

use serde::{Deserialize, Serialize};

/// What one exit answered for one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalibrationExit {
    /// In units of 1/65535; 0 of a network without confidence.
    pub confidence: u16,
    /// How good the answer was, in units of 1/65535. A class is right or wrong; `docs/calibration.md` says what the
    /// quality of other answers is.
    #[serde(with = "packed")]
    pub quality: u16,
}

impl CalibrationExit {
    /// An answer that is right or wrong.
    #[must_use]
    pub const fn judged(confidence: u16, correct: bool) -> Self {
        Self {
            confidence,
            quality: if correct { u16::MAX } else { 0 },
        }
    }

    /// Whether its quality is above a half. Figures that count right answers take it for right.
    #[must_use]
    pub const fn is_right(&self) -> bool {
        self.quality > u16::MAX / 2
    }
}

/// A quality in a package: wrong is 0, right is 1, and each one between is one more than it is. So answers that are right
/// or wrong take a byte, the same as in packages from before there were others.
mod packed {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(quality: &u16, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u16(match *quality {
            0 => 0,
            u16::MAX => 1,
            between => between + 1,
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
        Ok(match u16::deserialize(from)? {
            0 => 0,
            1 => u16::MAX,
            above => above - 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(quality: u16) -> Vec<u8> {
        let exit = CalibrationExit {
            confidence: 7,
            quality,
        };
        postcard::to_allocvec(&exit).unwrap()
    }

    #[test]
    fn every_quality_is_read_back_from_a_package() {
        for quality in 0..=u16::MAX {
            let read: CalibrationExit = postcard::from_bytes(&encoded(quality)).unwrap();
            assert_eq!((read.confidence, read.quality), (7, quality));
        }
    }

    #[test]
    fn right_and_wrong_are_a_byte() {
        assert_eq!([encoded(0), encoded(u16::MAX)], [vec![7, 0], vec![7, 1]]);
    }

    #[test]
    fn an_answer_is_right_above_a_half() {
        let right = |quality| {
            let confidence = 0;
            CalibrationExit {
                confidence,
                quality,
            }
            .is_right()
        };
        let qualities = [0, 32_767, 32_768, 65_535];
        assert_eq!(qualities.map(right), [false, false, true, true]);
    }
}

//! Where a driver keeps masks, where no public source says so.

use std::fmt;
use std::str::FromStr;

use libsmctrl_sys::launch_mask::{self, Generation};
use libsmctrl_sys::{CudaVersion, stream_mask};
use serde::{Deserialize, Serialize};

use super::mechanism::Mechanism;

/// The place of a mask, to be tried or found by trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskPlace {
    /// In the object of a stream.
    Stream(stream_mask::Place),
    /// In the descriptor of a launch.
    Launch(launch_mask::Layout),
}

/// A text that names no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no place of a mask: write stream:OFFSET:WORDS, with 2 or 5 words, or launch:OFFSET:WORDS:FLAG, with 2 or 4 \
     words inside of a descriptor and - where no flag is"
)]
pub struct NoPlace {
    text: String,
}

impl MaskPlace {
    /// The places to try for a mechanism, the likeliest first; none for one that has no place.
    #[must_use]
    pub fn candidates(
        mechanism: Mechanism,
        version: CudaVersion,
        generation: Generation,
    ) -> Vec<Self> {
        match mechanism {
            Mechanism::StreamMask => {
                let places = stream_mask::candidates(version).into_iter();
                places.map(Self::Stream).collect()
            }
            Mechanism::LaunchMask => {
                let layouts = generation.candidates().into_iter();
                layouts.map(Self::Launch).collect()
            }
            _ => Vec::new(),
        }
    }

    #[must_use]
    pub const fn mechanism(self) -> Mechanism {
        match self {
            Self::Stream(_) => Mechanism::StreamMask,
            Self::Launch(_) => Mechanism::LaunchMask,
        }
    }
}

impl fmt::Display for MaskPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(place) => write!(f, "stream:{:#x}:{}", place.offset, place.layout.words()),
            Self::Launch(layout) => {
                write!(f, "launch:{:#x}:{}:", layout.mask_at, layout.words)?;
                match layout.valid_at {
                    Some(at) => write!(f, "{at:#x}"),
                    None => f.write_str("-"),
                }
            }
        }
    }
}

impl FromStr for MaskPlace {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let words: Vec<&str> = text.split(':').collect();
        let place = match words[..] {
            ["stream", offset, words] => stream(offset, words),
            ["launch", mask_at, words, flag] => launch(mask_at, words, flag),
            _ => None,
        };
        place.ok_or_else(|| NoPlace {
            text: text.to_owned(),
        })
    }
}

fn number(text: &str) -> Option<usize> {
    match text.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Objects of streams are not known to be larger.
const OBJECT_BYTES: usize = 4096;

fn stream(offset: &str, words: &str) -> Option<MaskPlace> {
    let layouts = [
        stream_mask::Layout::UpperLower,
        stream_mask::Layout::EnabledFourWords,
    ];
    let words = number(words)?;
    let layout = layouts.into_iter().find(|layout| layout.words() == words)?;
    let offset = number(offset)?;
    let inside = offset.is_multiple_of(4) && offset <= OBJECT_BYTES - layout.bytes();
    inside.then_some(MaskPlace::Stream(stream_mask::Place { offset, layout }))
}

fn launch(mask_at: &str, words: &str, flag: &str) -> Option<MaskPlace> {
    let layout = launch_mask::Layout {
        mask_at: number(mask_at)?,
        words: number(words)?,
        valid_at: match flag {
            "-" => None,
            at => Some(number(at)?),
        },
    };
    layout.is_inside().then_some(MaskPlace::Launch(layout))
}

impl Serialize for MaskPlace {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MaskPlace {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        let version = CudaVersion::new(13, 2);
        for mechanism in [Mechanism::StreamMask, Mechanism::LaunchMask] {
            for major in [8, 9, 11] {
                let generation = Generation::of_compute_capability(major);
                let places = MaskPlace::candidates(mechanism, version, generation);
                assert!(!places.is_empty());
                for place in places {
                    assert_eq!(place.to_string().parse(), Ok(place));
                    assert_eq!(place.mechanism(), mechanism);
                }
            }
        }
        let green = MaskPlace::candidates(Mechanism::GreenContexts, version, Generation::UpToAda);
        assert_eq!(green, []);
    }

    #[test]
    fn what_lies_outside_or_between_words_is_no_place() {
        for text in [
            "",
            "stream:0x51c",
            "stream:0x51c:4",
            "stream:0x51e:5",
            "stream:0x1000:5",
            "stream:0xffffffffffffffff:5",
            "launch:380:4:0",
            "launch:84:2",
            "launch:84:2:x",
            "green:0:0",
        ] {
            assert!(text.parse::<MaskPlace>().is_err(), "{text}");
        }
    }
}

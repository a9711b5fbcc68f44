//! What the two sides say to each other once, before the shared memory takes over.
//!
//! Each message begins with a magic number and the sender's protocol version, in an encoding that
//! stays the same for ever; the rest is postcard and belongs to that version.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::descriptor::Crop;
use crate::frame::{FrameError, FrameSpec, PixelFormat};
use crate::layout::{RESULTS_MAX, SLOTS_MAX};

/// The version of the handshake, the descriptors and the layout of shared memory. Both sides must
/// have the same.
pub const PROTOCOL_VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"PNCT";
const HEADER_BYTES: usize = MAGIC.len() + size_of::<u16>();

/// The client's opening: which stream it wants to feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The task's name in the manifest.
    pub task: String,
    /// What the client is going to write into its slots.
    pub format: PixelFormat,
}

/// The daemon's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Come in; two memory files are attached: requests, results.
    Welcome(StreamTerms),
    /// Go away.
    Refused(Refusal),
}

/// What a stream looks like; fixed as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamTerms {
    /// Its number, which every descriptor repeats.
    pub stream: u32,
    /// How many frames can be on their way to the daemon at once: 1 to 256.
    pub slots: u16,
    /// How many results can wait to be read: a power of two up to 4096. So many submissions may
    /// be without a result that was read.
    pub results: u32,
    /// Where the pixels lie in a slot.
    pub frame: FrameSpec,
    /// Columns of the part of the frame that the network sees.
    pub crop_width: u32,
    /// Rows of that part.
    pub crop_height: u32,
}

/// Terms that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    /// Too few or too many slots.
    #[error("{0} slots: there must be 1 to {SLOTS_MAX}")]
    Slots(u16),
    /// Not a ring's size.
    #[error("room for {0} results: it must be a power of two up to {RESULTS_MAX}")]
    Results(u32),
    /// An impossible frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The crop is empty or larger than the frame.
    #[error("a crop of {width} x {height} in a frame of {frame_width} x {frame_height} pixels")]
    Crop {
        /// Its columns.
        width: u32,
        /// Its rows.
        height: u32,
        /// The frame's columns.
        frame_width: u32,
        /// The frame's rows.
        frame_height: u32,
    },
}

/// Why a client was not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The manifest has no such task.
    #[error("the manifest has no task {task:?}")]
    UnknownTask {
        /// What the client asked for.
        task: String,
    },
    /// The client would send frames in another format than the manifest says.
    #[error("this task takes {expected:?} frames")]
    Format {
        /// The manifest's.
        expected: PixelFormat,
    },
    /// Every place is taken.
    #[error("all {clients} places of this task are taken (`clients` in the manifest)")]
    Full {
        /// How many the manifest has.
        clients: u16,
    },
    /// The daemon is shutting down.
    #[error("the daemon is shutting down")]
    Draining,
    /// Memory or descriptors could not be had.
    #[error("the daemon is out of memory or file descriptors")]
    Resources,
    /// The opening could not be read.
    #[error("the daemon could not read the client's opening message")]
    Malformed,
}

/// A message that this version cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not of this protocol at all.
    #[error("not a message of Punctual's")]
    Foreign,
    /// Of another version.
    #[error(
        "protocol version {theirs}, this side speaks {PROTOCOL_VERSION}: use matching releases"
    )]
    Version {
        /// The sender's.
        theirs: u16,
    },
    /// Of this version, but damaged.
    #[error("a malformed message")]
    Malformed,
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
        Ok(())
    }

    /// The furthest that a crop can lie.
    #[must_use]
    pub fn crop_max(&self) -> Crop {
        Crop {
            x: self.frame.width.saturating_sub(self.crop_width),
            y: self.frame.height.saturating_sub(self.crop_height),
        }
    }
}

/// As it goes over the socket.
pub(crate) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(PROTOCOL_VERSION.to_le_bytes());
    let body = postcard::to_allocvec(message).expect("these types have nothing to refuse");
    bytes.extend(body);
    bytes
}

/// From the socket.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, MessageError> {
    let (header, body) = bytes
        .split_at_checked(HEADER_BYTES)
        .ok_or(MessageError::Foreign)?;
    let (magic, version) = header.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(MessageError::Foreign);
    }
    let theirs = u16::from_le_bytes([version[0], version[1]]);
    if theirs != PROTOCOL_VERSION {
        return Err(MessageError::Version { theirs });
    }
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        _ => Err(MessageError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms() -> StreamTerms {
        StreamTerms {
            stream: 1,
            slots: 4,
            results: 8,
            frame: FrameSpec::packed(PixelFormat::Nv12, 640, 480),
            crop_width: 192,
            crop_height: 192,
        }
    }

    fn hello() -> Hello {
        Hello {
            task: "signs".to_owned(),
            format: PixelFormat::Rgb8,
        }
    }

    #[test]
    fn messages_survive_the_way() {
        assert_eq!(decode(&encode(&hello())), Ok(hello()));
        for reply in [
            Reply::Welcome(terms()),
            Reply::Refused(Refusal::Full { clients: 1 }),
        ] {
            assert_eq!(decode(&encode(&reply)), Ok(reply));
        }
    }

    #[test]
    fn another_version_is_named_whatever_its_body() {
        let mut bytes = encode(&hello());
        bytes[4] = 77;
        bytes.truncate(7);
        let theirs = MessageError::Version { theirs: 77 };
        assert_eq!(decode::<Hello>(&bytes), Err(theirs));
    }

    #[test]
    fn strangers_and_trailing_bytes_are_refused() {
        assert_eq!(decode::<Hello>(b"GET /"), Err(MessageError::Foreign));
        assert_eq!(
            decode::<Hello>(b"GET / HTTP/1.1"),
            Err(MessageError::Foreign)
        );
        let mut bytes = encode(&hello());
        bytes.push(0);
        assert_eq!(decode::<Hello>(&bytes), Err(MessageError::Malformed));
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
        let bad = StreamTerms {
            crop_width: 641,
            ..terms()
        };
        assert!(matches!(
            bad.check(),
            Err(TermsError::Crop { width: 641, .. })
        ));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_what_is_read_is_what_was_written(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..64), headed in any::<bool>(),
        ) {
            if headed {
                bytes.splice(0..0, encode(&()));
            }
            let _ = decode::<Hello>(&bytes);
            if let Ok(reply) = decode::<Reply>(&bytes) {
                prop_assert_eq!(decode(&encode(&reply)), Ok(reply));
            }
        }
    }
}

//! What the two sides say to each other once, before the shared memory takes over: the client's
//! opening and the daemon's answer.
//!
//! Each begins with a [`Header`] whose encoding stays the same for ever: both sides' ranges of
//! versions, their features, and, in the answer, what was agreed on. The rest is postcard and
//! belongs to a version. An opening is written for the newest version that its client speaks; from
//! one version to the next it only ever grows at its end, so an older daemon reads the part that it
//! knows. An answer is written for the version agreed on.

mod refusal;
mod terms;
mod version;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use refusal::{BufferRefusal, Refusal};
pub use terms::{OutputTerms, StreamTerms, TermsError};
pub(crate) use version::Header;
pub use version::{Agreement, Features, MessageError, PROTOCOL_VERSIONS, VersionRange};

use crate::frame::{Layout, PixelFormat};

/// The client's opening: which stream it wants to feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The task's name in the manifest.
    pub task: String,
    /// What the client is going to write into its slots; none: whatever the manifest says.
    #[serde(with = "manifests_or")]
    pub format: Option<PixelFormat>,
    /// Where rows and planes will lie in them; none: as the manifest says.
    pub layout: Option<Layout>,
    /// How many buffers of its own the client attaches, one for each slot that it wants; 0: the
    /// daemon makes the slots.
    pub buffers: u16,
}

impl Hello {
    /// For frames of this format (none: the manifest's), laid out as the manifest says.
    #[must_use]
    pub fn new(task: impl Into<String>, format: impl Into<Option<PixelFormat>>) -> Self {
        Self {
            task: task.into(),
            format: format.into(),
            layout: None,
            buffers: 0,
        }
    }

    /// With rows and planes where the client has them.
    #[must_use]
    pub fn with_layout(self, layout: Layout) -> Self {
        Self {
            layout: Some(layout),
            ..self
        }
    }

    /// The features that the daemon must have to grant this.
    #[must_use]
    pub fn needs(&self) -> Features {
        let wanted = [
            (self.layout.is_some(), Features::LAYOUTS),
            (self.buffers > 0, Features::BUFFERS),
        ];
        let wanted = wanted.into_iter().filter(|(wanted, _)| *wanted);
        wanted.fold(Features::NONE, |all, (_, feature)| all.and(feature))
    }
}

/// A format in an opening: its place in [`PixelFormat::ALL`], or a number for the manifest's.
mod manifests_or {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::frame::PixelFormat;

    /// The largest number of one byte: new formats go on from the other end.
    pub(super) const MANIFESTS: u32 = 127;

    const _: () = assert!(PixelFormat::ALL.len() <= MANIFESTS as usize);

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        clippy::ref_option,
        reason = "serde calls it with a reference to the field"
    )]
    pub(super) fn serialize<S: Serializer>(
        format: &Option<PixelFormat>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let number = format.map_or(MANIFESTS, |format| format.code() - 1);
        number.serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<Option<PixelFormat>, D::Error> {
        let number = u32::deserialize(from)?;
        if number == MANIFESTS {
            return Ok(None);
        }
        let format = PixelFormat::ALL.get(number as usize).copied();
        let format = format.ok_or_else(|| D::Error::custom("no such pixel format"))?;
        Ok(Some(format))
    }
}

/// The daemon's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The client is admitted. Four files are attached: the memory of requests, of results and of outputs, and the bell.
    Welcome(StreamTerms),
    Refused(Refusal),
}

/// The opening, as it goes over the socket.
pub(crate) fn encode_opening(hello: &Hello) -> Vec<u8> {
    let header = Header {
        versions: PROTOCOL_VERSIONS,
        features: Features::ALL,
        agreed: 0,
    };
    with_body(header, hello)
}

/// An opening from the socket, and what can be agreed on with its sender.
pub(crate) fn decode_opening(bytes: &[u8]) -> Result<(Agreement, Hello), MessageError> {
    let (header, body) = Header::split(bytes)?;
    let (theirs, ours) = (header.versions, PROTOCOL_VERSIONS);
    let Some(version) = ours.common(theirs) else {
        return Err(MessageError::Version { theirs, ours });
    };
    // A newer client's opening goes on behind what we know.
    let hello = decode_body(body, theirs.highest > ours.highest)?;
    let features = Features::ALL.common(header.features);
    Ok((Agreement { version, features }, hello))
}

/// The answer, as it goes over the socket. Without an agreement it is a header only.
pub(crate) fn encode_answer(agreement: Option<Agreement>, reply: &Reply) -> Vec<u8> {
    let header = Header {
        versions: PROTOCOL_VERSIONS,
        features: agreement.map_or(Features::NONE, |agreed| agreed.features),
        agreed: agreement.map_or(0, |agreed| agreed.version),
    };
    match agreement {
        Some(_) => with_body(header, reply),
        None => header.encode(),
    }
}

pub(crate) fn decode_answer(bytes: &[u8]) -> Result<(Agreement, Reply), MessageError> {
    let (header, body) = Header::split(bytes)?;
    let (theirs, ours) = (header.versions, PROTOCOL_VERSIONS);
    if header.agreed == 0 {
        return Err(MessageError::Version { theirs, ours });
    }
    let version = header.agreed;
    if !ours.contains(version) || !Features::ALL.contain(header.features) {
        return Err(MessageError::Malformed);
    }
    let agreement = Agreement {
        version,
        features: header.features,
    };
    Ok((agreement, decode_body(body, false)?))
}

fn with_body<T: Serialize>(header: Header, message: &T) -> Vec<u8> {
    let mut bytes = header.encode();
    let body = postcard::to_allocvec(message).expect("these types have nothing to refuse");
    bytes.extend(body);
    bytes
}

fn decode_body<T: DeserializeOwned>(body: &[u8], goes_on: bool) -> Result<T, MessageError> {
    match postcard::take_from_bytes(body) {
        Ok((message, rest)) if goes_on || rest.is_empty() => Ok(message),
        _ => Err(MessageError::Malformed),
    }
}

#[cfg(test)]
pub(crate) use terms::{SLOTS_MAX, tests::terms};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::terms::tests::terms;
    use super::*;
    use crate::frame::FrameSpec;

    fn hello() -> Hello {
        let layout = FrameSpec::strided(PixelFormat::Rgb8, 640, 480, 2048).layout();
        Hello::new("signs", PixelFormat::Rgb8).with_layout(layout)
    }

    const AGREED: Agreement = Agreement {
        version: 5,
        features: Features::ALL,
    };

    /// An opening by hand: what a client of another release would send.
    fn opening(lowest: u16, highest: u16, features: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = b"PNCT".to_vec();
        bytes.extend(lowest.to_le_bytes());
        bytes.extend(highest.to_le_bytes());
        bytes.extend(features.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        bytes
    }

    fn body() -> Vec<u8> {
        postcard::to_allocvec(&hello()).unwrap()
    }

    #[test]
    fn messages_survive_the_way() {
        let opened = decode_opening(&encode_opening(&hello()));
        assert_eq!(opened, Ok((AGREED, hello())));
        for reply in [
            Reply::Welcome(terms()),
            Reply::Refused(Refusal::Full { clients: 1 }),
        ] {
            let answer = decode_answer(&encode_answer(Some(AGREED), &reply));
            assert_eq!(answer, Ok((AGREED, reply)));
        }
    }

    #[test]
    fn a_format_is_its_place_among_all_and_127_is_the_manifests() {
        for format in PixelFormat::ALL {
            let named = postcard::to_allocvec(&Hello::new("signs", format)).unwrap();
            assert_eq!(
                named[6..],
                [postcard::to_allocvec(&format).unwrap()[0], 0, 0]
            );
        }
        let manifests = Hello::new("signs", None);
        assert_eq!(postcard::to_allocvec(&manifests).unwrap()[6..], [127, 0, 0]);
        let opened = decode_opening(&encode_opening(&manifests));
        assert_eq!(opened, Ok((AGREED, manifests)));
        let beyond = PixelFormat::ALL.len() as u8;
        let body = [&[5][..], b"signs", &[beyond, 0, 0]].concat();
        let unknown = decode_opening(&opening(5, 5, 0, &body));
        assert_eq!(unknown, Err(MessageError::Malformed));
    }

    #[test]
    fn a_peer_above_or_below_is_told_both_ranges_whatever_its_body() {
        for (lowest, highest) in [(1, 1), (1, 4), (4, 4), (6, 6), (6, 900)] {
            let theirs = VersionRange { lowest, highest };
            let ours = PROTOCOL_VERSIONS;
            let apart = MessageError::Version { theirs, ours };
            let bytes = opening(lowest, highest, 0, &[0xFF; 40]);
            assert_eq!(decode_opening(&bytes), Err(apart));
            // And the other way: the answer of such a daemon.
            assert_eq!(decode_answer(&bytes), Err(apart));
        }
    }

    #[test]
    fn a_peer_whose_range_overlaps_is_understood() {
        for (lowest, highest) in [(1, 5), (5, 5)] {
            let opened = decode_opening(&opening(lowest, highest, 7, &body()));
            assert_eq!(opened, Ok((AGREED, hello())), "{lowest} to {highest}");
        }
        // What a newer client adds stands behind what is known, and its features are not ours.
        let mut longer = body();
        longer.extend(*b"of a version to come");
        for (lowest, highest) in [(5, 6), (1, 900)] {
            let opened = decode_opening(&opening(lowest, highest, u64::MAX, &longer));
            assert_eq!(opened, Ok((AGREED, hello())), "{lowest} to {highest}");
        }
        assert_eq!(
            decode_opening(&opening(1, 5, 0, &longer)),
            Err(MessageError::Malformed)
        );
    }

    #[test]
    fn an_answer_may_only_agree_on_what_this_side_speaks_and_knows() {
        let reply = Reply::Refused(Refusal::Draining);
        let good = encode_answer(Some(AGREED), &reply);
        assert!(decode_answer(&good).is_ok());
        for (at, value) in [(16, 6), (16, 4), (9, 1)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(decode_answer(&bad), Err(MessageError::Malformed));
        }
    }

    #[test]
    fn strangers_and_trailing_bytes_are_refused() {
        for stranger in [
            &b"GET /"[..],
            b"GET / HTTP/1.1\r\nHost: daemon\r\n\r\n",
            b"",
        ] {
            assert_eq!(decode_opening(stranger), Err(MessageError::Foreign));
        }
        assert_eq!(decode_opening(b"PNCT"), Err(MessageError::Malformed));
        let mut bytes = encode_opening(&hello());
        bytes.push(0);
        assert_eq!(decode_opening(&bytes), Err(MessageError::Malformed));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_what_is_read_is_what_was_written(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..96), headed in any::<bool>(),
        ) {
            if headed {
                let header = Header {
                    versions: PROTOCOL_VERSIONS,
                    features: Features::ALL,
                    agreed: PROTOCOL_VERSIONS.highest,
                };
                bytes.splice(0..0, header.encode());
            }
            let _ = decode_opening(&bytes);
            if let Ok((agreement, reply)) = decode_answer(&bytes) {
                let again = encode_answer(Some(agreement), &reply);
                prop_assert_eq!(decode_answer(&again), Ok((agreement, reply)));
            }
        }
    }
}

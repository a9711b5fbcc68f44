//! Which protocol two sides speak: the part of the opening and of its answer that stays readable for ever.

use std::fmt;

/// A range of protocol versions: of the opening, the descriptors and the layout of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    pub lowest: u16,
    pub highest: u16,
}

/// What this release speaks. Versions 1 to 4 were never released.
pub const PROTOCOL_VERSIONS: VersionRange = VersionRange {
    lowest: 5,
    highest: 5,
};

const _: () = assert!(
    PROTOCOL_VERSIONS.lowest > 0 && PROTOCOL_VERSIONS.lowest <= PROTOCOL_VERSIONS.highest,
    "version 0 stands for none"
);

impl VersionRange {
    /// The newest version that both speak.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.highest.min(other.highest);
        (newest >= self.lowest.max(other.lowest)).then_some(newest)
    }

    #[must_use]
    pub fn contains(self, version: u16) -> bool {
        (self.lowest..=self.highest).contains(&version)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.lowest, self.highest) {
            (lowest, highest) if lowest == highest => write!(f, "{lowest}"),
            (lowest, highest) => write!(f, "{lowest} to {highest}"),
        }
    }
}

/// A set of things that not every peer of a version knows or offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// Nothing beyond the version.
    pub const NONE: Self = Self(0);
    /// The client may say where rows and planes lie in its slots.
    pub const LAYOUTS: Self = Self(1);
    /// The client may bring the buffers of its slots along.
    pub const BUFFERS: Self = Self(2);
    /// A submission may say which task of the stream's it is for.
    pub const TASKS: Self = Self(4);
    /// All that this release knows.
    pub const ALL: Self = Self(Self::LAYOUTS.0 | Self::BUFFERS.0 | Self::TASKS.0);

    /// From a number; unknown bits are kept, they are a newer peer's.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its number: bit by bit what the constants say.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// What is in both.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in either.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
    #[must_use]
    pub const fn contain(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What two sides agreed on before they said anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The newest version that both speak.
    pub version: u16,
    /// What both know beyond it.
    pub features: Features,
}

impl Agreement {
    /// The best that this release can do.
    #[must_use]
    pub const fn newest() -> Self {
        Self {
            version: PROTOCOL_VERSIONS.highest,
            features: Features::ALL,
        }
    }
}

const MAGIC: [u8; 4] = *b"PNCT";

/// The first bytes of the opening and of its answer: magic, lowest and highest version (16 bits
/// each), features (64), the version agreed on (16; 0 in an opening, and in an answer when there
/// is none), 48 reserved bits. Little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) versions: VersionRange,
    pub(crate) features: Features,
    pub(crate) agreed: u16,
}

impl Header {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend(MAGIC);
        bytes.extend(self.versions.lowest.to_le_bytes());
        bytes.extend(self.versions.highest.to_le_bytes());
        bytes.extend(self.features.bits().to_le_bytes());
        bytes.extend(self.agreed.to_le_bytes());
        bytes.resize(Self::BYTES, 0);
        bytes
    }

    /// The header, and what follows it. Reserved bits are a later version's: not looked at.
    pub(crate) fn split(bytes: &[u8]) -> Result<(Self, &[u8]), MessageError> {
        let Some((header, body)) = bytes.split_first_chunk::<{ Self::BYTES }>() else {
            let foreign = !bytes.starts_with(&MAGIC);
            return Err(if foreign {
                MessageError::Foreign
            } else {
                MessageError::Malformed
            });
        };
        let [
            m0,
            m1,
            m2,
            m3,
            l0,
            l1,
            h0,
            h1,
            features @ ..,
            a0,
            a1,
            _,
            _,
            _,
            _,
            _,
            _,
        ] = header;
        if [*m0, *m1, *m2, *m3] != MAGIC {
            return Err(MessageError::Foreign);
        }
        let versions = VersionRange {
            lowest: u16::from_le_bytes([*l0, *l1]),
            highest: u16::from_le_bytes([*h0, *h1]),
        };
        if versions.lowest == 0 || versions.lowest > versions.highest {
            return Err(MessageError::Malformed);
        }
        let header = Self {
            versions,
            features: Features::from_bits(u64::from_le_bytes(*features)),
            agreed: u16::from_le_bytes([*a0, *a1]),
        };
        Ok((header, body))
    }
}

/// A message that this side cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not of this protocol at all.
    #[error("not a Punctual message")]
    Foreign,
    /// No version in common.
    #[error(
        "the other side has protocol version {theirs}, this side {ours}: install releases with the same version"
    )]
    Version {
        theirs: VersionRange,
        ours: VersionRange,
    },
    #[error("a malformed message")]
    Malformed,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lowest: u16, highest: u16) -> VersionRange {
        VersionRange { lowest, highest }
    }

    #[test]
    fn the_newest_version_of_both_is_agreed_on() {
        let ours = range(3, 5);
        for (theirs, common) in [
            (range(3, 5), Some(5)),
            (range(1, 3), Some(3)),
            (range(5, 9), Some(5)),
            (range(4, 4), Some(4)),
            (range(1, 9), Some(5)),
            (range(1, 2), None),
            (range(6, 9), None),
        ] {
            assert_eq!(ours.common(theirs), common, "{theirs}");
            assert_eq!(theirs.common(ours), common, "{theirs}");
        }
    }

    #[test]
    fn a_header_survives_the_way_with_features_that_nobody_knows_yet() {
        let header = Header {
            versions: range(2, 700),
            features: Features::from_bits(1 << 63 | 1),
            agreed: 7,
        };
        let mut bytes = header.encode();
        assert_eq!(bytes.len(), Header::BYTES);
        bytes.extend(*b"rest");
        // A later version may give reserved bytes a meaning.
        bytes[23] = 9;
        assert_eq!(Header::split(&bytes), Ok((header, &b"rest"[..])));
    }

    #[test]
    fn ranges_that_are_none_are_malformed() {
        for versions in [range(0, 0), range(0, 2), range(3, 2)] {
            let header = Header {
                versions,
                features: Features::NONE,
                agreed: 0,
            };
            assert_eq!(
                Header::split(&header.encode()),
                Err(MessageError::Malformed)
            );
        }
    }
}

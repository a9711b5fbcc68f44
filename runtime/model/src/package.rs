//! The package: one file that holds all of a compiled model.
//!
//! Layout, little-endian: magic (8 bytes), format version (u32), length of the body (u64), BLAKE3
//! hash of the body (32 bytes), body ([postcard](https://postcard.jamesmunns.com/wire-format) of
//! the network and its calibration). The hash finds damage and names the content; it is no
//! signature.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::validate::NetworkError;
use crate::{Calibration, CalibrationError, Network};

const MAGIC: [u8; 8] = *b"PUNCTUAL";
const VERSION: u32 = 1;
const HASH_BYTES: usize = 32;
const HEADER_BYTES: usize = MAGIC.len() + 4 + 8 + HASH_BYTES;
/// A larger file is refused before it is read. Twice the weights that [`Network::validate`] takes.
const PACKAGE_BYTES_MAX: u64 = 2 << 30;

/// A compiled model. Whoever holds one knows that its network is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    content: Content,
    hash: PackageHash,
}

/// The part of a package that is hashed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Content {
    network: Network,
    calibration: Calibration,
}

/// Names a package's content: equal hashes, equal content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackageHash([u8; HASH_BYTES]);

impl fmt::Display for PackageHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PackageHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackageHash({self})")
    }
}

/// Why a package cannot be made, read or trusted.
#[derive(Debug, Error)]
pub enum PackageError {
    /// The file cannot be opened or read.
    #[error("cannot read the package {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is larger than any package.
    #[error("the package has {bytes} bytes; the limit is {PACKAGE_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The file ends inside the header.
    #[error("the package ends after {bytes} bytes, inside its header of {HEADER_BYTES}")]
    Truncated {
        /// Its size.
        bytes: usize,
    },
    /// Not a package at all.
    #[error(
        "this is no package: it begins with {found:02x?} instead of {MAGIC:02x?}; make one with `punctual compile`"
    )]
    Magic {
        /// Its first bytes.
        found: [u8; 8],
    },
    /// Written by another version.
    #[error(
        "the package has format version {found}, this program reads {VERSION}; compile the model again"
    )]
    Version {
        /// Its version.
        found: u32,
    },
    /// The header and the file disagree about the size of the body.
    #[error(
        "the package's header promises a body of {promised} bytes and {found} follow; copy or compile it again"
    )]
    Length {
        /// What the header says.
        promised: u64,
        /// What is there.
        found: u64,
    },
    /// The body is damaged.
    #[error(
        "the package is damaged: its content hashes to {found}, its header says {expected}; copy or compile it again"
    )]
    Checksum {
        /// From the header.
        expected: PackageHash,
        /// Of the body.
        found: PackageHash,
    },
    /// The body is not the encoding of a network with its calibration.
    #[error("the package's body cannot be decoded: {0}; compile the model again")]
    Body(postcard::Error),
    /// The body decodes, and this many bytes remain.
    #[error("{0} bytes follow the package's content; compile the model again")]
    Trailing(usize),
    /// The network breaks a rule that devices rely on.
    #[error("the network is invalid: {0}")]
    Network(#[from] NetworkError),
    /// The calibration does not fit the network.
    #[error("the calibration does not fit the network: {0}")]
    Calibration(#[from] CalibrationError),
}

impl Package {
    /// A package of a network and what is known of its exits' accuracy (may be empty).
    ///
    /// # Errors
    /// When the network is invalid or the calibration has another number of exits.
    pub fn new(network: Network, calibration: Calibration) -> Result<Self, PackageError> {
        let content = Content {
            network,
            calibration,
        };
        content.check()?;
        let hash = hash_of(&content.to_body());
        Ok(Self { content, hash })
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.content.network
    }

    /// What each exit said of held-out samples; may be empty.
    #[must_use]
    pub fn calibration(&self) -> &Calibration {
        &self.content.calibration
    }

    /// Names this content; used in profile keys and in the plan's hash.
    #[must_use]
    pub fn hash(&self) -> PackageHash {
        self.hash
    }

    /// The bytes of the package file. Same package, same bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let body = self.content.to_body();
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&self.hash.0);
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Decodes and validates a package file. Memory is bounded by a small multiple of
    /// `bytes.len()`, whatever the bytes are.
    ///
    /// # Errors
    /// On anything but the unchanged output of [`Package::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, PackageError> {
        let truncated = PackageError::Truncated { bytes: bytes.len() };
        let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(match bytes.first_chunk() {
                Some(&found) if found != MAGIC => PackageError::Magic { found },
                _ => truncated,
            });
        };
        let mut header = Header(header);
        let found = header.take();
        if found != MAGIC {
            return Err(PackageError::Magic { found });
        }
        let found = u32::from_le_bytes(header.take());
        if found != VERSION {
            return Err(PackageError::Version { found });
        }
        let promised = u64::from_le_bytes(header.take());
        if promised != body.len() as u64 {
            return Err(PackageError::Length {
                promised,
                found: body.len() as u64,
            });
        }
        let expected = PackageHash(header.take());
        let found = hash_of(body);
        if found != expected {
            return Err(PackageError::Checksum { expected, found });
        }
        let (content, rest) =
            postcard::take_from_bytes::<Content>(body).map_err(PackageError::Body)?;
        if !rest.is_empty() {
            return Err(PackageError::Trailing(rest.len()));
        }
        content.check()?;
        Ok(Self {
            content,
            hash: found,
        })
    }

    /// Reads and decodes the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be read, or as [`Package::decode`].
    pub fn read(path: &Path) -> Result<Self, PackageError> {
        let failed = |source| PackageError::Read {
            path: path.to_owned(),
            source,
        };
        let mut bytes = Vec::new();
        // Reading up to the limit, not trusting the size in the directory: the file may grow.
        let file = File::open(path).map_err(failed)?;
        file.take(PACKAGE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > PACKAGE_BYTES_MAX {
            return Err(PackageError::TooLarge {
                bytes: bytes.len() as u64,
            });
        }
        Self::decode(&bytes)
    }
}

impl Content {
    fn check(&self) -> Result<(), PackageError> {
        self.network.validate()?;
        self.calibration.check_exits(self.network.stages.len())?;
        Ok(())
    }

    fn to_body(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("plain data with known lengths always encodes")
    }
}

fn hash_of(body: &[u8]) -> PackageHash {
    PackageHash(*blake3::hash(body).as_bytes())
}

/// What is left of a header whose size was checked.
struct Header<'a>(&'a [u8]);

impl Header<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self
            .0
            .split_first_chunk()
            .expect("the fields add up to HEADER_BYTES");
        self.0 = rest;
        *field
    }
}

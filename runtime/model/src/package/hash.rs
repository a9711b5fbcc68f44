//! Names of content.

use std::fmt;

use serde::{Deserialize, Serialize};

/// BLAKE3 of some bytes: equal hashes, equal bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContentHash(pub(super) [u8; 32]);

/// Names a package's content, all but its profiles: equal hashes, equal content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackageHash([u8; 32]);

impl ContentHash {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl PackageHash {
    /// Over the identities of the sections, in their order.
    pub(super) fn of(identities: impl IntoIterator<Item = [u8; 48]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for identity in identities {
            hasher.update(&identity);
        }
        Self(*hasher.finalize().as_bytes())
    }
}

/// The hash of the floats' bytes in a file.
pub(super) fn hash_of_floats(floats: &[f32]) -> ContentHash {
    let mut hasher = blake3::Hasher::new();
    each_block(floats, |bytes| {
        hasher.update(bytes);
    });
    ContentHash(*hasher.finalize().as_bytes())
}

/// The floats' bytes in a file, a few kilobytes at a time.
pub(super) fn each_block(floats: &[f32], mut take: impl FnMut(&[u8])) {
    const FLOATS: usize = 4096;
    let mut block = [0_u8; FLOATS * size_of::<f32>()];
    for chunk in floats.chunks(FLOATS) {
        let bytes = &mut block[..size_of_val(chunk)];
        for (bytes, float) in bytes.chunks_exact_mut(4).zip(chunk) {
            bytes.copy_from_slice(&float.to_le_bytes());
        }
        take(bytes);
    }
}

fn write_hex(bytes: &[u8; 32], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

impl fmt::Display for PackageHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for PackageHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackageHash({self})")
    }
}

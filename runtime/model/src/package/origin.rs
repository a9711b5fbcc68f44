//! What the ONNX file had where the network's input differs: for people. Nothing that is computed depends on it.

use serde::Serialize;

use super::PackageError;

/// The input as it is in the ONNX file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// In `uint8`; floats otherwise.
    pub bytes: bool,
    /// (batch, rows, columns, channels), where the network's is (batch, channels, rows, columns).
    pub channels_last: bool,
    /// Without a batch in front.
    pub unbatched: bool,
}

impl Origin {
    /// Nothing, if the input is the file's.
    pub(super) fn encode(self) -> Vec<u8> {
        if self == Self::default() {
            return Vec::new();
        }
        let Self {
            bytes,
            channels_last,
            unbatched,
        } = self;
        [bytes, channels_last, unbatched].map(u8::from).to_vec()
    }

    pub(super) fn decode(section: &[u8]) -> Result<Self, PackageError> {
        let &[bytes @ 0..=1, channels_last @ 0..=1, unbatched @ 0..=1] = section else {
            return Err(PackageError::Origin);
        };
        let [bytes, channels_last, unbatched] = [bytes, channels_last, unbatched].map(|it| it == 1);
        let origin = Self {
            bytes,
            channels_last,
            unbatched,
        };
        // A package has one encoding: without any of these it has no section.
        if origin == Self::default() {
            return Err(PackageError::Origin);
        }
        Ok(origin)
    }
}

//! Constants whose data lie in another file next to the ONNX file, as PyTorch's dynamo exporter
//! writes them unless told otherwise.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use punctual_model::WEIGHTS_MAX;
use punctual_platform::read::{self, Refused};

use super::error::ParseError;
use crate::schema::{DATA_LOCATION_EXTERNAL, TensorProto};

/// Most bytes of all external constants: those of the most weights that a network may have. Many
/// constants may name the same bytes of a file, so its size says nothing.
const BYTES_MAX: u64 = 4 * WEIGHTS_MAX as u64;

/// Where external data may lie, and how much was read.
pub(crate) struct External<'a> {
    /// The ONNX file's folder; without one, external data are refused.
    folder: Option<&'a Path>,
    read: u64,
}

impl<'a> External<'a> {
    pub fn beside(onnx: &'a Path) -> Self {
        Self {
            folder: Some(onnx.parent().unwrap_or(Path::new(""))),
            read: 0,
        }
    }

    pub fn refused() -> Self {
        Self {
            folder: None,
            read: 0,
        }
    }

    /// The `bytes` bytes of a constant that lie in another file; `None` if they lie in the ONNX file.
    pub fn read(
        &mut self,
        proto: &TensorProto,
        name: &str,
        bytes: u64,
    ) -> Result<Option<Vec<u8>>, ParseError> {
        if proto.data_location != Some(DATA_LOCATION_EXTERNAL) {
            return Ok(None);
        }
        let entry = |key: &str| {
            let mut entries = proto.external_data.iter();
            let found = entries.find(|entry| entry.key.as_deref() == Some(key));
            found.and_then(|entry| entry.value.as_deref())
        };
        let Some(folder) = self.folder else {
            return Err(ParseError::ExternalData {
                name: name.to_owned(),
            });
        };
        let location = entry("location").unwrap_or_default();
        let inside = Path::new(location)
            .components()
            .all(|component| matches!(component, Component::Normal(_)));
        if location.is_empty() || !inside {
            return Err(ParseError::ExternalLocation {
                name: name.to_owned(),
                location: location.to_owned(),
            });
        }
        self.read = self.read.saturating_add(bytes);
        if self.read > BYTES_MAX {
            return Err(ParseError::ExternalSize {
                name: name.to_owned(),
            });
        }
        let path = folder.join(location);
        if let Some(target) = outside(folder, &path) {
            return Err(ParseError::ExternalLink {
                name: name.to_owned(),
                location: location.to_owned(),
                target,
            });
        }
        let offset = entry("offset").map_or(Some(0), |offset| offset.parse().ok());
        let data = offset.ok_or(io::ErrorKind::InvalidInput);
        let data = data.map_err(io::Error::from);
        let data = data.and_then(|offset| read_part(&path, offset, bytes));
        data.map(Some).map_err(|error| {
            let (name, path) = (name.to_owned(), PathBuf::from(location));
            match Refused::behind(&error) {
                Some(refused) => ParseError::ExternalRefused {
                    name,
                    path,
                    refused,
                },
                None => ParseError::ExternalRead {
                    name,
                    path,
                    kind: error.kind(),
                },
            }
        })
    }
}

/// Where links lead from a path in the folder, if that is out of it. What cannot be followed is left to be read, and fails.
fn outside(folder: &Path, path: &Path) -> Option<PathBuf> {
    let here = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let folder = here.canonicalize().ok()?;
    let target = path.canonicalize().ok()?;
    (!target.starts_with(folder)).then_some(target)
}

/// Exactly `bytes` bytes; nothing is reserved before they are there.
fn read_part(path: &Path, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = read::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut data = Vec::new();
    file.take(bytes).read_to_end(&mut data)?;
    if data.len() as u64 == bytes {
        Ok(data)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

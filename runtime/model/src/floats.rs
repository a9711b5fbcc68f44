//! Many floats, owned or lying in a mapped file.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use punctual_platform::MappedFile;

// A mapped float is read as it lies in the file, which is little-endian.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "packages are mapped: big-endian machines are not supported"
);

/// A list of f32 that is read as a slice, and lies in this process's memory or in a mapped file.
/// A clone of mapped floats shares the mapping.
#[derive(Clone)]
pub struct Floats(Storage);

#[derive(Clone)]
enum Storage {
    Owned(Vec<f32>),
    Mapped {
        file: Arc<MappedFile>,
        /// Of the first float, in bytes; a multiple of four.
        offset: usize,
        len: usize,
    },
}

impl Floats {
    /// `len` floats from byte `offset` of a file on.
    ///
    /// # Panics
    /// If the file has no such floats, or `offset` is no multiple of four.
    pub(crate) fn mapped(file: Arc<MappedFile>, offset: usize, len: usize) -> Self {
        let _ = file.values::<f32>(offset, len);
        Self(Storage::Mapped { file, offset, len })
    }

    /// The floats as a list that can be changed: copied first, if they are mapped.
    pub fn to_mut(&mut self) -> &mut Vec<f32> {
        if let Storage::Mapped { .. } = self.0 {
            self.0 = Storage::Owned(self.to_vec());
        }
        match &mut self.0 {
            Storage::Owned(floats) => floats,
            Storage::Mapped { .. } => unreachable!("copied above"),
        }
    }

    /// Gives back the memory of mapped floats that were read; the next read gets them from the
    /// file again. Owned ones stay.
    pub fn release(&self) {
        if let Storage::Mapped { file, .. } = &self.0 {
            file.release();
        }
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &self.0 {
            Storage::Owned(floats) => floats,
            Storage::Mapped { file, offset, len } => file.values(*offset, *len),
        }
    }
}

impl From<Vec<f32>> for Floats {
    fn from(floats: Vec<f32>) -> Self {
        Self(Storage::Owned(floats))
    }
}

impl Default for Floats {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl PartialEq for Floats {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Floats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.0 {
            Storage::Owned(_) => "owned",
            Storage::Mapped { .. } => "mapped",
        };
        write!(f, "Floats({} {place})", self.len())
    }
}

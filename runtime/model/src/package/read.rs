//! Opening a package: what is believed of a file, and when.

use std::path::Path;
use std::sync::Arc;

use punctual_platform::MappedFile;

use super::description::Description;
use super::format::BYTES_MAX;
use super::hash::hash_of_floats;
use super::image::PageHashes;
use super::{
    ContentHash, ImageProblem, Origin, Package, PackageError, Section, SectionKind, WeightImage,
    table,
};
use crate::{Floats, Profile};

impl Package {
    /// Opens the file at `path`: maps it, and checks all but the weights. Memory is bounded by a
    /// small multiple of the sections `description` and `profiles`.
    ///
    /// Weights stay in the file until they are used. An image's pages are checked one by one
    /// ([`WeightImage::page`]); the network's own weights are what the file says until
    /// [`verify`](Self::verify) was called. While the package lives, the file may be replaced but
    /// not written to ([`MappedFile`]).
    pub fn open(path: &Path) -> Result<Self, PackageError> {
        let file = MappedFile::open(path).map_err(|source| PackageError::File {
            path: path.to_owned(),
            source,
        })?;
        let bytes = file.len() as u64;
        if bytes > BYTES_MAX {
            return Err(PackageError::TooLarge { bytes });
        }
        Self::from_source(&Source::Mapped(Arc::new(file)))
    }

    /// Opens the file at `path` and verifies all of it.
    pub fn read(path: &Path) -> Result<Self, PackageError> {
        let package = Self::open(path)?;
        package.verify()?;
        package.release();
        Ok(package)
    }

    /// Decodes and verifies the bytes of a file. Memory is bounded by a small multiple of
    /// `bytes.len()`, whatever the bytes are.
    pub fn decode(bytes: &[u8]) -> Result<Self, PackageError> {
        let package = Self::decode_unverified(bytes)?;
        package.verify()?;
        Ok(package)
    }

    /// What [`open`](Self::open) makes of these bytes in a file: [`verify`](Self::verify) says whether its weights are right.
    pub fn decode_unverified(bytes: &[u8]) -> Result<Self, PackageError> {
        Self::from_source(&Source::Bytes(bytes))
    }

    /// Checks what [`open`](Self::open) left: the hashes of weights and images, that the weights are
    /// finite, and that the stages are what the package states about them.
    pub fn verify(&self) -> Result<(), PackageError> {
        self.verify_weights()?;
        if self.network().stage_prefixes() != self.stage_prefixes() {
            return Err(PackageError::Prefixes);
        }
        self.images().iter().try_for_each(WeightImage::verify)
    }

    /// Of what [`open`](Self::open) left, checks what a device without an image computes with: that the network's own
    /// weights are those that were compiled, and finite.
    pub fn verify_weights(&self) -> Result<(), PackageError> {
        let network = self.network();
        let found = hash_of_floats(&network.weights);
        check_hash(SectionKind::Weights, self.weights_hash, found)?;
        Ok(network.validate_weights()?)
    }

    fn from_source(source: &Source<'_>) -> Result<Self, PackageError> {
        let sections = table::decode(source.bytes())?;
        let description = source.checked(find(&sections, SectionKind::Description)?)?;
        let weights = find(&sections, SectionKind::Weights)?;
        let description = Description::decode(description, source.floats(weights))?;
        let images = images(source, &sections, &description)?;
        let origin = find(&sections, SectionKind::Origin).ok();
        let origin = origin.map(|section| Origin::decode(source.checked(section)?));
        let origin = origin.transpose()?.unwrap_or_default();
        let mut package = Self::of(description, weights.hash, origin, images);
        if let Ok(section) = find(&sections, SectionKind::Profiles) {
            let json = source.checked(section)?;
            package.profiles = Profile::list_from_json(json)?;
            package.check_profiles()?;
        }
        Ok(package)
    }
}

fn find(sections: &[Section], kind: SectionKind) -> Result<&Section, PackageError> {
    let mut sections = sections.iter();
    let found = sections.find(|section| section.kind == kind);
    found.ok_or(PackageError::Missing(kind))
}

/// The images in the file, which must be those in the description.
fn images(
    source: &Source<'_>,
    sections: &[Section],
    description: &Description,
) -> Result<Vec<WeightImage>, PackageError> {
    let mut indexes = description.images.iter();
    let mut images = Vec::new();
    for section in sections {
        let SectionKind::Image(lanes) = section.kind else {
            continue;
        };
        let index = indexes.next().filter(|index| index.lanes == lanes);
        let image = WeightImage {
            index: index.ok_or(no_layout(lanes))?.clone(),
            floats: source.floats(section),
            hash: section.hash,
        };
        image.check_against(description)?;
        images.push(image);
    }
    match indexes.next() {
        Some(PageHashes { lanes, .. }) => Err(PackageError::Missing(SectionKind::Image(*lanes))),
        None => Ok(images),
    }
}

fn no_layout(lanes: u8) -> PackageError {
    let problem = ImageProblem::NoLayout;
    PackageError::Image { lanes, problem }
}

impl WeightImage {
    /// Whether the image is as long as its layout and its page hashes say.
    pub(super) fn check_against(&self, description: &Description) -> Result<(), PackageError> {
        let lanes = self.lanes();
        let layout = description.layout(lanes).ok_or(no_layout(lanes))?;
        self.check_size(layout.packed_floats())
            .map_err(|problem| PackageError::Image { lanes, problem })
    }

    /// Checks every page, and the section.
    pub(super) fn verify(&self) -> Result<(), PackageError> {
        for page in 0..self.pages() {
            self.page(page)?;
        }
        let found = hash_of_floats(&self.floats);
        check_hash(SectionKind::Image(self.lanes()), self.hash, found)
    }
}

fn check_hash(
    section: SectionKind,
    expected: ContentHash,
    found: ContentHash,
) -> Result<(), PackageError> {
    if found != expected {
        return Err(PackageError::Damaged {
            section,
            expected,
            found,
        });
    }
    Ok(())
}

/// The bytes of a file, and whether floats in them can stay where they are.
enum Source<'b> {
    Mapped(Arc<MappedFile>),
    Bytes(&'b [u8]),
}

impl Source<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(file) => file.as_slice(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// A section's bytes, if they have its hash.
    fn checked(&self, section: &Section) -> Result<&[u8], PackageError> {
        let bytes = section.of(self.bytes());
        check_hash(section.kind, section.hash, ContentHash::of(bytes))?;
        Ok(bytes)
    }

    /// The floats of a section that lies in the file and is a whole number of them.
    fn floats(&self, section: &Section) -> Floats {
        match self {
            Self::Mapped(file) => {
                let (offset, bytes) = (section.offset as usize, section.length as usize);
                Floats::mapped(Arc::clone(file), offset, bytes / size_of::<f32>())
            }
            Self::Bytes(bytes) => {
                let (chunks, _) = section.of(bytes).as_chunks();
                let floats: Vec<f32> = chunks
                    .iter()
                    .map(|&float| f32::from_le_bytes(float))
                    .collect();
                floats.into()
            }
        }
    }
}

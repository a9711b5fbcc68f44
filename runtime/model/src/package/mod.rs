//! The package: one file that holds all of a compiled model.
//!
//! A header, a table of sections, and the sections, each beginning at a page of memory, so that a
//! file is mapped rather than read: opening one decodes its description, a few kilobytes, and
//! leaves the weights where they are. docs/package.md gives the format byte for byte. Hashes find
//! damage and name content; they are no signatures.

mod description;
mod error;
mod format;
mod hash;
mod image;
mod origin;
mod read;
mod table;
mod write;

use std::path::Path;

use punctual_core::BATCH_MAX;
use punctual_platform::files;

use crate::{Calibration, Floats, ImageLayout, Network, Profile, StagePrefix, TimingHash};
use description::Description;
pub use error::{ImageProblem, PackageError, SectionProblem};
pub use format::{SectionKind, VERSION as FORMAT_VERSION};
use hash::hash_of_floats;
pub use hash::{ContentHash, PackageHash};
pub use image::{PAGE_BYTES, PAGE_FLOATS, WeightImage};
pub use origin::Origin;
use table::{Section, place};

/// A compiled model. Code that holds one knows that its network can be laid out and run; what is
/// known of its weights depends on how it was had: see [`Package::open`].
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// With the network's weights in their place.
    description: Description,
    /// Of the weights, as the table of sections has it.
    weights_hash: ContentHash,
    origin: Origin,
    /// By rising lanes.
    images: Vec<WeightImage>,
    profiles: Vec<Profile>,
    hash: PackageHash,
    timing: TimingHash,
}

impl Package {
    /// A package of a network and what is known of its exits' accuracy (may be empty), without
    /// layouts, images and profiles.
    pub fn new(network: Network, calibration: Calibration) -> Result<Self, PackageError> {
        network.validate()?;
        let weights_hash = hash_of_floats(&network.weights);
        let description = Description {
            batch_max: BATCH_MAX as u8,
            prefixes: network.stage_prefixes(),
            calibration,
            layouts: Vec::new(),
            images: Vec::new(),
            network,
        };
        description.check()?;
        let origin = Origin::default();
        Ok(Self::of(description, weights_hash, origin, Vec::new()))
    }

    fn of(
        description: Description,
        weights_hash: ContentHash,
        origin: Origin,
        images: Vec<WeightImage>,
    ) -> Self {
        let mut package = Self {
            timing: description.network.timing(),
            description,
            weights_hash,
            origin,
            images,
            profiles: Vec::new(),
            hash: PackageHash::of([]),
        };
        package.hash = PackageHash::of(
            place(&package.hashed_sections())
                .iter()
                .map(Section::identity),
        );
        package
    }

    /// This package with the memory plans of the CPU device, by rising lanes, in place of those
    /// that it had. Images are dropped, since they belong to the layouts as they were.
    pub fn with_layouts(mut self, layouts: Vec<ImageLayout>) -> Result<Self, PackageError> {
        self.description.layouts = layouts;
        self.description.images.clear();
        self.description.check_layouts()?;
        let changed = Self::of(self.description, self.weights_hash, self.origin, Vec::new());
        Ok(changed.keeping(self.profiles))
    }

    /// This package with one more image of packed weights, or another in place of the one for the
    /// same lanes. Profiles are dropped. An image of no floats is not kept: there is nothing to load.
    pub fn with_image(mut self, lanes: u8, floats: Vec<f32>) -> Result<Self, PackageError> {
        let image = WeightImage::new(lanes, floats.into());
        image.check_against(&self.description)?;
        image.verify()?;
        self.images.retain(|known| known.lanes() != lanes);
        if image.floats() > 0 {
            self.images.push(image);
        }
        self.images.sort_by_key(WeightImage::lanes);
        let indexes = self.images.iter().map(|image| image.index.clone());
        self.description.images = indexes.collect();
        let changed = Self::of(
            self.description,
            self.weights_hash,
            self.origin,
            self.images,
        );
        Ok(changed.keeping(self.profiles))
    }

    /// This package, with what the ONNX file had in the place of its input. Profiles are dropped.
    #[must_use]
    pub fn with_origin(self, origin: Origin) -> Self {
        Self::of(self.description, self.weights_hash, origin, self.images)
    }

    /// This package with those of these measurements that hold for it, in place of those that it had: as it takes them over from
    /// the one that it replaces.
    #[must_use]
    pub fn keeping(mut self, mut profiles: Vec<Profile>) -> Self {
        profiles.retain(|profile| profile.key.is_of(&self));
        self.profiles = profiles;
        self
    }

    /// This package with these measurements in place of those that it had. Its hash stays: what
    /// is measured says nothing of what is computed.
    pub fn with_profiles(mut self, profiles: Vec<Profile>) -> Result<Self, PackageError> {
        self.profiles = profiles;
        self.check_profiles().map(|()| self)
    }

    /// This package with one more measurement, or this one in place of that under the same key.
    pub fn with_profile(mut self, profile: Profile) -> Result<Self, PackageError> {
        let same = self
            .profiles
            .iter()
            .position(|known| known.key.holds_as(&profile.key));
        match same {
            Some(at) => self.profiles[at] = profile,
            None => self.profiles.push(profile),
        }
        self.check_profiles().map(|()| self)
    }

    fn check_profiles(&self) -> Result<(), PackageError> {
        let mut keys = self.profiles.iter().map(|profile| &profile.key);
        match keys.find(|key| !key.is_of(self)) {
            Some(key) => Err(PackageError::ProfileOfAnother {
                found: key.package.clone(),
                expected: self.hash.to_string(),
            }),
            None => Ok(()),
        }
    }

    /// What the ONNX file had in the place of the input.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    #[must_use]
    pub fn network(&self) -> &Network {
        &self.description.network
    }

    /// The largest batch that the operators serve; they serve every smaller one too. Today's
    /// operators are the same for all of them.
    #[must_use]
    pub fn batch_max(&self) -> u8 {
        self.description.batch_max
    }

    /// What each exit answered for held-out samples; may be empty.
    #[must_use]
    pub fn calibration(&self) -> &Calibration {
        &self.description.calibration
    }

    /// What each stage is known by among those of other networks, as it was compiled: as
    /// [`Network::stage_prefixes`], without a look at the weights.
    #[must_use]
    pub fn stage_prefixes(&self) -> &[StagePrefix] {
        &self.description.prefixes
    }

    /// The CPU device's memory plan for vectors of `lanes` floats, if it was made.
    #[must_use]
    pub fn layout(&self, lanes: u8) -> Option<&ImageLayout> {
        self.description.layout(lanes)
    }

    /// The packed weights for vectors of `lanes` floats, if the package has them.
    #[must_use]
    pub fn image(&self, lanes: u8) -> Option<&WeightImage> {
        self.images.iter().find(|image| image.lanes() == lanes)
    }

    /// All images that the package has, by rising lanes.
    #[must_use]
    pub fn images(&self) -> &[WeightImage] {
        &self.images
    }

    /// What was measured of this package, on any number of machines.
    #[must_use]
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// Names all of the content but the profiles; used in the plan's hash.
    #[must_use]
    pub fn hash(&self) -> PackageHash {
        self.hash
    }

    /// Names what of the network determines time: what its profiles are found by.
    #[must_use]
    pub fn timing(&self) -> TimingHash {
        self.timing
    }

    /// Gives back the memory of all that was read of a mapped file but not decoded.
    pub fn release(&self) {
        self.network().weights.release();
    }

    /// Writes the package's file in place of the one that may be there: a reader sees the old file or the new one.
    pub fn write(&self, path: &Path) -> Result<(), PackageError> {
        let written = files::write_whole_with(path, |file| self.write_to(file));
        written.map_err(|source| PackageError::File {
            path: path.to_owned(),
            source,
        })
    }

    /// The bytes of the package's file. Same package, same bytes.
    ///
    /// # Panics
    /// When there is no memory for them.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = self.write_to(&mut bytes);
        written.expect("writing to memory does not fail");
        bytes
    }

    /// Kind, size and hash of the sections that the package's hash covers, in their order.
    fn hashed_sections(&self) -> Vec<(SectionKind, u64, ContentHash)> {
        let floats = |floats: &Floats| size_of_val::<[f32]>(floats) as u64;
        let description = self.description.encode();
        let mut sections = vec![
            (
                SectionKind::Description,
                description.len() as u64,
                ContentHash::of(&description),
            ),
            (
                SectionKind::Weights,
                floats(&self.network().weights),
                self.weights_hash,
            ),
        ];
        let origin = self.origin.encode();
        if !origin.is_empty() {
            let (length, hash) = (origin.len() as u64, ContentHash::of(&origin));
            sections.push((SectionKind::Origin, length, hash));
        }
        let images = self.images.iter();
        sections.extend(images.map(|image| {
            let kind = SectionKind::Image(image.lanes());
            (kind, floats(&image.floats), image.hash)
        }));
        sections
    }
}

//! What a package tells about its model in a few kilobytes: all that is decoded when it is opened.

use punctual_core::BATCH_MAX;
use serde::{Deserialize, Serialize};

use super::error::{ImageProblem, PackageError};
use super::image::PageHashes;
use crate::layout::LANES;
use crate::{Calibration, Floats, ImageLayout, Network, StagePrefix};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Description {
    /// Without its weights, which lie in a section of their own.
    pub(super) network: Network,
    /// The operators serve every batch from 1 to this size.
    pub(super) batch_max: u8,
    pub(super) calibration: Calibration,
    pub(super) prefixes: Vec<StagePrefix>,
    /// By rising lanes.
    pub(super) layouts: Vec<ImageLayout>,
    /// One for each image in the file, by rising lanes.
    pub(super) images: Vec<PageHashes>,
}

impl Description {
    /// Decodes a description and gives its network the weights that belong to it. Memory is
    /// bounded by a small multiple of `bytes.len()`.
    pub(super) fn decode(bytes: &[u8], weights: Floats) -> Result<Self, PackageError> {
        let (mut description, rest) =
            postcard::take_from_bytes::<Self>(bytes).map_err(PackageError::Description)?;
        if !rest.is_empty() {
            return Err(PackageError::Trailing(rest.len()));
        }
        // Numbers can be encoded with more bytes than they need; the compiler does not.
        if description.encode() != bytes {
            return Err(PackageError::NotCanonical);
        }
        description.network.weights = weights;
        description.check()?;
        Ok(description)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("plain data with known lengths always encodes")
    }

    /// Everything but what the weights are.
    pub(super) fn check(&self) -> Result<(), PackageError> {
        self.network.validate_structure()?;
        let found = self.batch_max;
        if !(1..=BATCH_MAX).contains(&usize::from(found)) {
            let limit = BATCH_MAX;
            return Err(PackageError::BatchMax { found, limit });
        }
        self.calibration.check_exits(self.network.exits().count())?;
        if self.prefixes.len() != self.network.stages.len() {
            return Err(PackageError::Prefixes);
        }
        self.check_layouts()
    }

    pub(super) fn check_layouts(&self) -> Result<(), PackageError> {
        let mut known = LANES.iter();
        for layout in &self.layouts {
            let wrong = |problem| PackageError::Image {
                lanes: layout.lanes,
                problem,
            };
            if !known.any(|&lanes| lanes == layout.lanes) {
                return Err(wrong(ImageProblem::Lanes));
            }
            layout.check(&self.network).map_err(wrong)?;
        }
        Ok(())
    }

    pub(super) fn layout(&self, lanes: u8) -> Option<&ImageLayout> {
        self.layouts.iter().find(|layout| layout.lanes == lanes)
    }
}

//! Packed weights as a device loads them, page by page.

use serde::{Deserialize, Serialize};

use super::error::{ImageProblem, PackageError};
use super::hash::{ContentHash, hash_of_floats};
use crate::Floats;

/// Floats of a page of weights: what is loaded, checked and shared as one.
pub const PAGE_FLOATS: usize = 64 * 1024;
/// Bytes of such a page: 256 KiB.
pub const PAGE_BYTES: usize = PAGE_FLOATS * size_of::<f32>();

/// The packed weights of a network for one lane width.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightImage {
    pub(super) index: PageHashes,
    pub(super) floats: Floats,
    pub(super) hash: ContentHash,
}

/// The hashes of an image's pages, as the description has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PageHashes {
    pub(super) lanes: u8,
    pub(super) pages: Vec<ContentHash>,
}

impl WeightImage {
    /// An image of these packed weights.
    #[must_use]
    pub fn new(lanes: u8, floats: Floats) -> Self {
        let pages = floats.chunks(PAGE_FLOATS).map(hash_of_floats).collect();
        Self {
            index: PageHashes { lanes, pages },
            hash: hash_of_floats(&floats),
            floats,
        }
    }

    /// Floats of the vectors that it is packed for.
    #[must_use]
    pub fn lanes(&self) -> u8 {
        self.index.lanes
    }

    /// How many floats it has. They are the operators' in the order of the
    /// [`ImageLayout`](crate::ImageLayout) of the same lanes.
    #[must_use]
    pub fn floats(&self) -> usize {
        self.floats.len()
    }

    /// How many pages it has: all of [`PAGE_FLOATS`] but the last, which may be shorter.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.index.pages.len()
    }

    /// What a page's content is named by: pages of equal hash are equal, also those of other
    /// images. None beyond the last.
    #[must_use]
    pub fn page_hash(&self, page: usize) -> Option<ContentHash> {
        self.index.pages.get(page).copied()
    }

    /// A page's floats, checked: they are those that were compiled.
    pub fn page(&self, page: usize) -> Result<&[f32], PackageError> {
        let checked = self
            .floats_of(page)
            .and_then(|(floats, expected)| check(page, floats, expected).map(|()| floats));
        checked.map_err(|problem| self.error(problem))
    }

    /// Copies a page to the beginning of `target` and checks the copy: what was copied is what was
    /// compiled, also if somebody wrote into the file. Returns how many floats it has.
    ///
    /// # Panics
    /// If `target` is shorter than the page.
    pub fn copy_page(&self, page: usize, target: &mut [f32]) -> Result<usize, PackageError> {
        let copied = self.floats_of(page).and_then(|(floats, expected)| {
            let target = &mut target[..floats.len()];
            target.copy_from_slice(floats);
            check(page, target, expected).map(|()| floats.len())
        });
        copied.map_err(|problem| self.error(problem))
    }

    /// Gives back the memory of pages that were read; the next read gets them from the file again.
    pub fn release(&self) {
        self.floats.release();
    }

    fn error(&self, problem: ImageProblem) -> PackageError {
        let lanes = self.lanes();
        PackageError::Image { lanes, problem }
    }

    /// A page as it lies there, and the hash that it should have.
    fn floats_of(&self, page: usize) -> Result<(&[f32], ContentHash), ImageProblem> {
        let pages = self.pages();
        let floats = self.floats.chunks(PAGE_FLOATS).nth(page);
        let found = floats.zip(self.page_hash(page));
        found.ok_or(ImageProblem::NoPage { page, pages })
    }

    /// Whether the image is as long as its layout and its page hashes say.
    pub(super) fn check_size(&self, layout_floats: u64) -> Result<(), ImageProblem> {
        let same = |what, found, expected| {
            if found == expected {
                Ok(())
            } else {
                Err(ImageProblem::Size {
                    what,
                    found,
                    expected,
                })
            }
        };
        let floats = self.floats.len();
        same("floats", floats as u64, layout_floats)?;
        let pages = floats.div_ceil(PAGE_FLOATS);
        same("page hashes", self.pages() as u64, pages as u64)
    }
}

/// Whether these are the floats of a page. Any bits may stand in them: operators on bytes keep theirs there.
fn check(page: usize, floats: &[f32], expected: ContentHash) -> Result<(), ImageProblem> {
    let found = hash_of_floats(floats);
    if found == expected {
        return Ok(());
    }
    Err(ImageProblem::Page {
        page,
        expected,
        found,
    })
}

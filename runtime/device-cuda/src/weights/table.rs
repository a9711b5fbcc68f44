//! Where the pages of all models lie.

use std::sync::atomic::{AtomicU64, Ordering};

/// The addresses of pages on the device, read by leaders without a lock.
pub struct PageTable {
    models: Box<[Box<[AtomicU64]>]>,
}

impl PageTable {
    /// For models with these numbers of pages, none of which is there.
    pub(super) fn new(pages: impl Iterator<Item = usize>) -> Self {
        let model = |pages| (0..pages).map(|_| AtomicU64::new(0)).collect();
        Self {
            models: pages.map(model).collect(),
        }
    }

    /// The address of a model's page; 0 if it is not on the device, or does not exist.
    #[must_use]
    pub fn address(&self, model: usize, page: u32) -> u64 {
        let model = self.models.get(model);
        let page = model.and_then(|model| model.get(page as usize));
        // Acquire: pairs with the release in `publish` (label PAGE): a page that is seen is filled.
        page.map_or(0, |page| page.load(Ordering::Acquire))
    }

    /// Says where a page lies that was filled.
    pub(super) fn publish(&self, model: usize, page: usize, address: u64) {
        // Release: pairs with the acquire in `address` (label PAGE).
        self.models[model][page].store(address, Ordering::Release);
    }

    /// Says that none of a model's pages is there.
    pub(super) fn hide(&self, model: usize) {
        for page in &self.models[model] {
            // Relaxed: no leader has an action of the model any more, so none reads the address.
            page.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn hide_all(&self) {
        for model in 0..self.models.len() {
            self.hide(model);
        }
    }
}

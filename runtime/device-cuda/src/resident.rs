//! Weights that are on the device for good.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::driver::{CallError, Context, DeviceMemory};

/// Where the pages of each model lie, read by leaders without a lock.
pub(crate) struct PageTable {
    models: Box<[Box<[AtomicU64]>]>,
}

impl PageTable {
    /// The address of a page; 0 if it is not on the device.
    pub(crate) fn address(&self, model: usize, page: u32) -> u64 {
        let page = self
            .models
            .get(model)
            .and_then(|model| model.get(page as usize));
        // Acquire: pairs with the release where a page arrives (label PAGE).
        page.map_or(0, |page| page.load(Ordering::Acquire))
    }
}

/// Packed pages of all models, and their copies on the device.
pub(crate) struct Weights {
    /// By model, then page.
    pages: Vec<Vec<Box<[u8]>>>,
    table: Arc<PageTable>,
    on_device: Mutex<Vec<DeviceMemory>>,
}

impl Weights {
    pub(crate) fn new(pages: Vec<Vec<Box<[u8]>>>) -> Self {
        let models = pages
            .iter()
            .map(|pages| pages.iter().map(|_| AtomicU64::new(0)).collect());
        Self {
            table: Arc::new(PageTable {
                models: models.collect(),
            }),
            pages,
            on_device: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn table(&self) -> Arc<PageTable> {
        self.table.clone()
    }

    pub(crate) fn bring_up(&self, context: &Arc<Context>) -> Result<(), CallError> {
        let mut on_device = self.on_device.lock().unwrap_or_else(|p| p.into_inner());
        for (model, pages) in self.pages.iter().enumerate() {
            for (page, bytes) in pages.iter().enumerate() {
                let memory = DeviceMemory::take(context, bytes.len())?;
                memory.write(0, bytes)?;
                // Release: pairs with the acquire in `PageTable::address` (label PAGE).
                self.table.models[model][page].store(memory.address(), Ordering::Release);
                on_device.push(memory);
            }
        }
        Ok(())
    }

    pub(crate) fn let_go(&self) {
        for page in self.table.models.iter().flatten() {
            page.store(0, Ordering::Release);
        }
        let mut on_device = self.on_device.lock().unwrap_or_else(|p| p.into_inner());
        on_device.clear();
    }
}

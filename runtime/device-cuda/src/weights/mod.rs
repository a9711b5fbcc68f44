//! The weights of all models on the device: pages of one pool, taken at start, that models are given
//! and that are filled from copies on the host.
//!
//! Four threads share this state, and each owns its part of it:
//!
//! | end | whose | what it does |
//! |---|---|---|
//! | [`Residents`] | the thread that submits | gives pieces of the pool to models and takes them back |
//! | `Loader` | its own thread, with its own stream | fills pieces and publishes where pages lie |
//! | [`PageTable`] | leaders, while they launch | reads where pages lie, without a lock |
//! | [`Weights`] | the recovery thread | takes the pool, and after a fault of the device takes it again and fills it |
//!
//! # Why no page is read while it is written
//! A piece of the pool is filled only on behalf of a model that it was given to, and only if it does
//! not hold that model's page already; models that share a piece share its content. Actions of a
//! model are taken between its load's event and its unload, which is refused while one of them is not
//! over ([`Residency`](punctual_device::Residency)): so an address of the table stays valid for as long as the
//! launches that were made with it run.
//!
//! # After a fault
//! The device's memory is gone. Pieces keep their numbers, host copies are all there, so the pool
//! is taken again and every model that was there is filled in again. A load that was under way when
//! the device failed ends as failed.

mod content;
mod failure;
mod loader;
mod pool;
mod residents;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};

use punctual_core::ModelId;
use punctual_device::NO_PIECE;
use punctual_platform::Doorbell;

pub use content::Content;
pub use failure::{FitError, LoadError};
pub use loader::Loader;
pub use pool::Weights;
use pool::{Model, Shared};
pub use residents::Residents;
pub use table::PageTable;

/// Where a model's weights come from.
pub struct Source {
    /// Its pages, each as long as a page or shorter. Equal ones of several models are one content.
    pub pages: Vec<Arc<Content>>,
    /// Whether its weights are paged; else they are pinned.
    pub paged: bool,
}

/// The ends of the weights of `models`, whose pages have up to `page_bytes`, with `cache_pages` pages
/// for those that come and go. Nothing is on a device yet.
pub fn make(
    models: Vec<Source>,
    page_bytes: u32,
    cache_pages: u32,
) -> Result<(Arc<Weights>, Residents, Loader), FitError> {
    for (id, model) in (0..).zip(&models) {
        let needs = model.pages.len() as u32;
        if model.paged && needs > cache_pages {
            return Err(FitError {
                model: ModelId(id),
                needs,
                pages: cache_pages,
            });
        }
    }
    let (models, contents) = numbered(models);
    let pinned = models.iter().filter(|model| !model.paged);
    let pinned: BTreeSet<u32> = pinned.flat_map(|model| model.contents.to_vec()).collect();
    let pages = models.iter().map(|model| model.contents.len());
    let shared = Arc::new(Shared {
        page_bytes: page_bytes as usize,
        pieces: pinned.len() + cache_pages as usize,
        contents,
        table: Arc::new(PageTable::new(pages)),
        models,
        pool: Mutex::new(None),
        orders: Arc::new(Doorbell::new()),
    });
    let (residents, loader) = Residents::new(shared.clone());
    Ok((Arc::new(Weights { shared }), residents, loader))
}

/// Models with their pages' contents numbered.
fn numbered(sources: Vec<Source>) -> (Box<[Model]>, Box<[Arc<Content>]>) {
    let mut numbers: BTreeMap<*const Content, u32> = BTreeMap::new();
    let mut contents = Vec::new();
    let mut number = |page: Arc<Content>| {
        *numbers.entry(Arc::as_ptr(&page)).or_insert_with(|| {
            contents.push(page);
            contents.len() as u32 - 1
        })
    };
    let model = |source: Source| {
        let contents: Box<[u32]> = source.pages.into_iter().map(&mut number).collect();
        Model {
            paged: source.paged,
            pieces: contents.iter().map(|_| AtomicU32::new(NO_PIECE)).collect(),
            contents,
            there: AtomicBool::new(false),
        }
    };
    let models = sources.into_iter().map(model).collect();
    (models, contents.into())
}

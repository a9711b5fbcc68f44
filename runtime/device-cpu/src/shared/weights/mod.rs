//! The weights of all models in memory: pages taken once, shown in each model's own range of
//! addresses, so that kernels see one piece of floats wherever the pages lie.
//!
//! Three threads share this state, and each owns its part of it:
//!
//! | end | whose | what it does |
//! |---|---|---|
//! | [`Ledger`] | the thread that submits | gives pages to models and takes them back |
//! | [`Loader`] | its own thread | shows pages in a model's addresses, fills and checks them |
//! | [`WeightClaim`] | a leader, while it runs a stage | the right to read a model's weights |
//!
//! # Why no float is read while it is written
//! A page is written by the loader only, only on behalf of a model that the ledger gave the page to,
//! and only if it does not hold that model's content already. Models that have a page in common have
//! it because its content is the same, so each of them was given it with that content. The
//! ledger takes a page back only when its last model's *gate* is closed, which succeeds only while
//! no leader holds a claim on that model; and a claim is given only where the gate is open. A model's
//! *ready* floats are those of pages that were filled and checked, and no others are ever given out:
//! a claim on a model of which pages are still missing, as after a start in turn, reads those that are there.

mod claim;
mod ledger;
mod loader;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use punctual_device::NO_PIECE;
use punctual_model::PAGE_BYTES;
use punctual_platform::paging::{AddressRange, PageStore};
use punctual_platform::{Doorbell, OsError};
use rtrb::RingBuffer;

use claim::Model;
pub(crate) use claim::{WeightClaim, Weights};
pub(crate) use ledger::Ledger;
pub use loader::LoadError;
pub(crate) use loader::{Load, Loader, Source};

/// The three ends, for models whose images these are, with room for `pages` pages. Nothing is loaded, and no memory is
/// taken: the loader does both.
///
/// # Errors
/// When the addresses are unavailable.
///
/// # Panics
/// If there are 2^32 pages or more.
pub(crate) fn weights(
    sources: Vec<Source>,
    pages: usize,
) -> Result<(Arc<Weights>, Ledger, Loader), OsError> {
    assert!(pages < NO_PIECE as usize, "{pages} pages");
    let mut end = 0;
    let models = sources.iter().map(|source| {
        let at = end;
        end += source.image.pages() * PAGE_BYTES;
        Model::absent(at, &source.image)
    });
    let models = models.collect();
    let store = PageStore::reserve(c"punctual-weights", PAGE_BYTES, pages)?;
    let weights = Arc::new(Weights {
        models,
        store,
        addresses: AddressRange::reserve(end)?,
        bell: Arc::new(Doorbell::new()),
    });
    // A model has at most one load that was not reported, and before it one end of an earlier one.
    let (order_in, order_out) = RingBuffer::new(2 * sources.len());
    let (done_in, done_out) = RingBuffer::new(sources.len());
    let ledger = Ledger::new(weights.clone(), &sources, order_in, done_out);
    let loader = Loader::new(weights.clone(), sources, order_out, done_in);
    Ok((weights, ledger, loader))
}

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
//! *ready* floats are those of pages that were filled and checked, and no others are ever given out.

mod ledger;
mod loader;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use punctual_core::ModelId;
use punctual_device::NO_PIECE;
use punctual_model::{PAGE_BYTES, WeightImage};
use punctual_platform::paging::{AddressRange, PageStore};
use punctual_platform::{Doorbell, OsError};
use rtrb::RingBuffer;

pub(crate) use ledger::Ledger;
use loader::Load;
pub use loader::LoadError;
pub(crate) use loader::{Loader, Source};

/// The value of a closed gate; any other value counts the claims that are held.
const CLOSED: u32 = u32::MAX;

/// Where the weights of all models lie. Shared by all ends.
pub(crate) struct Weights {
    models: Box<[Model]>,
    store: PageStore,
    /// The ranges of all models, one after the other.
    addresses: AddressRange,
    /// Rings when the loader has an order.
    bell: Arc<Doorbell>,
}

/// What the ends share about one model.
struct Model {
    /// Bytes from the start of the addresses.
    at: usize,
    floats: usize,
    /// Which piece of the store each of its pages is. Written by the ledger before it orders a
    /// load, read by the loader: the ring of orders publishes it.
    pages: Box<[AtomicU32]>,
    gate: AtomicU32,
    /// Floats from the start that may be read.
    ready: AtomicUsize,
}

/// What the ledger tells the loader.
#[derive(Debug)]
enum Order {
    Load(Load),
    /// Show nothing in the model's addresses any more.
    Hide(ModelId),
}

/// The three ends, for models whose images these are, with `pages` pages in memory, which is taken now. Nothing is
/// loaded.
///
/// # Errors
/// When the memory or the addresses are unavailable.
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
    store.take(0, pages)?;
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

impl Model {
    fn absent(at: usize, image: &WeightImage) -> Self {
        Self {
            at,
            floats: image.floats(),
            pages: (0..image.pages())
                .map(|_| AtomicU32::new(NO_PIECE))
                .collect(),
            gate: AtomicU32::new(CLOSED),
            ready: AtomicUsize::new(0),
        }
    }

    /// Admits claims.
    fn open(&self) {
        // Release: pairs with the acquire in `Weights::claim` (label GATE).
        self.gate.store(0, Ordering::Release);
    }

    /// Admits no further claims; false if there are some.
    fn close(&self) -> bool {
        // Acquire: pairs with the release in `WeightClaim::drop` (label INSIDE): what a claim read
        // was read before the pages are given away.
        self.gate
            .compare_exchange(0, CLOSED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}

impl Weights {
    /// The right to read the weights of `model` that are ready, until it is dropped; none while they are not there.
    ///
    /// # Panics
    /// If there is no such model.
    pub(crate) fn claim(&self, model: ModelId) -> Option<WeightClaim<'_>> {
        let enter = |inside: u32| (inside != CLOSED).then(|| inside + 1);
        // Acquire: pairs with the release in `Model::open` (label GATE).
        self.models[model.index()]
            .gate
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, enter)
            .ok()
            .map(|_| WeightClaim {
                weights: self,
                model,
            })
    }

    /// Bytes of the pages.
    pub(crate) fn bytes(&self) -> usize {
        self.store.pages() * PAGE_BYTES
    }

    /// Some of a model's weights.
    ///
    /// # Safety
    /// A claim on the model lives as long as the slice.
    ///
    /// # Panics
    /// If they are not ready.
    pub(super) unsafe fn read(&self, model: ModelId, range: Range<usize>) -> &[f32] {
        let model = &self.models[model.index()];
        // Acquire: pairs with the release in `Loader::fill` (label READY).
        let ready = model.ready.load(Ordering::Acquire);
        assert!(
            range.start <= range.end && range.end <= ready,
            "weights {range:?} are not ready: {ready} of {} are",
            model.floats
        );
        if range.is_empty() {
            return &[];
        }
        let floats = self.floats_of(model);
        // SAFETY: `ready` floats from there on are shown, inside the model's addresses, and were
        // written before; the loader does not write to them while a claim lives (the module's doc).
        unsafe { std::slice::from_raw_parts(floats.add(range.start), range.len()) }
    }

    /// Where a model's weights are shown.
    fn floats_of(&self, model: &Model) -> *mut f32 {
        assert!(model.at + model.floats * size_of::<f32>() <= self.addresses.bytes());
        // SAFETY: inside the addresses, or one past their end for a model without weights.
        unsafe { self.addresses.as_ptr().add(model.at).cast() }
    }
}

/// The right to read a model's weights.
pub(crate) struct WeightClaim<'a> {
    weights: &'a Weights,
    model: ModelId,
}

impl WeightClaim<'_> {
    /// Whether it is a claim on the model `model` of `weights`.
    pub(super) fn is_of(&self, weights: &Weights, model: ModelId) -> bool {
        std::ptr::eq(self.weights, weights) && self.model == model
    }

    /// The weights that are ready.
    pub(crate) fn floats(&self) -> &[f32] {
        // Acquire: pairs with the release in `Loader::fill` (label READY).
        let ready = self.weights.models[self.model.index()]
            .ready
            .load(Ordering::Acquire);
        // SAFETY: this claim lives as long as the slice.
        unsafe { self.weights.read(self.model, 0..ready) }
    }

    /// Whether all of the weights are ready, so that no worker has to wait.
    pub(super) fn is_whole(&self) -> bool {
        let model = &self.weights.models[self.model.index()];
        // Acquire: pairs with the release in `Loader::fill` (label READY).
        model.ready.load(Ordering::Acquire) == model.floats
    }
}

impl Drop for WeightClaim<'_> {
    fn drop(&mut self) {
        let gate = &self.weights.models[self.model.index()].gate;
        // Release: pairs with the acquire in `Model::close` (label INSIDE).
        gate.fetch_sub(1, Ordering::Release);
    }
}

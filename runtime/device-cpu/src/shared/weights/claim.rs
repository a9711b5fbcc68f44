//! Where the weights of all models lie, and the right to read them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use punctual_core::ModelId;
use punctual_device::NO_PIECE;
use punctual_model::{PAGE_BYTES, WeightImage};
use punctual_platform::Doorbell;
use punctual_platform::paging::{AddressRange, PageStore};

/// The value of a closed gate; any other value counts the claims that are held.
const CLOSED: u32 = u32::MAX;

/// Where the weights of all models lie. Shared by all ends.
pub(crate) struct Weights {
    pub(super) models: Box<[Model]>,
    pub(super) store: PageStore,
    /// The ranges of all models, one after the other.
    pub(super) addresses: AddressRange,
    /// Rings when the loader has an order.
    pub(super) bell: Arc<Doorbell>,
}

/// What the ends share about one model.
pub(super) struct Model {
    /// Bytes from the start of the addresses.
    pub(super) at: usize,
    pub(super) floats: usize,
    /// Which piece of the store each of its pages is. Written by the ledger before it orders a
    /// load, read by the loader: the ring of orders publishes it.
    pub(super) pages: Box<[AtomicU32]>,
    pub(super) gate: AtomicU32,
    /// Floats from the start that may be read.
    pub(super) ready: AtomicUsize,
}

impl Model {
    pub(super) fn absent(at: usize, image: &WeightImage) -> Self {
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
    pub(super) fn open(&self) {
        // Release: pairs with the acquire in `Weights::claim` (label GATE).
        self.gate.store(0, Ordering::Release);
    }

    /// Admits no further claims; false if there are some.
    pub(super) fn close(&self) -> bool {
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

    /// How many of a model's weights are ready, from the first on: floats.
    pub(crate) fn ready(&self, model: ModelId) -> usize {
        // Acquire: pairs with the release in `Loader::fill` (label READY).
        self.models[model.index()].ready.load(Ordering::Acquire)
    }

    /// Some of a model's weights.
    ///
    /// # Safety
    /// A claim on the model lives as long as the slice.
    ///
    /// # Panics
    /// If they are not ready.
    pub(in crate::shared) unsafe fn read(&self, model: ModelId, range: Range<usize>) -> &[f32] {
        let ready = self.ready(model);
        let model = &self.models[model.index()];
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
    pub(super) fn floats_of(&self, model: &Model) -> *mut f32 {
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
    pub(in crate::shared) fn is_of(&self, weights: &Weights, model: ModelId) -> bool {
        std::ptr::eq(self.weights, weights) && self.model == model
    }

    /// The weights that are ready.
    pub(crate) fn floats(&self) -> &[f32] {
        let ready = self.weights.ready(self.model);
        // SAFETY: this claim lives as long as the slice.
        unsafe { self.weights.read(self.model, 0..ready) }
    }

    /// Whether the first `floats` weights are ready, so that no worker has to wait for them.
    pub(in crate::shared) fn reaches(&self, floats: usize) -> bool {
        self.weights.ready(self.model) >= floats
    }
}

impl Drop for WeightClaim<'_> {
    fn drop(&mut self) {
        let gate = &self.weights.models[self.model.index()].gate;
        // Release: pairs with the acquire in `Model::close` (label INSIDE).
        gate.fetch_sub(1, Ordering::Release);
    }
}

//! Which pages are whose.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_core::{ActionId, ModelId};
use rtrb::{Consumer, Producer};

use punctual_device::PageLedger;
use punctual_device::weights::Loaded;

use super::claim::Weights;
use super::loader::{Ended, Load, Order, Source};

/// The end of the thread that submits: gives pages to models and takes them back. Pages with the
/// same bytes are one, whichever models have them.
pub(crate) struct Ledger {
    weights: Arc<Weights>,
    /// What each model's pages contain, equal ones having the same number.
    models: Box<[Box<[u32]>]>,
    pages: PageLedger,
    orders: Producer<Order>,
    done: Consumer<Ended>,
}

impl Ledger {
    pub(super) fn new(
        weights: Arc<Weights>,
        sources: &[Source],
        orders: Producer<Order>,
        done: Consumer<Ended>,
    ) -> Self {
        let models = contents_of(sources);
        let contents = models.iter().flatten().max().map_or(0, |last| last + 1);
        let pieces = weights.store.pages() as u32;
        Self {
            weights,
            models,
            pages: PageLedger::new(contents as usize, pieces),
            orders,
            done,
        }
    }

    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.pages.free()
    }

    /// Gives `model` its pages and orders its load.
    ///
    /// # Panics
    /// If there are too few pages, or a load of the model was ordered before and not taken back.
    pub(crate) fn load(&mut self, action: ActionId, model: ModelId) {
        let shared = &self.weights.models[model.index()];
        self.pages.give(&shared.pages, &self.models[model.index()]);
        // Relaxed: the gate is closed, so no worker reads it; the ring of orders publishes it to the loader.
        shared.ready.store(0, Ordering::Relaxed);
        self.order(Order::Load(Load { action, model }));
    }

    /// Gives `model` its pages for good. Claims are admitted at once, on the weights that are ready: none so far. The
    /// pages are loaded by who gets the load, one after the other.
    ///
    /// # Panics
    /// As [`load`](Self::load).
    pub(crate) fn pin(&mut self, model: ModelId) -> Load {
        let shared = &self.weights.models[model.index()];
        self.pages.give(&shared.pages, &self.models[model.index()]);
        shared.open();
        let action = ActionId(0);
        Load { action, model }
    }

    /// The next load that ended; one that failed has given its pages back.
    pub(crate) fn poll(&mut self) -> Option<Loaded> {
        let Ended { load, took } = self.done.pop().ok()?;
        let Load { action, model } = load;
        // The gate of a model whose load failed was never opened.
        if took.is_none() {
            self.give_back(model);
        }
        Some(Loaded {
            action,
            model,
            took,
        })
    }

    /// Takes a model's pages back; false, and nothing is done, if they are being read or are not resident.
    pub(crate) fn unload(&mut self, model: ModelId) -> bool {
        let closed = self.close(model);
        if closed {
            self.give_back(model);
        }
        closed
    }

    fn close(&self, model: ModelId) -> bool {
        self.weights.models[model.index()].close()
    }

    /// The gate is closed.
    fn give_back(&mut self, model: ModelId) {
        let shared = &self.weights.models[model.index()];
        self.pages
            .take_back(&shared.pages, &self.models[model.index()]);
        self.order(Order::Hide(model));
    }

    fn order(&mut self, order: Order) {
        let pushed = self.orders.push(order);
        assert!(pushed.is_ok(), "the ring holds two orders a model");
        self.weights.bell.ring();
    }
}

/// Numbers the different contents of all pages.
fn contents_of(sources: &[Source]) -> Box<[Box<[u32]>]> {
    let mut numbers = BTreeMap::new();
    let mut number = |hash| {
        let next = numbers.len() as u32;
        *numbers.entry(hash).or_insert(next)
    };
    let contents = |source: &Source| {
        let pages = 0..source.image.pages();
        let hashes = pages.map_while(|page| source.image.page_hash(page));
        hashes.map(&mut number).collect()
    };
    sources.iter().map(contents).collect()
}

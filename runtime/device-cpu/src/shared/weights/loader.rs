//! Loads weights.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_core::{ActionId, Instant, ModelId, Nanos};
use punctual_model::{ContentHash, PAGE_BYTES, PAGE_FLOATS, PackageError, WeightImage};
use punctual_platform::{Doorbell, OsError, clock};
use rtrb::{Consumer, Producer};
use thiserror::Error;

use super::claim::Weights;

/// Where a model's weights come from.
pub(crate) struct Source {
    pub(crate) image: WeightImage,
    /// Whether it comes and goes by orders. If not, it is loaded once and stays.
    pub(crate) paged: bool,
}

/// A load that was ordered. Not to be copied: it is the right to write the pages it was given.
#[derive(Debug)]
pub(crate) struct Load {
    pub(super) action: ActionId,
    pub(super) model: ModelId,
}

/// What the ledger tells the loader.
#[derive(Debug)]
pub(super) enum Order {
    Load(Load),
    /// Show nothing in the model's addresses any more.
    Hide(ModelId),
}

/// How a load ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) load: Load,
    /// How long it took; none if it failed.
    pub(super) took: Option<Nanos>,
}

/// Why weights could not be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The image is damaged.
    #[error(transparent)]
    Image(#[from] PackageError),
    /// The operating system cannot show the pages.
    #[error("pages of weights cannot be mapped: {0}")]
    Memory(#[from] OsError),
}

/// Shows pages in models' addresses, fills and checks them. Only this thread writes weights.
pub(crate) struct Loader {
    weights: Arc<Weights>,
    /// None once a pinned model is loaded.
    sources: Box<[Option<Source>]>,
    /// Whether the memory of each piece of the store is there.
    taken: Box<[bool]>,
    /// What each piece of the store was filled with.
    holds: Box<[Option<ContentHash>]>,
    orders: Consumer<Order>,
    done: Producer<Ended>,
}

impl Loader {
    pub(super) fn new(
        weights: Arc<Weights>,
        sources: Vec<Source>,
        orders: Consumer<Order>,
        done: Producer<Ended>,
    ) -> Self {
        let pieces = weights.store.pages();
        Self {
            weights,
            sources: sources.into_iter().map(Some).collect(),
            taken: vec![false; pieces].into(),
            holds: vec![None; pieces].into(),
            orders,
            done,
        }
    }

    /// Rings when an order is there.
    pub(crate) fn bell(&self) -> &Arc<Doorbell> {
        &self.weights.bell
    }

    /// Carries out the next order, if there is one.
    pub(crate) fn carry_out(&mut self) -> Option<Result<(), (ModelId, LoadError)>> {
        let load = match self.orders.pop().ok()? {
            Order::Load(load) => load,
            Order::Hide(model) => {
                let hidden = self.hide(model).map_err(|error| (model, error.into()));
                return Some(hidden);
            }
        };
        let started = now();
        let model = load.model;
        let result = self.load(&load);
        if result.is_ok() {
            self.weights.models[model.index()].open();
        }
        let took = result.is_ok().then(|| now().since(started));
        let pushed = self.done.push(Ended { load, took });
        assert!(pushed.is_ok(), "the ring holds a load a model");
        Some(result.map_err(|error| (model, error)))
    }

    fn load(&mut self, load: &Load) -> Result<(), LoadError> {
        let source = self.sources[load.model.index()].take();
        let source = source.expect("only paged models are loaded by orders");
        let mut pages = 0..source.image.pages();
        let result = pages.try_for_each(|page| self.bring_in(load, page, &source.image));
        source.image.release();
        self.sources[load.model.index()] = Some(source);
        result
    }

    /// Brings in the first page of a pinned model that is not ready.
    ///
    /// # Panics
    /// If all are ready.
    pub(crate) fn load_page(&mut self, load: &Load) -> Result<(), LoadError> {
        let model = load.model;
        let source = self.sources[model.index()].take();
        let source = source.expect("pages are missing until the end");
        let page = self.weights.ready(model) / PAGE_FLOATS;
        let result = self.bring_in(load, page, &source.image);
        self.sources[model.index()] = Some(source);
        result
    }

    /// No more is loaded from a pinned model's image.
    pub(crate) fn end(&mut self, model: ModelId) {
        if let Some(source) = self.sources[model.index()].take() {
            source.image.release();
        }
    }

    /// Takes the memory of all pages now, so that loads cannot want for it.
    pub(crate) fn take_all(&mut self) -> Result<(), OsError> {
        let pieces = self.taken.len();
        self.weights.store.take(0, pieces)?;
        self.taken.fill(true);
        Ok(())
    }

    /// Takes the memory of a page that is not loaded yet; false if all of it is taken.
    pub(crate) fn take_one(&mut self) -> Result<bool, OsError> {
        let piece = self.taken.iter().position(|taken| !taken);
        piece.map_or(Ok(false), |piece| self.take(piece).map(|()| true))
    }

    fn take(&mut self, piece: usize) -> Result<(), OsError> {
        if !self.taken[piece] {
            self.weights.store.take(piece, 1)?;
            self.taken[piece] = true;
        }
        Ok(())
    }

    fn bring_in(&mut self, load: &Load, page: usize, image: &WeightImage) -> Result<(), LoadError> {
        self.show(load.model, page)?;
        self.fill(load, page, image)?;
        Ok(())
    }

    fn show(&mut self, model: ModelId, page: usize) -> Result<(), OsError> {
        // Relaxed: published by the ring of orders, or written before this thread began.
        let piece = self.weights.models[model.index()].pages[page].load(Ordering::Relaxed) as usize;
        self.take(piece)?;
        let model = &self.weights.models[model.index()];
        let store = &self.weights.store;
        let at = model.at + page * PAGE_BYTES;
        self.weights.addresses.show(at, store, piece, 1)
    }

    /// Fills a page that is shown, unless it holds the same already.
    fn fill(&mut self, load: &Load, page: usize, image: &WeightImage) -> Result<(), PackageError> {
        let model = &self.weights.models[load.model.index()];
        // Relaxed: as in `show`.
        let piece = model.pages[page].load(Ordering::Relaxed) as usize;
        let content = image.page_hash(page);
        let first = page * PAGE_FLOATS;
        let floats = (model.floats - first).min(PAGE_FLOATS);
        if self.holds[piece] != content {
            // Until the copy is checked: a page that is damaged in the file must not count as filled.
            self.holds[piece] = None;
            let start = self.weights.floats_of(model);
            // SAFETY: the page is shown at these addresses. The ledger gave it to this model, the
            // only one that has it or else a page of the same content, which no thread can read
            // before it is filled for the first time (the module's doc): we fill it first, so
            // no other thread has a view of it.
            let target = unsafe { std::slice::from_raw_parts_mut(start.add(first), floats) };
            image.copy_page(page, target)?;
            self.holds[piece] = content;
        }
        // Release: pairs with the acquires in `Weights` (label READY).
        model.ready.store(first + floats, Ordering::Release);
        Ok(())
    }

    /// Frees the addresses of a model that was unloaded.
    fn hide(&self, model: ModelId) -> Result<(), OsError> {
        let model = &self.weights.models[model.index()];
        let bytes = model.pages.len() * PAGE_BYTES;
        self.weights.addresses.hide(model.at, bytes)
    }
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}

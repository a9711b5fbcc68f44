//! Which pages are whose.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_core::{ActionId, ModelId};
use rtrb::{Consumer, Producer};

use punctual_device::weights::Loaded;

use super::loader::{Ended, Load};
use super::{NONE, Order, Source, Weights};

/// The end of the thread that submits: gives pages to models and takes them back. Pages with the
/// same bytes are one, whoever has them.
pub(crate) struct Ledger {
    weights: Arc<Weights>,
    /// What each model's pages contain, as positions in `contents`.
    models: Box<[Box<[u32]>]>,
    contents: Box<[Content]>,
    /// Pieces of the store that nobody has, the next one to give away last.
    free: Vec<u32>,
    orders: Producer<Order>,
    done: Consumer<Ended>,
}

/// Bytes that fill a page.
#[derive(Clone, Copy)]
struct Content {
    /// The piece of the store that was given for it, while somebody has it.
    page: u32,
    /// How many pages of models it is.
    holders: u32,
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
        let pages = weights.store.pages() as u32;
        Self {
            weights,
            models,
            contents: vec![
                Content {
                    page: NONE,
                    holders: 0
                };
                contents as usize
            ]
            .into(),
            free: (0..pages).rev().collect(),
            orders,
            done,
        }
    }

    /// Pages that nobody has.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Gives `model` its pages and orders its load. With `early`, its weights may be read as far
    /// as they have come while the load goes on.
    ///
    /// # Panics
    /// If there are too few pages, or a load of the model was ordered before and not taken back.
    pub(crate) fn load(&mut self, action: ActionId, model: ModelId, early: bool) {
        let shared = &self.weights.models[model.index()];
        // Each page's place shows whether the model has it: no page is given twice.
        for (place, &content) in shared.pages.iter().zip(&self.models[model.index()]) {
            assert_eq!(
                place.load(Ordering::Relaxed),
                NONE,
                "a model is loaded once"
            );
            let content = &mut self.contents[content as usize];
            if content.holders == 0 {
                content.page = self.free.pop().expect("enough free pages");
            }
            content.holders += 1;
            // Relaxed: the ring of orders publishes it.
            place.store(content.page, Ordering::Relaxed);
        }
        shared.ready.store(0, Ordering::Relaxed);
        shared.failed.store(false, Ordering::Relaxed);
        self.order(Order::Load(Load::of(action, model, early)));
    }

    /// The next load that ended; one that failed has given its pages back.
    pub(crate) fn poll(&mut self) -> Option<Loaded> {
        let Ended { load, took } = self.done.pop().ok()?;
        let Load {
            action,
            model,
            early,
        } = load;
        // After a failure nobody is inside but those who began to read early: they keep the pages.
        if took.is_none() && (!early || self.close(model)) {
            self.give_back(model);
        }
        Some(Loaded {
            action,
            model,
            took,
        })
    }

    /// Takes a model's pages back; false, and nothing is done, if somebody reads them or they are not there.
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
        for (place, &content) in shared.pages.iter().zip(&self.models[model.index()]) {
            place.store(NONE, Ordering::Relaxed);
            let content = &mut self.contents[content as usize];
            content.holders -= 1;
            if content.holders == 0 {
                // Room for all pages was made at the start.
                self.free.push(content.page);
                content.page = NONE;
            }
        }
        self.order(Order::Hide(model));
    }

    fn order(&mut self, order: Order) {
        let pushed = self.orders.push(order);
        assert!(pushed.is_ok(), "the ring holds two orders a model");
        self.weights.progress.ring();
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

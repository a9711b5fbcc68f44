//! The end of the thread that submits: pieces for models, and orders for the loader.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_core::{ActionId, ModelId, Readiness, StageId};
use punctual_device::PageLedger;
use punctual_device::weights::{Loaded, WeightStore};
use rtrb::{Consumer, Producer, RingBuffer};

use super::loader::{Ended, Load, Loader};
use super::pool::Shared;
use crate::start::{Board, Follower};

/// The weights of all models, as far as the thread that submits is concerned. Nothing here waits,
/// locks or allocates.
pub struct Residents {
    shared: Arc<Shared>,
    ledger: PageLedger,
    orders: Producer<Load>,
    done: Consumer<Ended>,
    /// What a start in turn says; none after a whole start.
    readiness: Option<Follower>,
}

impl Residents {
    /// Gives the pinned models their pieces; all others are absent.
    pub(super) fn new(shared: Arc<Shared>) -> (Self, Loader) {
        let mut ledger = PageLedger::new(shared.contents.len(), shared.pieces as u32);
        for model in shared.models.iter().filter(|model| !model.paged) {
            ledger.give(&model.pieces, &model.contents);
        }
        // A model has at most one load whose end was not polled.
        let (orders, order_out) = RingBuffer::new(shared.models.len());
        let (done_in, done) = RingBuffer::new(shared.models.len());
        let loader = Loader {
            health: None,
            shared: shared.clone(),
            orders: order_out,
            done: done_in,
        };
        let residents = Self {
            shared,
            ledger,
            orders,
            done,
            readiness: None,
        };
        (residents, loader)
    }

    /// From now on stages are there when the board says so.
    pub(crate) fn follow(&mut self, board: Arc<Board>) {
        self.readiness = Some(Follower::new(board));
    }

    /// Takes a model's pieces back. No launch uses them any more.
    fn take_back(&mut self, model: ModelId) {
        self.shared.table.hide(model.index());
        let model = &self.shared.models[model.index()];
        // Relaxed, both: the recovery thread may see a model as there that has just gone, and fill its pieces
        // once more; if they are another's by then, the loader fills them for that one afterwards,
        // as it waits for the recovery thread.
        model.there.store(false, Ordering::Relaxed);
        self.ledger.take_back(&model.pieces, &model.contents);
    }

    /// Pages that hold nothing now: at least as many as the core counts, as pages of equal content are
    /// stored once.
    #[must_use]
    pub fn free_pages(&self) -> usize {
        self.ledger.free()
    }

    /// Bytes of the pool on the device.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shared.pieces * self.shared.page_bytes
    }
}

impl WeightStore for Residents {
    fn pages(&self, model: ModelId) -> Option<u32> {
        let model = self.shared.models.get(model.index())?;
        model.paged.then_some(model.contents.len() as u32)
    }

    fn load(&mut self, action: ActionId, model: ModelId) {
        let of = &self.shared.models[model.index()];
        self.ledger.give(&of.pieces, &of.contents);
        let pushed = self.orders.push(Load { action, model });
        assert!(pushed.is_ok(), "the ring holds a load a model");
        self.shared.orders.ring();
    }

    fn unload(&mut self, model: ModelId) {
        self.take_back(model);
    }

    fn poll(&mut self) -> Option<Loaded> {
        let Ended { load, took } = self.done.pop().ok()?;
        let Load { action, model } = load;
        if took.is_none() {
            self.take_back(model);
        }
        Some(Loaded {
            action,
            model,
            took,
        })
    }
    fn is_ready(&self, model: ModelId, stage: StageId) -> bool {
        let readiness = self.readiness.as_ref();
        readiness.is_none_or(|readiness| readiness.is_ready(model, stage))
    }

    fn poll_readiness(&mut self) -> Option<Readiness> {
        self.readiness.as_mut()?.poll()
    }
}

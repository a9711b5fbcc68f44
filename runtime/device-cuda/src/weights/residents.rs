//! The end of the thread that submits: pieces for models, and orders for the loader.

use std::sync::Arc;

use punctual_core::{ActionId, ModelId};
use punctual_device::weights::{Loaded, WeightStore};
use rtrb::{Consumer, Producer, RingBuffer};

use super::loader::{Ended, Load, Loader};
use super::{Ledger, Shared};

/// The weights of all models, as far as the thread that submits is concerned. Nothing here waits,
/// locks or allocates.
pub struct Residents {
    shared: Arc<Shared>,
    ledger: Ledger,
    orders: Producer<Load>,
    done: Consumer<Ended>,
}

impl Residents {
    /// Gives the models that are there for good their pieces; all others are absent.
    pub(super) fn new(shared: Arc<Shared>) -> (Self, Loader) {
        let mut ledger = Ledger::new(shared.clone());
        for (id, _) in (0..).zip(&shared.models).filter(|(_, model)| !model.paged) {
            ledger.give(ModelId(id));
        }
        // A model has at most one load whose end was not polled.
        let (orders, order_out) = RingBuffer::new(shared.models.len());
        let (done_in, done) = RingBuffer::new(shared.models.len());
        let loader = Loader {
            shared: shared.clone(),
            orders: order_out,
            done: done_in,
        };
        let residents = Self {
            shared,
            ledger,
            orders,
            done,
        };
        (residents, loader)
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
        self.ledger.give(model);
        let pushed = self.orders.push(Load { action, model });
        assert!(pushed.is_ok(), "the ring holds a load a model");
        self.shared.orders.ring();
    }

    fn unload(&mut self, model: ModelId) {
        self.ledger.take_back(model);
    }

    fn poll(&mut self) -> Option<Loaded> {
        let Ended { load, took } = self.done.pop().ok()?;
        let Load { action, model } = load;
        if took.is_none() {
            self.ledger.take_back(model);
        }
        Some(Loaded {
            action,
            model,
            took,
        })
    }

    fn free_pages(&self) -> usize {
        self.ledger.free()
    }
}

impl super::Weights {
    #[must_use]
    pub fn table(&self) -> Arc<super::PageTable> {
        self.shared.table.clone()
    }
}

//! The end of the thread that submits: what is there, and orders for the loader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, bounded};
use punctual_core::{ActionId, Event, ModelId};
use punctual_device::{CacheSpec, Refusal, Residency};
use punctual_platform::thread::{RealtimeThread, ThreadError, ThreadSpec, spawn_realtime};
use punctual_platform::{Doorbell, Missing};
use rtrb::{Consumer, Producer, RingBuffer};

use super::loader::{Load, Loaded, Loader};
use super::{Ledger, LoadError, Shared};

/// Failed loads that wait to be asked for; further ones are counted by their events alone.
const FAILURES_MAX: usize = 16;

/// The weights of all models, as far as the thread that submits is concerned. Nothing here waits,
/// locks or allocates after the loader was started.
pub struct Residents {
    shared: Arc<Shared>,
    residency: Residency,
    ledger: Ledger,
    orders: Producer<Load>,
    done: Consumer<Loaded>,
    /// Until its thread is started.
    loader: Option<Loader>,
    thread: Option<LoaderThread>,
    failures: Option<Receiver<(ModelId, LoadError)>>,
}

struct LoaderThread {
    ended: Arc<AtomicBool>,
    thread: RealtimeThread<()>,
}

impl Residents {
    /// Gives the models that are there for good their pieces; all others are absent.
    pub(super) fn new(shared: Arc<Shared>, cache_pages: u32) -> Self {
        let pages = shared.models.iter();
        let pages = pages.map(|model| model.paged.then_some(model.contents.len() as u32));
        let residency = Residency::new(pages, cache_pages);
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
        Self {
            shared,
            residency,
            ledger,
            orders,
            done,
            loader: Some(loader),
            thread: None,
            failures: None,
        }
    }

    /// Starts the thread that loads; `report` is rung after each load.
    ///
    /// # Panics
    /// If it was started before.
    pub fn start_loader(
        &mut self,
        cache: &CacheSpec,
        report: &Arc<Doorbell>,
    ) -> Result<(), ThreadError> {
        let loader = self.loader.take().expect("the loader is started once");
        let (complaints, failures) = bounded(FAILURES_MAX);
        let ended = Arc::new(AtomicBool::new(false));
        let (end, report) = (ended.clone(), report.clone());
        let spec = ThreadSpec::new("loader", cache.core, cache.priority);
        let thread = spawn_realtime(spec, move || {
            loader.serve(&end, &report, |model, error| {
                // Nobody has asked for a while: the events tell that loads fail.
                let _ = complaints.try_send((model, error));
            });
        })?;
        self.failures = Some(failures);
        self.thread = Some(LoaderThread { ended, thread });
        Ok(())
    }

    /// Begins to bring a model's weights in. Before the loader is started, it is only ordered.
    pub fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), Refusal> {
        self.residency.load(model)?;
        self.ledger.give(model);
        let pushed = self.orders.push(Load { action, model });
        assert!(pushed.is_ok(), "the ring holds a load a model");
        self.shared.orders.ring();
        Ok(())
    }

    /// Frees the pages of a model's weights.
    pub fn unload(&mut self, model: ModelId) -> Result<(), Refusal> {
        self.residency.unload(model)?;
        self.ledger.take_back(model);
        Ok(())
    }

    /// The event of the next load that is over.
    pub fn poll(&mut self) -> Option<Event> {
        let Loaded { load, took } = self.done.pop().ok()?;
        self.residency.loaded(load.model, took.is_some());
        let action = load.action;
        Some(match took {
            Some(measured) => Event::Loaded { action, measured },
            None => {
                self.ledger.take_back(load.model);
                Event::Failed { action }
            }
        })
    }

    /// Whether an action may be submitted that reads `model`'s weights.
    pub fn check_use(&self, model: ModelId) -> Result<(), Refusal> {
        self.residency.check_use(model)
    }

    /// An action that reads `model`'s weights was taken.
    ///
    /// # Panics
    /// If there is no such model.
    pub fn taken(&mut self, model: ModelId) {
        self.residency.taken(model);
    }

    /// Such an action is over and its event polled.
    ///
    /// # Panics
    /// If there was none.
    pub fn released(&mut self, model: ModelId) {
        self.residency.released(model);
    }

    /// Pages that a paged model's weights fill; none if it is there for good, or does not exist.
    #[must_use]
    pub fn pages(&self, model: ModelId) -> Option<u32> {
        let model = self.shared.models.get(model.index())?;
        model.paged.then_some(model.contents.len() as u32)
    }

    /// Pages that nobody has: at least as many as the core thinks, as pages of equal content are held once.
    #[must_use]
    pub fn free_pages(&self) -> usize {
        self.ledger.free()
    }

    /// Bytes of the pool on the device.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shared.pieces * self.shared.page_bytes
    }

    /// Why loads failed, as far as anybody asked in time; once, for a thread that may wait. None if
    /// there is no loader, or somebody has it.
    #[must_use]
    pub fn failures(&mut self) -> Option<Receiver<(ModelId, LoadError)>> {
        self.failures.take()
    }

    /// What the machine did not grant the loader.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        let thread = self.thread.as_ref();
        thread.map_or(&[], |loader| loader.thread.missing())
    }

    /// The kernel's id of the loader's thread, if it was started.
    #[must_use]
    pub fn tid(&self) -> Option<i32> {
        self.thread.as_ref().map(|loader| loader.thread.tid())
    }
}

impl Drop for Residents {
    /// Ends the loader after the load that it carries out.
    fn drop(&mut self) {
        if let Some(loader) = self.thread.take() {
            // Published by the ring.
            loader.ended.store(true, Ordering::Relaxed);
            self.shared.orders.ring();
            // A loader that panicked has said so.
            let _ = loader.thread.join();
        }
    }
}

impl super::Weights {
    #[must_use]
    pub fn table(&self) -> Arc<super::PageTable> {
        self.shared.table.clone()
    }
}

//! The life of weights on the CPU device: what is there for good is brought in at the start, the
//! rest by a loader thread when the core says so.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};
use punctual_core::{ActionId, Event, ModelId};
use punctual_kernels::Isa;
use punctual_model::WeightImage;
use punctual_platform::thread::{RealtimeThread, ThreadSpec, spawn_realtime};
use punctual_platform::{Doorbell, Missing};

use super::executable::LoadedModel;
use super::{StartError, lower};
use crate::device::Refusal;
use crate::residency::Residency;
use crate::shared::weights::{self, Ledger, LoadError, Loaded, Loader, Source, Weights};
use crate::spec::{CacheSpec, ModelSpec};

/// Failed loads that wait to be asked for; further ones are counted by their events alone.
const FAILURES_MAX: usize = 16;

/// A load that failed, and why.
pub type LoadFailure = (ModelId, LoadError);

/// The weights of all models. Kept by the thread that submits.
pub(super) struct Memory {
    weights: Arc<Weights>,
    ledger: Ledger,
    residency: Residency,
    /// Pages of each model that is paged.
    pages: Box<[Option<u32>]>,
    loader: Option<LoaderThread>,
    failures: Option<Receiver<LoadFailure>>,
}

struct LoaderThread {
    ended: Arc<AtomicBool>,
    thread: RealtimeThread<()>,
}

impl Memory {
    /// Memory for these models, those that are not paged being brought in.
    ///
    /// # Errors
    /// When memory or the loader's thread cannot be had, an image is damaged, or a model does not fit the cache.
    pub(super) fn take(
        sources: Vec<Source>,
        cache: Option<&CacheSpec>,
        report: &Arc<Doorbell>,
    ) -> Result<Self, StartError> {
        let paged = |source: &Source| source.paged.then(|| source.image.pages() as u32);
        let pages: Box<[Option<u32>]> = sources.iter().map(paged).collect();
        let cache_pages = cache.map_or(0, |cache| cache.pages);
        check_fit(&pages, cache_pages)?;
        let pinned = pinned_pages(&sources);
        let store = pinned + cache_pages as usize;
        let (weights, mut ledger, mut loader) = weights::weights(sources, store, true)?;
        for (id, _) in (0..).zip(&pages).filter(|(_, paged)| paged.is_none()) {
            ledger.load(ActionId(0), ModelId(id), false);
            if let Some(Err((model, source))) = loader.carry_out_next() {
                return Err(StartError::Weights { model, source });
            }
            ledger.poll();
        }
        let residency = Residency::new(pages.iter().copied(), cache_pages);
        let mut memory = Self {
            weights,
            ledger,
            residency,
            pages,
            loader: None,
            failures: None,
        };
        if let Some(cache) = cache {
            let (complaints, failures) = bounded(FAILURES_MAX);
            memory.failures = Some(failures);
            memory.loader = Some(LoaderThread::start(loader, cache, report, complaints)?);
        }
        Ok(memory)
    }

    pub(super) fn weights(&self) -> &Arc<Weights> {
        &self.weights
    }

    pub(super) fn residency(&mut self) -> &mut Residency {
        &mut self.residency
    }

    /// Whether an action may be submitted that reads `model`'s weights.
    pub(super) fn check_use(&self, model: ModelId) -> Result<(), Refusal> {
        self.residency.check_use(model)
    }

    /// Pages of a model that is paged.
    pub(super) fn pages(&self, model: ModelId) -> Option<u32> {
        self.pages.get(model.index()).copied().flatten()
    }

    /// Pages that nobody has: at least as many as the residency's books say, as equal pages are held once.
    pub(super) fn free_pages(&self) -> usize {
        self.ledger.free()
    }

    pub(super) fn failures(&mut self) -> Option<Receiver<LoadFailure>> {
        self.failures.take()
    }

    pub(super) fn loader(&self) -> Option<&RealtimeThread<()>> {
        self.loader.as_ref().map(|loader| &loader.thread)
    }

    pub(super) fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), Refusal> {
        self.residency.load(model)?;
        self.ledger.load(action, model, false);
        Ok(())
    }

    pub(super) fn unload(&mut self, model: ModelId) -> Result<(), Refusal> {
        self.residency.unload(model)?;
        let unloaded = self.ledger.unload(model);
        assert!(unloaded, "workers let go of weights before their events");
        Ok(())
    }

    /// The event of the next load that is over.
    pub(super) fn poll(&mut self) -> Option<Event> {
        let Loaded { load, took } = self.ledger.poll()?;
        self.residency.loaded(load.model, took.is_some());
        let action = load.action;
        Some(match took {
            Some(measured) => Event::Loaded { action, measured },
            None => Event::Failed { action },
        })
    }
}

impl Drop for Memory {
    /// Ends the loader after the load that it carries out.
    fn drop(&mut self) {
        if let Some(loader) = self.loader.take() {
            // Published by the ring.
            loader.ended.store(true, Ordering::Relaxed);
            self.weights.wake_loader();
            // A loader that panicked has said so.
            let _ = loader.thread.join();
        }
    }
}

impl LoaderThread {
    fn start(
        loader: Loader,
        cache: &CacheSpec,
        report: &Arc<Doorbell>,
        complaints: Sender<LoadFailure>,
    ) -> Result<Self, StartError> {
        let ended = Arc::new(AtomicBool::new(false));
        let spec = ThreadSpec::new("loader", cache.core, cache.priority);
        let (end, report) = (ended.clone(), report.clone());
        let body = move || {
            loader.serve(&end, &report, |model, error| {
                // Nobody has asked for a while: the events tell that loads fail.
                let _ = complaints.try_send((model, error));
            });
        };
        let thread = spawn_realtime(spec, body)?;
        Ok(Self { ended, thread })
    }
}

/// Where a model's weights come from: its image, or its network.
pub(super) fn source(
    isa: Isa,
    model: &LoadedModel,
    spec: &ModelSpec<'_>,
) -> Result<Source, StartError> {
    let lanes = isa.lanes() as u8;
    let image = match spec.image {
        Some(image) => image.clone(),
        None => WeightImage::new(lanes, lower::pack(spec.network, &model.stages)?.into()),
    };
    if image.lanes() != lanes || image.floats() != model.weight_floats {
        return Err(StartError::Image {
            model: spec.network.name.clone(),
            floats: image.floats(),
            lanes: image.lanes(),
            expected: model.weight_floats,
            wanted: lanes,
        });
    }
    Ok(Source {
        image,
        paged: spec.paged,
    })
}

/// What the machine did not grant the loader.
pub(super) fn missing(memory: &Memory) -> &[Missing] {
    memory.loader().map_or(&[], RealtimeThread::missing)
}

fn check_fit(pages: &[Option<u32>], cache: u32) -> Result<(), StartError> {
    for (id, needs) in (0..).zip(pages) {
        if let Some(needs) = needs.filter(|&needs| needs > cache) {
            return Err(StartError::CacheTooSmall {
                model: ModelId(id),
                needs,
                pages: cache,
            });
        }
    }
    Ok(())
}

/// Pages of the models that are there for good, equal ones counted once.
fn pinned_pages(sources: &[Source]) -> usize {
    let pinned = sources.iter().filter(|source| !source.paged);
    let hashes = pinned.flat_map(|source| {
        let image: &WeightImage = &source.image;
        (0..image.pages()).filter_map(|page| image.page_hash(page))
    });
    hashes.collect::<BTreeSet<_>>().len()
}

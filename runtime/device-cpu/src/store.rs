//! The life of weights on the CPU device: those that stay are loaded by its start ([`Starter`]), the
//! rest by the loader thread when the core orders it.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_core::{ActionId, ModelId, Readiness, StageId};
use punctual_device::regions::ClaimedRegions;
use punctual_device::weights::{Loaded, WeightStore};
use punctual_device::{ModelSpec, Start};
use punctual_kernels::Isa;
use punctual_model::WeightImage;
use rtrb::Consumer;

use crate::StartError;
use crate::lower;
use crate::model::LoadedModel;
use crate::shared::weights::{self, Ledger, Source, Weights};
use crate::start::Starter;

/// The weights of all models, as the thread that submits sees them.
pub(crate) struct Memory {
    weights: Arc<Weights>,
    models: Arc<[LoadedModel]>,
    ledger: Ledger,
    /// Pages of each model that is paged.
    pages: Box<[Option<u32>]>,
    /// What a start in turn says.
    readiness: Option<Consumer<Readiness>>,
}

impl Memory {
    /// Addresses and pages for these models, with `cache_pages` more for the paged ones; and what starts them, which has
    /// done nothing yet, and brings the memory of the `buffers` for requests, too.
    ///
    /// # Errors
    /// When addresses are unavailable, or a model does not fit the cache.
    pub(crate) fn reserve(
        models: &Arc<[LoadedModel]>,
        sources: Vec<Source>,
        cache_pages: u32,
        buffers: &Arc<ClaimedRegions>,
        start: Start<'_>,
    ) -> Result<(Self, Starter), StartError> {
        let paged = |source: &Source| source.paged.then(|| source.image.pages() as u32);
        let pages: Box<[Option<u32>]> = sources.iter().map(paged).collect();
        check_fit(&pages, cache_pages)?;
        let store = pinned_pages(&sources) + cache_pages as usize;
        let (weights, mut ledger, loader) = weights::weights(sources, store)?;
        let loads = (0..).map(ModelId).zip(&pages);
        let loads = loads.map(|(model, paged)| paged.is_none().then(|| ledger.pin(model)));
        let loads = loads.collect();
        let (starter, readiness) = Starter::new(loader, &weights, models, loads, buffers, start);
        let memory = Self {
            weights,
            models: models.clone(),
            ledger,
            pages,
            readiness,
        };
        Ok((memory, starter))
    }

    pub(crate) fn weights(&self) -> &Arc<Weights> {
        &self.weights
    }
}

impl WeightStore for Memory {
    fn pages(&self, model: ModelId) -> Option<u32> {
        self.pages.get(model.index()).copied().flatten()
    }

    fn load(&mut self, action: ActionId, model: ModelId) {
        self.ledger.load(action, model);
    }

    fn unload(&mut self, model: ModelId) {
        let unloaded = self.ledger.unload(model);
        assert!(unloaded, "workers release weights before their events");
    }

    fn poll(&mut self) -> Option<Loaded> {
        self.ledger.poll()
    }

    fn is_ready(&self, model: ModelId, stage: StageId) -> bool {
        let stage = &self.models[model.index()].stages[stage.index()];
        self.weights.ready(model) >= stage.weights_end
    }

    fn poll_readiness(&mut self) -> Option<Readiness> {
        self.readiness.as_mut()?.pop().ok()
    }
}

/// Where a model's weights come from: its image, or its network.
pub(crate) fn source(
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

/// Pages of the pinned models, equal ones counted once.
fn pinned_pages(sources: &[Source]) -> usize {
    let pinned = sources.iter().filter(|source| !source.paged);
    let hashes = pinned.flat_map(|source| {
        let image: &WeightImage = &source.image;
        (0..image.pages()).filter_map(|page| image.page_hash(page))
    });
    hashes.collect::<BTreeSet<_>>().len()
}

//! Weights that come and go: which models are paged, in what cache, and how long a load may take.

use punctual_core::{Config, Nanos, PolicySpec, Weights};
use punctual_diagnostics::{Bytes, Place, Problems, Rule};
use punctual_model::PAGE_BYTES;
use thiserror::Error;

use super::footprint;
use crate::inputs::DeviceKind;
use crate::inputs::{GpuHost, Host};
use crate::resolve::{Model, Resolved};

/// How fast weights are assumed to come in, in bytes a second: a floor for storage that a machine
/// boots from, copying and checking included. Profiles do not measure it.
pub const LOAD_BYTES_A_SECOND_ASSUMED: u64 = 200_000_000;

/// What is wrong with a cache of weights.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PagingRule {
    #[error(
        "a cache of {} holds {cache} pages of {}; model {model:?} fills {needed}",
        Bytes(*bytes), Bytes(*page_bytes)
    )]
    CacheTooSmall {
        bytes: u64,
        page_bytes: u64,
        cache: u32,
        model: String,
        needed: u32,
    },
    /// Models that would come and go on two devices.
    #[error("model {on_cores:?}, on cores, and model {on_gpu:?}, on the GPU, would share a cache")]
    TwoDevices {
        /// A paged model of the processor's.
        on_cores: String,
        /// A paged model of the GPU's.
        on_gpu: String,
    },
    #[error("model {model:?} is paged, and ONNX Runtime keeps all weights resident")]
    OrtDoesNotPage { model: String },
    /// A profile of what a paged model does not run.
    #[error(
        "the profile of {model:?} was measured with specialised convolutions, which a paged model does not use"
    )]
    ProfiledWithSolutions { model: String },
    /// A policy that never orders a load.
    #[error("policy {0:?} needs all weights to be resident")]
    PolicyDoesNotPage(&'static str),
}

impl Rule for PagingRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::CacheTooSmall { .. } => "each paged model fits the cache by itself",
            Self::TwoDevices { .. } => "all paged models are on one device",
            Self::OrtDoesNotPage { .. } => "a paged model is on a device that can page weights",
            Self::ProfiledWithSolutions { .. } => {
                "the profile of a paged model is measured with the general convolutions"
            }
            Self::PolicyDoesNotPage(_) => "`weight_cache` needs a policy that loads weights",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::CacheTooSmall {
                needed, page_bytes, ..
            } => {
                let least = u64::from(*needed) * page_bytes;
                format!("set \"{} KiB\" or more", least / 1024)
            }
            Self::TwoDevices { .. } => {
                "give the tasks of one device a reservation, or both models the same device".into()
            }
            Self::OrtDoesNotPage { .. } => {
                "give one of its tasks a reservation, or its tasks a partition without `device`"
                    .into()
            }
            Self::ProfiledWithSolutions { .. } => {
                "run `punctual profile --direct` with this manifest".to_owned()
            }
            Self::PolicyDoesNotPage(_) => {
                "remove `weight_cache`, or choose \"punctual\"".to_owned()
            }
        }
    }
}

/// The cache, and the models that it is for.
#[derive(Debug)]
pub(crate) struct Paging {
    /// Of the cache; 0: there is none.
    pub(crate) pages: u32,
    /// By model; none: its weights are there for good.
    pub(crate) weights: Vec<Option<Weights>>,
}

impl Paging {
    /// Pages the models that tasks use, none of them reserved: a reservation does not wait for weights.
    pub(crate) fn find(
        resolved: &Resolved<'_>,
        host: &Host,
        gpu: Option<&GpuHost>,
        problems: &mut Problems<'_>,
    ) -> Self {
        let ort_pages = host.ort.as_ref().is_ok_and(|ort| ort.promises.pages);
        let (daemon, models) = (&resolved.manifest.daemon, &resolved.models);
        let policy = &daemon.policy.value;
        let none = Self {
            pages: 0,
            weights: vec![None; models.len()],
        };
        let Some(asked) = &daemon.weight_cache else {
            return none;
        };
        if !policy.contract().pages_weights {
            let cause = PagingRule::PolicyDoesNotPage(policy.name());
            problems.add(&asked.place, cause);
            return none;
        }
        let is_paged = |position: usize| {
            let mut users = resolved.tasks.iter().filter(|task| task.model == position);
            users.clone().next().is_some() && users.all(|task| !task.reserved)
        };
        let weights: Vec<Option<Weights>> = models
            .iter()
            .enumerate()
            .map(|(position, model)| is_paged(position).then(|| weights(model, gpu)))
            .collect();
        two_devices(models, &weights, &asked.place, problems);
        for (model, weights) in models.iter().zip(&weights) {
            let by_ort = model.device == DeviceKind::Ort && !ort_pages;
            if weights.is_some() && (by_ort || model.device.is_engine()) {
                let model_name = model.name.clone();
                let cause = PagingRule::OrtDoesNotPage { model: model_name };
                problems.add(&model.place, cause);
            }
            if weights.is_some() && !model.profile.solutions.is_empty() {
                let model_name = model.name.clone();
                let cause = PagingRule::ProfiledWithSolutions { model: model_name };
                problems.add(&model.place, cause);
            }
        }
        let largest = models.iter().zip(&weights);
        let largest = largest.filter_map(|(model, weights)| Some((model, weights.as_ref()?.pages)));
        let Some((model, needed)) = largest.max_by_key(|&(_, pages)| pages) else {
            return none;
        };
        let bytes = asked.value.0;
        let page_bytes = page_bytes(model, gpu);
        let pages = u32::try_from(bytes / page_bytes).unwrap_or(u32::MAX);
        if needed > pages {
            let cause = PagingRule::CacheTooSmall {
                bytes,
                page_bytes,
                cache: pages,
                model: model.name.clone(),
                needed,
            };
            problems.add(&asked.place, cause);
        }
        Self { pages, weights }
    }

    pub(crate) fn is_paged(&self, model: usize) -> bool {
        self.weights[model].is_some()
    }

    /// Enters it into the scheduler's tables.
    pub(crate) fn apply(&self, config: &mut Config) {
        config.pages = self.pages;
        for (model, weights) in config.models.iter_mut().zip(&self.weights) {
            model.weights = *weights;
        }
    }
}

/// Bytes of a page where the model is.
fn page_bytes(model: &Model<'_>, gpu: Option<&GpuHost>) -> u64 {
    let gpu = gpu.filter(|_| model.device == DeviceKind::Cuda);
    gpu.map_or(PAGE_BYTES as u64, |gpu| gpu.page_bytes).max(1)
}

/// Notes weights that would come and go on both devices: the scheduler knows one cache.
fn two_devices(
    models: &[Model<'_>],
    weights: &[Option<Weights>],
    place: &Place,
    problems: &mut Problems<'_>,
) {
    let first = |device| {
        let mut paged = models.iter().zip(weights).filter(|(_, w)| w.is_some());
        paged.find(|(model, _)| model.device == device)
    };
    let both = (first(DeviceKind::Cpu), first(DeviceKind::Cuda));
    if let (Some((on_cores, _)), Some((on_gpu, _))) = both {
        let cause = PagingRule::TwoDevices {
            on_cores: on_cores.name.clone(),
            on_gpu: on_gpu.name.clone(),
        };
        problems.add(place, cause);
    }
}

fn weights(model: &Model<'_>, gpu: Option<&GpuHost>) -> Weights {
    let page_bytes = page_bytes(model, gpu);
    let pages = match (model.device, model.footprint) {
        (DeviceKind::Cuda, Some(footprint)) => footprint.weights.div_ceil(page_bytes),
        _ => {
            let image = model.image().map(|image| image.pages() as u64);
            image.unwrap_or_else(|| footprint::weights(model).div_ceil(page_bytes))
        }
    };
    let bytes = pages.saturating_mul(page_bytes);
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(LOAD_BYTES_A_SECOND_ASSUMED);
    Weights {
        pages: u32::try_from(pages).unwrap_or(u32::MAX),
        load: Nanos::new(u64::try_from(ns).unwrap_or(u64::MAX)),
    }
}

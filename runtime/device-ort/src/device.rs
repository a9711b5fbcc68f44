//! The device: the contract of [`Device`] on ONNX Runtime's sessions.

use std::sync::Arc;

use ort::session::RunOptions;
use punctual_compile::WriteError;
use punctual_core::{ActionId, Event, Infer, ModelId, PartitionId};
use punctual_device::crew::Crew;
use punctual_device::{Device, DeviceSpec, InputBuffers, PartitionSpec, Refusal, SpecError};
use punctual_platform::thread::ThreadError;
use punctual_platform::{Doorbell, Missing};
use thiserror::Error;

use crate::engine::Sessions;
use crate::library::Library;
use crate::places::Places;
use crate::stage::StageSession;
use crate::threads::PinnedThreads;

/// Runs stages as sessions of ONNX Runtime on the machine's cores.
pub struct OrtDevice {
    crew: Crew,
    inputs: InputBuffers,
    request_buffers: u16,
    /// Stages and batch sizes of each model.
    models: Vec<(usize, Vec<u8>)>,
}

/// Why the device cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// What it was to be started with is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A model's weights were to come and go.
    #[error("the weights of `{0}` are paged, which this device cannot: leave them resident")]
    Paged(String),
    /// An operator has no form in ONNX yet.
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("ONNX Runtime cannot prepare a stage: {0}")]
    Session(#[from] ort::Error),
    /// A thread could not be started.
    #[error(transparent)]
    Thread(#[from] ThreadError),
}

impl OrtDevice {
    /// Makes a session of each stage for each partition and starts the leaders. `report` is rung after each event.
    pub fn start(
        library: Library,
        spec: &DeviceSpec<'_>,
        report: Arc<Doorbell>,
    ) -> Result<Self, StartError> {
        spec.validate()?;
        if let Some(paged) = spec.models.iter().find(|model| model.paged) {
            return Err(StartError::Paged(paged.network.name.clone()));
        }
        let places: Vec<Places> = spec
            .models
            .iter()
            .map(|model| Places::new(model.network))
            .collect();
        let floats = places.iter().map(|places| places.floats).max().unwrap_or(0);
        let layouts = places.iter().map(|places| places.input).collect();
        let inputs = InputBuffers::new(spec.request_buffers, floats, layouts);
        let mut device = Self {
            crew: Crew::new(inputs.clone(), report),
            inputs,
            request_buffers: spec.request_buffers,
            models: spec
                .models
                .iter()
                .map(|model| (model.network.stages.len(), model.batches.to_vec()))
                .collect(),
        };
        for partition in spec.partitions {
            let sessions = sessions(library, spec, &places, partition)?;
            device.crew.staff(partition, sessions, Vec::new())?;
        }
        Ok(device)
    }

    /// The request buffers' input areas, for those who prepare inputs.
    #[must_use]
    pub fn input_buffers(&self) -> InputBuffers {
        self.inputs.clone()
    }

    /// What the machine did not grant the leaders, without repetition.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        self.crew.missing()
    }

    fn refusal(&self, infer: &Infer) -> Option<Refusal> {
        let Some(is_full) = self.crew.is_full(infer.partition) else {
            return Some(Refusal::UnknownPartition(infer.partition));
        };
        let Some((stages, batches)) = self.models.get(infer.model.index()) else {
            return Some(Refusal::UnknownModel(infer.model));
        };
        if infer.stage.index() >= *stages {
            return Some(Refusal::UnknownStage {
                model: infer.model,
                stage: infer.stage,
            });
        }
        if !batches.contains(&infer.batch) {
            return Some(Refusal::UnknownBatch {
                model: infer.model,
                batch: infer.batch,
            });
        }
        let busy = is_full.then_some(Refusal::Busy(infer.partition));
        Refusal::of_members(infer, self.request_buffers).or(busy)
    }
}

fn sessions(
    library: Library,
    spec: &DeviceSpec<'_>,
    places: &[Places],
    partition: &PartitionSpec,
) -> Result<Sessions, StartError> {
    let mates = PinnedThreads::new(&partition.name, &partition.cores, partition.priority);
    let models = spec.models.iter().zip(places).map(|(model, places)| {
        let batch_max = model.batches.iter().copied().max().unwrap_or(1);
        (0..model.network.stages.len())
            .map(|stage| {
                let batch_max = usize::from(batch_max);
                StageSession::new(
                    library,
                    model.network,
                    stage,
                    places,
                    batch_max,
                    &mates.again(),
                )
            })
            .collect()
    });
    Ok(Sessions {
        stages: models.collect::<Result<_, StartError>>()?,
        options: Arc::new(RunOptions::new()?),
    })
}

impl Device for OrtDevice {
    fn submit(&mut self, infer: &Infer) -> Result<(), Refusal> {
        match self.refusal(infer) {
            Some(refusal) => Err(refusal),
            None => {
                self.crew.submit(infer);
                Ok(())
            }
        }
    }

    fn load(&mut self, _action: ActionId, model: ModelId) -> Result<(), Refusal> {
        self.pinned(model)
    }

    fn unload(&mut self, model: ModelId) -> Result<(), Refusal> {
        self.pinned(model)
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        self.crew.preempt(partition, action);
    }

    fn poll(&mut self) -> Option<Event> {
        self.crew.poll().map(|(_, event)| event)
    }
}

impl OrtDevice {
    /// All weights are there for good.
    fn pinned(&self, model: ModelId) -> Result<(), Refusal> {
        Err(if model.index() < self.models.len() {
            Refusal::Pinned(model)
        } else {
            Refusal::UnknownModel(model)
        })
    }
}

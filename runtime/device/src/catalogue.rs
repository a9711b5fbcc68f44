//! What a device was started with, and which actions fit it: the checks that every device makes.

use punctual_core::{Infer, ModelId};

use crate::device::SubmitError;
use crate::spec::DeviceSpec;

/// The stages and batch sizes of each model, and how many request buffers there are.
#[derive(Clone, Debug)]
pub struct Catalogue {
    models: Box<[Model]>,
    request_buffers: u16,
}

#[derive(Clone, Debug)]
struct Model {
    /// The batch sizes that each stage is prepared for.
    stages: Box<[Box<[u8]>]>,
}

impl Catalogue {
    /// Models with the batch sizes of each of their stages, in the order of their ids.
    pub fn new<M, S>(models: M, request_buffers: u16) -> Self
    where
        M: IntoIterator<Item = S>,
        S: IntoIterator<Item = Vec<u8>>,
    {
        let model = |stages: S| Model {
            stages: stages.into_iter().map(Vec::into_boxed_slice).collect(),
        };
        Self {
            models: models.into_iter().map(model).collect(),
            request_buffers,
        }
    }

    /// All stages at all batch sizes of each model.
    #[must_use]
    pub fn of(spec: &DeviceSpec<'_>) -> Self {
        let stages = spec.models.iter().map(|model| {
            let stages = model.network.stages.iter();
            stages.map(|_| model.batches.to_vec()).collect::<Vec<_>>()
        });
        Self::new(stages, spec.request_buffers)
    }

    /// How many models there are.
    #[must_use]
    pub fn models(&self) -> usize {
        self.models.len()
    }

    /// Whether the device has the action's model, stage, batch size and request buffers, and the
    /// members fit the batch. Whether its partition takes it and its weights are there is the caller's to know.
    ///
    /// # Errors
    /// [`SubmitError`], the first that applies.
    pub fn check(&self, infer: &Infer) -> Result<(), SubmitError> {
        let &Infer {
            model,
            stage,
            batch,
            ..
        } = infer;
        let stages = &self.model(model)?.stages;
        let Some(batches) = stages.get(stage.index()) else {
            return Err(SubmitError::UnknownStage { model, stage });
        };
        if !batches.contains(&batch) {
            return Err(SubmitError::UnknownBatch { model, batch });
        }
        self.check_members(infer)
    }

    fn check_members(&self, infer: &Infer) -> Result<(), SubmitError> {
        let (members, batch) = (infer.members.len(), infer.batch);
        if members == 0 || members > usize::from(batch) {
            return Err(SubmitError::Members {
                members: members as u8,
                batch,
            });
        }
        let buffers = self.request_buffers;
        let beyond = infer.members.iter().find(|member| member.buffer >= buffers);
        match beyond {
            Some(member) => Err(SubmitError::UnknownBuffer {
                buffer: member.buffer,
                buffers,
            }),
            None => Ok(()),
        }
    }

    fn model(&self, model: ModelId) -> Result<&Model, SubmitError> {
        let found = self.models.get(model.index());
        found.ok_or(SubmitError::UnknownModel(model))
    }
}

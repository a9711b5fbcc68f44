//! A network run on the calling thread, for its scores rather than its time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use punctual_core::{ModelId, StageId};
use punctual_kernels::Isa;
use punctual_model::Network;

use super::executable::LoadedModel;
use super::lower::{LowerError, lower};
use crate::request_buffers::InputBuffers;
use crate::shared::team::{self, Leader, Outcome};

/// Runs all stages of a network with the CPU device's kernels and memory, without its threads:
/// for calibration, for comparing engines, for a look at one image.
pub struct Evaluator {
    models: Arc<[LoadedModel]>,
    inputs: InputBuffers,
    leader: Leader,
    batch_max: usize,
}

impl Evaluator {
    /// An evaluator of `network` with kernels for `isa`, for up to `batch_max` images at once.
    ///
    /// # Errors
    /// [`LowerError`], when an operator has no kernel or the processor lacks `isa`.
    ///
    /// # Panics
    /// If `batch_max` is zero or above [`BATCH_MAX`](punctual_core::BATCH_MAX).
    pub fn new(isa: Isa, network: &Network, batch_max: usize) -> Result<Self, LowerError> {
        assert!((1..=punctual_core::BATCH_MAX).contains(&batch_max));
        let model = lower(isa, network)?;
        let inputs = InputBuffers::new(
            batch_max as u16,
            model.request_floats,
            Box::new([model.input]),
        );
        let models: Arc<[LoadedModel]> = Arc::new([model]);
        let (leader, _) = team::team(1, &models, inputs.regions(), batch_max);
        Ok(Self {
            models,
            inputs,
            leader,
            batch_max,
        })
    }

    /// The class scores of each image at each exit: `scores[exit][image][class]`. An image is
    /// `[channel][row][column]`, normalised.
    ///
    /// # Panics
    /// If there are no images or too many, or one has the wrong length.
    pub fn scores(&mut self, images: &[&[f32]]) -> Vec<Vec<Vec<f32>>> {
        assert!((1..=self.batch_max).contains(&images.len()));
        let model = ModelId(0);
        for (buffer, image) in images.iter().enumerate() {
            let mut writer = self
                .inputs
                .claim(buffer as u16, model)
                .expect("nobody else has the buffers");
            writer.write_planar(image);
        }
        let regions = self.inputs.regions().clone();
        let mut claims: Vec<_> = (0..images.len())
            .map(|buffer| regions.claim(buffer).expect("the writers are gone"))
            .collect();
        let never = AtomicBool::new(false);
        let stages = 0..self.models[0].stages.len();
        stages
            .map(|stage| {
                let stage = StageId(stage as u8);
                let outcome = self.leader.run(model, stage, &mut claims, &never);
                assert_eq!(outcome, Outcome::Done, "a kernel panicked");
                let scores = claims.iter_mut().enumerate().map(|(member, claim)| {
                    self.leader.logits(model, stage, member, claim).to_vec()
                });
                scores.collect()
            })
            .collect()
    }
}

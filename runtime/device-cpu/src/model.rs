//! A network, lowered: what all partitions share of it.

use std::collections::BTreeMap;

use punctual_core::BATCH_MAX;
use punctual_device::InputLayout;
use punctual_device::regions::LINE;
use punctual_kernels::AlignedBuffer;
use punctual_model::{SolutionChoice, SolutionMemory};

use crate::executable::Executable;
use crate::specialised::{Chosen, ONE_CORE, Specialised, scratch_stride};

/// A network, lowered. Shared by all partitions.
pub(crate) struct LoadedModel {
    pub(crate) stages: Vec<Executable>,
    /// Floats of its weight image: the packed weights of all steps, in order of execution.
    pub(crate) weight_floats: usize,
    /// Weights that specialised solutions have derived from the image.
    pub(crate) specialised: AlignedBuffer,
    pub(crate) input: InputLayout,
    /// Floats of a request buffer that this network uses.
    pub(crate) request_floats: usize,
}

impl LoadedModel {
    /// Notes which stages run on one core, and prepares the specialised solutions that `choices` name.
    /// Choices of operators that have no such solution are passed over: the direct one answers.
    /// `image` is the model's weight image.
    pub(crate) fn specialise(&mut self, choices: &[SolutionChoice], image: &[f32]) {
        for stage in &mut self.stages {
            let own = choices
                .iter()
                .filter(|choice| choice.operator == stage.first_operator);
            stage.alone = Chosen::new(own, |name| Some(name == ONE_CORE));
        }
        let mut len = 0;
        let mut known = BTreeMap::new();
        for step in self.stages.iter_mut().flat_map(|stage| &mut stage.steps) {
            let Some(conv) = step.kernel.conv2d() else {
                continue;
            };
            let own = choices
                .iter()
                .filter(|choice| Some(choice.operator) == step.operator);
            step.specialised = Specialised::new(conv, own);
            for further in &mut step.specialised.solutions {
                // Steps that share weights share what is derived from them.
                let own = known.entry((step.weights.start, further.solution));
                let own = own.or_insert_with(|| {
                    let own = len..len + further.kernel.own_len();
                    len = own.end.next_multiple_of(LINE);
                    own
                });
                further.weights = own.clone();
            }
        }
        self.specialised = AlignedBuffer::zeroed(len);
        for step in self.stages.iter().flat_map(|stage| &stage.steps) {
            for further in &step.specialised.solutions {
                let packed = &image[step.weights.clone()];
                let own = &mut self.specialised[further.weights.clone()];
                further.kernel.prepare(packed, own);
            }
        }
    }

    /// What the specialised solutions take that are prepared.
    pub(crate) fn solution_memory(&self) -> SolutionMemory {
        let steps = self.stages.iter().flat_map(|stage| &stage.steps);
        let scratch = steps.map(|step| step.specialised.scratch_len(BATCH_MAX));
        let bytes = |floats: usize| (floats * size_of::<f32>()) as u64;
        SolutionMemory {
            weight_bytes: bytes(self.specialised.len()),
            scratch_bytes: bytes(scratch_stride(scratch.max().unwrap_or(0))),
        }
    }
}

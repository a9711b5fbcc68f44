//! A network, lowered: what all partitions share of it.

use std::collections::BTreeMap;

use punctual_core::BATCH_MAX;
use punctual_device::InputLayout;
use punctual_device::regions::LINE;
use punctual_model::{SolutionChoice, SolutionMemory};

use crate::executable::{Executable, Step};
use crate::specialised::{Chosen, Derived, Further, ONE_CORE, Specialised, scratch_stride};

/// A network, lowered. Shared by all partitions.
pub(crate) struct LoadedModel {
    pub(crate) stages: Vec<Executable>,
    /// Floats of its weight image: the packed weights of all steps, in order of execution.
    pub(crate) weight_floats: usize,
    /// Weights that specialised solutions derive from the image. Steps that share weights share these.
    pub(crate) derived: Box<[Derived]>,
    pub(crate) input: InputLayout,
    /// Floats of a request buffer that this network uses.
    pub(crate) request_floats: usize,
}

impl LoadedModel {
    /// Notes which stages run on one core, and the specialised solutions that `choices` name, which are not prepared
    /// yet. Choices of operators that have no such solution are passed over: the direct one answers.
    pub(crate) fn choose(&mut self, choices: &[SolutionChoice]) {
        let mut all = Vec::new();
        let mut known = BTreeMap::new();
        for stage in &mut self.stages {
            let own = choices
                .iter()
                .filter(|choice| choice.operator == stage.first_operator);
            stage.alone = Chosen::new(own, |name| Some(name == ONE_CORE));
            for step in &mut stage.steps {
                let Some(conv) = step.kernel.conv2d() else {
                    continue;
                };
                let own = choices
                    .iter()
                    .filter(|choice| Some(choice.operator) == step.operator);
                step.specialised = Specialised::new(conv, own);
                for further in &mut step.specialised.solutions {
                    let own = (step.weights.start, further.solution);
                    further.derived = *known.entry(own).or_insert_with(|| {
                        all.push(Derived::awaited(further.kernel.own_len()));
                        all.len() - 1
                    });
                }
            }
        }
        self.derived = all.into();
        for stage in 0..self.stages.len() {
            if self.unprepared(stage).is_none() {
                self.stages[stage].prepared.set();
            }
        }
    }

    /// The first solution of a stage whose weights are not derived yet, and the step that has them.
    pub(crate) fn unprepared(&self, stage: usize) -> Option<(&Step, &Further)> {
        let steps = self.stages[stage].steps.iter();
        let mut further = steps.flat_map(|step| {
            let solutions = step.specialised.solutions.iter();
            solutions.map(move |further| (step, further))
        });
        further.find(|(_, further)| !self.derived[further.derived].is_there())
    }

    /// What the specialised solutions take when all are prepared.
    pub(crate) fn solution_memory(&self) -> SolutionMemory {
        let steps = self.stages.iter().flat_map(|stage| &stage.steps);
        let scratch = steps.map(|step| step.specialised.scratch_len(BATCH_MAX));
        let bytes = |floats: usize| (floats * size_of::<f32>()) as u64;
        let derived = self.derived.iter();
        let derived = derived.map(|derived| derived.len().next_multiple_of(LINE));
        SolutionMemory {
            weight_bytes: bytes(derived.sum()),
            scratch_bytes: bytes(scratch_stride(scratch.max().unwrap_or(0))),
        }
    }
}

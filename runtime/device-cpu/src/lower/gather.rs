//! Channels picked from tensors: the steps of a gather are what its sources' homes leave to be moved.

use punctual_kernels::{BlockedLayout, ChannelRun, Gather, GatherSpec, Kernel, KernelError};
use punctual_model::{self as model, Operator};

use super::lowering::Lowering;
use super::places::Places;
use super::{Layouts, Lower, homes};
use crate::executable::{Made, Step, Value};
use crate::shared::{Operands, Span};

/// Consecutive runs that must be moved, to `first` channels of the result and on.
struct Moved {
    first: usize,
    runs: Vec<model::ChannelRun>,
}

impl Lower for model::Gather {
    /// Of all sources; steps have kernels of what is left to be moved.
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let others = of.others.iter().copied();
        let run = |run: &model::ChannelRun| ChannelRun {
            source: run.source.into(),
            first: run.first as usize,
            count: run.count as usize,
        };
        let spec = GatherSpec {
            inputs: [of.blocked()].into_iter().chain(others).collect(),
            output: of.output,
            runs: self.runs.iter().map(run).collect(),
        };
        Ok(Box::new(Gather::new(of.isa, &spec)?))
    }

    fn steps(
        &self,
        lowering: &Lowering<'_>,
        operator: &Operator,
        places: &Places<'_>,
    ) -> Result<Vec<Step>, KernelError> {
        lowering.gather_steps(operator, &self.runs, places)
    }
}

impl Lowering<'_> {
    /// One step for each stretch of blocks of the result that is not in place; often none.
    pub(super) fn gather_steps(
        &self,
        operator: &Operator,
        runs: &[model::ChannelRun],
        places: &Places<'_>,
    ) -> Result<Vec<Step>, KernelError> {
        if self.homes.is_view(operator) {
            return Ok(Vec::new());
        }
        let lanes = self.isa.lanes();
        let mut stretches: Vec<Moved> = Vec::new();
        let mut open = false;
        for (run, first) in homes::placed(runs) {
            if self.homes.is_in_place(operator, run, first, lanes) {
                open = false;
                continue;
            }
            if !open {
                let runs = Vec::new();
                stretches.push(Moved { first, runs });
                open = true;
            }
            if let Some(stretch) = stretches.last_mut() {
                stretch.runs.push(*run);
            }
        }
        let step = |moved: &Moved| self.gather_step(operator, moved, places);
        stretches.iter().map(step).collect()
    }

    fn gather_step(
        &self,
        operator: &Operator,
        moved: &Moved,
        places: &Places<'_>,
    ) -> Result<Step, KernelError> {
        let whole = self.layout(Value::Tensor(operator.output));
        let channels = moved.runs.iter().map(|run| run.count as usize).sum();
        let (height, width) = (whole.height(), whole.width());
        let output = BlockedLayout::new(self.isa, channels, height, width, whole.halo())?;
        let span = places.of(Value::Tensor(operator.output));
        let span = Span {
            start: span.start + moved.first / whole.lanes() * whole.block_stride(),
            len: output.len(),
            ..span
        };
        let mut sources: Vec<Value> = Vec::new();
        let mut runs = Vec::with_capacity(moved.runs.len());
        for run in &moved.runs {
            let value = self.value(run.tensor(operator.reads()));
            let known = sources.iter().position(|source| *source == value);
            let source = known.unwrap_or(sources.len());
            if known.is_none() {
                sources.push(value);
            }
            runs.push(ChannelRun {
                source,
                first: run.first as usize,
                count: run.count as usize,
            });
        }
        let spec = GatherSpec {
            inputs: sources.iter().map(|&value| self.layout(value)).collect(),
            output,
            runs,
        };
        let inputs = sources.iter().map(|&value| self.operand(value, places));
        Ok(Step::new(
            operator.name.clone(),
            Made::Part(operator.output),
            Box::new(Gather::new(self.isa, &spec)?),
            Operands::new(inputs, span),
            output,
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::lower::lower;
    use crate::shared::Operand;
    use punctual_conformance::networks;
    use punctual_kernels::{ConvInput, Isa};

    /// Channels that each gather still moves.
    fn moved(isa: Isa) -> Vec<usize> {
        let model = lower(isa, &networks::gathers(1), None).expect("lowers");
        let steps = model.stages.iter().flat_map(|stage| &stage.steps);
        let moves = steps.filter(|step| step.kernel.gather().is_some());
        moves.map(|step| step.output.channels()).collect()
    }

    #[test]
    fn only_what_is_shuffled_repeated_carried_or_inside_a_block_is_moved() {
        // The shuffle of 80, the slice for the next stage, the source that comes twice.
        assert_eq!(moved(Isa::Scalar), [80, 64, 32]);
        if Isa::Avx512.is_available() {
            // And half of 80, a concatenation that begins with 20, a slice at 4.
            assert_eq!(moved(Isa::Avx512), [40, 80, 64, 32, 84, 12]);
        }
    }

    #[test]
    fn slices_of_the_input_that_only_convolutions_read_are_its_planes() {
        let model = lower(Isa::Scalar, &networks::stacked(1), None).expect("lowers");
        let planes = model.stages.iter().map(|stage| {
            let inputs = stage.steps.iter().map(|step| step.operands.inputs()[0]);
            let channels = |input: Operand| match input.layout {
                ConvInput::Planar(layout) => Some(layout.channels()),
                ConvInput::Blocked(_) => None,
            };
            inputs.filter_map(channels).collect::<Vec<usize>>()
        });
        // All three are copied for those that are pooled; the last convolution reads further than the first stage's.
        assert_eq!(planes.collect::<Vec<_>>(), [vec![3, 2, 2], vec![3]]);
    }

    #[test]
    fn concatenations_that_extend_each_other_share_one_buffer() {
        let network = networks::gathers(1);
        let model = lower(Isa::Scalar, &network, None).expect("lowers");
        let stage = &model.stages[0];
        let span = |name: &str| {
            let step = stage.steps.iter().find(|step| step.name == name);
            step.expect("a step").operands.output()
        };
        // The stem and the three layers' new features, in the order of their channels.
        let features = ["operator 1", "operator 3", "operator 6", "operator 9"].map(span);
        for pair in features.windows(2) {
            assert_eq!(pair[0].start + pair[0].len, pair[1].start);
        }
    }
}

//! From a network to executables: layouts, places, packed kernels.
//!
//! A tensor lies in the request buffer when it is the network's input or is carried from one stage
//! to a later one, otherwise in the workspace. Both are planned statically. There is one executable
//! a stage for all batch sizes: each member has its own share of the workspace, and kernels take
//! as many members as there are, so a batch that is not full costs no padding.

mod attention;
mod best_score;
mod binary;
mod conv2d;
mod convert;
mod copies;
mod copy;
mod detections;
mod embedding;
mod error;
mod gather;
mod grid_sample;
mod homes;
mod image;
mod layer_norm;
mod linear;
mod lowering;
mod places;
mod pool;
mod product;
mod quantised_conv2d;
mod recurrent;
mod resize;
mod softmax;
mod take;
mod tokens;
mod top_k;
mod unary;
mod values;

use std::collections::BTreeSet;

use punctual_device::regions::LINE;
use punctual_kernels::{BlockedLayout, ConvInput, Isa, Kernel, KernelError};
use punctual_model::{
    Exit, ImageLayout, Network, Operator, OutputLayout, PlacedExit, PlacedOutput, Stage,
    StageLayout, TensorId, with_operator,
};

use crate::checker::Checker;
use crate::executable::{Executable, ExitPlan, Made, OutputPlan, Prepared, Step, Value};
use crate::model::LoadedModel;
use crate::shared::{Operands, team};
use crate::specialised::Chosen;
pub use error::LowerError;
use error::error;
use lowering::{Action, Lowering};
use places::Places;

/// Prepares a valid network for `isa`, and the outputs that are wanted of it.
///
/// # Errors
/// The first operator that no kernel takes.
pub(super) fn lower(
    isa: Isa,
    network: &Network,
    outputs: Option<&OutputLayout>,
) -> Result<LoadedModel, LowerError> {
    let lowering = Lowering {
        outputs,
        ..Lowering::new(isa, network)?
    };
    let stages = lowering.stages()?;
    Ok(lowering.model(stages))
}

/// The weight image of a network that was lowered.
///
/// # Errors
/// When its weights do not fit a kernel.
pub(super) fn pack(network: &Network, stages: &[Executable]) -> Result<Vec<f32>, LowerError> {
    image::packed(network, stages)
}

/// How the CPU device lays `network` out with kernels for `isa`: what a package carries.
///
/// # Errors
/// [`LowerError`], when an operator has no kernel or the processor lacks `isa`.
pub fn image_layout(isa: Isa, network: &Network) -> Result<ImageLayout, LowerError> {
    let lowering = Lowering::new(isa, network)?;
    let (mut first, mut end) = (0, 0);
    let mut stages = Vec::with_capacity(network.stages.len());
    for (executable, stage) in lowering.stages()?.iter().zip(&network.stages) {
        let mut layout = StageLayout {
            before: 0,
            operators: vec![0; stage.operators.len()],
            workspace_floats: team::member_stride(executable) as u64,
        };
        for step in &executable.steps {
            // What an earlier step has is not there again.
            if step.weights.start < end || step.weights.is_empty() {
                continue;
            }
            end = step.weights.end;
            let floats = step.weights.len().next_multiple_of(LINE) as u32;
            match step.operator {
                Some(operator) => layout.operators[operator as usize - first] += floats,
                None => layout.before += floats,
            }
        }
        first += stage.operators.len();
        stages.push(layout);
    }
    Ok(ImageLayout {
        lanes: isa.lanes() as u8,
        request_floats: lowering.request_floats as u64,
        stages,
    })
}

/// The weight image of `network` for `isa`, as [`image_layout`] says.
///
/// # Errors
/// As [`image_layout`].
pub fn pack_image(isa: Isa, network: &Network) -> Result<Vec<f32>, LowerError> {
    lower(isa, network, None).and_then(|model| image::packed(network, &model.stages))
}

impl<'n> Lowering<'n> {
    /// All stages, their steps' weights one after the other.
    fn stages(&self) -> Result<Vec<Executable>, LowerError> {
        let mut weights = image::Ranges::default();
        let mut weights_end = 0;
        let mut operators = 0;
        let input = self.input();
        let lanes = self.isa.lanes();
        let mut checker = Checker::new(self.network, &input, self.request_floats, lanes);
        let stages = self.network.stages.iter().enumerate();
        let lowered = stages.map(|(index, stage)| {
            let before = operators;
            operators += stage.operators.len() as u32;
            let mut executable = self.stage(index, before)?;
            for step in &mut executable.steps {
                let operator = step
                    .operator
                    .map(|at| &stage.operators[(at - before) as usize]);
                step.weights = weights.next(&*step.kernel, operator);
                weights_end = weights_end.max(step.weights.end);
            }
            executable.weights_end = weights_end;
            let checked = checker.stage(stage, &executable);
            checked.map_err(|source| LowerError::Wrong {
                model: self.network.name.clone(),
                stage: index,
                source: Box::new(source),
            })?;
            Ok(executable)
        });
        lowered.collect()
    }

    /// A model of all stages.
    fn model(&self, stages: Vec<Executable>) -> LoadedModel {
        LoadedModel {
            weight_floats: image::floats(&stages),
            stages,
            derived: Box::default(),
            input: self.input(),
            request_floats: self.request_floats,
        }
    }

    /// A stage that has `before` operators before it.
    fn stage(&self, index: usize, before: u32) -> Result<Executable, LowerError> {
        let stage = &self.network.stages[index];
        let placed = self.outputs.and_then(|outputs| outputs.stage(index));
        let actions = self.actions(stage, before);
        let places = Places::plan(self, stage, &actions);
        let mut steps = Vec::with_capacity(actions.len());
        for action in &actions {
            let made = self.steps(action, &places);
            steps.extend(made.map_err(|source| error(self.network, action.name(), source))?);
        }
        let exit = stage.exit.as_ref();
        let exit = exit.map(|exit| self.exit(exit, placed, &places));
        let mut executable = Executable {
            steps,
            first_operator: before,
            weights_end: 0,
            prepared: Prepared::default(),
            alone: Chosen::default(),
            exit: exit.transpose()?,
            workspace_floats: places.total,
        };
        let reads = actions.iter().flat_map(|action| self.reads(action));
        let answers = stage.exit.iter().flat_map(Exit::answers);
        let reads = reads.chain(answers.map(|tensor| self.value(tensor)));
        let read = reads.map(|value| self.memory(value)).collect();
        executable.write_early(|value| self.memory(value), read);
        Ok(executable)
    }

    /// What a stage does, in order: its operators, and before the first one that reads a copy of a tensor the copy.
    fn actions(&self, stage: &'n Stage, before: u32) -> Vec<Action<'n>> {
        let mut actions = Vec::with_capacity(stage.operators.len() + 1);
        let mut copied = BTreeSet::new();
        // The input's copy comes first: packages have its weights before those of all operators.
        let input = self.network.input_tensor();
        let reads_copy = |operator: &Operator| {
            let is_planes = self.homes.first_plane(operator.output).is_some();
            let mut reads = self.operands(operator);
            !is_planes && reads.any(|read| read == Some(Value::Copy(input)))
        };
        let gives_back = stage
            .exit
            .iter()
            .flat_map(Exit::reads)
            .any(|read| read == input);
        if gives_back || stage.operators.iter().any(reads_copy) {
            copied.insert(input);
            actions.push(Action::Copy(input));
        }
        for (position, operator) in (before..).zip(&stage.operators) {
            if self.homes.first_plane(operator.output).is_some() {
                continue;
            }
            for value in self.operands(operator).flatten() {
                if let Value::Copy(tensor) = value
                    && copied.insert(tensor)
                {
                    actions.push(Action::Copy(tensor));
                }
            }
            actions.push(Action::Operator { position, operator });
        }
        actions
    }

    fn steps(&self, action: &Action<'_>, places: &Places<'_>) -> Result<Vec<Step>, KernelError> {
        let (position, operator) = match *action {
            Action::Copy(tensor) => return self.copy_step(tensor, places).map(|step| vec![step]),
            Action::Operator { position, operator } => (position, operator),
        };
        let steps = with_operator!(&operator.kind, kind => kind.steps(self, operator, places));
        let mut steps = steps?;
        for step in &mut steps {
            step.operator = Some(position);
        }
        Ok(steps)
    }

    /// Where an exit's answer and the outputs that are wanted of it lie.
    fn exit(
        &self,
        exit: &Exit,
        placed: Option<&PlacedExit>,
        places: &Places<'_>,
    ) -> Result<ExitPlan, LowerError> {
        let vector = |tensor: TensorId| self.plain(tensor, places.of(self.value(tensor)));
        let output = |placed: &PlacedOutput| {
            let output = &exit.outputs[placed.output];
            let value = self.value(output.tensor);
            let (span, layout) = (places.of(value), self.layout(value));
            OutputPlan::new(self.isa, output, placed, value, span, layout)
                .map_err(|source| error(self.network, &output.name, source))
        };
        let outputs = placed.into_iter().flat_map(|placed| &placed.outputs);
        Ok(ExitPlan {
            scores: exit
                .scores
                .map(|scores| (vector(scores.tensor), scores.form)),
            confidence: exit.confidence.map(vector),
            outputs: outputs.map(output).collect::<Result<_, _>>()?,
            not_finite: placed.map_or(0, PlacedExit::not_finite),
        })
    }

    fn step(&self, operator: &Operator, places: &Places<'_>) -> Result<Step, KernelError> {
        let output = self.layouts[operator.output.index()];
        let read = match self.first_operand(operator) {
            Some(value) => self.operand(value, places),
            None => self.planes(operator.input),
        };
        let others = operator.others.iter();
        let others: Vec<Value> = others.map(|&id| self.value(id)).collect();
        let of = Layouts {
            isa: self.isa,
            input: read.layout,
            others: others.iter().map(|&value| self.layout(value)).collect(),
            output,
            weights: operator.weights.iter().map(|range| range.len).collect(),
        };
        let kernel = with_operator!(&operator.kind, kind => kind.kernel(&of))?;
        let others = others.into_iter().map(|value| self.operand(value, places));
        let step = Step::new(
            operator.name.clone(),
            Made::Whole(Value::Tensor(operator.output)),
            kernel,
            Operands::new(
                [read].into_iter().chain(others),
                places.of(Value::Tensor(operator.output)),
            ),
            output,
        );
        Ok(Step {
            macs: self.network.multiplications_of(operator),
            ..step
        })
    }
}

/// What an operator's kernel is made of: how its tensors lie.
struct Layouts {
    isa: Isa,
    input: ConvInput,
    others: Vec<BlockedLayout>,
    output: BlockedLayout,
    /// Elements of each of its weights.
    weights: Vec<u32>,
}

impl Layouts {
    /// The input of an operator that does not read planes.
    fn blocked(&self) -> BlockedLayout {
        match self.input {
            ConvInput::Blocked(layout) => layout,
            ConvInput::Planar(_) => unreachable!("it does not say that it reads planes"),
        }
    }
}

/// How an operator runs on processors.
trait Lower {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError>;

    /// Whether it reads the network's input, of `channels` channels, as the planes that it is.
    fn reads_planes(&self, _channels: usize) -> bool {
        false
    }

    /// Its steps: one, unless some of its result is in place.
    fn steps(
        &self,
        lowering: &Lowering<'_>,
        operator: &Operator,
        places: &Places<'_>,
    ) -> Result<Vec<Step>, KernelError> {
        lowering.step(operator, places).map(|step| vec![step])
    }
}

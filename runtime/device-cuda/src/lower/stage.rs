//! The launches of a stage: operator after operator.

use std::collections::BTreeMap;

use punctual_kernels::cuda::params::{
    Answers, Elementwise, Epilogue, Gather, GlobalPool, InputPlanar, Linear, Members, Pool,
    SOURCES_MAX,
};
use punctual_kernels::cuda::{Arguments, IMAGES_MAX, Kernel, TensorView, kernel, padded};
use punctual_model::{Operator, OperatorKind, Stage, Tensor, TensorId};
use punctual_types::PoolKind;

use super::list::{Draft, Of};
use super::place::Place;
use super::program::LaunchList;
use super::traffic::image_bytes;
use super::{LowerError, Lowering};

/// Of a list that is made.
pub(super) struct Launches<'l> {
    pub(super) lowering: &'l Lowering<'l>,
    pub(super) batch: u8,
    pub(super) draft: Draft,
    stage: &'l Stage,
    /// Tensors that are in the workspace.
    here: BTreeMap<TensorId, Place>,
    /// The exit's class scores in `f32`, once they are there.
    scores: Option<Place>,
}

/// The kernel of that name, which the table has.
pub(super) fn known(name: &str) -> &'static Kernel {
    kernel(name).unwrap_or_else(|| panic!("the table of kernels has no `{name}`"))
}

impl<'l> Launches<'l> {
    /// The list of the stage at position `number`, whose first operator is the `first` of the network.
    pub(super) fn of_stage(
        lowering: &'l Lowering<'l>,
        number: u32,
        first: u32,
        batch: u8,
    ) -> Result<LaunchList, LowerError> {
        let stage = &lowering.network.stages[number as usize];
        let mut launches = Self {
            lowering,
            batch,
            draft: Draft::new(batch),
            stage,
            here: BTreeMap::new(),
            scores: None,
        };
        for (position, operator) in (first..).zip(&stage.operators) {
            launches.operator(position, operator)?;
            if stage.outputs.binary_search(&operator.output).is_ok() {
                launches.carry_out(operator.output);
            }
        }
        if let Some(logits) = stage.scores()
            && launches.scores.is_none()
        {
            launches.bring_to_scores(number, logits);
        }
        launches.answers();
        Ok(launches.draft.finish())
    }

    fn operator(&mut self, position: u32, operator: &'l Operator) -> Result<(), LowerError> {
        let of = Of {
            operator: Some(position),
            name: &operator.name,
        };
        match &operator.kind {
            OperatorKind::Conv2d {
                window, activation, ..
            } if !window.is_dilated() => {
                let epilogue = self.epilogue(operator, *activation)?;
                self.conv(of, operator, epilogue);
            }
            OperatorKind::Linear { activation, .. } => {
                let epilogue = self.epilogue(operator, *activation)?;
                self.linear(of, operator, epilogue);
            }
            OperatorKind::Pool { .. } => self.pool(of, operator),
            OperatorKind::GlobalAveragePool => {
                let input = self.read(operator.input);
                let output = self.write(operator.output);
                let pool = GlobalPool {
                    input,
                    output,
                    images: u32::from(self.batch),
                    gap: 0,
                };
                let kernel = known("global_average_pool");
                self.draft.push(of, kernel, Arguments::GlobalPool(pool));
            }
            OperatorKind::Add { other, activation } => {
                let epilogue = self.epilogue(operator, *activation)?;
                self.elementwise(of, operator, known("add"), *other, epilogue);
            }
            OperatorKind::Multiply { other, activation } => {
                let epilogue = self.epilogue(operator, *activation)?;
                self.elementwise(of, operator, known("multiply"), *other, epilogue);
            }
            OperatorKind::Gather { others, .. } => self.gather(of, operator, others),
            kind => return Err(self.lowering.no_kernel(operator, kind)),
        }
        Ok(())
    }

    fn epilogue(
        &self,
        operator: &Operator,
        activation: Activation,
    ) -> Result<Epilogue, LowerError> {
        let known = Epilogue::of(activation);
        known.ok_or_else(|| self.lowering.no_activation(operator))
    }

    fn shape(&self, tensor: TensorId) -> Tensor {
        self.lowering.network.tensors[tensor.0 as usize]
    }

    /// A tensor of this shape at a place.
    fn view(&self, tensor: TensorId, place: Place) -> TensorView {
        let shape = self.shape(tensor);
        TensorView {
            address: place.encode(),
            height: shape.height,
            width: shape.width,
            channels: shape.channels,
            pitch: padded(shape.channels),
        }
    }

    /// A buffer for a tensor of the whole batch.
    fn room(&mut self, tensor: TensorId) -> TensorView {
        let bytes = image_bytes(&self.view(tensor, Place::Nothing)) * u64::from(self.batch);
        let place = self.draft.buffer(bytes);
        self.here.insert(tensor, place);
        self.view(tensor, place)
    }

    /// A tensor as an operator writes it.
    pub(super) fn write(&mut self, tensor: TensorId) -> TensorView {
        self.room(tensor)
    }

    /// A tensor as an operator reads it. What comes from outside of the stage is copied by the
    /// first who reads it.
    pub(super) fn read(&mut self, tensor: TensorId) -> TensorView {
        if let Some(&place) = self.here.get(&tensor) {
            return self.view(tensor, place);
        }
        let view = self.room(tensor);
        if tensor == self.lowering.network.input_tensor() {
            let of = Of {
                operator: None,
                name: "input",
            };
            let layout = self.lowering.input();
            let input = InputPlanar {
                output: view,
                members: self.each_member(|member| Place::Input { member }),
                row_stride: layout.row_stride as u32,
                plane_stride: layout.plane_stride as u32,
                images: u32::from(self.batch),
                gap: 0,
            };
            let kernel = known("input_planar");
            self.draft.push(of, kernel, Arguments::InputPlanar(input));
        } else {
            self.copy(tensor, view, "carried in", known("members_in"));
        }
        view
    }

    /// Copies a tensor to its members' slots.
    fn carry_out(&mut self, tensor: TensorId) {
        let view = self.view(tensor, self.here[&tensor]);
        self.copy(tensor, view, "carried out", known("members_out"));
    }

    fn copy(&mut self, tensor: TensorId, view: TensorView, name: &str, kernel: &'static Kernel) {
        let offset = self.lowering.slots[tensor.0 as usize];
        let offset = offset.expect("a valid stage reads what an earlier one carries out");
        let members = Members {
            batch: view.address,
            bytes: image_bytes(&view),
            members: self.each_member(|member| Place::Request { member, offset }),
            images: u32::from(self.batch),
            gap: 0,
        };
        let of = Of {
            operator: None,
            name,
        };
        self.draft.push(of, kernel, Arguments::Members(members));
    }

    /// A place for each member of the batch.
    fn each_member(&self, place: impl Fn(u8) -> Place) -> [u64; IMAGES_MAX] {
        let mut members = [0; IMAGES_MAX];
        for (member, slot) in (0..self.batch).zip(&mut members) {
            *slot = place(member).encode();
        }
        members
    }

    fn pool(&mut self, of: Of<'_>, operator: &Operator) {
        let &OperatorKind::Pool {
            kind,
            kernel,
            stride,
            padding,
        } = &operator.kind
        else {
            return;
        };
        let pool = Pool {
            input: self.read(operator.input),
            output: self.write(operator.output),
            images: u32::from(self.batch),
            kind: match kind {
                PoolKind::Max => 0,
                PoolKind::Average {
                    counts_padding: true,
                } => 1,
                PoolKind::Average {
                    counts_padding: false,
                } => 2,
            },
            kernel_height: kernel.height,
            kernel_width: kernel.width,
            stride_height: stride.height,
            stride_width: stride.width,
            pad_top: padding.top,
            pad_left: padding.left,
        };
        self.draft.push(of, known("pool"), Arguments::Pool(pool));
    }

    fn elementwise(
        &mut self,
        of: Of<'_>,
        operator: &Operator,
        kernel: &'static Kernel,
        other: TensorId,
        epilogue: Epilogue,
    ) {
        let broadcast = self.shape(other) != self.shape(operator.input);
        let both = Elementwise {
            input: self.read(operator.input),
            other: self.read(other).address,
            output: self.write(operator.output).address,
            images: u32::from(self.batch),
            broadcast: u32::from(broadcast),
            epilogue,
        };
        self.draft.push(of, kernel, Arguments::Elementwise(both));
    }

    fn gather(&mut self, of: Of<'_>, operator: &Operator, others: &[TensorId]) {
        let mut gather = Gather {
            images: u32::from(self.batch),
            ..Gather::default()
        };
        const _: () = assert!(SOURCES_MAX >= punctual_model::GATHER_SOURCES_MAX);
        for (at, &source) in std::iter::once(&operator.input).chain(others).enumerate() {
            let view = self.read(source);
            (gather.sources[at], gather.pitches[at]) = (view.address, view.pitch);
        }
        gather.output = self.write(operator.output);
        let pieces = self.lowering.pieces(of.operator);
        for piece in pieces {
            gather.table = piece.weights().encode();
            self.draft
                .push(of, known("gather"), Arguments::Gather(gather));
        }
    }

    fn answers(&mut self) {
        let classes = self
            .stage
            .scores()
            .map(|logits| self.shape(logits).channels);
        let answers = Answers {
            scores: self.scores.unwrap_or(Place::Nothing).encode(),
            answers: Place::Answers.encode(),
            done: Place::Done.encode(),
            images: u32::from(self.batch),
            classes: classes.unwrap_or(0),
            pitch: padded(classes.unwrap_or(0)),
            sequence: 0,
        };
        let of = Of {
            operator: None,
            name: "answers",
        };
        let kernel = known("answers");
        self.draft.push(of, kernel, Arguments::Answers(answers));
    }

    /// Class scores that exist in halves only, converted to `f32` by the identity.
    fn bring_to_scores(&mut self, stage: u32, logits: TensorId) {
        let input = self.read(logits);
        let scores = self.room_for_scores(logits);
        let pieces = self.lowering.exit_pieces(stage);
        let linear = Linear {
            input: input.address,
            scores: scores.encode(),
            images: u32::from(self.batch),
            depth: input.pitch,
            features: input.channels,
            pitch: input.pitch,
            splits: 1,
            ..Linear::default()
        };
        let of = Of {
            operator: None,
            name: "scores",
        };
        for piece in pieces {
            let linear = Linear {
                weights: piece.weights().encode(),
                bias: piece.bias().encode(),
                first_feature: piece.first,
                feature_count: piece.count,
                ..linear
            };
            self.draft
                .push(of, known("linear"), Arguments::Linear(linear));
        }
    }

    /// A buffer for the exit's class scores.
    pub(super) fn room_for_scores(&mut self, logits: TensorId) -> Place {
        let floats = padded(self.shape(logits).channels) * u32::from(self.batch);
        let place = self
            .draft
            .buffer(u64::from(floats) * size_of::<f32>() as u64);
        self.scores = Some(place);
        place
    }

    /// Whether a tensor's halves are read by anybody.
    pub(super) fn is_read(&self, tensor: TensorId) -> bool {
        let mut reads = self.stage.operators.iter().flat_map(Operator::reads);
        self.stage.outputs.contains(&tensor) || reads.any(|read| read == tensor)
    }

    /// Whether a tensor holds the stage's class scores.
    pub(super) fn is_exit(&self, tensor: TensorId) -> bool {
        self.stage.scores() == Some(tensor)
    }
}

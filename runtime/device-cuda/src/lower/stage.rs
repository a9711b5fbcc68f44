//! The launches of a stage: operator after operator.

use std::collections::BTreeMap;

use punctual_cuda_kernels::params::{InputPlanar, Kept, Members};
use punctual_cuda_kernels::{Arguments, IMAGES_MAX, Kernel, TensorView, kernel};
use punctual_model::{Operator, PlacedExit, Stage, Tensor, TensorId, with_operator};

use super::error::LowerError;
use super::layout;
use super::list::{Draft, Of};
use super::lowering::Lowering;
use super::place::Place;
use super::program::LaunchList;

/// How an operator runs on GPUs.
pub(super) trait Lower {
    /// Whether one launch hands another a state, not sums.
    fn has_state(&self) -> bool {
        false
    }

    /// Pushes its launches.
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError>;
}

/// Of a list that is made.
pub(super) struct Launches<'l> {
    pub(super) lowering: &'l Lowering<'l>,
    pub(super) batch: u8,
    pub(super) draft: Draft,
    pub(super) stage: &'l Stage,
    /// Where its first operator comes in the network's order of execution.
    pub(super) first: u32,
    /// The requested outputs of its exit.
    pub(super) placed: Option<&'l PlacedExit>,
    /// The tensors in the workspace, by how they are kept.
    here: BTreeMap<(TensorId, Kept), TensorView>,
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
            first,
            placed: lowering.placed(number),
            here: BTreeMap::new(),
        };
        for (position, operator) in (first..).zip(&stage.operators) {
            launches.operator(position, operator)?;
            if stage.outputs.binary_search(&operator.output).is_ok() {
                launches.carry_out(operator.output);
            }
        }
        launches.exit()?;
        Ok(launches.draft.finish())
    }

    fn operator(&mut self, position: u32, operator: &'l Operator) -> Result<(), LowerError> {
        let of = Of::operator(position, operator);
        with_operator!(&operator.kind, kind => kind.launch(self, of, operator))
    }

    /// A launch of the kernel of that name.
    pub(super) fn push(&mut self, of: Of<'_>, kernel: &str, arguments: impl Into<Arguments>) {
        self.draft.push(of, known(kernel), arguments);
    }

    /// Where an operator's constants begin, which are not cut.
    pub(super) fn constant(&self, of: Of<'_>) -> Place {
        let piece = self.lowering.pieces(of.operator).first();
        piece.map_or(Place::Nothing, |piece| piece.weights())
    }

    pub(super) fn shape(&self, tensor: TensorId) -> Tensor {
        self.lowering.network.tensors[tensor.0 as usize]
    }

    /// A buffer for a tensor of the whole batch.
    pub(super) fn room(&mut self, tensor: TensorId, kept: Kept) -> TensorView {
        let view = TensorView {
            address: self.draft.buffer().encode(),
            ..layout::view_of(self.lowering.network, tensor, kept)
        };
        self.here.insert((tensor, kept), view);
        view
    }

    /// A tensor that is in the workspace as floats.
    pub(super) fn floats_here(&self, tensor: TensorId) -> Option<TensorView> {
        self.here.get(&(tensor, Kept::Floats)).copied()
    }

    /// How operators keep a tensor.
    pub(super) fn kept(&self, tensor: TensorId) -> Kept {
        layout::kept(self.lowering.network, tensor)
    }

    /// A tensor as an operator writes it.
    pub(super) fn write(&mut self, tensor: TensorId) -> TensorView {
        self.room(tensor, self.kept(tensor))
    }

    /// A tensor as an operator reads it. What comes from outside of the stage is copied by the
    /// first who reads it.
    pub(super) fn read(&mut self, tensor: TensorId) -> TensorView {
        let kept = self.kept(tensor);
        if let Some(&view) = self.here.get(&(tensor, kept)) {
            return view;
        }
        if self.is_input(tensor) {
            return self.input(tensor, kept);
        }
        let view = self.room(tensor, kept);
        self.copy(tensor, view, "carried in", "members_in");
        view
    }

    /// Whether the tensor is an input of the network.
    pub(super) fn is_input(&self, tensor: TensorId) -> bool {
        let mut inputs = self.lowering.network.input_tensors();
        inputs.any(|input| input == tensor)
    }

    /// Pushes the launch that copies an input into the workspace: planes, or a vector, which has planes of one value.
    pub(super) fn input(&mut self, tensor: TensorId, kept: Kept) -> TensorView {
        let output = self.room(tensor, kept);
        let layout = self.lowering.input();
        let vector = tensor.index().checked_sub(1);
        let (offset, row_stride, plane_stride) = match vector.map(|at| layout.vectors[at]) {
            Some(vector) => (vector.offset, 1, 1),
            None => (layout.offset, layout.row_stride, layout.plane_stride),
        };
        let offset = (offset * size_of::<f32>()) as u64;
        let input = InputPlanar {
            output,
            members: self.each_member(|member| Place::Input { member, offset }),
            row_stride: row_stride as u32,
            plane_stride: plane_stride as u32,
            images: u32::from(self.batch),
            kept: kept as u32,
        };
        self.push(Of::device("input"), "input_planar", input);
        output
    }

    /// Copies a tensor to its members' slots.
    fn carry_out(&mut self, tensor: TensorId) {
        let view = self.here[&(tensor, self.kept(tensor))];
        self.copy(tensor, view, "carried out", "members_out");
    }

    fn copy(&mut self, tensor: TensorId, view: TensorView, name: &str, kernel: &str) {
        let offset = self.lowering.slots[tensor.0 as usize];
        let offset = offset.expect("a valid stage reads what an earlier one carries out");
        let members = Members {
            batch: view.address,
            bytes: layout::image_bytes(&view, self.kept(tensor)),
            members: self.each_member(|member| Place::Request { member, offset }),
            images: u32::from(self.batch),
            gap: 0,
        };
        self.push(Of::device(name), kernel, members);
    }

    /// A place for each member of the batch.
    fn each_member(&self, place: impl Fn(u8) -> Place) -> [u64; IMAGES_MAX] {
        let mut members = [0; IMAGES_MAX];
        for (member, slot) in (0..self.batch).zip(&mut members) {
            *slot = place(member).encode();
        }
        members
    }

    /// Whether a tensor's halves are read by another operator or stage.
    pub(super) fn is_read(&self, tensor: TensorId) -> bool {
        let mut reads = self.stage.operators.iter().flat_map(Operator::reads);
        self.stage.outputs.contains(&tensor) || reads.any(|read| read == tensor)
    }
}

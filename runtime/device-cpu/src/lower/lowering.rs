//! A network on its way: how its tensors are laid out, where in the request buffer those lie that are carried, and what a
//! stage does at a time.

use std::collections::BTreeMap;

use punctual_device::regions::LINE;
use punctual_device::{InputLayout, VectorPlace};
use punctual_kernels::{BlockedLayout, Isa, KernelError, PlanarLayout};
use punctual_model::memory::{self, Lifetime};
use punctual_model::{Network, Operator, OutputLayout, Stage, TensorId, VECTORS_MAX};

use super::error::{LowerError, error};
use super::homes::Homes;
use crate::executable::Value;
use crate::shared::{Space, Span};

/// The name of the step that copies the input.
pub(super) const INPUT_COPY: &str = "input to blocks";

/// What a stage does at a time.
#[derive(Clone, Copy)]
pub(super) enum Action<'n> {
    /// Copies a tensor for those that cannot read it as it lies.
    Copy(TensorId),
    Operator {
        /// Among all of the network's operators.
        position: u32,
        operator: &'n Operator,
    },
}

impl Action<'_> {
    pub(super) fn made(&self) -> Value {
        match self {
            Self::Copy(tensor) => Value::Copy(*tensor),
            Self::Operator { operator, .. } => Value::Tensor(operator.output),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Copy(_) => INPUT_COPY,
            Self::Operator { operator, .. } => &operator.name,
        }
    }
}

/// A network on its way, its tensors laid out.
pub(super) struct Lowering<'n> {
    pub(super) isa: Isa,
    pub(super) network: &'n Network,
    /// None: no outputs are wanted.
    pub(super) outputs: Option<&'n OutputLayout>,
    pub(super) homes: Homes,
    pub(super) input: PlanarLayout,
    /// One for each tensor but the input, whose entry is not used.
    pub(super) layouts: Vec<BlockedLayout>,
    /// Of the tensors that some operators cannot read as they lie.
    pub(super) copies: BTreeMap<TensorId, BlockedLayout>,
    /// Place of each tensor that lies in the request buffer.
    pub(super) carried: Vec<Option<Span>>,
    pub(super) request_floats: usize,
}

impl<'n> Lowering<'n> {
    pub(super) fn new(isa: Isa, network: &'n Network) -> Result<Self, LowerError> {
        let homes = Homes::find(network, isa.lanes());
        let halo = |index: usize| homes.halo(TensorId(index as u32));
        let input_id = network.input_tensor();
        let layout = |index: usize, halo: usize| {
            let tensor = network.tensors[index];
            let [channels, height, width] =
                [tensor.channels, tensor.height, tensor.width].map(|size| size as usize);
            BlockedLayout::new(isa, channels, height, width, halo)
                .and_then(|layout| kept(network, index, layout))
                .map_err(|source| error(network, &format!("tensor {index}"), source))
        };
        let layouts = (0..network.tensors.len())
            .map(|index| layout(index, halo(index)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut copies = BTreeMap::from([(input_id, layout(input_id.index(), 0)?)]);
        for (tensor, border) in network.borders().into_iter().enumerate() {
            if let Some(zeros) = border.around_copy() {
                copies.insert(TensorId(tensor as u32), layout(tensor, zeros as usize)?);
            }
        }
        let shape = copies[&input_id].shape();
        let at = halo(input_id.index());
        let input = PlanarLayout::new(shape.channels, shape.height, shape.width, at)
            .map_err(|source| error(network, "input", source))?;
        let (carried, request_floats) = carried(network, input.len(), &layouts);
        Ok(Self {
            isa,
            network,
            outputs: None,
            homes,
            input,
            layouts,
            copies,
            carried,
            request_floats,
        })
    }

    /// Where the network's input lies.
    pub(super) fn input(&self) -> InputLayout {
        InputLayout {
            channels: self.input.channels(),
            height: self.input.height(),
            width: self.input.width(),
            row_stride: self.input.row_stride(),
            plane_stride: self.input.plane_stride(),
            offset: self.input.origin(),
            vectors: self.vectors(),
        }
    }

    /// Where the vectors lie that come with the input.
    fn vectors(&self) -> [VectorPlace; VECTORS_MAX] {
        let mut places = [VectorPlace::default(); VECTORS_MAX];
        let tensors = self.network.input_tensors().skip(1);
        for (place, tensor) in places.iter_mut().zip(tensors) {
            let span = self.carried[tensor.index()].expect("vectors have places of their own");
            let values = self.plain(tensor, span);
            *place = VectorPlace {
                offset: values.start,
                length: values.len,
            };
        }
        places
    }
}

/// The layout of a tensor that may be one of bytes.
fn kept(
    network: &Network,
    tensor: usize,
    layout: BlockedLayout,
) -> Result<BlockedLayout, KernelError> {
    match network.quantisation(TensorId(tensor as u32)) {
        None => Ok(layout),
        Some(quantisation) => layout.quantised(quantisation),
    }
}

/// Places in the request buffer, and its size: the input first and the vectors, whose zeros nothing may overwrite,
/// then what is carried, planned over stages as a stage's tensors are over operators.
fn carried(
    network: &Network,
    input_floats: usize,
    layouts: &[BlockedLayout],
) -> (Vec<Option<Span>>, usize) {
    let last_reader = |tensor: &TensorId| {
        let reads = |stage: &Stage| stage.inputs.contains(tensor);
        network.stages.iter().rposition(reads)
    };
    let mut tensors = Vec::new();
    let mut lifetimes = Vec::new();
    for (first, stage) in network.stages.iter().enumerate() {
        for tensor in &stage.outputs {
            tensors.push(tensor.0 as usize);
            lifetimes.push(Lifetime {
                first: first as u32,
                last: last_reader(tensor).unwrap_or(first) as u32,
                size: layouts[tensor.0 as usize].len(),
            });
        }
    }
    let plan = memory::plan(&lifetimes, LINE);
    let mut base = input_floats.next_multiple_of(LINE);
    let mut places = vec![None; layouts.len()];
    for vector in network.input_tensors().skip(1) {
        let len = layouts[vector.index()].len();
        places[vector.index()] = Some(Span {
            space: Space::Request,
            start: base,
            len,
        });
        base += len.next_multiple_of(LINE);
    }
    for ((tensor, lifetime), offset) in tensors.into_iter().zip(&lifetimes).zip(&plan.offsets) {
        places[tensor] = Some(Span {
            space: Space::Request,
            start: base + offset,
            len: lifetime.size,
        });
    }
    (places, base + plan.total)
}

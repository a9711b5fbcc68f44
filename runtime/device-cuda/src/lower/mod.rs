//! Lowering: networks become static lists of launches.
//!
//! A [`Program`] has one list for each stage and batch size. Its launches carry [`Place`]s where
//! addresses will stand, so that a list is made once and launched for any members, any workspace,
//! and weights wherever their pages lie. Nothing here speaks to a driver.
//!
//! | module | what it decides |
//! |---|---|
//! | `pages` | which weights lie in which page |
//! | `packing` | the bytes of a page |
//! | `requests` | where what is carried between stages lies in a request's slot |
//! | `stage`, `sums` | the launches of a stage |
//! | `choice` | which kernel computes a sum of products |
//! | `list`, `traffic` | the workspace: from what launches read and write |
//!
//! A stage begins by bringing in what it reads, where it first reads it: prepared inputs by
//! `input_planar`, carried tensors by `members_in`. What it carries on goes out by `members_out` as
//! soon as it is written. Its last launch is `answers`.

mod choice;
mod error;
mod list;
mod packing;
mod pages;
mod place;
mod program;
mod requests;
mod stage;
mod sums;
mod traffic;

use punctual_device::InputLayout;
use punctual_kernels::cuda::{IMAGES_MAX, padded};
use punctual_model::{
    Exit, Network, Operator, OperatorKind, ScoreForm, SolutionChoice, Stage, TensorId,
};

pub use choice::Candidate;
use choice::Machine;
pub use error::LowerError;
pub use packing::{PackError, Packer};
pub use pages::Pages;
use pages::{Owner, Piece};
pub use place::Place;
pub use program::{LaunchList, Program, StageProgram, Step};
use stage::Launches;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub multiprocessors: u32,
    /// Compute capability, e.g. `(8, 7)`.
    pub compute_capability: (u32, u32),
    /// Bytes of a page of weights.
    pub page_bytes: u32,
}

/// One network for one target, to be lowered stage by stage.
pub(crate) struct Lowering<'n> {
    network: &'n Network,
    target: &'n Target,
    choices: &'n [SolutionChoice],
    pages: Pages,
    /// Where each tensor lies in a request's slot, if it is carried.
    slots: Vec<Option<u64>>,
    request_bytes: u64,
}

impl Program {
    /// Lowers a valid network for batches of the given sizes. What `choices` say of operators
    /// overrides the rule on kernels; a choice that names no candidate is passed over.
    ///
    /// Weights lie in the same pages whatever the number of multiprocessors, the batch sizes and
    /// the choices, so programs of one network for several partitions share them.
    pub fn lower(
        network: &Network,
        batches: &[u8],
        target: &Target,
        choices: &[SolutionChoice],
    ) -> Result<Self, LowerError> {
        let lowering = Lowering::new(network, target, choices)?;
        lowering.check_contract()?;
        lowering.check_batches(batches)?;
        let stages = lowering.stages(batches).collect::<Result<_, _>>()?;
        Ok(Self {
            name: network.name.clone(),
            input: lowering.input(),
            request_bytes: lowering.request_bytes,
            stages,
            pages: lowering.pages,
        })
    }
}

/// The ways in which an operator, by position in order of execution, can be computed for a batch,
/// the general one first; none for one that has only one way. Of an operator that is cut, those
/// that all of its pieces have.
pub fn candidates(
    network: &Network,
    operator: u32,
    batch: u8,
    target: &Target,
) -> Result<Vec<Candidate>, LowerError> {
    let lowering = Lowering::new(network, target, &[])?;
    lowering.check_contract()?;
    lowering.check_batches(&[batch])?;
    let mut operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let Some(found) = operators.nth(operator as usize) else {
        return Ok(Vec::new());
    };
    let products = sums::products(&lowering, operator, found, batch);
    let first = products.first();
    let candidates = first.map(|product| product.candidates(lowering.machine()));
    Ok(candidates.unwrap_or_default())
}

impl<'n> Lowering<'n> {
    pub(crate) fn new(
        network: &'n Network,
        target: &'n Target,
        choices: &'n [SolutionChoice],
    ) -> Result<Self, LowerError> {
        if target.multiprocessors == 0 {
            return Err(LowerError::NoMultiprocessors);
        }
        if let Some(tensor) = (0..network.tensors.len() as u32)
            .find(|&tensor| network.quantisation(TensorId(tensor)).is_some())
        {
            return Err(LowerError::Bytes {
                model: network.name.clone(),
                tensor,
            });
        }
        let pages = Pages::plan(network, target.page_bytes)?;
        let (slots, request_bytes) = requests::slots(network);
        Ok(Self {
            network,
            target,
            choices,
            pages,
            slots,
            request_bytes,
        })
    }

    /// The stages, each lowered when it is asked for.
    pub(crate) fn stages(
        &self,
        batches: &[u8],
    ) -> impl Iterator<Item = Result<StageProgram, LowerError>> {
        let mut next = 0;
        (0..).zip(&self.network.stages).map(move |(number, stage)| {
            let first = next;
            next += stage.operators.len() as u32;
            let list = |&batch: &u8| Launches::of_stage(self, number, first, batch);
            let classes = |scores: TensorId| self.network.tensors[scores.0 as usize].channels;
            Ok(StageProgram {
                classes: stage.scores().map(classes),
                pages: self.pages_of(number, first..next),
                lists: batches.iter().map(list).collect::<Result<_, _>>()?,
            })
        })
    }

    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Bytes of a request's slot.
    pub(crate) fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    /// That inputs and answers are such as the kernels of this device take and give.
    fn check_contract(&self) -> Result<(), LowerError> {
        let network = self.network;
        let softmax = |exit: &Exit| {
            let scores = exit
                .scores
                .filter(|scores| scores.form == ScoreForm::Softmax);
            scores.is_some() && exit.confidence.is_none()
        };
        let local = |stage: &Stage| {
            let mut operators = stage.operators.iter();
            stage.scores().is_none_or(|scores| {
                operators.any(|o| o.output == scores) && !stage.outputs.contains(&scores)
            })
        };
        let what = if !network.vectors.is_empty() {
            "vectors beside its input"
        } else if !network.exits().all(|(_, exit)| softmax(exit)) {
            "answers that are not the softmax of class scores"
        } else if !network.stages.iter().all(local) {
            "class scores that a deeper stage reads"
        } else {
            return Ok(());
        };
        let model = network.name.clone();
        Err(LowerError::Contract { model, what })
    }

    /// That launches can have so many images, and count their halves in 32 bits.
    fn check_batches(&self, batches: &[u8]) -> Result<(), LowerError> {
        let model = || self.network.name.clone();
        for &batch in batches {
            if !(1..=IMAGES_MAX).contains(&usize::from(batch)) {
                return Err(LowerError::Batch {
                    model: model(),
                    batch,
                });
            }
            for (tensor, shape) in (0..).zip(&self.network.tensors) {
                let pixels = u64::from(shape.height) * u64::from(shape.width);
                let halves = pixels.saturating_mul(u64::from(padded(shape.channels)));
                let bytes = halves.saturating_mul(2 * u64::from(batch));
                // Half of it: kernels also count sums of four bytes.
                if bytes >= 1 << 31 {
                    return Err(LowerError::Tensor {
                        model: model(),
                        tensor,
                        bytes,
                        batch,
                    });
                }
            }
        }
        Ok(())
    }

    fn machine(&self) -> Machine {
        Machine {
            multiprocessors: self.target.multiprocessors,
            major: self.target.compute_capability.0,
        }
    }

    fn input(&self) -> InputLayout {
        let shape = self.network.input.tensor();
        let (height, width) = (shape.height as usize, shape.width as usize);
        InputLayout {
            channels: shape.channels as usize,
            height,
            width,
            row_stride: width,
            plane_stride: height * width,
            offset: 0,
            vectors: Default::default(),
        }
    }

    /// The pieces of an operator's weights.
    fn pieces(&self, operator: Option<u32>) -> &[Piece] {
        operator.map_or(&[], |operator| self.pages.pieces(Owner::Operator(operator)))
    }

    /// The pieces of the step that converts a stage's class scores to `f32`.
    fn exit_pieces(&self, stage: u32) -> &[Piece] {
        self.pages.pieces(Owner::Exit(stage))
    }

    fn pages_of(&self, stage: u32, operators: std::ops::Range<u32>) -> Box<[u32]> {
        let own = operators.flat_map(|operator| self.pieces(Some(operator)));
        let own = own.chain(self.exit_pieces(stage)).map(|piece| piece.page);
        let pages: std::collections::BTreeSet<u32> = own.collect();
        pages.into_iter().collect()
    }

    fn no_activation(&self, operator: &Operator) -> LowerError {
        self.lacks(operator, "operator with such an activation")
    }

    fn no_kernel(&self, operator: &Operator, kind: &OperatorKind) -> LowerError {
        self.lacks(
            operator,
            match kind {
                OperatorKind::Conv2d { .. } => "dilated convolution",
                OperatorKind::LayerNorm { .. } => "layer normalisation",
                OperatorKind::Attention { .. } => "attention",
                OperatorKind::Embedding { .. } => "table of embeddings",
                OperatorKind::Tokens { .. } | OperatorKind::Token { .. } => "operator on tokens",
                OperatorKind::QuantisedConv2d { .. } => "convolution of bytes",
                OperatorKind::Convert => "conversion of bytes",
                OperatorKind::Copy { .. } => "copy to other places",
                OperatorKind::Binary { .. } => "arithmetic of two tensors",
                OperatorKind::Unary { .. } => "function of each value",
                OperatorKind::Softmax { .. } => "softmax inside a network",
                OperatorKind::Resize { .. } => "resize",
                OperatorKind::Product { .. } => "product of matrices",
                _ => "operator without a name",
            },
        )
    }

    fn lacks(&self, operator: &Operator, kind: &'static str) -> LowerError {
        LowerError::NoKernel {
            model: self.network.name.clone(),
            operator: operator.name.clone(),
            tensor: operator.output.0,
            kind,
        }
    }
}

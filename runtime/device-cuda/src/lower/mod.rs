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
//! | `stage`; a file for each operator | the launches of a stage |
//! | `exits` | its last ones: answers, and outputs as clients read them |
//! | `digits` | in which order values are moved |
//! | `choice`, `sums` | which kernel computes a sum of products |
//! | `list`, `traffic` | the workspace: from what launches read and write |
//!
//! A stage begins by bringing in what it reads, where it first reads it: prepared inputs by
//! `input_planar`, carried tensors by `members_in`. What it carries on goes out by `members_out` as
//! soon as it is written. Its last launch is `answers`.
//!
//! Tensors are kept in halves, quantised tensors in bytes. Class scores, where a fully connected layer writes them,
//! constants and the numbers of tokens are `f32`, as halves are exact for small integers only.

mod attention;
mod best_score;
mod binary;
mod checker;
mod choice;
mod conv2d;
mod convert;
mod copy;
mod detections;
mod digits;
mod embedding;
mod error;
mod exits;
mod gather;
mod grid_sample;
mod layer_norm;
mod layout;
mod linear;
mod list;
mod lowering;
mod packing;
mod pages;
mod place;
mod pool;
mod product;
mod program;
mod quantised_conv2d;
mod recurrent;
mod requests;
mod resize;
mod softmax;
mod stage;
mod sums;
mod take;
mod tokens;
mod top_k;
mod traffic;
mod unary;

use punctual_model::{Network, OutputLayout, SolutionChoice, TensorId};

use checker::Checker;
pub use checker::{Fault, Found, Missing, Value, Violation};
pub use choice::Candidate;
pub use error::LowerError;
use lowering::Lowering;
pub use lowering::Target;
pub use packing::{PackError, Packer};
pub use pages::Pages;
pub use place::Place;
pub use program::{LaunchList, Program, StageProgram, StagedOutputs, Step};
use stage::Launches;

impl Program {
    /// Lowers a valid network for batches of the given sizes. What `choices` give for operators
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
        Self::with_outputs(network, None, batches, target, choices)
    }

    /// As [`lower`](Self::lower), with the requested outputs of the network's exits.
    pub fn with_outputs(
        network: &Network,
        outputs: Option<&OutputLayout>,
        batches: &[u8],
        target: &Target,
        choices: &[SolutionChoice],
    ) -> Result<Self, LowerError> {
        let lowering = Lowering {
            outputs,
            ..Lowering::new(network, target, choices)?
        };
        lowering.check_batches(batches)?;
        let stages = lowering.stages(batches)?;
        Ok(Self {
            name: network.name.clone(),
            input: lowering.input(),
            request_bytes: lowering.request_bytes,
            stages,
            pages: lowering.pages,
        })
    }
}

impl Program {
    /// Checks that its launches compute what the network says, as lowering has done.
    pub fn check(
        &self,
        network: &Network,
        outputs: Option<&OutputLayout>,
    ) -> Result<(), LowerError> {
        let (input, bytes) = (self.input, self.request_bytes);
        let mut checker = Checker::new(network, outputs, input, bytes, &self.pages);
        let mut stages = self.stages.iter();
        let checked = stages.try_for_each(|stage| checker.check_stage(&stage.lists));
        checked.map_err(|violation| unsound(network, violation))
    }
}

fn unsound(network: &Network, violation: Violation) -> LowerError {
    LowerError::Unsound {
        model: network.name.clone(),
        violation: Box::new(violation),
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

impl Lowering<'_> {
    fn stages(&self, batches: &[u8]) -> Result<Box<[StageProgram]>, LowerError> {
        let mut next = 0;
        let (network, input, bytes) = (self.network, self.input(), self.request_bytes);
        let mut checker = Checker::new(network, self.outputs, input, bytes, &self.pages);
        let stages = (0..).zip(&self.network.stages).map(|(number, stage)| {
            let first = next;
            next += stage.operators.len() as u32;
            let list = |&batch: &u8| Launches::of_stage(self, number, first, batch);
            let classes = |scores: TensorId| self.network.tensors[scores.index()].channels;
            let lists: Box<[LaunchList]> = batches.iter().map(list).collect::<Result<_, _>>()?;
            let checked = checker.check_stage(&lists);
            checked.map_err(|violation| unsound(self.network, violation))?;
            Ok(StageProgram {
                classes: stage.scores().map(classes),
                outputs: self.placed(number).map(exits::staged),
                pages: self.pages_of(first..next),
                lists,
            })
        });
        stages.collect()
    }
}

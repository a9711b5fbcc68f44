//! The memory plan of a network on the CPU: how much its packed weights, its requests and its
//! workspaces take for one lane width. The device makes it; the package carries it, so that memory
//! can be planned, and weights loaded, before anything is lowered.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{ImageProblem, Network};

/// Lane widths that there are kernels for.
pub const LANES: [u8; 3] = [4, 8, 16];
/// Packed weights of each operator begin at multiples of this many floats: a cache line.
pub const PACKED_ALIGNMENT: u32 = 16;
/// Most floats of one image of packed weights (4 GiB).
pub const IMAGE_FLOATS_MAX: u64 = 1 << 30;
/// Most floats of a request, or of one image's share of a workspace (16 GiB).
pub const PLANNED_FLOATS_MAX: u64 = 1 << 32;

/// How the CPU device lays a network out for vectors of `lanes` floats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageLayout {
    /// Floats of a vector: 4, 8 or 16.
    pub lanes: u8,
    /// Floats of a request: the prepared input and what is carried between stages.
    pub request_floats: u64,
    pub stages: Vec<StageLayout>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageLayout {
    /// Floats of packed weights before the first operator's: of the device's own steps.
    pub before: u32,
    /// Floats of each operator's packed weights, in order of execution; 0 for one without, or whose weights an earlier one
    /// has, packed in the same way.
    pub operators: Vec<u32>,
    /// Floats of one image's share of the workspace.
    pub workspace_floats: u64,
}

impl StageLayout {
    /// Floats of the stage's packed weights.
    #[must_use]
    pub fn packed_floats(&self) -> u64 {
        let operators = self.operators.iter().map(|&floats| u64::from(floats));
        u64::from(self.before) + operators.sum::<u64>()
    }
}

impl ImageLayout {
    /// Floats of all packed weights: stage after stage, operator after operator, without gaps.
    #[must_use]
    pub fn packed_floats(&self) -> u64 {
        self.stages.iter().map(StageLayout::packed_floats).sum()
    }

    /// Whether this can be a layout of `network`.
    pub(crate) fn check(&self, network: &Network) -> Result<(), ImageProblem> {
        let same = |what, found, expected| {
            if found == expected {
                Ok(())
            } else {
                Err(ImageProblem::Count {
                    what,
                    found,
                    expected,
                })
            }
        };
        same("stages", self.stages.len(), network.stages.len())?;
        let mut packed = BTreeSet::new();
        for (index, (layout, stage)) in self.stages.iter().zip(&network.stages).enumerate() {
            same("operators", layout.operators.len(), stage.operators.len())?;
            let operators = layout.operators.iter().zip(&stage.operators);
            for (at, (&found, operator)) in operators.enumerate() {
                let floats = operator.floats().iter();
                let weights: u64 = floats.map(|range| u64::from(range.len)).sum();
                // Packing pads and never drops.
                let fits = match found {
                    0 => weights == 0 || packed.contains(&operator.weights),
                    _ => weights > 0 && u64::from(found) >= weights,
                };
                if found > 0 {
                    packed.insert(&operator.weights);
                }
                if !fits || !found.is_multiple_of(PACKED_ALIGNMENT) {
                    return Err(ImageProblem::Operator {
                        stage: index,
                        operator: at,
                        found,
                        weights,
                    });
                }
            }
            check_size("a workspace", layout.workspace_floats, PLANNED_FLOATS_MAX)?;
        }
        check_size("a request", self.request_floats, PLANNED_FLOATS_MAX)?;
        check_size("an image", self.packed_floats(), IMAGE_FLOATS_MAX)
    }
}

fn check_size(what: &'static str, found: u64, limit: u64) -> Result<(), ImageProblem> {
    if found > limit {
        return Err(ImageProblem::TooLarge { what, found, limit });
    }
    Ok(())
}

//! Which kernel computes a sum of products, and in how many parts.
//!
//! By a rule, unless it was measured ([`SolutionChoice`]). The rule counts in multiply-accumulates of
//! tensor cores on one multiprocessor: a kernel's blocks go over the partition's multiprocessors in
//! waves, and a wave takes what its block computes or what it loads, whichever is longer. Too few
//! blocks for the multiprocessors are made more by cutting the sum, which costs a launch that adds
//! the parts up. The constants are from the vendor's figures for its larger chips (A100 and H100
//! white papers) and were not measured.

use punctual_cuda_kernels::{Kernel, kernel, params::Pattern, table};
use punctual_model::SolutionChoice;

/// Products that a multiprocessor's tensor cores make while it loads one half from the L2 cache: 1024
/// a cycle against 64 bytes a cycle.
const LOAD: u64 = 32;
/// Likewise for one product outside of tensor cores: 128 a cycle.
const SCALAR: u64 = 8;
/// To fill a block's pipeline, and to write its result: about 1000 cycles.
const BLOCK: u64 = 1 << 20;
/// A further launch: about 3000 cycles.
const LAUNCH: u64 = 3 << 20;
/// Into most parts a sum is cut.
const SPLITS_MAX: u32 = 16;
/// Fewest tiles of the main loop in a part, so that its pipeline is worth filling.
const SPLIT_TILES_MIN: u32 = 4;
/// Most partial sums of a launch: a gigabyte of them, and kernels count them in 32 bits.
const SUMS_MAX: u64 = 1 << 28;

/// One of the ways in which an operator can be computed.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub kernel: &'static Kernel,
    /// Parts that the sum is cut into; a further launch adds them up if there are several.
    pub splits: u32,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        (self.kernel.name, self.splits) == (other.kernel.name, other.splits)
    }
}

impl Candidate {
    /// As a [`SolutionChoice`] names it: the kernel, and the parts if there are several.
    #[must_use]
    pub fn name(&self) -> String {
        match self.splits {
            1 => self.kernel.name.to_owned(),
            splits => format!("{}/{splits}", self.kernel.name),
        }
    }
}

/// A sum of products for each of some outputs, for one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Product {
    /// Rows: output pixels of all images.
    pub(super) pixels: u32,
    /// Columns: output channels of the piece.
    pub(super) channels: u32,
    /// Products of a sum: taps times padded input channels.
    pub(super) depth: u32,
    pub(super) form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Conv(Pattern),
    Linear,
}

/// What a list is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) multiprocessors: u32,
    pub(super) major: u32,
}

impl Product {
    /// All candidates; the general one is the first.
    pub(super) fn candidates(&self, machine: Machine) -> Vec<Candidate> {
        let mut candidates = vec![Candidate {
            kernel: self.general(),
            splits: 1,
        }];
        let dense = matches!(self.form, Form::Conv(Pattern::Dense) | Form::Linear);
        for kernel in table::KERNELS {
            let Some(tile) = kernel.tile else { continue };
            if !dense || !kernel.module.runs_on(machine.major) {
                continue;
            }
            let tiles = self.depth.div_ceil(tile.depth);
            let splits = std::iter::successors(Some(1), |splits| Some(splits * 2));
            let worth = |&splits: &u32| {
                let sums = u64::from(splits) * u64::from(self.pixels) * u64::from(self.channels);
                splits == 1
                    || (splits <= SPLITS_MAX
                        && tiles / splits >= SPLIT_TILES_MIN
                        && sums <= SUMS_MAX)
            };
            candidates.extend(
                splits
                    .take_while(worth)
                    .map(|splits| Candidate { kernel, splits }),
            );
        }
        candidates
    }

    /// The kernel that needs nothing but the general module.
    fn general(&self) -> &'static Kernel {
        let name = match self.form {
            Form::Conv(Pattern::Dense) => "conv_dense_general",
            Form::Conv(Pattern::Depthwise) => "conv_depthwise_general",
            Form::Conv(Pattern::Grouped) => "conv_grouped_general",
            Form::Linear => "linear",
        };
        kernel(name).expect("every pattern has a kernel in the general module")
    }

    /// The cheapest candidate by the rule, the first of equals.
    pub(super) fn cheapest(&self, machine: Machine) -> Candidate {
        let candidates = self.candidates(machine).into_iter();
        candidates
            .min_by_key(|candidate| self.cost(*candidate, machine))
            .expect("there is the general one")
    }

    /// What a candidate costs by the rule.
    fn cost(&self, candidate: Candidate, machine: Machine) -> u64 {
        let multiprocessors = u64::from(machine.multiprocessors.max(1));
        let (rows, columns) = (u64::from(self.pixels), u64::from(self.channels));
        let (blocks, block) = match (candidate.kernel.tile, self.form) {
            (Some(tile), _) => {
                let (pixels, channels) = (u64::from(tile.pixels), u64::from(tile.channels));
                let depth = u64::from(self.depth.div_ceil(candidate.splits));
                let depth = depth.next_multiple_of(u64::from(tile.depth));
                let step = (pixels * channels).max(LOAD * (pixels + channels));
                let blocks = rows.div_ceil(pixels) * columns.div_ceil(channels);
                (blocks * u64::from(candidate.splits), depth * step + BLOCK)
            }
            // Four features of up to four images a block; each weight is loaded once for them.
            (None, Form::Linear) => {
                let images = rows.min(4);
                let step = (4 * images * SCALAR).max(LOAD * 4);
                let blocks = columns.div_ceil(4) * rows.div_ceil(4);
                (blocks, u64::from(self.depth) * step)
            }
            // 64 pixels and 32 channels a block.
            (None, Form::Conv(_)) => {
                let blocks = rows.div_ceil(64) * columns.div_ceil(32);
                (blocks, u64::from(self.depth) * 64 * 32 * SCALAR * 2 + BLOCK)
            }
        };
        let waves = blocks.div_ceil(multiprocessors) * block;
        if !self.is_added_up(candidate) {
            return waves;
        }
        // Sums of four bytes are written and read again, spread over all multiprocessors.
        let sums = u64::from(candidate.splits) * rows * columns * 2 * 2;
        waves + LAUNCH + sums * LOAD / multiprocessors
    }

    /// Whether a further launch adds the candidate's sums up: those of a fully connected layer on
    /// tensor cores have to become class scores, too.
    pub(super) fn is_added_up(&self, candidate: Candidate) -> bool {
        candidate.splits > 1 || (self.form == Form::Linear && candidate.kernel.tile.is_some())
    }

    /// The candidate that was chosen for an operator by measuring, or else by the rule.
    pub(super) fn choose(
        &self,
        machine: Machine,
        batch: u8,
        operator: Option<u32>,
        choices: &[SolutionChoice],
    ) -> Candidate {
        let own = choices.iter().filter(|c| Some(c.operator) == operator);
        let measured = measured(own, batch, machine.multiprocessors);
        let measured = measured.and_then(|choice| {
            let mut candidates = self.candidates(machine).into_iter();
            candidates.find(|candidate| candidate.name() == choice.solution)
        });
        measured.unwrap_or_else(|| self.cheapest(machine))
    }
}

/// The choice that holds for a batch and a number of multiprocessors, as [`SolutionChoice`] says.
fn measured<'c>(
    choices: impl Iterator<Item = &'c SolutionChoice> + Clone,
    batch: u8,
    multiprocessors: u32,
) -> Option<&'c SolutionChoice> {
    let units = choices.clone().map(|choice| choice.units);
    let units = units.filter(|&units| u32::from(units) <= multiprocessors);
    let units = units.max()?;
    let same = choices.filter(|choice| choice.units == units);
    let larger = same.clone().filter(|choice| choice.batch >= batch);
    let larger = larger.min_by_key(|choice| choice.batch);
    larger.or_else(|| same.max_by_key(|choice| choice.batch))
}

#[cfg(test)]
mod tests {
    use super::*;

    const H100: Machine = Machine {
        multiprocessors: 132,
        major: 9,
    };

    fn conv(pixels: u32, channels: u32, depth: u32) -> Product {
        Product {
            pixels,
            channels,
            depth,
            form: Form::Conv(Pattern::Dense),
        }
    }

    #[test]
    fn large_layers_take_large_tiles_and_late_layers_are_cut() {
        let early = conv(8 * 56 * 56, 256, 9 * 64).cheapest(H100);
        assert_eq!(early.name(), "conv_gemm_128x128");
        let late = conv(49, 512, 9 * 512).cheapest(H100);
        assert!(late.splits > 1, "{}", late.name());
        // On few multiprocessors there are blocks enough.
        let orin = Machine {
            multiprocessors: 4,
            major: 8,
        };
        let late = conv(49, 512, 9 * 512).cheapest(orin);
        assert_eq!(late.splits, 1, "{}", late.name());
    }

    #[test]
    fn old_devices_and_other_patterns_have_the_general_kernel_alone() {
        let volta = Machine {
            multiprocessors: 8,
            major: 7,
        };
        assert_eq!(conv(49, 512, 512).candidates(volta).len(), 1);
        let depthwise = Product {
            form: Form::Conv(Pattern::Depthwise),
            ..conv(3136, 64, 9)
        };
        assert_eq!(depthwise.cheapest(H100).name(), "conv_depthwise_general");
    }

    #[test]
    fn single_images_are_not_worth_tensor_cores_in_a_fully_connected_layer_and_batches_are() {
        let layer = |images| Product {
            pixels: images,
            channels: 4096,
            depth: 25_088,
            form: Form::Linear,
        };
        assert_eq!(layer(1).cheapest(H100).name(), "linear");
        assert!(layer(32).cheapest(H100).kernel.tile.is_some());
    }

    #[test]
    fn what_was_measured_overrides_the_rule_where_it_holds() {
        let product = conv(49, 512, 9 * 512);
        let choice = |batch, units, solution: &str| SolutionChoice {
            operator: 3,
            batch,
            units,
            solution: solution.to_owned(),
        };
        let choices = [
            choice(1, 8, "conv_gemm_64x32/8"),
            choice(4, 8, "conv_gemm_64x64"),
            choice(1, 64, "conv_dense_general"),
            choice(1, 200, "conv_gemm_128x128"),
        ];
        let chosen = |batch, multiprocessors, operator| {
            let machine = Machine {
                multiprocessors,
                major: 9,
            };
            let chosen = product.choose(machine, batch, Some(operator), &choices);
            chosen.name()
        };
        assert_eq!(chosen(1, 8, 3), "conv_gemm_64x32/8");
        assert_eq!(chosen(2, 16, 3), "conv_gemm_64x64");
        assert_eq!(chosen(8, 16, 3), "conv_gemm_64x64");
        assert_eq!(chosen(1, 132, 3), "conv_dense_general");
        let rule = product.cheapest(H100).name();
        assert_eq!(chosen(1, 132, 4), rule);
        let unknown = [choice(1, 1, "winograd")];
        let fallen_back = product.choose(H100, 1, Some(3), &unknown);
        assert_eq!(fallen_back.name(), rule);
    }
}

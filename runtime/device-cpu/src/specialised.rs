//! Solutions of a model's convolutions other than the direct one, where they were measured to be faster.
//!
//! The direct solution runs from the weight image. A specialised one has weights of its own, derived
//! from the image, and scratch memory a core.

use std::ops::Range;

use punctual_kernels::{Conv2d, Image, Part, Solution, Winograd};
use punctual_model::SolutionChoice;

use punctual_device::regions::LINE;

/// The further solutions of a step, and when each is used.
#[derive(Default)]
pub(crate) struct Specialised {
    pub(crate) solutions: Vec<Further>,
    /// By falling units, then rising batch.
    uses: Vec<Use>,
}

pub(crate) struct Further {
    pub(crate) solution: Solution,
    pub(crate) kernel: Winograd,
    /// Where its weights lie in [`LoadedModel::specialised`](crate::model::LoadedModel).
    pub(crate) weights: Range<usize>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    units: std::cmp::Reverse<u8>,
    batch: u8,
    solution: Solution,
}

impl Specialised {
    /// Runs what was chosen for the batch and the number of cores; false if that is the direct
    /// solution. `weights` are those of all of the model's specialised solutions.
    pub(crate) fn run(
        &self,
        weights: &[f32],
        part: Part,
        cores: usize,
        images: &mut [Image<'_>],
        scratch: &mut [f32],
    ) -> bool {
        let chosen = self.chosen(images.len(), cores);
        let further = self
            .solutions
            .iter()
            .find(|further| further.solution == chosen);
        if let Some(further) = further {
            let weights = &weights[further.weights.clone()];
            further.kernel.run(weights, part, images, scratch);
        }
        further.is_some()
    }

    /// Whether [`run`](Self::run) runs one.
    pub(crate) fn runs(&self, batch: usize, cores: usize) -> bool {
        let chosen = self.chosen(batch, cores);
        let mut solutions = self.solutions.iter();
        solutions.any(|further| further.solution == chosen)
    }

    /// Floats of scratch memory that a core needs for a batch.
    pub(crate) fn scratch_len(&self, batch: usize) -> usize {
        let lens = self
            .solutions
            .iter()
            .map(|further| further.kernel.scratch_len(batch));
        lens.max().unwrap_or(0)
    }

    fn chosen(&self, batch: usize, units: usize) -> Solution {
        let fits = |choice: &&Use| usize::from(choice.units.0) <= units;
        let Some(first) = self.uses.iter().find(fits) else {
            return Solution::Direct;
        };
        let same = || {
            self.uses
                .iter()
                .filter(|choice| choice.units == first.units)
        };
        let large = same().find(|choice| usize::from(choice.batch) >= batch);
        large
            .or(same().next_back())
            .map_or(Solution::Direct, |choice| choice.solution)
    }

    /// What `choices` give for the operator with that kernel.
    pub(crate) fn new<'c>(
        conv: &Conv2d,
        choices: impl Iterator<Item = &'c SolutionChoice>,
    ) -> Self {
        let mut uses: Vec<_> = choices
            .filter_map(|choice| {
                Some(Use {
                    units: std::cmp::Reverse(choice.units),
                    batch: choice.batch,
                    solution: Solution::from_name(&choice.solution)?,
                })
            })
            .collect();
        uses.sort_unstable();
        let further = Solution::ALL.into_iter().filter_map(|solution| {
            let used = uses.iter().any(|choice| choice.solution == solution);
            let kernel = used.then(|| conv.specialised(solution)).flatten()?;
            Some(Further {
                solution,
                kernel,
                weights: 0..0,
            })
        });
        Self {
            solutions: further.collect(),
            uses,
        }
    }
}

/// Floats from one core's scratch memory to the next's, of which it needs `floats`. One line more
/// than needed, as between members' shares.
pub(crate) const fn scratch_stride(floats: usize) -> usize {
    match floats {
        0 => 0,
        floats => floats.next_multiple_of(LINE) + LINE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::lower;
    use punctual_conformance::networks;
    use punctual_kernels::AlignedBuffer;

    #[test]
    fn a_choice_holds_for_smaller_batches_and_more_units_than_it_was_measured_with() {
        let network = networks::residual(1);
        let mut model = lower(punctual_kernels::Isa::Scalar, &network, None).expect("lowers");
        let choice = |batch, units, solution: &str| SolutionChoice {
            operator: 1,
            batch,
            units,
            solution: solution.to_owned(),
        };
        let image = AlignedBuffer::zeroed(model.weight_floats);
        model.specialise(
            &[
                choice(4, 2, "winograd-4x4"),
                choice(1, 2, "winograd-2x2"),
                choice(8, 3, "of-tomorrow"),
                choice(8, 4, "direct"),
            ],
            &image,
        );
        let step = &model.stages[0].steps[1].specialised;
        assert_eq!(
            step.chosen(1, 1),
            Solution::Direct,
            "nothing is known of one unit"
        );
        assert_eq!(step.chosen(1, 2), Solution::Winograd2);
        assert_eq!(
            step.chosen(2, 3),
            Solution::Winograd4,
            "an unknown name counts for nothing"
        );
        assert_eq!(
            step.chosen(9, 2),
            Solution::Winograd4,
            "the largest batch's choice"
        );
        assert_eq!(step.chosen(1, 4), Solution::Direct);
        assert_eq!(step.solutions.len(), 2);
        assert_eq!(
            model.stages[0].steps[0].specialised.chosen(1, 2),
            Solution::Direct
        );
    }
}

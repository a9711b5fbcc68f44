//! What was chosen by measuring: the solution of each convolution, and whether one core runs a stage alone.
//!
//! The direct solution runs from the weight image. A specialised one has weights of its own, derived
//! from the image, and scratch memory a core.

use std::cmp::Reverse;
use std::sync::OnceLock;

use punctual_kernels::{AlignedBuffer, Conv2d, Image, Part, Solution, Winograd};
use punctual_model::SolutionChoice;

use punctual_device::regions::LINE;

/// As the choice of a stage's first operator, the name for: its leader runs the stage alone, as a partition of one core
/// does, because the other cores would cost more time than they save.
pub const ONE_CORE: &str = "one-core";

/// What holds for each batch size and number of units.
pub(crate) struct Chosen<T> {
    /// By falling units, then rising batch.
    uses: Vec<Use<T>>,
}

/// The further solutions of a step, and when each is used.
#[derive(Default)]
pub(crate) struct Specialised {
    pub(crate) solutions: Vec<Further>,
    chosen: Chosen<Solution>,
}

pub(crate) struct Further {
    pub(crate) solution: Solution,
    pub(crate) kernel: Winograd,
    /// Which of [`LoadedModel::derived`](crate::model::LoadedModel) its weights are.
    pub(crate) derived: usize,
}

/// Weights that a solution derives from the image. They are prepared by an ordinary thread while workers run others,
/// and never change once they are there.
pub(crate) struct Derived {
    floats: OnceLock<AlignedBuffer>,
    len: usize,
}

impl Derived {
    /// Of `len` floats, not there yet.
    pub(crate) fn awaited(len: usize) -> Self {
        Self {
            floats: OnceLock::new(),
            len,
        }
    }

    /// # Panics
    /// If they are there already, or are not as many as was said.
    pub(crate) fn publish(&self, floats: AlignedBuffer) {
        assert_eq!(floats.len(), self.len, "derived weights");
        let published = self.floats.set(floats);
        assert!(published.is_ok(), "weights are derived once");
    }

    pub(crate) fn is_there(&self) -> bool {
        self.floats.get().is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn floats(&self) -> &[f32] {
        self.floats.get().expect("a prepared stage's weights")
    }
}

struct Use<T> {
    units: u8,
    batch: u8,
    choice: T,
}

impl<T> Default for Chosen<T> {
    fn default() -> Self {
        Self { uses: Vec::new() }
    }
}

impl<T: Copy + Default> Chosen<T> {
    /// Of an operator's choices; those that `named` does not know count for nothing.
    pub(crate) fn new<'c>(
        choices: impl Iterator<Item = &'c SolutionChoice>,
        named: impl Fn(&str) -> Option<T>,
    ) -> Self {
        let mut uses: Vec<_> = choices
            .filter_map(|choice| {
                Some(Use {
                    units: choice.units,
                    batch: choice.batch,
                    choice: named(&choice.solution)?,
                })
            })
            .collect();
        uses.sort_by_key(|choice| (Reverse(choice.units), choice.batch));
        Self { uses }
    }

    /// As [`SolutionChoice`] says; the default where nothing was chosen.
    pub(crate) fn at(&self, batch: usize, units: usize) -> T {
        let fits = |choice: &&Use<T>| usize::from(choice.units) <= units;
        let Some(first) = self.uses.iter().find(fits) else {
            return T::default();
        };
        let same = || {
            self.uses
                .iter()
                .filter(|choice| choice.units == first.units)
        };
        let large = same().find(|choice| usize::from(choice.batch) >= batch);
        large
            .or(same().next_back())
            .map_or_else(T::default, |choice| choice.choice)
    }
}

impl Specialised {
    /// Runs what was chosen for the batch and the number of cores; false if that is the direct
    /// solution. `derived` are the model's weights of specialised solutions, of which this step's are there.
    pub(crate) fn run(
        &self,
        derived: &[Derived],
        part: Part,
        cores: usize,
        images: &mut [Image<'_>],
        scratch: &mut [f32],
    ) -> bool {
        let chosen = self.chosen.at(images.len(), cores);
        let further = self
            .solutions
            .iter()
            .find(|further| further.solution == chosen);
        if let Some(further) = further {
            let weights = derived[further.derived].floats();
            further.kernel.run(weights, part, images, scratch);
        }
        further.is_some()
    }

    /// Whether [`run`](Self::run) runs one.
    pub(crate) fn runs(&self, batch: usize, cores: usize) -> bool {
        let chosen = self.chosen.at(batch, cores);
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

    /// What `choices` give for the operator with that kernel.
    pub(crate) fn new<'c>(
        conv: &Conv2d,
        choices: impl Iterator<Item = &'c SolutionChoice>,
    ) -> Self {
        let chosen = Chosen::new(choices, Solution::from_name);
        let further = Solution::ALL.into_iter().filter_map(|solution| {
            let used = chosen.uses.iter().any(|choice| choice.choice == solution);
            let kernel = used.then(|| conv.specialised(solution)).flatten()?;
            Some(Further {
                solution,
                kernel,
                derived: 0,
            })
        });
        Self {
            solutions: further.collect(),
            chosen,
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
        model.choose(&[
            choice(4, 2, "winograd-4x4"),
            choice(1, 2, "winograd-2x2"),
            choice(8, 3, "of-tomorrow"),
            choice(8, 4, "direct"),
        ]);
        let step = &model.stages[0].steps[1].specialised;
        assert_eq!(
            step.chosen.at(1, 1),
            Solution::Direct,
            "nothing is known of one unit"
        );
        assert_eq!(step.chosen.at(1, 2), Solution::Winograd2);
        assert_eq!(
            step.chosen.at(2, 3),
            Solution::Winograd4,
            "an unknown name counts for nothing"
        );
        assert_eq!(
            step.chosen.at(9, 2),
            Solution::Winograd4,
            "the largest batch's choice"
        );
        assert_eq!(step.chosen.at(1, 4), Solution::Direct);
        assert_eq!(step.solutions.len(), 2);
        assert_eq!(
            model.stages[0].steps[0].specialised.chosen.at(1, 2),
            Solution::Direct
        );
    }
}

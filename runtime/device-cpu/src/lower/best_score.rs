//! The best score of each place.

use punctual_kernels::{BestScore, BestScoreSpec, BlockedLayout, Image, KernelError, Part};

use super::{Layouts, Lower};
use crate::executable::Kernel;

impl Lower for punctual_model::BestScore {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = BestScoreSpec {
            scores: of.blocked(),
            objectness: of.others.first().copied(),
            output: of.output,
            scoring: self.scoring,
        };
        Ok(Box::new(BestScore::new(of.isa, &spec)?))
    }
}

impl Kernel for BestScore {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }

    fn runs_in_rows(&self, _output: &BlockedLayout) -> bool {
        true
    }
}

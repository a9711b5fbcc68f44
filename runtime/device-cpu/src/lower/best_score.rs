//! The best score of each place.

use punctual_kernels::{BestScore, BestScoreSpec, Kernel, KernelError};

use super::{Layouts, Lower};

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

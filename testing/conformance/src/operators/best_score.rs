//! The best score of each place of a detector.

use punctual_model::{BestScore, TensorId};
use punctual_types::Scoring;

use super::{Builder, Mutable, Random, below};

impl Builder {
    pub fn best_score(
        &mut self,
        scores: TensorId,
        objectness: Option<TensorId>,
        scoring: Scoring,
    ) -> TensorId {
        let reads: Vec<TensorId> = [scores].into_iter().chain(objectness).collect();
        self.push(&reads, BestScore { scoring })
    }
}

impl Mutable for BestScore {
    fn vary(&mut self, random: &mut Random) {
        let scoring = &mut self.scoring;
        match random.below(3) {
            0 => scoring.first = below(4, random),
            1 => scoring.classes = below(9, random),
            _ => scoring.logits = !scoring.logits,
        }
    }
}

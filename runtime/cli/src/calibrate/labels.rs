//! Labels: an answer is a set.

use punctual_model::ScoreForm;
use punctual_quality::SetCounts;

use super::kind::{Answered, Figure, Kind, Terms, TruthError};

pub struct Labels {
    /// Of each sample, whether it has each label.
    pub truth: Vec<Vec<bool>>,
    pub form: ScoreForm,
}

impl Kind for Labels {
    type Judged = SetCounts;

    fn terms(&self) -> Terms {
        Terms {
            kind: "labels",
            quality: "Jaccard",
            meaning: "An answer's quality is the Jaccard index of its labels and the sample's: those of both over those of \
                      either. It has the labels with a probability of at least 0.5."
                .to_owned(),
            counted: "",
        }
    }

    fn judge(&mut self, answered: &Answered<'_>) -> Result<SetCounts, TruthError> {
        // The logistic function of 0 is 0.5.
        let least = match self.form {
            ScoreForm::Probability => 0.5,
            ScoreForm::Sigmoid | ScoreForm::Softmax => 0.0,
        };
        let found = answered.result.scores.iter().map(|&score| score >= least);
        let truth = self.truth[answered.sample].iter().copied();
        Ok(SetCounts::of(truth.zip(found)))
    }

    fn quality(&self, judged: &SetCounts) -> f64 {
        judged.jaccard()
    }

    fn figures(&self, answers: &[&SetCounts]) -> Vec<Figure> {
        let mut all = SetCounts::default();
        answers.iter().for_each(|answer| all.add(answer));
        let exact = answers.iter().filter(|answer| answer.is_exact()).count();
        vec![
            Figure::share("F1", all.f1()),
            Figure::share("exact", exact as f64 / answers.len().max(1) as f64),
        ]
    }
}

//! Classes: an answer is right or wrong.

use super::kind::{Answered, Figure, Kind, Terms, TruthError};

pub struct Classes {
    /// The class of each sample.
    pub truth: Vec<usize>,
}

pub struct JudgedClass {
    /// As the network gives them.
    pub scores: Vec<f32>,
    pub right: bool,
}

impl Kind for Classes {
    type Judged = JudgedClass;

    fn terms(&self) -> Terms {
        Terms {
            kind: "classes",
            quality: "right",
            meaning: "An answer is right if its class is the sample's.".to_owned(),
            counted: "",
        }
    }

    fn judge(&mut self, answered: &Answered<'_>) -> Result<JudgedClass, TruthError> {
        let class = usize::from(answered.result.answer.class);
        Ok(JudgedClass {
            scores: answered.result.scores.clone(),
            right: class == self.truth[answered.sample],
        })
    }

    fn quality(&self, judged: &JudgedClass) -> f64 {
        f64::from(u8::from(judged.right))
    }

    fn figures(&self, _answers: &[&JudgedClass]) -> Vec<Figure> {
        Vec::new()
    }
}

//! The best score of each place.

use punctual_types::Scoring;
use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Operands};
use crate::reference::noise::{Form, Rounding, typical};
use crate::reference::{Operation, Planar};
use crate::{ShapeError, Tensor};

/// The best score of each pixel, of the classes that count, as a vector: row after row. In 0 to 1; 0 where no score is a
/// number. Its other operand, if there is one, is for each pixel a factor of its score, which is a score itself: a vector.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestScore {
    pub scoring: Scoring,
}

impl Meaning for BestScore {
    fn label(&self, _input: Tensor) -> String {
        "best score".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        check_classes(of.input, self.scoring)?;
        // A vector of more features than a tensor may have is refused.
        let places = u32::try_from(of.input.pixels()).unwrap_or(u32::MAX);
        let best = Tensor::features(places);
        match of.at_most(1)? {
            Some(other) if other != best => Err(ShapeError::Places {
                places: best,
                other,
            }),
            _ => Ok(best),
        }
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let objectness = of.others().next().map(|objectness| objectness.data);
        self.best(of.input(), objectness)
    }

    fn rounding(&self, _of: &Operation<'_>, result: &[f32]) -> Rounding {
        Rounding::once(Form::Plain, typical(result))
    }
}

impl BestScore {
    fn best(&self, scores: Planar, objectness: Option<&[f32]>) -> Vec<f32> {
        let (scoring, places) = (self.scoring, scores.plane());
        let best = |place: usize| {
            let classes = scoring.first..scoring.first + scoring.classes;
            let values = classes.map(|class| scores.data[class as usize * places + place]);
            let best = values.fold(f32::NAN, f32::max);
            let factor = objectness.map_or(1.0, |values| scoring.probability(values[place]));
            scoring.probability(best) * factor
        };
        (0..places).map(best).collect()
    }
}

pub(super) fn check_classes(scores: Tensor, scoring: Scoring) -> Result<(), ShapeError> {
    if scoring.fits(scores.channels) {
        Ok(())
    } else {
        Err(ShapeError::Classes { scores, scoring })
    }
}

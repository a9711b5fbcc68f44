//! Reductions that the author declares: operators behind the outputs of an exit.

use punctual_model::{BestScore, Convert, Detections, Tensor, TensorId};
use punctual_types::{DETECTION_VALUES, Decoder, Quantisation, Ranking, Scoring};

use super::lowering::Lowering;
use super::view_algebra::{Axis, BATCH, Factor, View};
use super::views::position;
use crate::graph::{Attribute, Node};
use crate::integer::Dim;
use crate::options::{
    Background, BoxUnit, DetectionOptions, OutputPart, Reduction, ReductionKind, ScoreValues,
};
use crate::problem::Problem;
use crate::write::Written;

/// Most positions that a byte tells apart.
const BYTES: u64 = 1 << 8;

/// How many candidates there are for each row, unless that is said.
const CANDIDATES_A_ROW: u32 = 4;

/// Where the best values of an output are.
pub(crate) enum Reduced {
    /// Positions of the largest values; as bytes, if those tell them apart.
    Positions(View, Option<Quantisation>),
    /// The largest values and their positions.
    Values(View, View),
}

/// A list of detections.
pub(crate) struct Detected {
    /// (batch, rows, [`DETECTION_VALUES`]).
    pub list: View,
    /// (batch, 1).
    pub count: View,
    /// The mean of the best scores.
    pub confidence: Option<TensorId>,
}

/// What a detector computes at its places, each (batch, places, values) or (batch, values, places).
pub(crate) struct DetectorViews {
    pub boxes: View,
    pub scores: View,
    pub objectness: Option<View>,
}

/// Why there is no list of detections.
pub(crate) enum DetectionProblem {
    /// An output of another form than it must have.
    Output {
        key: &'static str,
        found: String,
        expected: String,
    },
    Figure {
        what: &'static str,
        value: f64,
        bounds: &'static str,
    },
    Operator(Problem),
}

impl From<Problem> for DetectionProblem {
    fn from(problem: Problem) -> Self {
        Self::Operator(problem)
    }
}

/// A view of three dimensions, of which one counts the places and one the values of each.
struct Places {
    view: View,
    places: usize,
    values: usize,
}

impl Written for BestScore {
    fn runs_behind(&self) -> bool {
        true
    }
}

impl Written for Detections {
    fn runs_behind(&self) -> bool {
        true
    }
}

impl Lowering<'_> {
    pub(crate) fn reduced(
        &mut self,
        name: &str,
        view: &View,
        reduction: &Reduction,
    ) -> Result<Reduced, Problem> {
        let node = Node::of_exit(name);
        let rank = view.dims.len();
        let usual = if rank == 4 { 1 } else { rank as i64 - 1 };
        let axis = reduction.axis.unwrap_or(usual);
        let dim = position("axis", axis, rank)?;
        let Dim::Known(size) = view.sizes()[dim] else {
            let supported = "a dimension that is not the batch";
            return Err(Problem::attribute("axis", &Attribute::Int(axis), supported));
        };
        let ranking = Ranking {
            largest: true,
            last: false,
        };
        match reduction.kind {
            ReductionKind::ArgMax => {
                let mut best = self.best_position(&node, view, dim, ranking)?;
                best.dims.remove(dim);
                if size.unsigned_abs() > BYTES {
                    return Ok(Reduced::Positions(best, None));
                }
                let bytes = Quantisation {
                    scale: 1.0,
                    zero: 0,
                };
                let to = self.emit(&node, Convert, best.tensor, &[])?;
                self.draft.quantised.insert(to, bytes);
                Ok(Reduced::Positions(best.of(to), Some(bytes)))
            }
            ReductionKind::Largest(count) if i64::from(count) <= size => {
                let values = self.in_columns(&node, view, dim)?;
                let chosen = self.best_columns(&node, &values, dim, count.into(), ranking)?;
                let taken = self.taken_at(&node, values.tensor, chosen.tensor)?;
                Ok(Reduced::Values(chosen.of(taken), chosen))
            }
            ReductionKind::Largest(count) => {
                let supported = "at most the positions of the dimension";
                let count = Attribute::Int(count.into());
                Err(Problem::attribute("topk", &count, supported))
            }
        }
    }

    /// A list of the best detections of an exit's places.
    pub(crate) fn detections(
        &mut self,
        exit: &str,
        views: &DetectorViews,
        options: &DetectionOptions,
    ) -> Result<Detected, DetectionProblem> {
        let node = Node::of_exit(&format!("{exit}/detections"));
        let boxes = self.boxes(&node, &views.boxes, &options.boxes)?;
        let Dim::Known(places) = boxes.view.sizes()[boxes.places] else {
            return Err(self.wrong_places("boxes", &boxes.view, "no batch in its places"));
        };
        let scores = self.scores_of(&node, &views.scores, &options.scores, places)?;
        let objectness = match (&views.objectness, &options.objectness) {
            (Some(view), Some(part)) => Some(self.objectness(&node, view, part, places)?),
            _ => None,
        };
        let boxes = self.by_places(&node, &boxes)?;
        let mut scores = self.by_places(&node, &scores)?;
        if options.values == ScoreValues::Softmax {
            let image = View::image(scores, self.shape(scores));
            scores = self.softmax_of(&node, &image, 1, false)?.tensor;
        }
        let scoring = scoring(self.shape(scores).channels, options);
        let decoder = self.decoder(places, options)?;
        let best = self.emit(&node, BestScore { scoring }, scores, objectness.as_slice())?;
        let detections = Detections { scoring, decoder };
        let tensor = self.emit(&node, detections, best, &[boxes, scores])?;
        let rows = u64::from(decoder.rows);
        // What is behind the last row.
        let single = |channel: u64| View {
            tensor,
            start: [channel, 0, rows],
            dims: vec![vec![BATCH], vec![]],
        };
        let confidence = match options.confidence {
            Some(_) => Some(self.flattened(&node, &single(1))?.tensor),
            None => None,
        };
        Ok(Detected {
            list: list(tensor, rows),
            count: single(0),
            confidence,
        })
    }

    /// Boxes: the dimension of four is that of their numbers.
    fn boxes(
        &mut self,
        node: &Node,
        view: &View,
        part: &OutputPart,
    ) -> Result<Places, DetectionProblem> {
        const EXPECTED: &str = "(batch, places, 4) or (batch, 4, places)";
        if !is_of_places(view) {
            return Err(self.wrong_places("boxes", view, EXPECTED));
        }
        let shorter = self.shorter(view);
        let four = |dim: &usize| view.sizes()[*dim] == Dim::Known(4);
        let values = match part.values {
            Some(_) => shorter,
            None => [2, 1].into_iter().find(four).unwrap_or(shorter),
        };
        let view = self.part(node, view, values, part)?;
        if view.sizes()[values] != Dim::Known(4) {
            return Err(self.wrong_places("boxes", &view, EXPECTED));
        }
        Ok(Places {
            view,
            places: 3 - values,
            values,
        })
    }

    /// Scores: one dimension is that of the places.
    fn scores_of(
        &mut self,
        node: &Node,
        view: &View,
        part: &OutputPart,
        places: i64,
    ) -> Result<Places, DetectionProblem> {
        let expected = format!("(batch, {places}, classes) or (batch, classes, {places})");
        let of_places = |dim: &usize| view.sizes().get(*dim) == Some(&Dim::Known(places));
        let found = [1, 2].into_iter().find(of_places);
        let Some(at) = found.filter(|_| is_of_places(view)) else {
            return Err(self.wrong_places("scores", view, &expected));
        };
        let view = self.part(node, view, 3 - at, part)?;
        Ok(Places {
            view,
            places: at,
            values: 3 - at,
        })
    }

    /// One value a place, as a vector.
    fn objectness(
        &mut self,
        node: &Node,
        view: &View,
        part: &OutputPart,
        places: i64,
    ) -> Result<TensorId, DetectionProblem> {
        let expected = format!("(batch, {places}), (batch, {places}, 1) or (batch, 1, {places})");
        let of_places = |dim: &usize| view.sizes()[*dim] == Dim::Known(places);
        let at = (1..view.dims.len()).find(of_places);
        let view = match (at, view.dims.len()) {
            (Some(_), 2) => view.clone(),
            (Some(at), 3) if is_of_places(view) => self.part(node, view, 3 - at, part)?,
            _ => return Err(self.wrong_places("objectness", view, &expected)),
        };
        let flat = self.flattened(node, &view)?;
        if self.shape(flat.tensor) == Tensor::features(places as u32) {
            Ok(flat.tensor)
        } else {
            Err(self.wrong_places("objectness", &view, &expected))
        }
    }

    /// In a view of the batch and two other dimensions: the one of the two that is not longer than the other.
    fn shorter(&self, view: &View) -> usize {
        let size = |dim: usize| match view.sizes()[dim] {
            Dim::Known(size) => size,
            Dim::Batches(_) => i64::MAX,
        };
        if size(1) < size(2) { 1 } else { 2 }
    }

    /// Some of the values of each place, if that is asked for.
    fn part(
        &mut self,
        node: &Node,
        view: &View,
        dim: usize,
        part: &OutputPart,
    ) -> Result<View, DetectionProblem> {
        let Some(values) = &part.values else {
            return Ok(view.clone());
        };
        match view.sizes()[dim] {
            Dim::Known(size) if i64::from(values.end) <= size => {
                let range = [values.start.into(), values.end.into(), 1];
                Ok(self.sliced(node, view, dim, range)?)
            }
            _ => {
                let expected = format!("more than {} values a place", values.end - 1);
                Err(self.wrong_places("values", view, &expected))
            }
        }
    }

    /// A tensor whose pixels are the places, row after row, and whose channels are the values of each.
    fn by_places(&mut self, node: &Node, seen: &Places) -> Result<TensorId, Problem> {
        let Places {
            view,
            places,
            values,
        } = seen;
        let shape = self.shape(view.tensor);
        let [rows, columns] = [(Axis::Row, shape.height), (Axis::Column, shape.width)]
            .map(|(axis, extent)| digits(axis, extent.into()));
        if view.dims[*places] == [&rows[..], &columns[..]].concat() {
            let batch = view.dims[0].clone();
            let image = View {
                dims: vec![batch, view.dims[*values].clone(), rows, columns],
                ..view.clone()
            };
            if let Some(tensor) = self.gathered_as_it_is(node, &image)? {
                return Ok(tensor);
            }
        }
        let mut axes = [Axis::Batch; 3];
        axes[*places] = Axis::Column;
        axes[*values] = Axis::Channel;
        Ok(self.copied_on(node, view, &axes)?.tensor)
    }

    /// The decoder: what the options give for the detections, and the size of the network's input.
    fn decoder(
        &self,
        places: i64,
        options: &DetectionOptions,
    ) -> Result<Decoder, DetectionProblem> {
        let input = self.draft.tensors[0];
        let places = places.unsigned_abs();
        let usual = options.rows.saturating_mul(CANDIDATES_A_ROW);
        let usual = usual.min(punctual_types::CANDIDATES_MAX);
        let usual = u32::try_from(places).map_or(usual, |places| usual.min(places));
        let decoder = Decoder {
            form: options.form,
            unit: match options.unit {
                BoxUnit::Pixels => [1.0; 2],
                BoxUnit::Fractions => [input.width as f32, input.height as f32],
            },
            size: [input.width, input.height],
            threshold: options.threshold,
            rows: options.rows,
            candidates: options.candidates.unwrap_or(usual),
            overlap: options.overlap,
            by_class: !options.across_classes,
            averaged: options.confidence.unwrap_or(1),
        };
        match decoder.problem(places) {
            Some((what, value, bounds)) => Err(DetectionProblem::Figure {
                what,
                value,
                bounds,
            }),
            None => Ok(decoder),
        }
    }

    fn wrong_places(
        &self,
        key: &'static str,
        view: &View,
        expected: impl Into<String>,
    ) -> DetectionProblem {
        DetectionProblem::Output {
            key,
            found: super::operands::describe_dims(&view.sizes()),
            expected: expected.into(),
        }
    }
}

/// Whether it has two dimensions behind the batch.
fn is_of_places(view: &View) -> bool {
    view.dims.len() == 3 && view.is_batch(0) && view.has_one_batch()
}

/// The classes that count.
fn scoring(classes: u32, options: &DetectionOptions) -> Scoring {
    let none = u32::from(options.background.is_some());
    Scoring {
        first: u32::from(options.background == Some(Background::First)),
        classes: classes.saturating_sub(none),
        logits: options.values == ScoreValues::Logits,
    }
}

/// (batch, rows, values).
fn list(tensor: TensorId, rows: u64) -> View {
    View {
        tensor,
        start: [0; 3],
        dims: vec![
            vec![BATCH],
            digits(Axis::Column, rows),
            digits(Axis::Channel, DETECTION_VALUES.into()),
        ],
    }
}

/// All positions of an axis.
fn digits(axis: Axis, extent: u64) -> Vec<Factor> {
    let step = 1;
    let digit = Factor { axis, step, extent };
    if extent == 1 { vec![] } else { vec![digit] }
}

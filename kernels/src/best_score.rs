//! How sure a detector is at each of its places: the best score of its classes.

use punctual_types::{Activation, Scoring, clean};

use crate::activation::{self, Curve};
use crate::simd::vectorised;
use crate::spec::check_equal;
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part};

/// The best score of each pixel of the scores as a vector, row after row, in 0 to 1: 0 where no score is a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestScoreSpec {
    /// A channel for each class.
    pub scores: BlockedLayout,
    /// For each place a factor of its score, which is a score itself: a vector.
    pub objectness: Option<BlockedLayout>,
    /// A vector of as many features as the scores have pixels.
    pub output: BlockedLayout,
    pub scoring: Scoring,
}

/// Best scores for one instruction set. Their time does not depend on the scores.
#[derive(Clone, Debug)]
pub struct BestScore {
    spec: BestScoreSpec,
    best: unsafe fn(&mut Places<'_>),
    /// Of logits.
    curve: Option<Curve>,
}

/// Most lanes of a vector.
const LANES_MAX: usize = 16;

/// As many places as there are lanes.
struct Places<'a> {
    scores: &'a [f32],
    /// Floats between a block of classes and the next.
    stride: usize,
    lanes: usize,
    /// The classes that count.
    first: usize,
    end: usize,
    /// Where the places' first blocks lie.
    starts: [usize; LANES_MAX],
    count: usize,
    /// NaN where no score is a number.
    best: [f32; LANES_MAX],
}

impl BestScore {
    pub fn new(isa: Isa, spec: &BestScoreSpec) -> Result<BestScore, KernelError> {
        spec.check(isa)?;
        let curve = if spec.scoring.logits {
            activation::curve(Activation::Sigmoid, isa)
        } else {
            None
        };
        Ok(BestScore {
            spec: *spec,
            best: vectorised!(isa, best, Places<'_>),
            curve,
        })
    }

    pub fn spec(&self) -> &BestScoreSpec {
        &self.spec
    }

    /// The best values of a block of places.
    fn best(&self, values: &[f32], block: usize) -> [f32; LANES_MAX] {
        let BestScoreSpec {
            scores,
            output,
            scoring,
            ..
        } = &self.spec;
        let lanes = output.lanes();
        let first = block * lanes;
        let mut places = Places {
            scores: values,
            stride: scores.block_stride(),
            lanes,
            first: scoring.first as usize,
            end: scoring.first as usize + scoring.classes as usize,
            starts: [0; LANES_MAX],
            count: lanes.min(output.channels() - first),
            best: [f32::NAN; LANES_MAX],
        };
        for (place, start) in (first..first + places.count).zip(&mut places.starts) {
            let (row, column) = (place / scores.width(), place % scores.width());
            *start = scores.row_start(0, row) + column * lanes;
        }
        // SAFETY: the constructor saw that the instruction set is available.
        unsafe { (self.best)(&mut places) };
        places.best
    }

    fn to_probabilities(&self, values: &mut [f32; LANES_MAX]) {
        if let Some(curve) = self.curve {
            // The function is nowhere 0; a NaN stays one.
            let is_number = values.map(|value| value > f32::NEG_INFINITY);
            // SAFETY: the constructor saw that the instruction set is available; there are as many values as the widest
            // vector has lanes, a multiple of those of any other.
            unsafe { curve.apply(values.as_mut_ptr(), LANES_MAX) };
            for (value, is_number) in values.iter_mut().zip(is_number) {
                *value = if is_number { *value } else { 0.0 };
            }
        }
        values.iter_mut().for_each(|value| *value = clean(*value));
    }
}

impl Kernel for BestScore {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let BestScoreSpec {
            scores,
            objectness,
            output,
            ..
        } = &self.spec;
        let lanes = output.lanes();
        let part_start = output.part(part).start;
        for image in images {
            let inputs = [scores].into_iter().chain(objectness);
            image.prepare(inputs.map(BlockedLayout::len), output, part);
            for (block, row) in output.block_rows(part) {
                let mut found = self.best(image.inputs[0], block);
                self.to_probabilities(&mut found);
                if let (Some(layout), Some(values)) = (objectness, image.inputs.get(1)) {
                    let mut factors = [f32::NAN; LANES_MAX];
                    let from = &values[layout.row_start(block, 0)..];
                    factors[..lanes].copy_from_slice(&from[..lanes]);
                    self.to_probabilities(&mut factors);
                    let both = found.iter_mut().zip(factors);
                    both.for_each(|(score, factor)| *score *= factor);
                }
                let used = lanes.min(output.channels() - block * lanes);
                found[used..].fill(0.0);
                let to = output.row_start(block, row) - part_start;
                image.output[to..][..lanes].copy_from_slice(&found[..lanes]);
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        true
    }
}

impl BestScoreSpec {
    fn check(&self, isa: Isa) -> Result<(), KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let BestScoreSpec {
            scores,
            objectness,
            output,
            scoring,
        } = self;
        scores.check_lanes("scores", isa)?;
        let places = scores.height() * scores.width();
        for (tensor, vector) in [
            ("output", Some(output)),
            ("objectness", objectness.as_ref()),
        ] {
            let Some(vector) = vector else {
                continue;
            };
            vector.check_lanes(tensor, isa)?;
            check_equal("the places", vector.channels(), places)?;
            check_equal("the height of the places", vector.height(), 1)?;
            check_equal("the width of the places", vector.width(), 1)?;
        }
        if scoring.fits(scores.channels() as u32) {
            Ok(())
        } else {
            Err(KernelError::Mismatch {
                what: "the end of the classes",
                found: scoring.first as usize + scoring.classes as usize,
                expected: scores.channels(),
            })
        }
    }
}

#[inline(always)]
fn best(places: &mut Places<'_>) {
    match places.lanes {
        4 => best_of::<4>(places),
        8 => best_of::<8>(places),
        _ => best_of::<LANES_MAX>(places),
    }
}

#[inline(always)]
fn best_of<const LANES: usize>(places: &mut Places<'_>) {
    let (first, end) = (places.first, places.end);
    for place in 0..places.count {
        let mut best = [f32::NEG_INFINITY; LANES];
        for block in first / LANES..end.div_ceil(LANES) {
            let start = places.starts[place] + block * places.stride;
            let values = &places.scores[start..start + LANES];
            let class = block * LANES;
            if first <= class && class + LANES <= end {
                for lane in 0..LANES {
                    let value = values[lane];
                    best[lane] = if value > best[lane] {
                        value
                    } else {
                        best[lane]
                    };
                }
                continue;
            }
            for lane in 0..LANES {
                let counts = first <= class + lane && class + lane < end;
                let better = counts & (values[lane] > best[lane]);
                best[lane] = if better { values[lane] } else { best[lane] };
            }
        }
        let mut found = best[0];
        for value in best {
            found = if value > found { value } else { found };
        }
        places.best[place] = if found > f32::NEG_INFINITY {
            found
        } else {
            f32::NAN
        };
    }
}

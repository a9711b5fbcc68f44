//! How sure a detector is at each of its places: the best score of its classes.

use core::cell::Cell;

use punctual_types::{Activation, Scoring, clean};

use crate::activation::{self, Curve};
use crate::simd::{KEPT, LaneMap, Vector, compiled_for};
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
    best: unsafe fn(&Places<'_>),
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
    /// The classes that count.
    first: usize,
    end: usize,
    /// Where the places' first blocks lie.
    starts: [usize; LANES_MAX],
    /// Minus infinity where no score is a number.
    best: Cell<[f32; LANES_MAX]>,
}

impl Places<'_> {
    /// Which lanes of the block that begins with class `class` count.
    #[inline(always)]
    fn counted(&self, class: usize) -> LaneMap {
        let mut lanes = [KEPT; LANES_MAX];
        for (lane, counted) in lanes.iter_mut().enumerate() {
            if (self.first..self.end).contains(&(class + lane)) {
                *counted = lane as i32;
            }
        }
        lanes
    }
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
            best: compiled_for!(isa, best, Places<'_>),
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
        let (mut row, mut column) = (first / scores.width(), first % scores.width());
        let mut starts = [0; LANES_MAX];
        for start in &mut starts[..lanes.min(output.channels() - first)] {
            *start = scores.row_start(0, row) + column * lanes;
            column += 1;
            if column == scores.width() {
                (row, column) = (row + 1, 0);
            }
        }
        let places = Places {
            scores: values,
            stride: scores.block_stride(),
            first: scoring.first as usize,
            end: scoring.first as usize + scoring.classes as usize,
            starts,
            best: Cell::new([f32::NEG_INFINITY; LANES_MAX]),
        };
        // SAFETY: the constructor saw that the instruction set is available and that its vectors have the layouts' lanes; `run`
        // that the values have their length. Behind the last place their beginning is read.
        unsafe { (self.best)(&places) };
        places.best.get()
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

/// # Safety
/// The processor has the instruction set, for whose blocks the scores are laid out; all places lie in them.
#[inline(always)]
unsafe fn best<V: Vector>(places: &Places<'_>) {
    // SAFETY: the caller's promise; `fours` has room for a quarter of the places' vectors, and `best` for one.
    unsafe {
        let mut best = [V::splat(f32::NEG_INFINITY); LANES_MAX];
        for block in places.first / V::LANES..places.end.div_ceil(V::LANES) {
            let counted = V::lanes(&places.counted(block * V::LANES));
            for (best, start) in best[..V::LANES].iter_mut().zip(&places.starts) {
                let values = V::load(places.scores.as_ptr().add(start + block * places.stride));
                let values = V::splat(f32::NEG_INFINITY).pick(values, counted);
                *best = values.larger(*best);
            }
        }
        // Of four places at a time, each four lanes become the largest of each place's.
        let mut fours = [0.0; LANES_MAX * LANES_MAX / 4];
        for (at, four) in best[..V::LANES].chunks_exact(4).enumerate() {
            let (a, b, c, d) = (four[0], four[1], four[2], four[3]);
            let first = a.alternate_low(b).max(a.alternate_high(b));
            let second = c.alternate_low(d).max(c.alternate_high(d));
            let all = first.low_halves(second).max(first.high_halves(second));
            all.store(fours.as_mut_ptr().add(at * V::LANES));
        }
        let mut largest = V::load_fours(fours.as_ptr(), V::LANES);
        for group in 1..V::LANES / 4 {
            let next = V::load_fours(fours.as_ptr().add(4 * group), V::LANES);
            largest = largest.max(next);
        }
        largest.store(places.best.as_ptr().cast());
    }
}

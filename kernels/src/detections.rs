//! A bounded list of objects out of what a detector computes at each of its places.

use punctual_types::{CANDIDATES_MAX, DETECTION_VALUES, Decoder, Scoring, clean};

use crate::simd::vectorised;
use crate::spec::check_equal;
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part};

/// Detections in the order of their scores, one a pixel of the output's only row: left, top, right, bottom, score,
/// class. Those that are left are zero. One pixel more has their count, and the mean of the best scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetectionsSpec {
    /// The best score of each place, a vector.
    pub best: BlockedLayout,
    /// A place is a pixel, row after row; four channels.
    pub boxes: BlockedLayout,
    /// A place is a pixel, row after row; a channel for each class.
    pub scores: BlockedLayout,
    /// [`DETECTION_VALUES`] channels of `decoder.rows + 1` pixels.
    pub output: BlockedLayout,
    pub scoring: Scoring,
    pub decoder: Decoder,
}

/// A decoder for one instruction set.
///
/// Its work does not depend on what the values are: it always makes as many passes over all scores, sorts as many
/// candidates by a network of comparisons, and compares each pair of boxes. The threshold and the suppression only
/// decide which of them are written. Where the candidates' memory lies does.
#[derive(Clone, Debug)]
pub struct Detections {
    spec: DetectionsSpec,
    count_above: unsafe fn(&mut Count<'_>),
    suppress: unsafe fn(&mut Suppression<'_>),
}

const CANDIDATES: usize = CANDIDATES_MAX as usize;

/// The candidates of an image, the best first, each list by their ranks.
struct Candidates {
    left: [f32; CANDIDATES],
    top: [f32; CANDIDATES],
    right: [f32; CANDIDATES],
    bottom: [f32; CANDIDATES],
    class: [f32; CANDIDATES],
    score: [f32; CANDIDATES],
    /// 1 for what stays in the list, otherwise 0.
    stays: [f32; CANDIDATES],
}

impl Detections {
    pub fn new(isa: Isa, spec: &DetectionsSpec) -> Result<Detections, KernelError> {
        spec.check(isa)?;
        Ok(Detections {
            spec: *spec,
            count_above: vectorised!(isa, count_above, Count<'_>),
            suppress: vectorised!(isa, suppress, Suppression<'_>),
        })
    }

    pub fn spec(&self) -> &DetectionsSpec {
        &self.spec
    }

    /// Writes the keys of the places with the best scores, in the order of places.
    fn choose(&self, best: &[f32], keys: &mut [u64; CANDIDATES + 1]) {
        let wanted = self.spec.decoder.candidates as usize;
        // The bits of numbers above 0 are in their order. As many values as are wanted are at least `least`: it grows bit
        // by bit.
        let mut least: u32 = 0;
        let mut above = 0;
        for bit in (0..31).rev() {
            let next = least | 1 << bit;
            let count = self.count(best, f32::from_bits(next - 1));
            let taken = count >= wanted;
            least = if taken { next } else { least };
            // Of the last that was too large: how many are above what is found.
            above = if taken { above } else { count };
        }
        let (limit, below) = (
            f32::from_bits(least),
            f32::from_bits(least.saturating_sub(1)),
        );
        let mut equals_left = wanted - above.min(wanted);
        let (mut chosen, mut place) = (0, 0_u32);
        for stretch in self.stretches(best) {
            for value in stretch {
                let value = clean(*value);
                let above = value > limit;
                let equals = (value > below || least == 0) && !above && equals_left > 0;
                let taken = (above || equals) && chosen < wanted;
                // Of equal scores the lower place comes first.
                keys[chosen] = u64::from(value.to_bits()) << 32 | u64::from(!place);
                chosen += usize::from(taken);
                equals_left -= usize::from(equals);
                place += 1;
            }
        }
        keys[wanted] = 0;
    }

    /// The stretches of the scores' vector.
    fn stretches<'a>(&self, best: &'a [f32]) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        let layout = self.spec.best;
        let (lanes, places) = (layout.lanes(), layout.channels());
        let dense = layout.block_stride() == lanes;
        let (count, each) = if dense {
            (1, places)
        } else {
            (layout.blocks(), lanes)
        };
        (0..count).map(move |block| {
            let start = layout.row_start(block, 0);
            &best[start..][..each.min(places - block * lanes)]
        })
    }

    /// How many scores are above a limit.
    fn count(&self, best: &[f32], limit: f32) -> usize {
        let counts = self.stretches(best).map(|values| {
            let mut count = Count {
                values,
                limit,
                above: 0,
            };
            // SAFETY: the constructor saw that the instruction set is available.
            unsafe { (self.count_above)(&mut count) };
            count.above as usize
        });
        counts.sum()
    }

    /// Boxes, scores and classes of the sorted keys.
    fn fill(&self, keys: &[u64], image: &Image<'_>, candidates: &mut Candidates) {
        let DetectionsSpec { boxes, decoder, .. } = &self.spec;
        for (at, key) in keys[..decoder.candidates as usize].iter().enumerate() {
            let (score, place) = (f32::from_bits((key >> 32) as u32), !(*key as u32) as usize);
            let (row, column) = (place / boxes.width(), place % boxes.width());
            let numbers = [0, 1, 2, 3].map(|channel| {
                let index = boxes.index(channel, row, column);
                image.inputs[1][index]
            });
            let corners = decoder.corners(numbers);
            let [left, top, right, bottom] = corners.unwrap_or_default();
            candidates.left[at] = left;
            candidates.top[at] = top;
            candidates.right[at] = right;
            candidates.bottom[at] = bottom;
            candidates.class[at] = self.class(image.inputs[2], place) as f32;
            candidates.score[at] = score;
            let stays = corners.is_some() && score > decoder.threshold;
            candidates.stays[at] = f32::from(u8::from(stays));
        }
    }

    /// The class with the best score at a place, the first of equal ones.
    fn class(&self, values: &[f32], place: usize) -> usize {
        let DetectionsSpec {
            scores, scoring, ..
        } = &self.spec;
        let (first, classes) = (scoring.first as usize, scoring.classes as usize);
        let lanes = scores.lanes();
        let start = scores.row_start(0, place / scores.width()) + place % scores.width() * lanes;
        let (mut best, mut found) = (f32::NEG_INFINITY, first);
        let end = first + classes;
        for block in first / lanes..end.div_ceil(lanes) {
            let of_block = &values[start + block * scores.block_stride()..][..lanes];
            for (class, &value) in (block * lanes..end).zip(of_block) {
                step();
                let better = (class >= first) & (value > best);
                best = if better { value } else { best };
                found = if better { class } else { found };
            }
        }
        found
    }

    fn confidence(&self, candidates: &Candidates) -> f32 {
        let averaged = self.spec.decoder.averaged as usize;
        let sum: f32 = candidates.score[..averaged].iter().sum();
        clean(sum / averaged as f32)
    }

    /// Removes what overlaps something better.
    fn suppress(&self, candidates: &mut Candidates) {
        let decoder = &self.spec.decoder;
        let Some(overlap) = decoder.overlap else {
            return;
        };
        let mut suppression = Suppression {
            candidates,
            count: decoder.candidates as usize,
            overlap,
            by_class: decoder.by_class,
        };
        // SAFETY: the constructor saw that the instruction set is available.
        unsafe { (self.suppress)(&mut suppression) };
    }

    /// Writes the part's rows of the list.
    fn write(&self, found: &Candidates, confidence: f32, part: Part, to: &mut [f32]) {
        let DetectionsSpec {
            output, decoder, ..
        } = &self.spec;
        let (lanes, rows) = (output.lanes(), decoder.rows as usize);
        let start = output.part(part).start;
        for (block, row) in output.block_rows(part) {
            let from = output.row_start(block, row) - start;
            let pixels = &mut to[from..][..output.width() * lanes];
            pixels.fill(0.0);
            let mut put = |pixel: usize, values: &[f32]| {
                let values = values.iter().skip(block * lanes).take(lanes);
                let lanes = pixels[pixel * lanes..].iter_mut().zip(values);
                lanes.for_each(|(lane, value)| *lane = *value);
            };
            let mut count = 0;
            for at in 0..decoder.candidates as usize {
                if found.stays[at] > 0.0 && count < rows {
                    let row: [f32; DETECTION_VALUES as usize] = [
                        found.left[at],
                        found.top[at],
                        found.right[at],
                        found.bottom[at],
                        found.score[at],
                        found.class[at],
                    ];
                    put(count, &row);
                    count += 1;
                }
            }
            put(rows, &[count as f32, confidence]);
        }
    }
}

impl Kernel for Detections {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let DetectionsSpec {
            best,
            boxes,
            scores,
            output,
            ..
        } = &self.spec;
        for image in images {
            let inputs = [best, boxes, scores].map(BlockedLayout::len);
            image.prepare(inputs, output, part);
            if output.rows(part).is_empty() {
                continue;
            }
            let mut keys = [0; CANDIDATES + 1];
            self.choose(image.inputs[0], &mut keys);
            let keys = &mut keys[..(self.spec.decoder.candidates as usize).next_power_of_two()];
            sort(keys);
            let mut candidates = Candidates::EMPTY;
            self.fill(keys, image, &mut candidates);
            let confidence = self.confidence(&candidates);
            self.suppress(&mut candidates);
            self.write(&candidates, confidence, part, image.output);
        }
    }
}

impl Candidates {
    const EMPTY: Self = Self {
        left: [0.0; CANDIDATES],
        top: [0.0; CANDIDATES],
        right: [0.0; CANDIDATES],
        bottom: [0.0; CANDIDATES],
        class: [0.0; CANDIDATES],
        score: [0.0; CANDIDATES],
        stays: [0.0; CANDIDATES],
    };
}

impl DetectionsSpec {
    fn check(&self, isa: Isa) -> Result<(), KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let DetectionsSpec {
            best,
            boxes,
            scores,
            output,
            scoring,
            decoder,
        } = self;
        for (tensor, layout) in [
            ("best scores", best),
            ("boxes", boxes),
            ("scores", scores),
            ("output", output),
        ] {
            layout.check_lanes(tensor, isa)?;
        }
        let places = best.channels();
        check_equal("the height of the best scores", best.height(), 1)?;
        check_equal("the width of the best scores", best.width(), 1)?;
        check_equal("the numbers of a box", boxes.channels(), 4)?;
        check_equal("the boxes", boxes.height() * boxes.width(), places)?;
        check_equal("the places", scores.height() * scores.width(), places)?;
        if let Some((what, value, bounds)) = decoder.problem(places as u64) {
            return Err(KernelError::Figure {
                what,
                value,
                bounds,
            });
        }
        check_equal(
            "a detection's values",
            output.channels(),
            DETECTION_VALUES as usize,
        )?;
        check_equal("the output's height", output.height(), 1)?;
        check_equal(
            "the output's width",
            output.width(),
            decoder.rows as usize + 1,
        )?;
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

/// Sorts a power of two of keys, the largest first, always by the same comparisons (Batcher's bitonic network).
fn sort(keys: &mut [u64]) {
    let count = keys.len();
    let mut run = 2;
    while run <= count {
        let mut apart = run / 2;
        while apart > 0 {
            for first in (0..count).step_by(2 * apart) {
                let (upper, lower) = keys[first..first + 2 * apart].split_at_mut(apart);
                let falls = first & run == 0;
                for (a, b) in upper.iter_mut().zip(lower) {
                    step();
                    let (larger, smaller) = ((*a).max(*b), (*a).min(*b));
                    *a = if falls { larger } else { smaller };
                    *b = if falls { smaller } else { larger };
                }
            }
            apart /= 2;
        }
        run *= 2;
    }
}

struct Count<'a> {
    values: &'a [f32],
    limit: f32,
    above: u32,
}

#[inline(always)]
fn count_above(count: &mut Count<'_>) {
    let mut above = 0;
    for value in count.values {
        step();
        above += u32::from(clean(*value) > count.limit);
    }
    count.above = above;
}

struct Suppression<'a> {
    candidates: &'a mut Candidates,
    count: usize,
    overlap: f32,
    by_class: bool,
}

/// Each candidate is compared with all behind it, whether it stays or not.
#[inline(always)]
fn suppress(suppression: &mut Suppression<'_>) {
    let Suppression {
        candidates,
        count,
        overlap,
        by_class,
    } = suppression;
    let Candidates {
        left,
        top,
        right,
        bottom,
        class,
        stays,
        ..
    } = &mut **candidates;
    for at in 0..*count {
        let (own_left, own_top, own_right, own_bottom) = (left[at], top[at], right[at], bottom[at]);
        let (own_class, area) = (class[at], (own_right - own_left) * (own_bottom - own_top));
        // No box overlaps another by twice their union.
        let share = if stays[at] > 0.0 { *overlap } else { 2.0 };
        let rest = at + 1..*count;
        let (left, top) = (&left[rest.clone()], &top[rest.clone()]);
        let (right, bottom) = (&right[rest.clone()], &bottom[rest.clone()]);
        let (class, stays) = (&class[rest.clone()], &mut stays[rest]);
        for other in 0..stays.len() {
            step();
            let width = minimum(right[other], own_right) - maximum(left[other], own_left);
            let height = minimum(bottom[other], own_bottom) - maximum(top[other], own_top);
            let common = maximum(width, 0.0) * maximum(height, 0.0);
            let other_area = (right[other] - left[other]) * (bottom[other] - top[other]);
            let union = area + other_area - common;
            let compared = !*by_class || class[other] == own_class;
            let gone = compared & (common > share * union);
            stays[other] = if gone { 0.0 } else { stays[other] };
        }
    }
}

/// Counts the steps of inner loops in tests, which show that they are as many for each picture.
#[inline(always)]
fn step() {
    #[cfg(test)]
    tests::STEPS.set(tests::STEPS.get() + 1);
}

// As the instructions do it, which `f32::max` is not.
#[inline(always)]
fn maximum(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn minimum(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use punctual_types::{BoxForm, Random};

    use super::*;
    use crate::Inputs;

    thread_local! {
        pub(super) static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    const PLACES: usize = 300;
    const CLASSES: usize = 7;

    fn kernel() -> Detections {
        let isa = Isa::detect();
        let layout = |channels, width| BlockedLayout::new(isa, channels, 1, width, 0).unwrap();
        let spec = DetectionsSpec {
            best: layout(PLACES, 1),
            boxes: layout(4, PLACES),
            scores: layout(CLASSES, PLACES),
            output: layout(DETECTION_VALUES as usize, 21),
            scoring: Scoring {
                first: 0,
                classes: CLASSES as u32,
                logits: false,
            },
            decoder: Decoder {
                form: BoxForm::Corners,
                unit: [1.0; 2],
                size: [100; 2],
                threshold: 0.5,
                rows: 20,
                candidates: 100,
                overlap: Some(0.5),
                by_class: true,
                averaged: 1,
            },
        };
        Detections::new(isa, &spec).unwrap()
    }

    /// How many detections there are, and how many steps they took.
    fn run(kernel: &Detections, best: &[f32], boxes: &[f32]) -> (usize, u64) {
        let spec = kernel.spec();
        let scores = best.repeat(CLASSES);
        let pack = |layout: &BlockedLayout, values: &[f32]| {
            let mut packed = vec![0.0; layout.len()];
            layout.pack(values, &mut packed);
            packed
        };
        let inputs = [
            pack(&spec.best, best),
            pack(&spec.boxes, boxes),
            pack(&spec.scores, &scores),
        ];
        let mut list = vec![0.0; spec.output.len()];
        let image = Image {
            inputs: Inputs::new(inputs.iter().map(Vec::as_slice)),
            output: &mut list,
        };
        let before = STEPS.get();
        kernel.run(&[], Part::WHOLE, &mut [image]);
        (
            list[spec.output.index(0, 0, 20)] as usize,
            STEPS.get() - before,
        )
    }

    #[test]
    fn as_many_steps_are_taken_whatever_is_seen() {
        let kernel = kernel();
        let mut random = Random::new(1);
        let mut noise = |len| (0..len).map(|_| random.unit_f32()).collect::<Vec<f32>>();
        // Boxes side by side, which all stay, and the same one everywhere, of which one stays.
        let apart = [0.0, 0.0, 1.0, 1.0].map(|corner| {
            let x = |place: usize| corner + (place % 50) as f32;
            (0..PLACES).map(x).collect::<Vec<f32>>()
        });
        let rising: Vec<f32> = (0..PLACES).map(|place| place as f32 / 300.0).collect();
        let pictures = [
            (vec![0.0; PLACES], noise(4 * PLACES), 0),
            (vec![f32::NAN; PLACES], vec![f32::NAN; 4 * PLACES], 0),
            (
                vec![0.9; PLACES],
                [vec![0.0; 2 * PLACES], vec![9.0; 2 * PLACES]].concat(),
                1,
            ),
            (rising, apart.concat(), 20),
        ];
        let steps = pictures.map(|(best, boxes, detections)| {
            let (found, steps) = run(&kernel, &best, &boxes);
            assert_eq!(found, detections);
            steps
        });
        assert_eq!(steps, [steps[0]; 4]);
        // 31 passes, a sort of 128, the classes of 100 candidates, all pairs of these.
        let expected = 31 * PLACES + 64 * 28 + 100 * CLASSES + 100 * 99 / 2;
        assert_eq!(steps[0], expected as u64);
    }
}

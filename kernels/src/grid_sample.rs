//! Pixels sampled at the positions of a computed grid.
//!
//! Positions are computed once for a run of pixels and used for all blocks of a group. A pixel of a block is one vector,
//! so each tap is one load, wherever it lies. Groups that share a block take their channels one by one.

use core::ops::Range;

use punctual_types::{Interpolation, Sampling};

use crate::simd::{Vector, compiled_for};
use crate::spec::check_equal;
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part};

/// A grid sample on static shapes. Nothing needs a halo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GridSampleSpec {
    pub input: BlockedLayout,
    /// For each group a channel with the columns' positions and one with the rows'.
    pub grid: BlockedLayout,
    /// Has the input's channels and the grid's rows and columns.
    pub output: BlockedLayout,
    /// Groups of channels, each with positions of its own; a divisor of the channels.
    pub groups: usize,
    pub sampling: Sampling,
}

/// A grid sample for one instruction set.
///
/// Any position is safe. At a NaN the result is NaN.
#[derive(Clone, Debug)]
pub struct GridSample {
    spec: GridSampleSpec,
    kernel: unsafe fn(&Run<'_>),
}

/// Pixels whose positions are computed together.
const RUN: usize = 32;

impl GridSample {
    pub fn new(isa: Isa, spec: &GridSampleSpec) -> Result<GridSample, KernelError> {
        spec.check(isa)?;
        Ok(GridSample {
            spec: *spec,
            kernel: compiled_for!(isa, sample, Run<'_>),
        })
    }

    pub fn spec(&self) -> &GridSampleSpec {
        &self.spec
    }

    /// Samples one row of those channels of a group that must be written.
    fn row(
        &self,
        part: Part,
        image: &mut Image<'_>,
        row: usize,
        group: usize,
        channels: Range<usize>,
    ) {
        let output = &self.spec.output;
        for pixel in (0..output.width()).step_by(RUN) {
            let run = Run {
                spec: &self.spec,
                from: image.inputs[0],
                grid: image.inputs[1],
                output: image.output.as_mut_ptr(),
                part_start: output.part(part).start,
                row,
                pixels: pixel..(pixel + RUN).min(output.width()),
                group,
                channels: channels.clone(),
            };
            // SAFETY: the constructor saw that the instruction set is available; the tensors are as long as their
            // layouts say, and the output has the blocks of these channels in this row, borrowed for us alone.
            unsafe { (self.kernel)(&run) };
        }
    }

    /// Writes zeros to the lanes behind the last channel.
    fn clear_surplus(&self, part: Part, image: &mut Image<'_>, row: usize, end: usize) {
        let output = &self.spec.output;
        let (lanes, used) = (output.lanes(), end % output.lanes());
        if used == 0 {
            return;
        }
        let start = output.row_start(end / lanes, row) - output.part(part).start;
        let pixels = image.output[start..][..output.width() * lanes].chunks_exact_mut(lanes);
        pixels.for_each(|pixel| pixel[used..].fill(0.0));
    }
}

impl Kernel for GridSample {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let GridSampleSpec {
            input,
            grid,
            output,
            ..
        } = &self.spec;
        let lanes = output.lanes();
        let each = output.channels() / self.spec.groups;
        for image in images {
            image.prepare([input.len(), grid.len()], output, part);
            for span in output.spans(part) {
                let first = span.block * lanes;
                let end = ((span.block + span.blocks) * lanes).min(output.channels());
                for row in span.rows {
                    for group in first / each..end.div_ceil(each) {
                        let channels = (group * each).max(first)..((group + 1) * each).min(end);
                        self.row(part, image, row, group, channels);
                    }
                    self.clear_surplus(part, image, row, end);
                }
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        // What it reads serves several blocks.
        self.spec.output.blocks() == 1
    }
}

impl GridSampleSpec {
    fn check(&self, isa: Isa) -> Result<(), KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let GridSampleSpec {
            input,
            grid,
            output,
            groups,
            ..
        } = self;
        input.check_lanes("input", isa)?;
        grid.check_lanes("grid", isa)?;
        output.check_lanes("output", isa)?;
        check_equal("the output's channels", output.channels(), input.channels())?;
        check_equal("the grid's height", grid.height(), output.height())?;
        check_equal("the grid's width", grid.width(), output.width())?;
        let (inputs, outputs) = (input.channels(), output.channels());
        if *groups == 0 || !inputs.is_multiple_of(*groups) {
            return Err(KernelError::Groups {
                groups: *groups,
                inputs,
                outputs,
            });
        }
        check_equal("the grid's channels", grid.channels(), 2 * groups)
    }
}

/// Neighbouring pixels of a group's channels.
struct Run<'a> {
    spec: &'a GridSampleSpec,
    from: &'a [f32],
    grid: &'a [f32],
    /// The part's slice of the output, which begins at `part_start` in the tensor.
    output: *mut f32,
    part_start: usize,
    row: usize,
    /// Columns of the output, at most [`RUN`].
    pixels: Range<usize>,
    group: usize,
    /// Channels of the group, all in blocks that are the part's.
    channels: Range<usize>,
}

/// The four taps of each pixel of a run: offsets in a block of the input, and weights.
struct Places {
    offsets: [[usize; 4]; RUN],
    weights: [[f32; 4]; RUN],
}

/// # Safety
/// The processor has the instruction set; slices and output are as [`Run`] and its layouts say.
#[inline(always)]
unsafe fn sample<V: Vector>(run: &Run<'_>) {
    let places = places::<V>(run);
    let Run { spec, channels, .. } = run;
    // The nearest pixel needs one tap, a blend four. Offsets are inside of the image for any position.
    let linear = spec.sampling.interpolation == Interpolation::Linear;
    let mut channel = channels.start;
    while channel < channels.end {
        let (block, lane) = (channel / V::LANES, channel % V::LANES);
        let end = if channels.end < (block + 1) * V::LANES {
            channels.end
        } else {
            (block + 1) * V::LANES
        };
        // The last block's surplus lanes are cleared afterwards.
        let is_whole = lane == 0 && (end % V::LANES == 0 || end == spec.output.channels());
        // SAFETY: the caller's promise; a place is one of the image's pixels.
        unsafe {
            let from = run.from.as_ptr().add(spec.input.row_start(block, 0));
            let to = spec.output.row_start(block, run.row) - run.part_start;
            let to = run.output.add(to + run.pixels.start * V::LANES);
            match (is_whole, linear) {
                (true, true) => blended::<V>(&places, run.pixels.len(), from, to),
                (true, false) => nearest::<V>(&places, run.pixels.len(), from, to),
                _ => {
                    let mut at = lane;
                    while at < lane + end - channel {
                        let (from, to) = (from.add(at), to.add(at));
                        one_channel::<V>(&places, run.pixels.len(), linear, from, to);
                        at += 1;
                    }
                }
            }
        }
        channel = end;
    }
}

#[inline(always)]
fn places<V: Vector>(run: &Run<'_>) -> Places {
    let Run { spec, row, .. } = run;
    let GridSampleSpec { input, grid, .. } = spec;
    let mut places = Places {
        offsets: [[0; 4]; RUN],
        weights: [[0.0; 4]; RUN],
    };
    // Every vector has an even number of lanes, so the group's two channels lie in one block.
    let channel = 2 * run.group;
    let start = grid.row_start(channel / V::LANES, *row) + channel % V::LANES;
    let positions = &run.grid[start + run.pixels.start * V::LANES..];
    let count = run.pixels.len();
    let mut at = 0;
    while at < count && at < RUN {
        let position = &positions[at * V::LANES..][..2];
        let columns = spec.sampling.taps(position[0], input.width() as u32);
        let rows = spec.sampling.taps(position[1], input.height() as u32);
        let [left, right] = [columns.first, columns.second].map(|at| at as usize * V::LANES);
        let [above, below] = [rows.first, rows.second].map(|at| at as usize * input.row_stride());
        places.offsets[at] = [above + left, above + right, below + left, below + right];
        let ([w, e], [n, s]) = (columns.weights, rows.weights);
        places.weights[at] = [n * w, n * e, s * w, s * e];
        at += 1;
    }
    places
}

/// # Safety
/// The processor has the instruction set; from each place on there is a vector behind `from`, and for each of `count`
/// pixels one behind `to`.
#[inline(always)]
unsafe fn blended<V: Vector>(places: &Places, count: usize, from: *const f32, to: *mut f32) {
    let mut at = 0;
    while at < count && at < RUN {
        let (offsets, weights) = (&places.offsets[at], &places.weights[at]);
        // SAFETY: the caller's promise.
        unsafe {
            let above = V::load(from.add(offsets[0])).mul(V::splat(weights[0]));
            let above = above.mul_add(V::load(from.add(offsets[1])), V::splat(weights[1]));
            let below = V::load(from.add(offsets[2])).mul(V::splat(weights[2]));
            let below = below.mul_add(V::load(from.add(offsets[3])), V::splat(weights[3]));
            above.add(below).store(to.add(at * V::LANES));
        }
        at += 1;
    }
}

/// # Safety
/// As of [`blended`].
#[inline(always)]
unsafe fn nearest<V: Vector>(places: &Places, count: usize, from: *const f32, to: *mut f32) {
    let mut at = 0;
    while at < count && at < RUN {
        // SAFETY: the caller's promise.
        unsafe {
            let pixel = V::load(from.add(places.offsets[at][0]));
            let pixel = pixel.mul(V::splat(places.weights[at][0]));
            pixel.store(to.add(at * V::LANES));
        }
        at += 1;
    }
}

/// # Safety
/// From each place on there is a value behind `from`, and for each of `count` pixels one behind `to`, `LANES` apart.
#[inline(always)]
unsafe fn one_channel<V: Vector>(
    places: &Places,
    count: usize,
    linear: bool,
    from: *const f32,
    to: *mut f32,
) {
    let mut at = 0;
    while at < count && at < RUN {
        let (offsets, weights) = (&places.offsets[at], &places.weights[at]);
        // SAFETY: the caller's promise.
        unsafe {
            let mut sum = *from.add(offsets[0]) * weights[0];
            if linear {
                sum += *from.add(offsets[1]) * weights[1];
                sum += *from.add(offsets[2]) * weights[2] + *from.add(offsets[3]) * weights[3];
            }
            *to.add(at * V::LANES) = sum;
        }
        at += 1;
    }
}

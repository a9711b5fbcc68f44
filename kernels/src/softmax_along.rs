//! Softmax along one digit of an axis, in the middle of a network.
//!
//! `LANES` softmaxes are computed at once: those of a block's channels where the values lie along rows or columns,
//! those of neighbouring pixels where they lie along channels.

use punctual_types::{Axis, Digit};

use crate::functions;
use crate::simd::{Vector, compiled_for};
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part};

/// `e^x / sum e^x` over the positions that a digit of an axis counts, for each position that the rest counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftmaxSpec {
    pub input: BlockedLayout,
    /// The same image, with its own halo.
    pub output: BlockedLayout,
    /// `extent` positions of its axis, `step` apart; both together divide the axis. A repetition is refused.
    pub digit: Digit,
    /// Whether the result is the logarithm of that.
    pub logarithm: bool,
}

/// A softmax for one instruction set.
#[derive(Clone, Debug)]
pub struct Softmax {
    spec: SoftmaxSpec,
    kernel: unsafe fn(&Group),
}

impl Softmax {
    pub fn new(isa: Isa, spec: &SoftmaxSpec) -> Result<Softmax, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let SoftmaxSpec {
            input,
            output,
            digit,
            ..
        } = spec;
        input.check_lanes("input", isa)?;
        output.check_lanes("output", isa)?;
        input.check_same_image(output)?;
        let size = match digit.axis {
            Axis::Channel => input.channels(),
            Axis::Row => input.height(),
            Axis::Column => input.width(),
            Axis::Repeat => 0,
        };
        let period = u64::from(digit.step) * u64::from(digit.extent);
        if size == 0 || period == 0 || !(size as u64).is_multiple_of(period) {
            return Err(KernelError::Mismatch {
                what: "the positions that a softmax goes through",
                found: usize::try_from(period).unwrap_or(usize::MAX),
                expected: size,
            });
        }
        let kernel = match digit.axis {
            Axis::Channel => compiled_for!(isa, along_channels, Group),
            _ => compiled_for!(isa, along_pixels, Group),
        };
        Ok(Softmax {
            spec: *spec,
            kernel,
        })
    }

    pub fn spec(&self) -> &SoftmaxSpec {
        &self.spec
    }

    /// Each group of channels that has some in the part's rows, the groups of a row of pixels together: a group whose
    /// channels are shared among parts is summed up in each of them.
    fn run_channels(&self, part: Part, from: *const f32, to: Written) {
        let SoftmaxSpec { input, output, .. } = &self.spec;
        let (lanes, height) = (output.lanes(), output.height());
        let rows = output.rows(part);
        for row in 0..height {
            // The part's blocks in this row.
            let first = rows.start.saturating_sub(row).div_ceil(height);
            let end = rows.end.saturating_sub(row).div_ceil(height);
            let (first, end) = (first * lanes, (end * lanes).min(output.channels()));
            if first >= end {
                continue;
            }
            self.clear_surplus(first / lanes, end.div_ceil(lanes), row, to);
            for start in self.starts(output.channels()) {
                let digit = self.spec.digit;
                let last = start + (digit.extent as usize - 1) * digit.step as usize;
                if last < first || start >= end {
                    continue;
                }
                let group = Group {
                    layouts: [*input, *output],
                    digit,
                    logarithm: self.spec.logarithm,
                    from,
                    to,
                    start,
                    written: first..end,
                    place: [0, row],
                };
                // SAFETY: the constructor saw that the instruction set is available and the digit
                // inside the axis; the tensors are as long as their layouts say, the output's
                // slice has all rows of the part.
                unsafe { (self.kernel)(&group) };
            }
        }
    }

    /// The first position of each group on an axis.
    fn starts(&self, size: usize) -> impl Iterator<Item = usize> + use<> {
        let Digit { step, extent, .. } = self.spec.digit;
        let (step, period) = (step as usize, step as usize * extent as usize);
        (0..size)
            .step_by(period)
            .flat_map(move |outer| outer..outer + step)
    }

    fn clear_surplus(&self, first: usize, end: usize, row: usize, to: Written) {
        let output = &self.spec.output;
        let lanes = output.lanes();
        let used = output.channels() % lanes;
        if used == 0 || end != output.blocks() || first == end {
            return;
        }
        for pixel in 0..output.width() {
            let at = output.row_start(end - 1, row) - to.first + pixel * lanes;
            for lane in used..lanes {
                // SAFETY: the row is the part's.
                unsafe { *to.values.add(at + lane) = 0.0 };
            }
        }
    }

    /// Groups of rows in a block that have some in the part.
    fn run_rows(&self, part: Part, from: *const f32, to: Written) {
        let output = &self.spec.output;
        for span in output.spans(part) {
            for block in span.block..span.block + span.blocks {
                for start in self.starts(output.height()) {
                    for column in 0..output.width() {
                        self.run_pixels(from, to, start, span.rows.clone(), [block, column]);
                    }
                }
            }
        }
    }

    /// Groups of columns in each of the part's rows.
    fn run_columns(&self, part: Part, from: *const f32, to: Written) {
        let output = &self.spec.output;
        for (block, row) in output.block_rows(part) {
            for start in self.starts(output.width()) {
                self.run_pixels(from, to, start, 0..output.width(), [block, row]);
            }
        }
    }

    fn run_pixels(
        &self,
        from: *const f32,
        to: Written,
        start: usize,
        written: core::ops::Range<usize>,
        place: [usize; 2],
    ) {
        let group = Group {
            layouts: [self.spec.input, self.spec.output],
            digit: self.spec.digit,
            logarithm: self.spec.logarithm,
            from,
            to,
            start,
            written,
            place,
        };
        // SAFETY: as for channels.
        unsafe { (self.kernel)(&group) };
    }
}

impl Kernel for Softmax {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let SoftmaxSpec { input, output, .. } = &self.spec;
        let range = output.part(part);
        for image in images {
            image.prepare([input.len()], output, part);
            let from = image.inputs[0].as_ptr();
            let to = Written {
                values: image.output.as_mut_ptr(),
                first: range.start,
            };
            match self.spec.digit.axis {
                Axis::Channel => self.run_channels(part, from, to),
                Axis::Row => self.run_rows(part, from, to),
                _ => self.run_columns(part, from, to),
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        // What it reads serves several blocks.
        self.spec.output.blocks() == 1
    }
}

/// A part of the output.
#[derive(Clone, Copy)]
struct Written {
    values: *mut f32,
    /// Where in the tensor it begins.
    first: usize,
}

/// Values that sum up to 1, for as many lanes as there are, or for a whole row of pixels.
struct Group {
    /// Of the input and the output.
    layouts: [BlockedLayout; 2],
    digit: Digit,
    logarithm: bool,
    from: *const f32,
    to: Written,
    /// The first position.
    start: usize,
    /// Positions that are written; the others are another part's.
    written: core::ops::Range<usize>,
    /// Block and row, or block and column if the group goes along rows; of channels the row.
    place: [usize; 2],
}

impl Group {
    fn positions(&self) -> impl Iterator<Item = usize> + use<> {
        let Digit { step, extent, .. } = self.digit;
        let end = self.start + step as usize * extent as usize;
        (self.start..end).step_by(step as usize)
    }

    /// Where the pixel at a position of the group lies in a tensor.
    fn pixel(&self, layout: &BlockedLayout, position: usize) -> usize {
        let [block, other] = self.place;
        let (row, column) = match self.digit.axis {
            Axis::Row => (position, other),
            _ => (other, position),
        };
        layout.row_start(block, row) + column * layout.lanes()
    }
}

/// What a group's values lack to its results.
///
/// # Safety
/// The processor has the instruction set.
#[inline(always)]
unsafe fn result<V: Vector>(value: V, largest: V, sum: V, logarithm: bool) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let less = value.sub(largest);
        if logarithm {
            less.sub(sum)
        } else {
            functions::exp(less).mul(sum)
        }
    }
}

/// The factor of a group's results, or what is taken from their logarithms.
///
/// # Safety
/// The processor has the instruction set.
#[inline(always)]
unsafe fn normaliser<V: Vector>(sum: V, logarithm: bool) -> V {
    // SAFETY: the caller's promise; no vector has more lanes.
    unsafe {
        if !logarithm {
            return V::splat(1.0).div(sum);
        }
        let mut lanes = [1.0_f32; 16];
        sum.store(lanes.as_mut_ptr());
        let mut lane = 0;
        while lane < V::LANES {
            lanes[lane] = lanes[lane].ln();
            lane += 1;
        }
        V::load(lanes.as_ptr())
    }
}

/// # Safety
/// The processor has the instruction set; the tensors are as their layouts say, and the written positions are the
/// output's.
#[inline(always)]
unsafe fn along_pixels<V: Vector>(group: &Group) {
    let [input, output] = &group.layouts;
    // SAFETY: the caller's promise.
    unsafe {
        let mut largest = V::splat(f32::NEG_INFINITY);
        for position in group.positions() {
            largest = V::load(group.from.add(group.pixel(input, position))).max(largest);
        }
        let mut sum = V::splat(0.0);
        for position in group.positions() {
            let value = V::load(group.from.add(group.pixel(input, position)));
            sum = sum.add(functions::exp(value.sub(largest)));
        }
        let sum = normaliser(sum, group.logarithm);
        for position in group.positions() {
            if position < group.written.start || position >= group.written.end {
                continue;
            }
            let value = V::load(group.from.add(group.pixel(input, position)));
            let to = group.pixel(output, position) - group.to.first;
            result(value, largest, sum, group.logarithm).store(group.to.values.add(to));
        }
    }
}

/// The same channel of `count` neighbouring pixels, at most as many as lanes.
///
/// # Safety
/// The processor has the instruction set; the pixels are valid.
#[inline(always)]
unsafe fn neighbours<V: Vector>(from: *const f32, count: usize) -> V {
    let mut lanes = [0.0_f32; 16];
    let mut lane = 0;
    while lane < count {
        // SAFETY: the caller's promise.
        lanes[lane] = unsafe { *from.add(lane * V::LANES) };
        lane += 1;
    }
    // SAFETY: no vector has more lanes.
    unsafe { V::load(lanes.as_ptr()) }
}

/// # Safety
/// As of [`along_pixels`].
#[inline(always)]
unsafe fn along_channels<V: Vector>(group: &Group) {
    let [input, output] = &group.layouts;
    let [_, row] = group.place;
    let mut pixel = 0;
    while pixel < input.width() {
        let count = if input.width() - pixel < V::LANES {
            input.width() - pixel
        } else {
            V::LANES
        };
        // SAFETY: the caller's promise; `pixel + count <= width`.
        unsafe {
            let mut largest = V::splat(f32::NEG_INFINITY);
            for channel in group.positions() {
                let at = channel_at(input, channel, row, pixel);
                largest = neighbours::<V>(group.from.add(at), count).max(largest);
            }
            let mut sum = V::splat(0.0);
            for channel in group.positions() {
                let at = channel_at(input, channel, row, pixel);
                let value = neighbours::<V>(group.from.add(at), count);
                sum = sum.add(functions::exp(value.sub(largest)));
            }
            let sum = normaliser(sum, group.logarithm);
            for channel in group.positions() {
                if channel < group.written.start || channel >= group.written.end {
                    continue;
                }
                let value = neighbours::<V>(
                    group.from.add(channel_at(input, channel, row, pixel)),
                    count,
                );
                let mut lanes = [0.0_f32; 16];
                result(value, largest, sum, group.logarithm).store(lanes.as_mut_ptr());
                let to = channel_at(output, channel, row, pixel) - group.to.first;
                let mut lane = 0;
                while lane < count {
                    *group.to.values.add(to + lane * V::LANES) = lanes[lane];
                    lane += 1;
                }
            }
        }
        pixel += V::LANES;
    }
}

/// Where a channel of a pixel lies.
fn channel_at(layout: &BlockedLayout, channel: usize, row: usize, pixel: usize) -> usize {
    let lanes = layout.lanes();
    layout.row_start(channel / lanes, row) + pixel * lanes + channel % lanes
}

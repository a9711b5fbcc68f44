//! A blocked tensor written to plain memory: values one after the other, without blocks or halo.

use core::cell::Cell;
use core::ops::Range;

use punctual_types::{Axis, Digit, View};

use super::shape;
use crate::simd::{KEPT, LaneMap, Vector, compiled_for};
use crate::{BlockedLayout, Isa, KernelError, Part};

/// Writes the values of a view of a tensor to plain memory, in the view's order.
///
/// Two orders are as fast as memory: those that end in columns one apart, which are planes, and those that end in
/// channels one apart, which are tokens.
///
/// Memory of other elements than f32 is a conversion of what is written for small parts: a part's values are
/// consecutive.
#[derive(Clone, Debug)]
pub struct PlainCopy {
    input: BlockedLayout,
    /// Where the first value lies.
    start: Place,
    /// What is counted before a row; the last one counts fastest.
    outer: Vec<Count>,
    /// The last digit: a row's values.
    row: Count,
    form: Form,
    kernel: unsafe fn(&Lines<'_>),
}

/// A digit: `extent` places, one `step` apart.
#[derive(Clone, Copy, Debug)]
struct Count {
    extent: usize,
    step: Place,
}

/// A place in the input: floats from its beginning to the pixel, and channels from the first block on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    pixel: usize,
    channel: usize,
}

impl Place {
    fn plus(self, times: usize, step: Place) -> Place {
        Place {
            pixel: self.pixel + times * step.pixel,
            channel: self.channel + times * step.channel,
        }
    }
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Each row is channels of one pixel.
    Tokens,
    /// Each row is pixels of one channel; as many rows as a block has lanes together. Their channels are this digit.
    Planes { digit: usize },
    /// Value by value.
    Any,
}

impl PlainCopy {
    /// For a tensor of floats.
    pub fn new(isa: Isa, input: BlockedLayout, view: &View) -> Result<PlainCopy, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        input.check_lanes("input", isa)?;
        let shape = shape(&input);
        let [channel, row, column] = view.start;
        if !view.lies_in(shape) {
            return Err(KernelError::View { shape });
        }
        let elements = usize::try_from(view.elements()).unwrap_or(usize::MAX);
        crate::layout::check_limit("values of the view", elements, input_max())?;
        let counts = counts(&input, &view.digits);
        let (last, outer) = match counts.split_last() {
            Some((&last, outer)) => (last, outer),
            None => (ONE, &[][..]),
        };
        let channels = |count: &Count| (count.step.pixel, count.step.channel) == (0, 1);
        let form = match outer.iter().position(channels) {
            _ if channels(&last) => Form::Tokens,
            Some(digit) if last.step.channel == 0 => Form::Planes { digit },
            _ => Form::Any,
        };
        Ok(PlainCopy {
            start: Place {
                pixel: input.row_start(0, row as usize) + column as usize * input.lanes(),
                channel: channel as usize,
            },
            outer: outer.to_vec(),
            row: last,
            input,
            form,
            kernel: match form {
                Form::Tokens => compiled_for!(isa, token_rows, Lines<'_>),
                Form::Planes { .. } => compiled_for!(isa, plane_rows, Lines<'_>),
                Form::Any => compiled_for!(isa, any_rows, Lines<'_>),
            },
        })
    }

    /// How many values it writes.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.rows() * self.row.extent
    }

    fn rows(&self) -> usize {
        self.outer.iter().map(|count| count.extent).product()
    }

    /// Which of the values a part writes. May be none.
    pub fn part(&self, part: Part) -> Range<usize> {
        let rows = part.share(self.rows());
        rows.start * self.row.extent..rows.end * self.row.extent
    }
}

impl PlainCopy {
    /// Writes `part` of the values of an image's tensor, and returns how many of them are infinite or not a number.
    pub fn run(&self, part: Part, input: &[f32], output: &mut [f32]) -> usize {
        assert_eq!(
            input.len(),
            self.input.len(),
            "the input is the whole tensor"
        );
        assert_eq!(
            output.len(),
            self.part(part).len(),
            "the output is the part's"
        );
        let rows = part.share(self.rows());
        let mut finite = true;
        let mut first = rows.start;
        while first < rows.end {
            let lines = self.lines(first, &rows, input, output);
            first += lines.count;
            // SAFETY: the constructor saw that the instruction set is available and that the view lies in the tensor,
            // which is as long as the input; the output has the part's rows and is borrowed for us alone.
            unsafe { (self.kernel)(&lines) };
            finite &= lines.finite.get();
        }
        // What is beside a value may have been looked at with it.
        match finite {
            true => 0,
            false => output.iter().filter(|value| !value.is_finite()).count(),
        }
    }

    /// The rows from `first` on that differ in the last digit only.
    fn lines<'a>(
        &self,
        first: usize,
        rows: &Range<usize>,
        input: &'a [f32],
        output: &'a mut [f32],
    ) -> Lines<'a> {
        let (mut place, mut rest) = (self.start, first);
        // The digit of channels: where it stands, and how many rows are between its places.
        let (mut channel, mut apart) = (0, 1);
        let digit = match self.form {
            Form::Planes { digit } => Some(digit),
            _ => None,
        };
        for (at, count) in self.outer.iter().enumerate().rev() {
            let value = rest % count.extent;
            rest /= count.extent;
            place = place.plus(value, count.step);
            match digit {
                Some(digit) if digit == at => channel = value,
                Some(digit) if digit < at => apart *= count.extent,
                _ => {}
            }
        }
        let last = self.outer.last().copied();
        let extent = last.map_or(1, |last| last.extent);
        let channels = digit.map_or(1, |digit| self.outer[digit].extent);
        Lines {
            input,
            output: output.as_mut_ptr(),
            rows: rows.len(),
            first: first - rows.start,
            count: (extent - first % extent).min(rows.end - first),
            place,
            step: last.map_or(Place::default(), |last| last.step),
            row: self.row,
            block_stride: self.input.block_stride(),
            channel,
            channels,
            apart,
            finite: Cell::new(true),
        }
    }
}

const ONE: Count = Count {
    extent: 1,
    step: Place {
        pixel: 0,
        channel: 0,
    },
};

/// Products of two offsets stay far from overflowing.
const fn input_max() -> usize {
    crate::layout::ELEMENTS_MAX
}

fn step(input: &BlockedLayout, digit: Digit) -> Place {
    let step = digit.step as usize;
    let (pixel, channel) = match digit.axis {
        Axis::Channel => (0, step),
        Axis::Row => (step * input.row_stride(), 0),
        Axis::Column => (step * input.lanes(), 0),
        Axis::Repeat => (0, 0),
    };
    Place { pixel, channel }
}

/// The digits, as few as possible: without a halo, rows and columns can be counted as one.
fn counts(input: &BlockedLayout, digits: &[Digit]) -> Vec<Count> {
    let mut counts: Vec<Count> = Vec::with_capacity(digits.len());
    for &digit in digits.iter().filter(|digit| digit.extent > 1) {
        let extent = digit.extent as usize;
        let step = step(input, digit);
        match counts.last_mut() {
            Some(outer) if outer.step == Place::default().plus(extent, step) => {
                outer.step = step;
                outer.extent *= extent;
            }
            _ => counts.push(Count { extent, step }),
        }
    }
    counts
}

/// Rows of plain memory that follow each other, and whose places in the input are evenly spaced.
struct Lines<'a> {
    input: &'a [f32],
    /// Where the part's rows are written.
    output: *mut f32,
    /// How many rows the part has.
    rows: usize,
    /// The first row among these, and how many of them.
    first: usize,
    count: usize,
    /// Where the first row begins.
    place: Place,
    /// From a row to the next.
    step: Place,
    row: Count,
    block_stride: usize,
    /// Of planes: where the digit of channels stands in the first row, how many places it has, and how many rows are
    /// between two of them.
    channel: usize,
    channels: usize,
    apart: usize,
    /// Cleared by what may not be finite.
    finite: Cell<bool>,
}

impl Lines<'_> {
    /// Where a channel of a pixel lies.
    #[inline(always)]
    fn at<V: Vector>(&self, place: Place) -> usize {
        place.pixel + place.channel / V::LANES * self.block_stride + place.channel % V::LANES
    }

    /// Notes lanes that were each 0, but for what was multiplied with a value that is not finite.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn note<V: Vector>(&self, finite: V) {
        let mut lanes = [0.0; 16];
        // SAFETY: no vector has more lanes.
        unsafe { finite.store(lanes.as_mut_ptr()) };
        for lane in lanes {
            if lane != 0.0 {
                self.finite.set(false);
            }
        }
    }
}

/// Each row is the channels of a pixel.
///
/// # Safety
/// The processor has the instruction set; the rows are inside the tensor, and the output is valid for the part's rows.
#[inline(always)]
unsafe fn token_rows<V: Vector>(lines: &Lines<'_>) {
    let (channels, end) = (lines.row.extent, lines.rows * lines.row.extent);
    // SAFETY: the caller's promise; what a vector has too much is inside both tensors, and overwritten by what follows.
    unsafe {
        let (zero, mut finite) = (V::splat(0.0), V::splat(0.0));
        let mut to = lines.first * channels;
        for line in 0..lines.count {
            let place = lines.place.plus(line, lines.step);
            let mut done = 0;
            while done < channels {
                let channel = place.channel + done;
                let from = lines.at::<V>(Place { channel, ..place });
                let some = (V::LANES - channel % V::LANES).min(channels - done);
                if from + V::LANES <= lines.input.len() && to + V::LANES <= end {
                    let values = V::load(lines.input.as_ptr().add(from));
                    finite = finite.mul_add(values, zero);
                    values.store(lines.output.add(to));
                } else {
                    finite = finite.mul_add(copy_some::<V>(lines, from, to, some), zero);
                }
                (done, to) = (done + some, to + some);
            }
        }
        lines.note(finite);
    }
}

/// Copies less than a vector, and returns it with zeros.
///
/// # Safety
/// The processor has the instruction set; `some` values are valid in both, at most `LANES`.
#[inline(always)]
unsafe fn copy_some<V: Vector>(lines: &Lines<'_>, from: usize, to: usize, some: usize) -> V {
    let mut values = [0.0; 16];
    // SAFETY: the caller's promise; no vector has more lanes.
    unsafe {
        for (at, value) in values.iter_mut().enumerate().take(some) {
            *value = *lines.input.get_unchecked(from + at);
            *lines.output.add(to + at) = *value;
        }
        V::load(values.as_ptr())
    }
}

/// Each row is pixels of a channel. The first row of a block's channels writes those of all of them that are in the
/// part.
///
/// # Safety
/// As of [`token_rows`].
#[inline(always)]
unsafe fn plane_rows<V: Vector>(lines: &Lines<'_>) {
    for line in 0..lines.count {
        let place = lines.place.plus(line, lines.step);
        let row = lines.first + line;
        // The digit of channels moves with the rows if none is between its places.
        let moved = if lines.apart == 1 { line } else { 0 };
        let channel = lines.channel + moved;
        let lane = place.channel % V::LANES;
        if channel > 0 && lane > 0 && row >= lines.apart {
            continue;
        }
        let below = (lines.rows - row).div_ceil(lines.apart);
        let together = (V::LANES - lane).min(lines.channels - channel).min(below);
        // SAFETY: the caller's promise; the rows `apart` from each other are in the part, and a processor has the
        // narrower vectors too.
        unsafe {
            if together > 1 && lines.row.extent >= V::Narrow::LANES {
                let block = lines.at::<V>(place) - lane;
                transpose_rows::<V::Narrow>(lines, block, lane..lane + together, row);
                continue;
            }
            for at in 0..together {
                let channel = place.channel + at;
                one_row::<V>(lines, Place { channel, ..place }, row + at * lines.apart);
            }
        }
    }
}

/// Writes rows of lanes of one block, which begins at `block`; `row` is the first of them.
///
/// # Safety
/// As of [`token_rows`]; a row has as many values as a vector at least, and a block of the tensor some vectors.
#[inline(always)]
unsafe fn transpose_rows<V: Vector>(
    lines: &Lines<'_>,
    block: usize,
    lanes: Range<usize>,
    row: usize,
) {
    let Count { extent, step } = lines.row;
    let below = lines.apart * extent;
    // SAFETY: the caller's promise: a pixel's whole block is inside the tensor.
    unsafe {
        let zero = V::splat(0.0);
        // Several sums, none of which waits for another.
        let mut finite = [zero; 4];
        let maps = Maps::<V>::new();
        let mut first = lanes.start / V::LANES * V::LANES;
        while first < lanes.end {
            let from = lines.input.as_ptr().add(block + first);
            // Where the vector's first lane would be, even if that is no row of the part.
            let before = lanes.start as isize - first as isize;
            let to = lines.output.wrapping_add(row * extent);
            let to = to.wrapping_offset(-before * below as isize);
            let mut column = 0;
            loop {
                let mut pixel = from.add(column * step.pixel);
                let mut planes = [zero; 16];
                for plane in planes.iter_mut().take(V::LANES) {
                    *plane = V::load(pixel);
                    pixel = pixel.wrapping_add(step.pixel);
                }
                maps.transpose(&mut planes);
                let mut plane = to.wrapping_add(column);
                for at in 0..V::LANES {
                    if lanes.contains(&(first + at)) {
                        finite[at % 4] = finite[at % 4].mul_add(planes[at], zero);
                        planes[at].store(plane);
                    }
                    plane = plane.wrapping_add(below);
                }
                if column + V::LANES == extent {
                    break;
                }
                // The last vector may repeat some of the one before.
                column = (column + V::LANES).min(extent - V::LANES);
            }
            first += V::LANES;
        }
        let [a, b, c, d] = finite;
        lines.note(a.add(b).add(c.add(d)));
    }
}

/// # Safety
/// As of [`token_rows`].
#[inline(always)]
unsafe fn any_rows<V: Vector>(lines: &Lines<'_>) {
    for line in 0..lines.count {
        let place = lines.place.plus(line, lines.step);
        // SAFETY: the caller's promise.
        unsafe { one_row::<V>(lines, place, lines.first + line) };
    }
}

/// # Safety
/// As of [`token_rows`].
#[inline(always)]
unsafe fn one_row<V: Vector>(lines: &Lines<'_>, mut place: Place, row: usize) {
    let Count { extent, step } = lines.row;
    let mut finite = 0.0;
    for at in 0..extent {
        // SAFETY: the caller's promise.
        let value = unsafe { *lines.input.get_unchecked(lines.at::<V>(place)) };
        finite += value * 0.0;
        // SAFETY: as above.
        unsafe { *lines.output.add(row * extent + at) = value };
        place = place.plus(1, step);
    }
    if finite != 0.0 {
        lines.finite.set(false);
    }
}

/// Which lanes two vectors exchange in each step of a transposition: of blocks of 1, 2, 4 and 8.
struct Maps<V: Vector> {
    up: [V::Lanes; 4],
    down: [V::Lanes; 4],
}

impl<V: Vector> Maps<V> {
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn new() -> Self {
        let (mut up, mut down) = ([[KEPT; 16]; 4], [[KEPT; 16]; 4]);
        for size in 0..4 {
            for lane in 0..V::LANES {
                if lane >> size & 1 == 1 {
                    up[size][lane] = (lane - (1 << size)) as i32;
                } else if lane + (1 << size) < V::LANES {
                    down[size][lane] = (lane + (1 << size)) as i32;
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            Maps {
                up: all::<V>(&up),
                down: all::<V>(&down),
            }
        }
    }

    /// Lane `i` of vector `j` becomes lane `j` of vector `i`, of the first `LANES`.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn transpose(&self, vectors: &mut [V; 16]) {
        // SAFETY: the caller's promise.
        unsafe {
            self.exchange::<0>(vectors);
            self.exchange::<1>(vectors);
            if V::LANES > 4 {
                self.exchange::<2>(vectors);
            }
            if V::LANES > 8 {
                self.exchange::<3>(vectors);
            }
        }
    }

    /// Vectors `2^SIZE` apart exchange blocks of so many lanes. A step of its own, so that its loop is unrolled.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn exchange<const SIZE: usize>(&self, vectors: &mut [V; 16]) {
        for pair in 0..V::LANES / 2 {
            let first = (pair >> SIZE << (SIZE + 1)) + pair % (1 << SIZE);
            let second = first + (1 << SIZE);
            let (a, b) = (vectors[first], vectors[second]);
            // SAFETY: the caller's promise.
            unsafe {
                vectors[first] = a.pick(b, self.up[SIZE]);
                vectors[second] = b.pick(a, self.down[SIZE]);
            }
        }
    }
}

/// # Safety
/// The processor has the instruction set.
#[inline(always)]
unsafe fn all<V: Vector>(maps: &[LaneMap; 4]) -> [V::Lanes; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        [
            V::lanes(&maps[0]),
            V::lanes(&maps[1]),
            V::lanes(&maps[2]),
            V::lanes(&maps[3]),
        ]
    }
}

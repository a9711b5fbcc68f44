//! Which positions of an axis have the largest or the smallest values.

use punctual_types::{Axis, Ranking};

use crate::simd::{Vector, compiled_for};
use crate::spec::check_equal;
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part};

/// The positions of the values that come first along an axis, in their order: one of the channels of each pixel, or as
/// many of the columns of each row and channel as the output has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopKSpec {
    pub input: BlockedLayout,
    /// Has the input's size but along the axis.
    pub output: BlockedLayout,
    /// [`Axis::Channel`], of which the output has one, or [`Axis::Column`].
    pub axis: Axis,
    pub ranking: Ranking,
}

/// A selection for one instruction set.
#[derive(Clone, Debug)]
pub struct TopK {
    spec: TopKSpec,
    channels: unsafe fn(&Row<'_>),
}

impl TopK {
    pub fn new(isa: Isa, spec: &TopKSpec) -> Result<TopK, KernelError> {
        spec.check(isa)?;
        Ok(TopK {
            spec: *spec,
            channels: compiled_for!(isa, best_channels, Row<'_>),
        })
    }

    pub fn spec(&self) -> &TopKSpec {
        &self.spec
    }
}

impl Kernel for TopK {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let TopKSpec { input, output, .. } = &self.spec;
        let lanes = output.lanes();
        let part_start = output.part(part).start;
        for image in images {
            image.prepare([input.len()], output, part);
            for (block, row) in output.block_rows(part) {
                let to = output.row_start(block, row) - part_start;
                let output = &mut image.output[to..][..output.width() * lanes];
                output.fill(0.0);
                if self.spec.axis == Axis::Channel {
                    let row = Row {
                        spec: &self.spec,
                        from: image.inputs[0],
                        row,
                        output: output.as_mut_ptr(),
                    };
                    // SAFETY: the constructor saw that the instruction set is available; the output has a vector for
                    // each of the row's pixels, borrowed for us alone.
                    unsafe { (self.channels)(&row) };
                    continue;
                }
                let values = &image.inputs[0][input.row_start(block, row)..];
                let used = lanes.min(input.channels() - block * lanes);
                for lane in 0..used {
                    let line = Line {
                        values: &values[lane..],
                        lanes,
                        ranking: self.spec.ranking,
                    };
                    line.select(input.width(), &mut output[lane..]);
                }
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        true
    }
}

impl TopKSpec {
    fn check(&self, isa: Isa) -> Result<(), KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let TopKSpec {
            input,
            output,
            axis,
            ..
        } = self;
        input.check_lanes("input", isa)?;
        output.check_lanes("output", isa)?;
        check_equal("the output's height", output.height(), input.height())?;
        match axis {
            Axis::Channel => {
                check_equal("the channels that are chosen", output.channels(), 1)?;
                check_equal("the output's width", output.width(), input.width())
            }
            Axis::Column => {
                check_equal("the output's channels", output.channels(), input.channels())?;
                let (found, limit) = (output.width(), input.width());
                if found > limit {
                    let what = "the columns that are chosen";
                    return Err(KernelError::TooLarge { what, found, limit });
                }
                Ok(())
            }
            Axis::Row | Axis::Repeat => Err(KernelError::Mismatch {
                what: "the axis of a selection",
                found: axis.index().unwrap_or(3),
                expected: 2,
            }),
        }
    }
}

/// One channel of a row.
struct Line<'a> {
    values: &'a [f32],
    lanes: usize,
    ranking: Ranking,
}

impl Line<'_> {
    /// Writes the first of `columns` columns to every `lanes`th value of `chosen`. They are a heap there, the last of
    /// them on top, until all columns have been seen; then the heap is sorted from its end.
    fn select(&self, columns: usize, chosen: &mut [f32]) {
        let count = chosen.len().div_ceil(self.lanes);
        for column in 0..count {
            self.rise(chosen, column, column as u32);
        }
        for column in count as u32..columns as u32 {
            if self.is_before(column, self.at(chosen, 0)) {
                self.sink(chosen, count, column);
            }
        }
        for end in (1..count).rev() {
            let last = self.at(chosen, end);
            chosen[end * self.lanes] = chosen[0];
            self.sink(chosen, end, last);
        }
    }

    /// Puts a column into the heap's new place `at`, above those that come before it.
    fn rise(&self, heap: &mut [f32], mut at: usize, column: u32) {
        while at > 0 {
            let above = (at - 1) / 2;
            if !self.is_before(self.at(heap, above), column) {
                break;
            }
            heap[at * self.lanes] = heap[above * self.lanes];
            at = above;
        }
        heap[at * self.lanes] = column as f32;
    }

    /// Puts a column into a heap of `count` instead of its top.
    fn sink(&self, heap: &mut [f32], count: usize, column: u32) {
        let mut at = 0;
        loop {
            let mut below = 2 * at + 1;
            if below >= count {
                break;
            }
            let next = below + 1;
            if next < count && self.is_before(self.at(heap, below), self.at(heap, next)) {
                below = next;
            }
            if !self.is_before(column, self.at(heap, below)) {
                break;
            }
            heap[at * self.lanes] = heap[below * self.lanes];
            at = below;
        }
        heap[at * self.lanes] = column as f32;
    }

    fn at(&self, heap: &[f32], place: usize) -> u32 {
        heap[place * self.lanes] as u32
    }

    fn is_before(&self, a: u32, b: u32) -> bool {
        let key = |column: u32| {
            let value = self.values[column as usize * self.lanes];
            self.ranking.key(value, column)
        };
        key(a) > key(b)
    }
}

struct Row<'a> {
    spec: &'a TopKSpec,
    from: &'a [f32],
    row: usize,
    output: *mut f32,
}

/// Most lanes of a vector.
const LANES_MAX: usize = 16;

/// # Safety
/// The processor has the instruction set; the output is valid for a vector a pixel.
#[inline(always)]
unsafe fn best_channels<V: Vector>(row: &Row<'_>) {
    let TopKSpec { input, ranking, .. } = row.spec;
    let channels = input.channels();
    let mut pixel = 0;
    while pixel < input.width() {
        let mut keys = [i64::MIN; LANES_MAX];
        let mut first = 0;
        while first < channels {
            let start = input.row_start(first / V::LANES, row.row) + pixel * V::LANES;
            let values = &row.from[start..start + V::LANES];
            let mut lane = 0;
            // The number of lanes of whole blocks is a constant.
            if channels - first >= V::LANES {
                while lane < V::LANES {
                    let key = ranking.key(values[lane], (first + lane) as u32);
                    keys[lane] = if key > keys[lane] { key } else { keys[lane] };
                    lane += 1;
                }
            } else {
                while lane < channels - first {
                    let key = ranking.key(values[lane], (first + lane) as u32);
                    keys[lane] = if key > keys[lane] { key } else { keys[lane] };
                    lane += 1;
                }
            }
            first += V::LANES;
        }
        let mut best = keys[0];
        let mut lane = 1;
        while lane < V::LANES {
            best = if keys[lane] > best { keys[lane] } else { best };
            lane += 1;
        }
        // SAFETY: the caller's promise.
        unsafe { *row.output.add(pixel * V::LANES) = ranking.number(best) as f32 };
        pixel += 1;
    }
}

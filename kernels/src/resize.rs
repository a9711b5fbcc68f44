//! Images of other rows and columns: the nearest pixels, or neighbours blended.

use punctual_types::{Between, Filter, Resampling};

use crate::simd::{Vector, compiled_for};
use crate::spec::check_equal;
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part};

/// A resize on static shapes. The input needs no halo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResizeSpec {
    /// What it reads: floats; bytes, too, if their nearest is taken.
    pub input: BlockedLayout,
    /// What it writes: the input's channels and elements, rows and columns of the resampling.
    pub output: BlockedLayout,
    pub resampling: Resampling,
}

/// A resize for one instruction set.
#[derive(Clone, Debug)]
pub struct Resize {
    spec: ResizeSpec,
    sources: Sources,
}

/// Where the output's rows and columns come from.
#[derive(Clone, Debug)]
enum Sources {
    Nearest {
        rows: Box<[u32]>,
        columns: Box<[u32]>,
    },
    Linear {
        rows: Box<[Between]>,
        columns: Box<[Run]>,
        /// Of the second column of each pixel's run.
        shares: Box<[f32]>,
        kernel: unsafe fn(&Row<'_>),
    },
}

/// Neighbouring output pixels between the same two columns.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    second: u32,
    pixels: u32,
}

impl Resize {
    /// Checks the shapes and finds where each row and column comes from.
    pub fn new(isa: Isa, spec: &ResizeSpec) -> Result<Resize, KernelError> {
        spec.check(isa)?;
        let ResizeSpec {
            input, resampling, ..
        } = spec;
        let (height, width) = (input.height() as u32, input.width() as u32);
        let sources = match resampling.filter {
            Filter::Nearest(rounding) => {
                let numbers = |at: usize| at as u32;
                let rows = resampling.nearest_rows(height, rounding);
                let columns = resampling.nearest_columns(width, rounding);
                Sources::Nearest {
                    rows: rows.map(numbers).collect(),
                    columns: columns.map(numbers).collect(),
                }
            }
            Filter::Linear => {
                let columns: Vec<Between> = resampling.linear_columns(width).collect();
                Sources::Linear {
                    rows: resampling.linear_rows(height).collect(),
                    shares: columns.iter().map(|column| column.share).collect(),
                    columns: runs(&columns),
                    kernel: compiled_for!(isa, linear_row, Row<'_>),
                }
            }
        };
        Ok(Resize {
            spec: *spec,
            sources,
        })
    }

    pub fn spec(&self) -> &ResizeSpec {
        &self.spec
    }

    fn nearest(&self, part: Part, rows: &[u32], columns: &[u32], image: &mut Image<'_>) {
        let ResizeSpec { input, output, .. } = &self.spec;
        let part_start = output.part(part).start;
        let len = output.width() * output.pixel();
        // The last row that was written, and from which block's row.
        let mut written = None;
        for (block, row) in output.block_rows(part) {
            let start = output.row_start(block, row) - part_start;
            let source = (block, rows[row]);
            match written {
                Some((from, same)) if same == source => {
                    image.output.copy_within(from..from + len, start);
                }
                _ => {
                    let from = &image.input()[input.row_start(block, rows[row] as usize)..];
                    let from = &from[..input.width() * input.pixel()];
                    copy_row(
                        from,
                        columns,
                        output.pixel(),
                        &mut image.output[start..][..len],
                    );
                }
            }
            written = Some((start, source));
        }
    }

    fn linear(&self, part: Part, image: &mut Image<'_>) {
        let ResizeSpec { input, output, .. } = &self.spec;
        let Sources::Linear {
            rows,
            columns,
            shares,
            kernel,
        } = &self.sources
        else {
            return;
        };
        let part_start = output.part(part).start;
        let (from, lanes) = (image.input(), output.lanes());
        for (block, row) in output.block_rows(part) {
            let Between {
                first,
                second,
                share,
            } = rows[row];
            let line = |row| from[input.row_start(block, row)..][..input.width() * lanes].as_ptr();
            let start = output.row_start(block, row) - part_start;
            let row = Row {
                first: line(first),
                second: line(second),
                share,
                columns,
                shares,
                output: image.output[start..][..shares.len() * lanes].as_mut_ptr(),
            };
            // SAFETY: the constructor saw that the instruction set is available; both lines are
            // of the input's width, in which the runs' columns lie, and the output has a pixel for
            // each share, of which the runs have as many together; it is borrowed for us alone.
            unsafe { kernel(&row) };
        }
    }
}

impl Kernel for Resize {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let ResizeSpec { input, output, .. } = &self.spec;
        for image in images {
            image.prepare([input.len()], output, part);
            match &self.sources {
                Sources::Nearest { rows, columns } => self.nearest(part, rows, columns, image),
                Sources::Linear { .. } => self.linear(part, image),
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        true
    }
}

impl ResizeSpec {
    fn check(&self, isa: Isa) -> Result<(), KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let ResizeSpec {
            input,
            output,
            resampling,
        } = self;
        input.check_blocks("input", isa)?;
        output.check_blocks("output", isa)?;
        if resampling.filter == Filter::Linear {
            input.check_lanes("input", isa)?;
        }
        if input.element() != output.element() {
            return Err(KernelError::Element {
                tensor: "output",
                expected: "what its input is",
            });
        }
        check_equal("the output's channels", output.channels(), input.channels())?;
        let size = resampling.size;
        check_equal("the output's height", output.height(), size.height as usize)?;
        check_equal("the output's width", output.width(), size.width as usize)
    }
}

/// The columns in runs.
fn runs(columns: &[Between]) -> Box<[Run]> {
    let same = |a: &Between, b: &Between| (a.first, a.second) == (b.first, b.second);
    let run = |all: &[Between]| Run {
        first: all[0].first as u32,
        second: all[0].second as u32,
        pixels: all.len() as u32,
    };
    columns.chunk_by(same).map(run).collect()
}

/// Copies pixels of `pixel` floats from the row's columns.
fn copy_row(from: &[f32], columns: &[u32], pixel: usize, to: &mut [f32]) {
    match pixel {
        16 => copy_pixels::<16>(from, columns, to),
        8 => copy_pixels::<8>(from, columns, to),
        4 => copy_pixels::<4>(from, columns, to),
        2 => copy_pixels::<2>(from, columns, to),
        _ => copy_pixels::<1>(from, columns, to),
    }
}

fn copy_pixels<const FLOATS: usize>(from: &[f32], columns: &[u32], to: &mut [f32]) {
    let from = from.as_chunks::<FLOATS>().0;
    for (to, &column) in to.as_chunks_mut::<FLOATS>().0.iter_mut().zip(columns) {
        *to = from[column as usize];
    }
}

/// A row of one output block, between two rows of the input's.
struct Row<'a> {
    first: *const f32,
    second: *const f32,
    /// Of the second row.
    share: f32,
    columns: &'a [Run],
    shares: &'a [f32],
    output: *mut f32,
}

/// # Safety
/// The processor has the instruction set; both rows are valid for the pixels of the runs' columns,
/// the output for one pixel a share, and nothing aliases it; the runs have as many pixels together.
#[inline(always)]
unsafe fn linear_row<V: Vector>(row: &Row<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let down = V::splat(row.share);
        let (mut shares, mut output) = (row.shares.as_ptr(), row.output);
        let (mut last, mut right) = (u32::MAX, V::splat(0.0));
        for run in row.columns {
            let left = if run.first == last {
                right
            } else {
                blended::<V>(row, down, run.first)
            };
            right = blended::<V>(row, down, run.second);
            last = run.second;
            let difference = right.sub(left);
            for _ in 0..run.pixels {
                let share = V::splat(*shares);
                left.mul_add(difference, share).store(output);
                shares = shares.add(1);
                output = output.add(V::LANES);
            }
        }
    }
}

/// A column's pixels of both rows, blended.
///
/// # Safety
/// As of [`linear_row`].
#[inline(always)]
unsafe fn blended<V: Vector>(row: &Row<'_>, down: V, column: u32) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let at = column as usize * V::LANES;
        let (first, second) = (V::load(row.first.add(at)), V::load(row.second.add(at)));
        first.mul_add(second.sub(first), down)
    }
}

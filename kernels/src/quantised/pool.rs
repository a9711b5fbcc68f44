//! Pools of bytes: a window's largest or mean.

use core::ops::Range;

use punctual_types::{Activation, PoolKind};

use super::rounding::{Rounding, steps};
use super::{bytes, bytes_mut};
use crate::pool::inside;
use crate::{Image, Isa, Kernel, KernelError, Part, PoolSpec};

/// The most pixels of a window: the sum of more bytes would leave f32's whole numbers.
const WINDOW_MAX: usize = 1 << 16;
const _: () = assert!(WINDOW_MAX * 255 <= 1 << 24);

/// A pool of bytes for one instruction set. The mean of whole channels is one whose window covers the image.
#[derive(Clone, Debug)]
pub struct Pool {
    spec: PoolSpec,
    rounding: Rounding,
    zero: i32,
    /// What a step of the input is worth in steps of the output.
    scale: f32,
    kernel: fn(&Pool, &Pixels<'_>, &mut [u8]),
}

impl Pool {
    /// Checks the shapes. Both tensors are bytes.
    pub fn new(isa: Isa, spec: &PoolSpec) -> Result<Pool, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let PoolSpec {
            input,
            output,
            window,
            ..
        } = spec;
        let (of, to) = (
            input.check_bytes("input", isa)?,
            output.check_bytes("output", isa)?,
        );
        spec.check_shapes()?;
        crate::spec::check_limit("pixels of the window", window.kernel.area(), WINDOW_MAX)?;
        Ok(Pool {
            spec: *spec,
            rounding: Rounding::new(to, Activation::None)?,
            zero: i32::from(of.zero),
            scale: (f64::from(of.scale) / f64::from(to.scale)) as f32,
            kernel: match (isa.lanes(), spec.kind) {
                (16, PoolKind::Max) => max_of::<16>,
                (16, PoolKind::Average { .. }) => mean_of::<16>,
                (8, PoolKind::Max) => max_of::<8>,
                (8, PoolKind::Average { .. }) => mean_of::<8>,
                (_, PoolKind::Max) => max_of::<4>,
                (_, PoolKind::Average { .. }) => mean_of::<4>,
            },
        })
    }

    pub fn spec(&self) -> &PoolSpec {
        &self.spec
    }

    /// The pixels of `rows` x `columns` of a block.
    fn pixels<'a>(
        &self,
        input: &'a [f32],
        block: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> Pixels<'a> {
        let layout = &self.spec.input;
        let start = layout.row_start(block, rows.start) + columns.start * layout.pixel();
        let end = layout.row_start(block, rows.end - 1) + columns.end * layout.pixel();
        Pixels {
            input: bytes(&input[start..end]),
            row_stride: layout.row_stride() * size_of::<f32>(),
            rows: rows.len(),
            columns: columns.len(),
        }
    }
}

impl Kernel for Pool {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let PoolSpec {
            input,
            output,
            window,
            ..
        } = &self.spec;
        let (range, lanes) = (output.part(part), output.lanes());
        let (stride, kernel, padding) = (window.stride, window.kernel, window.padding);
        for image in images {
            image.prepare([input.len()], output, part);
            for (block, row) in output.block_rows(part) {
                let rows = inside(
                    row * stride.height as usize,
                    kernel.height as usize,
                    padding.top as usize,
                    input.height(),
                );
                let start = output.row_start(block, row) - range.start;
                let written = output.width() * output.pixel();
                let to = bytes_mut(&mut image.output[start..start + written]);
                for (column, to) in to.chunks_exact_mut(lanes).enumerate() {
                    let left = column * stride.width as usize;
                    let (kernel, padding) = (kernel.width as usize, padding.left as usize);
                    let columns = inside(left, kernel, padding, input.width());
                    let pixels = self.pixels(image.inputs[0], block, rows.clone(), columns);
                    (self.kernel)(self, &pixels, to);
                }
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        true
    }
}

/// Pixels of one block that become one pixel.
struct Pixels<'a> {
    input: &'a [u8],
    row_stride: usize,
    rows: usize,
    columns: usize,
}

impl<'a> Pixels<'a> {
    fn row<const LANES: usize>(&self, row: usize) -> &'a [[u8; LANES]] {
        self.input[row * self.row_stride..][..self.columns * LANES]
            .as_chunks()
            .0
    }
}

fn max_of<const LANES: usize>(pool: &Pool, pixels: &Pixels<'_>, to: &mut [u8]) {
    let mut largest = [0; LANES];
    for row in 0..pixels.rows {
        for pixel in pixels.row::<LANES>(row) {
            for lane in 0..LANES {
                largest[lane] = largest[lane].max(pixel[lane]);
            }
        }
    }
    for lane in 0..LANES {
        let steps = steps(largest[lane], pool.zero);
        to[lane] = pool.rounding.byte(steps * pool.scale);
    }
}

fn mean_of<const LANES: usize>(pool: &Pool, pixels: &Pixels<'_>, to: &mut [u8]) {
    let mut sums = [0_i32; LANES];
    for row in 0..pixels.rows {
        for pixel in pixels.row::<LANES>(row) {
            for lane in 0..LANES {
                sums[lane] += i32::from(pixel[lane]);
            }
        }
    }
    let there = pixels.rows * pixels.columns;
    let counted = match pool.spec.kind {
        PoolKind::Average {
            counts_padding: true,
        } => pool.spec.window.kernel.area(),
        _ => there,
    };
    // What padding adds is zero, so only the pixels that are there have a zero point to take away.
    let zeros = there as i32 * pool.zero;
    let share = pool.scale / counted as f32;
    for lane in 0..LANES {
        to[lane] = pool.rounding.byte((sums[lane] - zeros) as f32 * share);
    }
}

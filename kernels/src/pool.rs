//! Pools: a window's largest or mean, and the mean of a whole channel.

use core::ops::Range;

use crate::layout::{DIMENSION_MAX, check_limit};
use crate::simd::{Vector, compiled_for};
use crate::spec::check_equal;
use crate::{BlockedLayout, Extent, Image, Isa, KernelError, Padding, Part, Window};

/// How a pool reduces its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The largest. Padding never wins; whether a NaN does is not specified.
    Max,
    /// The mean.
    Average {
        /// Whether padding counts as zeros in each window's mean, or is left out of it.
        counts_padding: bool,
    },
}

/// A pool on static shapes. The input needs no halo: padding is left out of each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// What it reads.
    pub input: BlockedLayout,
    /// What it writes. Rows and columns must be those that the window gives.
    pub output: BlockedLayout,
    /// Kernel, stride, padding; the padding less than the kernel on each side.
    pub window: Window,
    /// Largest or mean.
    pub kind: PoolKind,
}

/// A pool for one instruction set.
#[derive(Clone, Debug)]
pub struct Pool {
    spec: PoolSpec,
    kernel: unsafe fn(&Pixels),
}

impl Pool {
    /// Checks the shapes.
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
        input.check_lanes("input", isa)?;
        output.check_lanes("output", isa)?;
        check_equal("the output's channels", output.channels(), input.channels())?;
        check_limit(
            "stride",
            window.stride.height.max(window.stride.width),
            DIMENSION_MAX,
        )?;
        check_limit("padding", window.padding.largest(), DIMENSION_MAX)?;
        let extent = window.output_extent(input.height(), input.width())?;
        check_equal("the output's height", output.height(), extent.height)?;
        check_equal("the output's width", output.width(), extent.width)?;
        let (padding, kernel) = (window.padding, window.kernel);
        for (padding, window) in [
            (padding.top.max(padding.bottom), kernel.height),
            (padding.left.max(padding.right), kernel.width),
        ] {
            if padding >= window {
                return Err(KernelError::PaddingCoversWindow { padding, window });
            }
        }
        let kernel = match spec.kind {
            PoolKind::Max => compiled_for!(isa, max_of, Pixels),
            PoolKind::Average { .. } => compiled_for!(isa, mean_of, Pixels),
        };
        Ok(Pool {
            spec: *spec,
            kernel,
        })
    }

    /// Its specification.
    pub fn spec(&self) -> &PoolSpec {
        &self.spec
    }

    /// Runs `part` of the operator for each image.
    pub fn run(&self, part: Part, images: &mut [Image<'_>]) {
        let PoolSpec {
            input,
            output,
            window,
            ..
        } = &self.spec;
        let (range, lanes) = (output.part(part), output.lanes());
        for image in images {
            assert_eq!(
                image.input().len(),
                input.len(),
                "the input is the whole tensor"
            );
            assert_eq!(
                image.output.len(),
                range.len(),
                "the output is the part's slice"
            );
            output.clear_halo(part, image.output);
            for (block, row) in output.block_rows(part) {
                let (stride, kernel, padding) = (window.stride, window.kernel, window.padding);
                let rows = inside(
                    row * stride.height,
                    kernel.height,
                    padding.top,
                    input.height(),
                );
                for column in 0..output.width() {
                    let left = column * stride.width;
                    let columns = inside(left, kernel.width, padding.left, input.width());
                    let to = output.row_start(block, row) + column * lanes - range.start;
                    self.reduce(image, block, rows.clone(), columns, to);
                }
            }
        }
    }

    /// Writes the output pixel at `to` from the input's `rows` x `columns`.
    fn reduce(
        &self,
        image: &mut Image<'_>,
        block: usize,
        rows: Range<usize>,
        columns: Range<usize>,
        to: usize,
    ) {
        let (input, lanes) = (&self.spec.input, self.spec.input.lanes());
        let start = input.row_start(block, rows.start) + columns.start * lanes;
        let end = input.row_start(block, rows.end - 1) + columns.end * lanes;
        let counted = match self.spec.kind {
            PoolKind::Average {
                counts_padding: true,
            } => self.spec.window.kernel.height * self.spec.window.kernel.width,
            _ => rows.len() * columns.len(),
        };
        let pixels = Pixels {
            share: 1.0 / counted as f32,
            input: image.input()[start..end].as_ptr(),
            row_stride: input.row_stride(),
            rows: rows.len(),
            columns: columns.len(),
            output: image.output[to..to + lanes].as_mut_ptr(),
        };
        // SAFETY: the constructor saw that the instruction set is available; the slices cover the
        // pixels, and the output is borrowed for us alone.
        unsafe { (self.kernel)(&pixels) };
    }
}

/// The part of a window that is not padding. Never empty: padding is less than the window.
fn inside(start: usize, window: usize, padding: usize, size: usize) -> Range<usize> {
    start.saturating_sub(padding)..(start + window - padding).min(size)
}

/// Pixels of one block that become one pixel.
struct Pixels {
    input: *const f32,
    row_stride: usize,
    rows: usize,
    columns: usize,
    /// A pixel's share of a mean.
    share: f32,
    output: *mut f32,
}

/// # Safety
/// The processor has the instruction set; `input` is valid for `rows` of `columns` pixels that are
/// `row_stride` elements apart, `output` for one pixel that nothing aliases.
#[inline(always)]
unsafe fn max_of<V: Vector>(pixels: &Pixels) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut largest = V::splat(f32::NEG_INFINITY);
        for row in 0..pixels.rows {
            for column in 0..pixels.columns {
                let at = row * pixels.row_stride + column * V::LANES;
                largest = largest.max(V::load(pixels.input.add(at)));
            }
        }
        largest.store(pixels.output);
    }
}

/// # Safety
/// As of [`max_of`].
#[inline(always)]
unsafe fn mean_of<V: Vector>(pixels: &Pixels) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sum = V::splat(0.0);
        for row in 0..pixels.rows {
            for column in 0..pixels.columns {
                let at = row * pixels.row_stride + column * V::LANES;
                sum = sum.add(V::load(pixels.input.add(at)));
            }
        }
        sum.mul(V::splat(pixels.share)).store(pixels.output);
    }
}

/// The mean of each channel, for one instruction set.
#[derive(Clone, Debug)]
pub struct GlobalAveragePool {
    pool: Pool,
}

impl GlobalAveragePool {
    /// Checks the shapes: `output` is a vector of the input's channels.
    pub fn new(
        isa: Isa,
        input: BlockedLayout,
        output: BlockedLayout,
    ) -> Result<GlobalAveragePool, KernelError> {
        output.check_vector("output", isa, input.channels())?;
        let window = Window {
            kernel: Extent {
                height: input.height(),
                width: input.width(),
            },
            stride: Extent::square(1),
            padding: Padding::default(),
        };
        let spec = PoolSpec {
            input,
            output,
            window,
            kind: PoolKind::Average {
                counts_padding: false,
            },
        };
        Ok(GlobalAveragePool {
            pool: Pool::new(isa, &spec)?,
        })
    }

    /// Runs `part` of the operator for each image.
    pub fn run(&self, part: Part, images: &mut [Image<'_>]) {
        self.pool.run(part, images);
    }
}

//! Pools: a window's largest or mean, and the mean of a whole channel.

mod rows;

use punctual_types::{Extent, PoolKind, Window};

pub(crate) use self::rows::inside;
use self::rows::{Row, max_row, mean_row};
use crate::simd::compiled_for;
use crate::spec::{DIMENSION_MAX, check_equal, check_limit};
use crate::window::check_output;
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part};

/// A pool on static shapes. The input needs no halo: padding is left out of each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    pub input: BlockedLayout,
    /// What it writes. Rows and columns must be those that the window gives.
    pub output: BlockedLayout,
    /// Kernel, stride, padding; the padding less than the kernel on each side.
    pub window: Window,
    pub kind: PoolKind,
}

impl PoolSpec {
    /// Checks what holds whatever the elements are.
    pub(crate) fn check_shapes(&self) -> Result<(), KernelError> {
        let PoolSpec {
            input,
            output,
            window,
            ..
        } = self;
        check_equal("the output's channels", output.channels(), input.channels())?;
        let dilation = window.dilation.height.max(window.dilation.width);
        check_equal("the dilation of a pool", dilation as usize, 1)?;
        check_limit(
            "stride",
            window.stride.height.max(window.stride.width) as usize,
            DIMENSION_MAX,
        )?;
        check_limit("padding", window.padding.largest(), DIMENSION_MAX)?;
        check_output(output, window, input.shape())?;
        let (padding, kernel) = (window.padding, window.kernel);
        for (padding, window) in [
            (padding.top.max(padding.bottom), kernel.height),
            (padding.left.max(padding.right), kernel.width),
        ] {
            if padding >= window {
                return Err(KernelError::PaddingCoversWindow { padding, window });
            }
        }
        Ok(())
    }
}

/// A pool for one instruction set.
#[derive(Clone, Debug)]
pub struct Pool {
    spec: PoolSpec,
    kernel: unsafe fn(&Row),
}

impl Pool {
    pub fn new(isa: Isa, spec: &PoolSpec) -> Result<Pool, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        spec.input.check_lanes("input", isa)?;
        spec.output.check_lanes("output", isa)?;
        spec.check_shapes()?;
        let kernel = match spec.kind {
            PoolKind::Max => compiled_for!(isa, max_row, Row),
            PoolKind::Average { .. } => compiled_for!(isa, mean_row, Row),
        };
        Ok(Pool {
            spec: *spec,
            kernel,
        })
    }

    pub fn spec(&self) -> &PoolSpec {
        &self.spec
    }

    fn row(&self, from: &[f32], block: usize, row: usize, to: &mut [f32]) -> Row {
        let PoolSpec {
            input,
            window,
            kind,
            ..
        } = &self.spec;
        let rows = inside(
            row * window.stride.height as usize,
            window.kernel.height as usize,
            window.padding.top as usize,
            input.height(),
        );
        let start = input.row_start(block, rows.start);
        let end = input.row_start(block, rows.end - 1) + input.width() * input.lanes();
        let counted = match kind {
            PoolKind::Average {
                counts_padding: true,
            } => Some(window.kernel.area()),
            _ => None,
        };
        Row {
            input: from[start..end].as_ptr(),
            row_stride: input.row_stride(),
            rows: rows.len(),
            width: input.width(),
            kernel: window.kernel.width as usize,
            stride: window.stride.width as usize,
            padding: window.padding.left as usize,
            counted,
            output: to.as_mut_ptr(),
            columns: to.len() / input.lanes(),
        }
    }
}

impl Kernel for Pool {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let PoolSpec { input, output, .. } = &self.spec;
        let range = output.part(part);
        for image in images {
            image.prepare([input.len()], output, part);
            for (block, row) in output.block_rows(part) {
                let to = output.row_start(block, row) - range.start;
                let to = &mut image.output[to..to + output.width() * output.lanes()];
                let row = self.row(image.inputs[0], block, row, to);
                // SAFETY: the constructor saw that the instruction set is available; the slices
                // cover the row, and the output is borrowed for us alone.
                unsafe { (self.kernel)(&row) };
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        true
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
        let window = Window::whole(Extent {
            height: input.height() as u32,
            width: input.width() as u32,
        });
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
}

impl Kernel for GlobalAveragePool {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.pool.run(&[], part, images);
    }
}

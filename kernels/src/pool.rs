//! Pools: a window's largest or mean, and the mean of a whole channel.

use crate::spec::check_equal;
use crate::{BlockedLayout, Image, Isa, KernelError, Part, Window, reference};

/// How a pool reduces its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The largest. Padding never wins.
    Max,
    /// The mean of the pixels that are not padding.
    Average,
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
        Ok(Pool { spec: *spec })
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
            kind,
        } = &self.spec;
        for image in images {
            let mut logical = vec![0.0; input.shape().elements()];
            input.unpack(image.input, &mut logical);
            let result = reference::pool(input.shape(), window, *kind, &logical);
            let mut blocked = vec![0.0; output.len()];
            output.pack(&result, &mut blocked);
            image.output.copy_from_slice(&blocked[output.part(part)]);
        }
    }
}

/// The mean of each channel, for one instruction set.
#[derive(Clone, Debug)]
pub struct GlobalAveragePool {
    input: BlockedLayout,
    output: BlockedLayout,
}

impl GlobalAveragePool {
    /// Checks the shapes: `output` is a vector of the input's channels.
    pub fn new(
        isa: Isa,
        input: BlockedLayout,
        output: BlockedLayout,
    ) -> Result<GlobalAveragePool, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        input.check_lanes("input", isa)?;
        output.check_vector("output", isa, input.channels())?;
        Ok(GlobalAveragePool { input, output })
    }

    /// Runs `part` of the operator for each image.
    pub fn run(&self, part: Part, images: &mut [Image<'_>]) {
        for image in images {
            let mut logical = vec![0.0; self.input.shape().elements()];
            self.input.unpack(image.input, &mut logical);
            let result = reference::global_average_pool(self.input.shape(), &logical);
            let mut blocked = vec![0.0; self.output.len()];
            self.output.pack(&result, &mut blocked);
            image
                .output
                .copy_from_slice(&blocked[self.output.part(part)]);
        }
    }
}

//! What a convolution computes, and what its kernels rely on.

use punctual_types::{Activation, Extent, Padding, Window};

use crate::activation;
use crate::shape::Shape;
use crate::spec::{ELEMENTS_MAX, check_limit, check_weights};
use crate::window::{check_output, check_window};
use crate::{BlockedLayout, Image, Isa, KernelError, Part, PlanarLayout};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvInput {
    /// The network's input: the first convolution reads planes.
    Planar(PlanarLayout),
    Blocked(BlockedLayout),
}

impl ConvInput {
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        match self {
            ConvInput::Planar(layout) => layout.len(),
            ConvInput::Blocked(layout) => layout.len(),
        }
    }

    pub(crate) fn sizes(&self) -> Shape {
        match self {
            ConvInput::Planar(layout) => layout.shape(),
            ConvInput::Blocked(layout) => layout.shape(),
        }
    }

    pub(super) fn halo(&self) -> usize {
        match self {
            ConvInput::Planar(layout) => layout.halo(),
            ConvInput::Blocked(layout) => layout.halo(),
        }
    }

    /// Elements between rows, and between planes or blocks.
    pub(super) fn strides(&self) -> (usize, usize) {
        match self {
            ConvInput::Planar(layout) => (layout.row_stride(), layout.plane_stride()),
            ConvInput::Blocked(layout) => (layout.row_stride(), layout.block_stride()),
        }
    }
}

/// `activation(conv(input) + bias [+ residual])` on static shapes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv2dSpec {
    /// What it reads. Its halo is at least the window's largest padding; that of a dilated window
    /// may be narrower, whose taps in the padding are then left out.
    pub input: ConvInput,
    /// What it writes. Rows and columns must be those that the window gives.
    pub output: BlockedLayout,
    /// What it adds before the activation: channels, rows and columns of the output, own halo.
    pub residual: Option<BlockedLayout>,
    /// Kernel, stride, padding, dilation.
    pub window: Window,
    /// 1 is dense; equal to input and output channels is depthwise.
    pub groups: usize,
    /// Applied last.
    pub activation: Activation,
}

impl Conv2dSpec {
    /// Whether each block of the output reads only the block of the input at its position.
    pub(super) fn is_depthwise(&self) -> bool {
        let channels = self.input.sizes().channels;
        matches!(self.input, ConvInput::Blocked(_))
            && self.groups == channels
            && self.groups == self.output.channels()
    }

    /// The same on images of one row, if there are several and no value depends on where they end.
    pub(super) fn in_one_row(&self) -> Option<Conv2dSpec> {
        let (ConvInput::Blocked(input), window) = (self.input, self.window) else {
            return None;
        };
        let is_of_pixels = window.kernel.area() == 1
            && window.stride == Extent::square(1)
            && window.padding == Padding::default();
        let tensors = [Some(input), Some(self.output), self.residual];
        let follow_each_other = tensors.iter().flatten().all(|tensor| tensor.halo() == 0);
        let is_alike = is_of_pixels && follow_each_other && self.output.height() > 1;
        is_alike.then(|| Conv2dSpec {
            input: ConvInput::Blocked(input.in_one_row()),
            output: self.output.in_one_row(),
            residual: self.residual.map(|residual| residual.in_one_row()),
            ..*self
        })
    }

    /// Channels of an input block, or of a plane.
    pub(super) fn channels_of(&self, block: usize) -> usize {
        let inner = self.inner_lanes();
        inner.min(self.input.sizes().channels - block * inner)
    }

    /// Channels that lie side by side in the input.
    pub(super) fn inner_lanes(&self) -> usize {
        match self.input {
            ConvInput::Planar(_) => 1,
            ConvInput::Blocked(input) => input.lanes(),
        }
    }

    /// Checks everything that the kernels rely on.
    pub(super) fn check(&self, isa: Isa) -> Result<(), KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let Conv2dSpec {
            input,
            output,
            residual,
            window,
            groups,
            activation,
        } = *self;
        if let ConvInput::Blocked(input) = input {
            input.check_lanes("input", isa)?;
        }
        output.check_lanes("output", isa)?;
        let channels = input.sizes().channels;
        let outputs = output.channels();
        if groups == 0 || channels % groups != 0 || outputs % groups != 0 {
            return Err(KernelError::Groups {
                groups,
                inputs: channels,
                outputs,
            });
        }
        check_window(&window)?;
        let elements = usize::try_from(self.packed_max()).unwrap_or(usize::MAX);
        check_limit("elements of the packed weights", elements, ELEMENTS_MAX)?;
        let (padding, halo) = (window.padding.largest(), input.halo());
        if padding > halo && !window.is_dilated() {
            return Err(KernelError::HaloTooSmall { padding, halo });
        }
        check_output(&output, &window, input.sizes())?;
        if let Some(residual) = residual {
            residual.check_lanes("addend", isa)?;
            residual.check_same_image(&output)?;
        }
        activation::check(activation)
    }

    /// The most elements that packing may need: in `u128`, since nothing has been checked yet.
    fn packed_max(&self) -> u128 {
        let inputs = match self.input {
            _ if self.is_depthwise() => 1,
            ConvInput::Planar(input) => input.channels(),
            ConvInput::Blocked(input) => input.blocks() * input.lanes(),
        };
        [
            self.output.blocks() * self.output.lanes(),
            inputs,
            self.window.kernel.height as usize,
        ]
        .into_iter()
        .fold(self.window.kernel.width as u128, |product, size| {
            product.saturating_mul(size as u128)
        })
    }

    /// Whether taps in the padding are left out, since the halo is too narrow to read zeros there.
    pub(super) fn is_clipped(&self) -> bool {
        self.window.padding.largest() > self.input.halo()
    }

    /// Checks the images that a solution is to run on, and clears the halo of what it writes.
    pub(super) fn check_images(&self, part: Part, images: &mut [Image<'_>]) {
        for image in images.iter_mut() {
            let residual = self.residual.map(|residual| residual.len());
            let inputs = [self.input.len()].into_iter().chain(residual);
            image.prepare(inputs, &self.output, part);
        }
    }

    /// Checks what [`Conv2d::pack`] is given.
    pub(super) fn check_weights(&self, weights: &[f32], bias: &[f32]) -> Result<(), KernelError> {
        let Conv2dSpec { window, groups, .. } = self;
        let (channels, outputs) = (self.input.sizes().channels, self.output.channels());
        let taps = window.kernel.area();
        let count = outputs * (channels / groups) * taps;
        check_weights(weights, count, bias, outputs)
    }
}

//! What a convolution of bytes computes, and what its kernels rely on.

use punctual_types::{Activation, Quantisation, Window};

use crate::activation;
use crate::spec::{ELEMENTS_MAX, check_limit};
use crate::window::{check_output, check_window};
use crate::{BlockedLayout, Element, Isa, KernelError};

/// The most products that one sum may have: with more, sums of the largest bytes and weights would leave i32.
pub(super) const PRODUCTS_MAX: usize = 1 << 16;
const _: () = assert!(PRODUCTS_MAX * 255 * 128 <= i32::MAX as usize);

/// `activation(conv(input) + bias)` on static shapes, of bytes and i8 weights. A fully connected
/// layer is one whose kernel covers the whole image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv2dSpec {
    /// What it reads: bytes, with a halo at least as wide as the largest padding.
    pub input: BlockedLayout,
    /// What it writes: bytes or floats. Rows and columns must be those that the window gives.
    pub output: BlockedLayout,
    /// Kernel, stride, padding, dilation.
    pub window: Window,
    /// 1 is dense; equal to the channels is depthwise.
    pub groups: usize,
    /// Applied last; bytes can only be clipped.
    pub activation: Activation,
}

impl Conv2dSpec {
    /// One input channel for each output channel, both in the same lane.
    pub(super) fn is_depthwise(&self) -> bool {
        self.groups == self.input.channels() && self.groups == self.output.channels()
    }

    pub(super) fn taps(&self) -> usize {
        self.window.kernel.area()
    }

    pub(super) fn output_quantisation(&self) -> Option<Quantisation> {
        match self.output.element() {
            Element::F32 => None,
            Element::U8(quantisation) => Some(quantisation),
        }
    }

    /// Checks everything that the kernels rely on.
    pub(super) fn check(&self, isa: Isa) -> Result<Quantisation, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let Conv2dSpec {
            input,
            output,
            window,
            groups,
            activation,
        } = *self;
        let quantisation = input.check_bytes("input", isa)?;
        output.check_blocks("output", isa)?;
        let (channels, outputs) = (input.channels(), output.channels());
        if groups == 0 || channels % groups != 0 || outputs % groups != 0 {
            return Err(KernelError::Groups {
                groups,
                inputs: channels,
                outputs,
            });
        }
        check_window(&window)?;
        let products = self.taps().saturating_mul(channels / groups);
        check_limit("products of one sum", products, PRODUCTS_MAX)?;
        let lanes = output.lanes();
        let elements = (outputs.next_multiple_of(lanes))
            .saturating_mul(channels.next_multiple_of(lanes))
            .saturating_mul(self.taps());
        check_limit("elements of the packed weights", elements, ELEMENTS_MAX)?;
        let (padding, halo) = (window.padding.largest(), input.halo());
        if padding > halo {
            return Err(KernelError::HaloTooSmall { padding, halo });
        }
        check_output(&output, &window, input.shape())?;
        activation::check(activation)?;
        if !activation.is_clip() {
            return Err(KernelError::Curve { activation });
        }
        Ok(quantisation)
    }
}

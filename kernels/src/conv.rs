//! Convolution with bias, residual and activation.

use crate::layout::{DIMENSION_MAX, check_limit};
use crate::spec::{check_equal, check_finite};
use crate::{
    Activation, BlockedLayout, Image, Isa, KernelError, Part, PlanarLayout, Window, reference,
};

/// What a convolution reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvInput {
    /// The network's input: the first convolution reads planes.
    Planar(PlanarLayout),
    /// Any other tensor.
    Blocked(BlockedLayout),
}

impl ConvInput {
    /// Elements of the whole tensor.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        match self {
            ConvInput::Planar(layout) => layout.len(),
            ConvInput::Blocked(layout) => layout.len(),
        }
    }

    /// Channels, rows, columns, halo.
    pub(crate) fn sizes(&self) -> (usize, usize, usize, usize) {
        match self {
            ConvInput::Planar(l) => (l.channels(), l.height(), l.width(), l.halo()),
            ConvInput::Blocked(l) => (l.channels(), l.height(), l.width(), l.halo()),
        }
    }
}

/// `activation(conv(input) + bias [+ residual])` on static shapes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv2dSpec {
    /// What it reads. Its halo is at least the window's largest padding.
    pub input: ConvInput,
    /// What it writes. Rows and columns must be those that the window gives.
    pub output: BlockedLayout,
    /// What it adds before the activation: channels, rows and columns of the output, own halo.
    pub residual: Option<BlockedLayout>,
    /// Kernel, stride, padding.
    pub window: Window,
    /// 1 is dense; equal to input and output channels is depthwise.
    pub groups: usize,
    /// Applied last.
    pub activation: Activation,
}

/// A convolution for one instruction set, its weights packed.
#[derive(Clone, Debug)]
pub struct Conv2d {
    spec: Conv2dSpec,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Conv2d {
    /// Checks the shapes and packs the weights, which are
    /// `[output channel][input channel / groups][kernel row][kernel column]`.
    pub fn new(
        isa: Isa,
        spec: &Conv2dSpec,
        weights: &[f32],
        bias: &[f32],
    ) -> Result<Conv2d, KernelError> {
        check(isa, spec, weights, bias)?;
        Ok(Conv2d {
            spec: *spec,
            weights: weights.to_vec(),
            bias: bias.to_vec(),
        })
    }

    /// Its specification.
    pub fn spec(&self) -> &Conv2dSpec {
        &self.spec
    }

    /// Runs `part` of the operator for each image; [`Image::addend`] is the residual. The weights
    /// are streamed once for the whole batch.
    pub fn run(&self, part: Part, images: &mut [Image<'_>]) {
        let Conv2dSpec {
            input,
            output,
            residual,
            window,
            groups,
            activation,
        } = &self.spec;
        let (channels, height, width, _) = input.sizes();
        let shape = reference::Shape {
            channels,
            height,
            width,
        };
        for image in images {
            let mut logical = vec![0.0; shape.elements()];
            match input {
                ConvInput::Blocked(layout) => layout.unpack(image.input, &mut logical),
                ConvInput::Planar(layout) => {
                    for (i, value) in logical.iter_mut().enumerate() {
                        let (row, column) = (i / width % height, i % width);
                        *value = image.input[layout.index(i / (width * height), row, column)];
                    }
                }
            }
            let addend = residual.map(|layout| {
                let mut addend = vec![0.0; output.channels() * output.height() * output.width()];
                layout.unpack(image.addend.expect("residual"), &mut addend);
                addend
            });
            let result = reference::conv2d(
                shape,
                window,
                *groups,
                *activation,
                &self.weights,
                &self.bias,
                &logical,
                addend.as_deref(),
            );
            let mut blocked = vec![0.0; output.len()];
            output.pack(&result, &mut blocked);
            image.output.copy_from_slice(&blocked[output.part(part)]);
        }
    }
}

fn check(isa: Isa, spec: &Conv2dSpec, weights: &[f32], bias: &[f32]) -> Result<(), KernelError> {
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
    } = spec;
    if let ConvInput::Blocked(input) = input {
        input.check_lanes("input", isa)?;
    }
    output.check_lanes("output", isa)?;
    let (channels, height, width, halo) = input.sizes();
    let (outputs, groups) = (output.channels(), *groups);
    if groups == 0 || channels % groups != 0 || outputs % groups != 0 {
        return Err(KernelError::Groups {
            groups,
            inputs: channels,
            outputs,
        });
    }
    for (what, found) in [
        ("kernel height", window.kernel.height),
        ("kernel width", window.kernel.width),
        ("stride", window.stride.height.max(window.stride.width)),
        ("padding", window.padding.largest()),
    ] {
        check_limit(what, found, DIMENSION_MAX)?;
    }
    let padding = window.padding.largest();
    if padding > halo {
        return Err(KernelError::HaloTooSmall { padding, halo });
    }
    let extent = window.output_extent(height, width)?;
    check_equal("the output's height", output.height(), extent.height)?;
    check_equal("the output's width", output.width(), extent.width)?;
    if let Some(residual) = residual {
        residual.check_lanes("addend", isa)?;
        residual.check_same_image(output)?;
    }
    activation.check()?;
    let taps = window.kernel.height * window.kernel.width;
    check_equal(
        "the number of weights",
        weights.len(),
        outputs * (channels / groups) * taps,
    )?;
    check_equal("the number of biases", bias.len(), outputs)?;
    check_finite("weights", weights)?;
    check_finite("bias", bias)
}

//! Output shapes of operators: the one place that knows them.

use thiserror::Error;

use crate::{Extent, Network, Operator, OperatorKind, Padding, Stage, Tensor, TensorId};

/// The largest number of rows or columns of a kernel, and so of a stride or a padding.
pub const KERNEL_MAX: u32 = 1 << 10;

/// Why an operator cannot take its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// A kernel or stride of zero, or a huge one.
    #[error("{what} is {height}x{width}; each must be 1 to {KERNEL_MAX}")]
    Extent {
        /// `kernel` or `stride`.
        what: &'static str,
        /// Rows.
        height: u32,
        /// Columns.
        width: u32,
    },
    /// Padding of a whole kernel or more: some windows would see nothing but padding.
    #[error("padding {padding:?} must be less than the kernel {kernel:?} on every side")]
    Padding {
        /// The padding.
        padding: Padding,
        /// The kernel.
        kernel: Extent,
    },
    /// The kernel is larger than the padded input.
    #[error("kernel {kernel:?} is larger than the input {input} with padding {padding:?}")]
    InputTooSmall {
        /// The kernel.
        kernel: Extent,
        /// The input.
        input: Tensor,
        /// The padding.
        padding: Padding,
    },
    /// The channels cannot be split into that many groups.
    #[error(
        "{groups} groups divide neither or only one of {inputs} input and {outputs} output channels"
    )]
    Groups {
        /// Groups.
        groups: u32,
        /// Input channels.
        inputs: u32,
        /// Output channels.
        outputs: u32,
    },
    /// The second addend has another shape.
    #[error("the second addend is {other}, the first is {first}")]
    Addend {
        /// The first addend, or the convolution's result.
        first: Tensor,
        /// The second, or the residual.
        other: Tensor,
    },
}

impl std::fmt::Display for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.channels, self.height, self.width)
    }
}

impl Tensor {
    /// A vector of features.
    #[must_use]
    pub const fn features(channels: u32) -> Self {
        Self {
            channels,
            height: 1,
            width: 1,
        }
    }

    /// Number of elements of one image's tensor.
    #[must_use]
    pub const fn elements(&self) -> u64 {
        // Saturating, since a shape may come from a file that is not validated yet.
        (self.channels as u64 * self.height as u64).saturating_mul(self.width as u64)
    }
}

/// The shape of a window operator's result with `channels` output channels: each output pixel is
/// one window, and windows that would begin or end outside the padded input do not count
/// (`floor((in + padding - kernel) / stride) + 1`).
///
/// # Errors
/// When the window does not fit the input, or a figure is out of its range.
pub fn window_output(
    input: Tensor,
    channels: u32,
    kernel: Extent,
    stride: Extent,
    padding: Padding,
) -> Result<Tensor, ShapeError> {
    for (what, extent) in [("kernel", kernel), ("stride", stride)] {
        let Extent { height, width } = extent;
        if !(1..=KERNEL_MAX).contains(&height) || !(1..=KERNEL_MAX).contains(&width) {
            return Err(ShapeError::Extent {
                what,
                height,
                width,
            });
        }
    }
    let Padding {
        top,
        left,
        bottom,
        right,
    } = padding;
    if top.max(bottom) >= kernel.height || left.max(right) >= kernel.width {
        return Err(ShapeError::Padding { padding, kernel });
    }
    let steps = |length: u32, before: u32, after: u32, kernel: u32, stride: u32| {
        let padded = u64::from(length) + u64::from(before) + u64::from(after);
        let room = padded.checked_sub(u64::from(kernel))?;
        u32::try_from(room / u64::from(stride) + 1).ok()
    };
    let height = steps(input.height, top, bottom, kernel.height, stride.height);
    let width = steps(input.width, left, right, kernel.width, stride.width);
    match (height, width) {
        (Some(height), Some(width)) => Ok(Tensor {
            channels,
            height,
            width,
        }),
        _ => Err(ShapeError::InputTooSmall {
            kernel,
            input,
            padding,
        }),
    }
}

impl OperatorKind {
    /// The shape of the result for an `input`, where `output_channels` is what the weights say (a
    /// convolution's or linear layer's; ignored by the others) and `second` is the shape of the
    /// residual or second addend.
    ///
    /// # Errors
    /// When the operator cannot take that input.
    pub fn output_shape(
        &self,
        input: Tensor,
        output_channels: u32,
        second: Option<Tensor>,
    ) -> Result<Tensor, ShapeError> {
        let output = match *self {
            Self::Conv2d {
                kernel,
                stride,
                padding,
                groups,
                ..
            } => {
                if groups == 0
                    || !input.channels.is_multiple_of(groups)
                    || !output_channels.is_multiple_of(groups)
                {
                    let (inputs, outputs) = (input.channels, output_channels);
                    return Err(ShapeError::Groups {
                        groups,
                        inputs,
                        outputs,
                    });
                }
                window_output(input, output_channels, kernel, stride, padding)?
            }
            Self::Pool {
                kernel,
                stride,
                padding,
                ..
            } => window_output(input, input.channels, kernel, stride, padding)?,
            Self::GlobalAveragePool => Tensor::features(input.channels),
            Self::Linear { .. } => Tensor::features(output_channels),
            Self::Add { .. } => input,
        };
        match second {
            Some(other) if other != output => Err(ShapeError::Addend {
                first: output,
                other,
            }),
            _ => Ok(output),
        }
    }

    /// Multiply-accumulates for one image; zero for operators without weights.
    #[must_use]
    pub fn multiplications(&self, input: Tensor, output: Tensor) -> u64 {
        match *self {
            Self::Conv2d { kernel, groups, .. } => {
                let per_pixel = u64::from(input.channels / groups.max(1))
                    * u64::from(kernel.height)
                    * u64::from(kernel.width);
                output.elements().saturating_mul(per_pixel)
            }
            Self::Linear { .. } => input.elements().saturating_mul(output.elements()),
            Self::Pool { .. } | Self::GlobalAveragePool | Self::Add { .. } => 0,
        }
    }
}

impl Operator {
    /// Weights and biases.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        match self.kind {
            OperatorKind::Conv2d { weights, bias, .. }
            | OperatorKind::Linear { weights, bias, .. } => {
                u64::from(weights.len) + u64::from(bias.len)
            }
            OperatorKind::Pool { .. }
            | OperatorKind::GlobalAveragePool
            | OperatorKind::Add { .. } => 0,
        }
    }
}

impl Network {
    /// Multiply-accumulates of a stage for one image.
    ///
    /// # Panics
    /// When the stage is not one of this valid network.
    #[must_use]
    pub fn multiplications(&self, stage: &Stage) -> u64 {
        let shape = |id: TensorId| self.tensors[id.index()];
        let operators = stage.operators.iter();
        operators
            .map(|operator| {
                operator
                    .kind
                    .multiplications(shape(operator.input), shape(operator.output))
            })
            .fold(0, u64::saturating_add)
    }
}

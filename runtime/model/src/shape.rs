//! Output shapes of operators: the one place that knows them.

use thiserror::Error;

use crate::{
    ChannelRun, Extent, GATHER_SOURCES_MAX, Network, Operator, OperatorKind, Padding, Stage,
    Tensor, TensorId,
};

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
    /// The second factor is neither of the first one's shape nor one value a channel.
    #[error(
        "the second factor is {other}, the first is {first}; they must be equal, or the second one value a channel"
    )]
    Factor {
        /// The first factor.
        first: Tensor,
        /// The second.
        other: Tensor,
    },
    /// Too many tensors to gather from.
    #[error("it gathers from {found} tensors; the limit is {GATHER_SOURCES_MAX}")]
    GatherSources {
        /// How many.
        found: usize,
    },
    /// Tensors of different rows or columns to gather from.
    #[error("it gathers from {first} and {other}; rows and columns must be equal")]
    GatherSizes {
        /// The first.
        first: Tensor,
        /// The other.
        other: Tensor,
    },
    /// A run outside its source, or an empty one.
    #[error("it gathers channels {} to {} + {} of source {}, which has {channels}", .run.first, .run.first, .run.count, .run.source)]
    GatherRun {
        /// The run.
        run: ChannelRun,
        /// Channels of the source; 0 if there is no such source.
        channels: u32,
    },
    /// Other operands than the operator takes.
    #[error("it reads {found} tensors besides its input and takes {expected}")]
    Operands {
        /// How many.
        found: usize,
        /// As it should be.
        expected: usize,
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
    /// convolution's or linear layer's; ignored by the others) and `others` are the shapes of what it
    /// reads besides: a residual, a second operand, further sources.
    ///
    /// # Errors
    /// When the operator cannot take that input.
    pub fn output_shape(
        &self,
        input: Tensor,
        output_channels: u32,
        others: &[Tensor],
    ) -> Result<Tensor, ShapeError> {
        let addend = |output: Tensor, count: usize| match *others {
            _ if others.len() > count => Err(ShapeError::Operands {
                found: others.len(),
                expected: count,
            }),
            [other] if other != output => Err(ShapeError::Addend {
                first: output,
                other,
            }),
            _ => Ok(output),
        };
        match *self {
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
                addend(
                    window_output(input, output_channels, kernel, stride, padding)?,
                    1,
                )
            }
            Self::Pool {
                kernel,
                stride,
                padding,
                ..
            } => addend(
                window_output(input, input.channels, kernel, stride, padding)?,
                0,
            ),
            Self::GlobalAveragePool => addend(Tensor::features(input.channels), 0),
            Self::Linear { .. } => addend(Tensor::features(output_channels), 0),
            Self::Add { .. } => addend(input, 1),
            Self::Multiply { .. } => match *others {
                [other] if other == input || other == Tensor::features(input.channels) => Ok(input),
                [other] => Err(ShapeError::Factor {
                    first: input,
                    other,
                }),
                _ => Err(ShapeError::Operands {
                    found: others.len(),
                    expected: 1,
                }),
            },
            Self::Gather { ref runs, .. } => gathered(input, others, runs),
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
            _ => 0,
        }
    }
}

/// Shape of channels picked from tensors of equal rows and columns.
fn gathered(input: Tensor, others: &[Tensor], runs: &[ChannelRun]) -> Result<Tensor, ShapeError> {
    let found = 1 + others.len();
    if found > GATHER_SOURCES_MAX {
        return Err(ShapeError::GatherSources { found });
    }
    let size = |tensor: &Tensor| (tensor.height, tensor.width);
    if let Some(&other) = others.iter().find(|other| size(other) != size(&input)) {
        return Err(ShapeError::GatherSizes {
            first: input,
            other,
        });
    }
    let mut channels = 0_u32;
    for &run in runs {
        let source = match run.source {
            0 => Some(&input),
            source => others.get(usize::from(source) - 1),
        };
        let available = source.map_or(0, |source| source.channels);
        let end = run.first.checked_add(run.count);
        let wrong = ShapeError::GatherRun {
            run,
            channels: available,
        };
        if run.count == 0 || end.is_none_or(|end| end > available) {
            return Err(wrong);
        }
        channels = channels.checked_add(run.count).ok_or(wrong)?;
    }
    Ok(Tensor { channels, ..input })
}

impl Operator {
    /// Weights and biases.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let ranges = self.kind.weight_ranges();
        ranges.map(|range| u64::from(range.len)).sum()
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

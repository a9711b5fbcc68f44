//! What windows see of a tensor, and why shapes do not fit.

use punctual_types::{
    Axis, Cell, Digit, Extent, HEAD_CHANNELS_MAX, HIDDEN_UNITS_MAX, Padding, PieceError, Scoring,
    Window,
};
use thiserror::Error;

use crate::limits::{GATHER_SOURCES_MAX, KERNEL_MAX};
use crate::{ChannelRun, Tensor};

/// Why an operator cannot take its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// Gates that do not make up whole hidden units of a recurrent layer.
    #[error(
        "a recurrent layer of {input} has no whole number of hidden units for its gates, more than one row, or more than {HIDDEN_UNITS_MAX} units"
    )]
    Gates { cell: Cell, input: Tensor },
    /// A kernel, stride or dilation of zero, or a huge one.
    #[error("{what} is {height}x{width}; each must be 1 to {KERNEL_MAX}")]
    Extent {
        what: &'static str,
        height: u32,
        width: u32,
    },
    /// Padding of all that a kernel spans or more: some windows would see nothing but padding.
    #[error("the padding {padding} must be less than the kernel {kernel} on every side")]
    Padding { padding: Padding, kernel: Extent },
    /// The kernel is larger than the padded input.
    #[error("the kernel {kernel} is larger than the input {input} with the padding {padding}")]
    InputTooSmall {
        kernel: Extent,
        input: Tensor,
        padding: Padding,
    },
    /// The channels cannot be split into that many groups.
    #[error(
        "{groups} groups divide neither or only one of {inputs} input and {outputs} output channels"
    )]
    Groups {
        groups: u32,
        inputs: u32,
        outputs: u32,
    },
    /// The second addend has another shape.
    #[error("the second addend is {other}, the first is {first}")]
    Addend {
        /// The first addend, or the convolution's result.
        first: Tensor,
        other: Tensor,
    },
    /// What a recurrent layer begins with is no state of it.
    #[error("its first state is {found}; it must be {expected}, as after each step")]
    State { found: Tensor, expected: Tensor },
    /// Too many tensors to gather from.
    #[error("it gathers from {found} tensors; the limit is {GATHER_SOURCES_MAX}")]
    GatherSources { found: usize },
    /// Tensors of different rows or columns to gather from.
    #[error("it gathers from {first} and {other}; rows and columns must be equal")]
    GatherSizes { first: Tensor, other: Tensor },
    /// A run outside its source, or an empty one.
    #[error("it gathers channels {} to {} + {} of source {}, which has {channels}", .run.first, .run.first, .run.count, .run.source)]
    GatherRun {
        run: ChannelRun,
        /// Channels of the source; 0 if there is no such source.
        channels: u32,
    },
    /// Query, key, value, mask and heads that do not fit each other.
    #[error(
        "its {heads} heads attend from {query} to {}, {} and {} (key, value, mask); the heads must divide the channels, the key have the query's, key and value equal pixels, a mask one channel, and all equally many rows if each is an attention of its own",
        .keys[0], .keys[1], .keys[2]
    )]
    Attention {
        query: Tensor,
        /// Key, value, and a mask if there is one.
        keys: [Tensor; 3],
        heads: u32,
    },
    #[error(
        "each of its heads attends to {found} channels; the limit is {HEAD_CHANNELS_MAX}. Write it as products and a softmax"
    )]
    HeadChannels { found: u32 },
    /// Two matrices, or rows of them, whose sizes differ.
    #[error(
        "it multiplies {first} by {other}; both must have equally many rows, and the second as many columns as the first has channels"
    )]
    Product { first: Tensor, other: Tensor },
    /// Rows to look up by something else than one number a pixel.
    #[error("it looks up {input}; it takes one number a pixel")]
    Lookup { input: Tensor },
    /// Pieces that make no tensor.
    #[error(transparent)]
    Pieces(#[from] PieceError),
    /// Other operands than the operator takes.
    #[error("it reads {found} tensors besides its input and takes {expected}")]
    Operands { found: usize, expected: usize },
    /// Two operands of which neither is repeated to the other.
    #[error(
        "it computes with {first} and {second}; on each axis they must be equal, or one of them 1"
    )]
    Broadcast { first: Tensor, second: Tensor },
    /// A softmax along what does not divide an axis.
    #[error(
        "it goes along {} {} in steps of {} of {input}; step times extent must divide the axis",
        .digit.extent, .digit.axis, .digit.step
    )]
    Digit { digit: Digit, input: Tensor },
    /// A grid that does not have two channels for each group.
    #[error(
        "it takes pixels of {input} in {groups} groups where a grid {grid} says; the groups must divide the channels, and the grid have two channels for each"
    )]
    Grid {
        input: Tensor,
        grid: Tensor,
        groups: u32,
    },
    /// More positions than there are, or than devices can choose along the axis.
    #[error(
        "it chooses {count} positions along the {axis} of {input}; it can choose one channel, or as many columns as there are"
    )]
    Choice {
        axis: Axis,
        count: u32,
        input: Tensor,
    },
    /// Indices that are not one row, column or channel for each line.
    #[error(
        "it takes values along the {axis} of {input} at positions {indices}; on each other axis these must be as many, or one"
    )]
    Indices {
        input: Tensor,
        indices: Tensor,
        axis: Axis,
    },
    #[error("of the scores {scores} it takes {} classes from class {} on; at least one must be there", .scoring.classes, .scoring.first)]
    Classes { scores: Tensor, scoring: Scoring },
    /// Best scores that are no vector, or boxes, scores or objectness of other places.
    #[error(
        "it makes detections of the places {places} and of {other}; the best scores must be a vector, and all else have as many pixels, boxes with four channels"
    )]
    Places { places: Tensor, other: Tensor },
}

/// The shape of a window operator's result with `channels` output channels. Unlike
/// [`Window::output`], it also refuses windows that would lie wholly in the padding.
pub fn window_output(input: Tensor, channels: u32, window: &Window) -> Result<Tensor, ShapeError> {
    let Window {
        kernel,
        stride,
        padding,
        dilation,
    } = *window;
    let span = window.span();
    for (what, extent) in [
        ("kernel", kernel),
        ("stride", stride),
        ("dilation", dilation),
        ("kernel, dilated,", span),
    ] {
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
    if top.max(bottom) >= span.height || left.max(right) >= span.width {
        let kernel = span;
        return Err(ShapeError::Padding { padding, kernel });
    }
    let Ok(Extent { height, width }) = window.output(input.extent()) else {
        return Err(ShapeError::InputTooSmall {
            kernel: span,
            input,
            padding,
        });
    };
    Ok(Tensor {
        channels,
        height,
        width,
    })
}

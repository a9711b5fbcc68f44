//! Why a kernel cannot be made. Making one checks everything, so that running it cannot fail.

use punctual_types::{Activation, PieceError, WindowError};

use crate::Isa;

/// What is wrong with a kernel's shapes or weights.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KernelError {
    /// This processor lacks the instruction set.
    #[error(
        "this processor has no {isa}: choose one of `Isa::available()`, or let `Isa::detect()` choose"
    )]
    IsaUnavailable { isa: Isa },
    /// A blocked layout was made for another instruction set.
    #[error(
        "the {tensor}'s layout has blocks of {found} channels but {isa} has {} lanes: make the layout for the same instruction set", isa.lanes()
    )]
    LanesDiffer {
        tensor: &'static str,
        found: usize,
        isa: Isa,
    },
    /// A tensor of bytes where floats are needed, or the reverse.
    #[error("the {tensor} must be a tensor of {expected}: convert it first")]
    Element {
        tensor: &'static str,
        expected: &'static str,
    },
    /// A quantisation's scale is no size of a step.
    #[error("a quantisation's scale is {scale}: it must be finite and more than zero")]
    Scale { scale: f32 },
    /// An activation that bytes cannot be clipped to.
    #[error("an operator on bytes can only clip, not apply {activation:?}: apply it to floats")]
    Curve { activation: Activation },
    /// A size that must not be zero is.
    #[error("{what} is 0: every size is at least 1")]
    Zero { what: &'static str },
    /// A tensor or a size is beyond what the kernels can address.
    #[error("{what} is {found}, more than {limit}: split the tensor or lower its resolution")]
    TooLarge {
        what: &'static str,
        found: usize,
        limit: usize,
    },
    /// Two things that must agree do not.
    #[error("{what} is {found} but must be {expected}: correct the operator's shapes")]
    Mismatch {
        what: &'static str,
        found: usize,
        /// As follows from the rest of the specification.
        expected: usize,
    },
    /// The kernel reads more zeros around its input than the input's layout has.
    #[error(
        "the operator pads by {padding} on one side but the input's layout has a halo of {halo}: give the tensor the largest halo that one of its readers needs"
    )]
    HaloTooSmall {
        /// The largest padding of the four sides.
        padding: usize,
        halo: usize,
    },
    /// The window does not fit into the padded input.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// Padding that covers the window: some window would lie wholly in the padding.
    #[error(
        "padding {padding} is not less than the window {window}: some windows would see no pixel"
    )]
    PaddingCoversWindow { padding: u32, window: u32 },
    /// The channels do not divide into the groups.
    #[error("{groups} groups do not divide {inputs} input and {outputs} output channels evenly")]
    Groups {
        groups: usize,
        inputs: usize,
        outputs: usize,
    },
    /// A weight or a bias is infinite or not a number.
    #[error(
        "element {index} of the {what} is {value}: weights must be finite; export the network again"
    )]
    NotFinite {
        what: &'static str,
        index: usize,
        value: f32,
    },
    /// Pieces that do not make the tensor.
    #[error(transparent)]
    Pieces(#[from] PieceError),
    /// A view that reaches beyond its tensor.
    #[error("the view reads beyond its tensor of {shape:?}: correct its start, steps and extents")]
    View { shape: [u32; 3] },
    /// An activation's bounds are not ordered.
    #[error("the activation clips to [{low}, {high}]: give low <= high, neither of them NaN")]
    ClipBounds { low: f32, high: f32 },
    /// A decoder of detections with a figure out of range.
    #[error("the decoder's {what} is {value}: it must be {bounds}")]
    Figure {
        what: &'static str,
        value: f64,
        bounds: &'static str,
    },
}

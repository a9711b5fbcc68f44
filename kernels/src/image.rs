//! What one image of a batch lends to a kernel.

/// One image's tensors. The images of a batch may lie anywhere: nothing relates their addresses.
///
/// `input` and `addend` are whole tensors; `output` is the part's slice of the output tensor,
/// [`BlockedLayout::part`](crate::BlockedLayout::part) elements long. Best aligned to 64 bytes.
/// All lengths are asserted on each call: a wrong one is the caller's error and panics.
#[derive(Debug)]
pub struct Image<'a> {
    /// What the operator reads.
    pub input: &'a [f32],
    /// What it adds: a convolution's residual, [`Add`](crate::Add)'s second operand.
    pub addend: Option<&'a [f32]>,
    /// What it writes: every element of it.
    pub output: &'a mut [f32],
}

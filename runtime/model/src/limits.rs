//! What a network may have at most.

// The channel has the same limits.
pub use punctual_types::{VECTOR_LENGTH_MAX, VECTORS_MAX};

/// Longest name of a network, class or operator, in bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Most classes: an answer's class is a u16.
pub const CLASSES_MAX: usize = 1 << 16;
pub const IMAGE_CHANNELS_MAX: usize = 4;
/// Most operators of a network, all stages together.
pub const OPERATORS_MAX: usize = 4096;
/// Most channels, rows or columns of a tensor.
pub const DIMENSION_MAX: u32 = 1 << 20;
/// Most elements of one image's tensor (256 MiB of f32).
pub const TENSOR_ELEMENTS_MAX: u64 = 1 << 26;
/// Most weights and biases of a network (1 GiB of f32).
pub const WEIGHTS_MAX: usize = 1 << 28;
/// The largest number of rows or columns that a kernel spans, and so of a stride, a dilation or a padding.
pub const KERNEL_MAX: u32 = 1 << 10;
/// Most tensors that one [`Gather`] or [`Copy`](super::Copy) reads.
pub const GATHER_SOURCES_MAX: usize = 8;
/// Most products of one sum of bytes: with more, sums of the largest values would leave i32.
pub const QUANTISED_PRODUCTS_MAX: u64 = 1 << 16;
const _: () = assert!(QUANTISED_PRODUCTS_MAX * 255 * 128 <= i32::MAX as u64);
/// Most outputs of an exit.
pub const OUTPUTS_MAX: usize = 16;
/// Most dimensions of an output.
pub const OUTPUT_RANK_MAX: usize = 6;

// Every index of a weight fits the u32 of a `WeightRange`.
const _: () = assert!(WEIGHTS_MAX <= u32::MAX as usize);

//! Why a network cannot be lowered.

use punctual_cuda_kernels::IMAGES_MAX;
use punctual_cuda_kernels::params::DIGITS_MAX;
use punctual_types::AREA_BYTES_MAX;
use thiserror::Error;

use super::checker::Violation;

/// Why there are no launches for a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LowerError {
    #[error(
        "operator `{operator}` of `{model}`, which writes tensor {tensor}, is a {kind}: there is no \
         CUDA kernel for it; run the model on the CPU device"
    )]
    NoKernel {
        model: String,
        operator: String,
        tensor: u32,
        kind: &'static str,
    },
    #[error(
        "operator `{operator}` of `{model}` moves values by {digits} digits: kernels count by {DIGITS_MAX}; run the \
         model on the CPU device"
    )]
    Digits {
        model: String,
        operator: String,
        digits: usize,
    },
    /// An output that is larger than an area may be.
    #[error(
        "output `{output}` of `{model}` has {elements} values: an area has at most {AREA_BYTES_MAX} bytes; ask for fewer \
         outputs"
    )]
    Output {
        model: String,
        output: String,
        elements: u64,
    },
    /// The least of an operator's weights that a launch can have does not fit a page: of sums of products eight output
    /// channels, of most others all.
    #[error(
        "a launch of operator `{operator}` of `{model}` needs {bytes} bytes of weights in one page \
         and a page has {page_bytes}: use larger pages"
    )]
    Page {
        model: String,
        operator: String,
        bytes: u64,
        page_bytes: u32,
    },
    #[error("pages of {0} bytes: use a multiple of 256 bytes up to 1 GiB")]
    PageBytes(u32),
    /// More pages than can be named.
    #[error("`{model}` fills {pages} pages of {page_bytes} bytes: use larger pages")]
    Pages {
        model: String,
        pages: usize,
        page_bytes: u32,
    },
    /// No launch computes `batch` images.
    #[error("batch size {batch} for `{model}`: launches compute 1 to {IMAGES_MAX} images")]
    Batch { model: String, batch: u8 },
    /// Kernels count halves of a tensor in 32 bits.
    #[error(
        "tensor {tensor} of `{model}` has {bytes} bytes for a batch of {batch}: kernels count to \
         4 GiB; use smaller batches"
    )]
    Tensor {
        model: String,
        tensor: u32,
        /// Bytes of it for the whole batch.
        bytes: u64,
        batch: u8,
    },
    #[error("a target without multiprocessors")]
    NoMultiprocessors,
    /// The checker found that the launches would compute something else.
    #[error(
        "`{model}` was lowered to launches that would not compute it: {violation}. Nothing was started. This is an error \
         of Punctual's: please report it, with the model; meanwhile run the model on the CPU device"
    )]
    Unsound {
        model: String,
        violation: Box<Violation>,
    },
}

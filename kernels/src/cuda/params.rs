//! Parameters of kernels, laid out as C lays out the structures of the same names in
//! `kernels/cuda/src/params.cuh`: addresses first, then 32-bit numbers, so that there are no gaps but
//! the written ones. All addresses are device addresses; 0 where something is not there.

use punctual_types::Activation;

use super::IMAGES_MAX;

/// The first parameter of each kernel: whether it may still run, and where it says how far it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Of the `u32` that holds the queue's epoch: launches of another one are evicted. 0: the launch
    /// is never evicted, and nothing is checked.
    pub epoch_now: u64,
    /// Of the `u32` that takes the minimum of [`index`](Self::index) over evicted blocks.
    pub first_evicted: u64,
    /// Of the `u32` in mapped host memory that becomes `index + 1` when the launch begins, so that the
    /// host sees progress without asking the driver. 0: it is not to be said.
    pub begun: u64,
    /// The epoch that the launch belongs to.
    pub epoch: u32,
    /// Its place in the list of launches that it was submitted with.
    pub index: u32,
    /// Tiles of a main loop between two looks at the epoch; 0: at the block's start only.
    pub check_stride: u32,
    /// Not used.
    pub gap: u32,
}

/// A tensor of a batch of images; one image lies `height * width * pitch` halves behind the other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorView {
    /// Of the first half of the first image.
    pub address: u64,
    pub height: u32,
    pub width: u32,
    pub channels: u32,
    /// Halves from a pixel to the next: the channels, padded.
    pub pitch: u32,
}

/// What is applied last.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Epilogue {
    /// A code of [`Curve`].
    pub curve: u32,
    /// Lower bound of [`Curve::Clip`].
    pub low: f32,
    /// Upper bound of [`Curve::Clip`].
    pub high: f32,
    /// Not used.
    pub gap: u32,
}

#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    None = 0,
    /// Also `Relu`, with bounds 0 and infinity.
    Clip = 1,
    Sigmoid = 2,
    Silu = 3,
    HardSigmoid = 4,
    HardSwish = 5,
    Gelu = 6,
    Tanh = 7,
}

impl Epilogue {
    /// `None` for an activation that the kernels do not have.
    #[must_use]
    pub fn of(activation: Activation) -> Option<Self> {
        let (curve, low, high) = match activation {
            Activation::None => (Curve::None, 0.0, 0.0),
            Activation::Relu => (Curve::Clip, 0.0, f32::INFINITY),
            Activation::Clip { low, high } => (Curve::Clip, low, high),
            Activation::Sigmoid => (Curve::Sigmoid, 0.0, 0.0),
            Activation::Silu => (Curve::Silu, 0.0, 0.0),
            Activation::HardSigmoid => (Curve::HardSigmoid, 0.0, 0.0),
            Activation::HardSwish => (Curve::HardSwish, 0.0, 0.0),
            Activation::Gelu => (Curve::Gelu, 0.0, 0.0),
            Activation::Tanh => (Curve::Tanh, 0.0, 0.0),
            Activation::LeakyRelu { .. }
            | Activation::Elu { .. }
            | Activation::Mish
            | Activation::Softplus
            | Activation::Softsign
            | Activation::TanhGelu => return None,
        };
        Some(Self {
            curve: curve as u32,
            low,
            high,
            gap: 0,
        })
    }
}

/// Of the kernels that convolve. Weights are halves; their order is that of the [`Pattern`].
/// Places in `output`, `residual` and `partial` are those of the whole operator; `weights` and `bias`
/// are of the launch's channels alone.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conv {
    pub input: TensorView,
    pub output: TensorView,
    /// Added before the activation; has the output's shape. 0: nothing.
    pub residual: u64,
    /// Packed weights of the channels that this launch computes, the first of them first.
    pub weights: u64,
    /// One `f32` for each channel that this launch computes, padding included.
    pub bias: u64,
    /// Of `[split][image, row, column][padded output channel]` sums, `f32`, without bias, residual and
    /// activation, which `conv_reduce` with the same parameters adds. 0: there is one split, and the
    /// launch itself finishes what it computes. For [`Pattern::Dense`] only.
    pub partial: u64,
    pub images: u32,
    pub kernel_height: u32,
    pub kernel_width: u32,
    pub stride_height: u32,
    pub stride_width: u32,
    pub pad_top: u32,
    pub pad_left: u32,
    /// 1 is dense.
    pub groups: u32,
    /// Parts that the sum over taps and input channels is cut into; at least 1.
    pub splits: u32,
    /// The first output channel that this launch computes (a multiple of 8): an operator whose
    /// weights fill more than a page is several launches.
    pub first_channel: u32,
    /// How many output channels it computes, padding included.
    pub channel_count: u32,
    /// Not used.
    pub gap: u32,
    /// What is applied last.
    pub epilogue: Epilogue,
}

/// Which convolutions a kernel is for, and how their weights lie. All kernels of a pattern read the
/// same weights, so that any can stand in for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// One group: `[padded output channel][kernel row][kernel column][padded input channel]`.
    Dense,
    /// As many groups as input and output channels: `[kernel row][kernel column][padded channel]`.
    Depthwise,
    /// Any other: `[output channel][kernel row][kernel column][input channel of the group]`.
    Grouped,
}

/// Of `pool`: windows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pool {
    pub input: TensorView,
    pub output: TensorView,
    pub images: u32,
    /// 0: the largest, 1: the mean with padding counted as zeros, 2: the mean of what is inside.
    pub kind: u32,
    pub kernel_height: u32,
    pub kernel_width: u32,
    pub stride_height: u32,
    pub stride_width: u32,
    pub pad_top: u32,
    pub pad_left: u32,
}

/// Of `global_average_pool`: the output has one pixel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GlobalPool {
    pub input: TensorView,
    pub output: TensorView,
    pub images: u32,
    /// Not used.
    pub gap: u32,
}

/// Of the kernels for fully connected layers. Weights are halves, `[padded output
/// feature][row][column][padded channel]` of the input as it lies, those of the first feature of the
/// launch first: to a kernel for [`Pattern::Dense`] the same as a convolution of one pixel with `depth`
/// channels. So large batches run as such a convolution into `partial`, and `linear_reduce` finishes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Linear {
    pub input: u64,
    /// Of the result: halves, `[image][padded output feature]`. 0: it is not wanted as such.
    pub output: u64,
    /// Of the result as `f32`, `[image][padded output feature]`: class scores. 0: likewise.
    pub scores: u64,
    pub weights: u64,
    /// One `f32` for each feature that this launch computes, padding included.
    pub bias: u64,
    /// Of `linear_reduce`: the sums, `[split][image][padded output feature]` of `f32`.
    pub partial: u64,
    pub images: u32,
    /// Halves of an input image, padding included.
    pub depth: u32,
    pub features: u32,
    /// Output features, padded.
    pub pitch: u32,
    /// The first output feature that this launch computes, a multiple of 8.
    pub first_feature: u32,
    /// How many it computes, padding included.
    pub feature_count: u32,
    /// Of `linear_reduce`: parts that the sum was cut into.
    pub splits: u32,
    /// Not used.
    pub gap: u32,
    /// What is applied last.
    pub epilogue: Epilogue,
}

/// Of `add` and `multiply`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Elementwise {
    /// The first operand; the output has its shape.
    pub input: TensorView,
    /// The second operand.
    pub other: u64,
    pub output: u64,
    pub images: u32,
    /// 1: the second operand has one pixel, which counts for all of its image.
    pub broadcast: u32,
    /// What is applied last.
    pub epilogue: Epilogue,
}

/// Most tensors that `gather` reads.
pub const SOURCES_MAX: usize = 8;

/// Of `gather`: output channels picked from channels of tensors of equal rows and columns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gather {
    pub output: TensorView,
    /// One `u32` for each output channel: `source << 24 | channel`. Lies with the weights.
    pub table: u64,
    pub sources: [u64; SOURCES_MAX],
    pub pitches: [u32; SOURCES_MAX],
    pub images: u32,
    /// Not used.
    pub gap: u32,
}

/// Of `members_in` and `members_out`: a tensor of each member copied between its request buffer and
/// the place of the batch. This is where the survivors of an exit are brought together.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Members {
    /// Of the tensor in the batch: member after member.
    pub batch: u64,
    /// Bytes of a member's tensor, a multiple of 16.
    pub bytes: u64,
    /// Of the tensor in each member's request buffer.
    pub members: [u64; IMAGES_MAX],
    pub images: u32,
    /// Not used.
    pub gap: u32,
}

/// Of `input_planar`: prepared inputs, planar `f32`, into the batch's input tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputPlanar {
    pub output: TensorView,
    /// Of each member's first pixel of the first plane, in mapped host memory or a copy of it.
    pub members: [u64; IMAGES_MAX],
    /// `f32`s from a row to the next.
    pub row_stride: u32,
    /// `f32`s from a plane to the next.
    pub plane_stride: u32,
    pub images: u32,
    /// Not used.
    pub gap: u32,
}

/// Of `answers`, the last launch of each stage: class and confidence of each member, then the word
/// that says that the stage is done.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Answers {
    /// Of the class scores, `[image][pitch]` of `f32`. 0: the stage ends in no exit.
    pub scores: u64,
    /// Of an [`Answer`] for each image, in mapped host memory.
    pub answers: u64,
    /// Of the `u32` in mapped host memory that becomes `sequence`, after everything else is visible.
    pub done: u64,
    pub images: u32,
    pub classes: u32,
    /// `f32`s from an image's scores to the next's.
    pub pitch: u32,
    /// What `done` becomes.
    pub sequence: u32,
}

/// What `answers` writes for each image.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Answer {
    /// The class with the largest score, the first of equals.
    pub class: u32,
    /// Its probability by softmax. 0 if a score is not a number or infinite, so that no threshold accepts the answer.
    pub confidence: f32,
}

/// Of `preprocess_rgb8`, `preprocess_nv12` and `preprocess_yuyv`: a camera's frame cropped, resized
/// (bilinear, as the CPU's preprocessing) and normalised, into one image of the input tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Preprocess {
    /// Of the frame's first byte (of the first plane), in mapped host memory.
    pub frame: u64,
    /// Of the second plane of NV12.
    pub chroma: u64,
    /// The result: an image of the input tensor.
    pub output: TensorView,
    /// Bytes from a row to the next.
    pub stride: u32,
    /// Likewise of the second plane.
    pub chroma_stride: u32,
    /// First column of the crop.
    pub crop_x: u32,
    /// First row of the crop.
    pub crop_y: u32,
    pub crop_width: u32,
    pub crop_height: u32,
    /// Subtracted a channel (R, G, B), in units of the full scale.
    pub mean: [f32; 3],
    /// Multiplied a channel afterwards: `1 / std`.
    pub factor: [f32; 3],
}

/// Of `where_am_i`: which multiprocessors the blocks of a launch ran on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Whereabouts {
    /// Of one `u32` a block: the number of its multiprocessor.
    pub multiprocessors: u64,
    /// How long each block stays, in nanoseconds, so that the next one goes elsewhere.
    pub stay_ns: u32,
    /// Not used.
    pub gap: u32,
}

/// Of `hold`: blocks that only take time, checking their guard every `check_ns`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hold {
    /// How long each block takes, in nanoseconds.
    pub stay_ns: u32,
    /// Between two checks; 0: at the start only.
    pub check_ns: u32,
}

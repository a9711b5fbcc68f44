//! Parameters of kernels, laid out as C lays out the structures of the same names in
//! `kernels/cuda/src/params.cuh`: addresses first, then 32-bit numbers, so that the only padding is the
//! fields `gap`, which no kernel reads. All addresses are device addresses; 0 where something is not there.
//! `curve`, `function`, `kept` and `form` are codes of the enumerations of these names.

mod function;

use punctual_types::{Activation, Cell, Element, Quantisation};

use super::IMAGES_MAX;
pub use function::Function;

/// The first parameter of each kernel: whether it may still run, and where it says how far it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Of the `u32` that holds the queue's epoch: launches of another one are evicted. 0: the launch
    /// is never evicted, and nothing is checked.
    pub epoch_now: u64,
    /// Of the `u32` that takes the minimum of [`index`](Self::index) over evicted blocks.
    pub first_evicted: u64,
    /// Of the `u32` in mapped host memory that becomes `index + 1` when the launch begins, whether it is evicted or
    /// not, so that the host sees progress without asking the driver. 0: it is not to be said.
    pub begun: u64,
    /// The epoch that the launch belongs to.
    pub epoch: u32,
    /// Its place in the list of launches that it was submitted with.
    pub index: u32,
    /// Tiles of a main loop between two looks at the epoch; 0: at the block's start only.
    pub check_stride: u32,
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

impl TensorView {
    /// Values from an image to the next.
    #[must_use]
    pub const fn image(&self) -> u64 {
        self.height as u64 * self.width as u64 * self.pitch as u64
    }
}

/// What is applied last.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Epilogue {
    pub curve: u32,
    /// Lower bound of [`Curve::Clip`]; slope of [`Curve::LeakyRelu`]; factor above 0 of [`Curve::Elu`].
    pub low: f32,
    /// Upper bound of [`Curve::Clip`]; factor below 0 of [`Curve::Elu`].
    pub high: f32,
    /// Factor of the exponent of [`Curve::Elu`].
    pub rate: f32,
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
    LeakyRelu = 8,
    Elu = 9,
    Mish = 10,
    Softplus = 11,
    Softsign = 12,
    TanhGelu = 13,
}

impl From<Activation> for Epilogue {
    fn from(activation: Activation) -> Self {
        let plain = |curve| (curve, [0.0; 3]);
        let (curve, [low, high, rate]) = match activation {
            Activation::None => plain(Curve::None),
            Activation::Relu => (Curve::Clip, [0.0, f32::INFINITY, 0.0]),
            Activation::Clip { low, high } => (Curve::Clip, [low, high, 0.0]),
            Activation::Sigmoid => plain(Curve::Sigmoid),
            Activation::Silu => plain(Curve::Silu),
            Activation::HardSigmoid => plain(Curve::HardSigmoid),
            Activation::HardSwish => plain(Curve::HardSwish),
            Activation::Gelu => plain(Curve::Gelu),
            Activation::Tanh => plain(Curve::Tanh),
            Activation::LeakyRelu { slope } => (Curve::LeakyRelu, [slope, 0.0, 0.0]),
            Activation::Elu { above, below, rate } => (Curve::Elu, [above, below, rate]),
            Activation::Mish => plain(Curve::Mish),
            Activation::Softplus => plain(Curve::Softplus),
            Activation::Softsign => plain(Curve::Softsign),
            Activation::TanhGelu => plain(Curve::TanhGelu),
        };
        Self {
            curve: curve as u32,
            low,
            high,
            rate,
        }
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
    /// Rows of the input between two of the kernel's; at least 1.
    pub dilation_height: u32,
    pub dilation_width: u32,
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

/// Of `global_pool`: one window is the whole image, so the output has one pixel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GlobalPool {
    pub input: TensorView,
    pub output: TensorView,
    pub images: u32,
    /// As in [`Pool`]; both means are the same.
    pub kind: u32,
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
    pub gap: u32,
    /// What is applied last.
    pub epilogue: Epilogue,
}

/// How the values of a tensor are kept.
#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    #[default]
    Halves = 0,
    Floats = 1,
    Bytes = 2,
}

impl Kept {
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Halves => 2,
            Self::Floats => 4,
            Self::Bytes => 1,
        }
    }
}

/// An operand of `elementwise`. Steps are in values; 0 where the operand has one position, which is repeated.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    /// 0 for the second operand of a function of one value.
    pub address: u64,
    /// Step from an image to the next; 0 for constants.
    pub image: u32,
    /// Step from a row to the next.
    pub row: u32,
    /// Step from a column to the next.
    pub column: u32,
    /// 1, or 0 for one channel that is repeated.
    pub channel: u32,
    /// Halves or floats.
    pub kept: u32,
    pub gap: u32,
}

/// Of `elementwise` and `elementwise_further`: a function of one tensor, or of two.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Elementwise {
    pub output: TensorView,
    pub first: Operand,
    pub second: Operand,
    pub images: u32,
    pub function: u32,
    /// What is applied last.
    pub epilogue: Epilogue,
}

/// Most digits that say in which order values are read.
pub const DIGITS_MAX: usize = 8;

/// In which order values of a tensor are read: mixed-radix digits, the last of which counts fastest. Unused digits come
/// first and have the extent 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digits {
    pub extents: [u32; DIGITS_MAX],
    /// Values of the tensor from one of a digit to the next.
    pub steps: [u32; DIGITS_MAX],
}

/// Of `copy`: a box of the output from values of one tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copy {
    pub output: TensorView,
    pub source: u64,
    /// Values from an image of the source to the next; 0 for constants.
    pub source_image: u32,
    /// Values from the image's first to the box's first.
    pub start: u32,
    pub first_channel: u32,
    pub first_row: u32,
    pub first_column: u32,
    pub channels: u32,
    pub rows: u32,
    pub columns: u32,
    /// They count the box's pixels, row by row.
    pub pixel_digits: Digits,
    pub channel_digits: Digits,
    /// A code of [`Kept`] for the source; `to` is one for the output.
    pub from: u32,
    pub to: u32,
    pub images: u32,
    pub gap: u32,
}

/// Of `output`: values of a tensor of each image, in the order and type that a client reads.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    pub source: u64,
    /// Of the first image's values, in mapped host memory.
    pub target: u64,
    /// Of a `u32` for each block, `[image][all_counts]`: how many of its values are not finite.
    pub counts: u64,
    /// Bytes from an image's target to the next's.
    pub target_image: u64,
    /// Values from an image of the source to the next.
    pub source_image: u32,
    /// Values from the image's first to the first that is read.
    pub start: u32,
    /// How many values of an image are written.
    pub elements: u32,
    pub digits: Digits,
    /// A code of [`Kept`] for the source; `to` is one of [`Type`] for the target.
    pub from: u32,
    pub to: u32,
    /// Where the launch's counts begin among those of an image.
    pub first_count: u32,
    /// Counts of an image, of all launches.
    pub all_counts: u32,
    pub images: u32,
}

impl Output {
    /// Blocks that write an image's values: each writes 1,024.
    #[must_use]
    pub const fn blocks(elements: u32) -> u32 {
        elements.div_ceil(1024)
    }
}

/// Types of the values that a client reads.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    F32 = 0,
    I32 = 1,
    Bool = 2,
    U8 = 3,
    I8 = 4,
}

impl From<Element> for Type {
    fn from(element: Element) -> Self {
        match element {
            Element::F32 => Self::F32,
            Element::I32 => Self::I32,
            Element::Bool => Self::Bool,
            Element::U8 { .. } => Self::U8,
            Element::I8 { .. } => Self::I8,
        }
    }
}

/// Of `softmax`. A group's positions are `step` values apart; groups are counted by `rest`, `outer` and `inner`, the
/// last fastest: a group begins at `rest * rest_step + outer * extent * step + inner`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softmax {
    pub input: u64,
    pub output: u64,
    pub images: u32,
    /// How many values `rest` takes in an image.
    pub rest: u32,
    pub rest_step: u32,
    pub outer: u32,
    pub inner: u32,
    /// How many positions a group has.
    pub extent: u32,
    pub step: u32,
    /// Threads that share a group: a power of 2 up to 32.
    pub lanes: u32,
    pub channels: u32,
    /// Halves from a pixel to the next.
    pub pitch: u32,
    /// 1: the positions are channels.
    pub along_channels: u32,
    /// 1: the logarithm of the result.
    pub logarithm: u32,
}

/// Of `resize`: each pixel from up to four pixels of the input.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    pub input: TensorView,
    pub output: TensorView,
    /// For each row of the output, then for each column, four words: the two rows (or columns) of the input that it
    /// lies between, the weight of the second as an `f32`, and padding. Lies with the weights.
    pub table: u64,
    pub images: u32,
    /// Halves; or bytes, which are not blended: the nearer pixel is the table's first.
    pub kept: u32,
}

/// Of `layer_norm`: the channels of each pixel, normalised.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerNorm {
    pub input: TensorView,
    pub output: u64,
    /// One `f32` for each channel, zeros for the padding.
    pub scale: u64,
    pub bias: u64,
    pub images: u32,
    pub epsilon: f32,
}

/// Of `embedding`: for each pixel the row of a table that its first channel names.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Embedding {
    pub output: TensorView,
    pub input: u64,
    /// Halves, `[row][channel of the launch]`.
    pub table: u64,
    pub images: u32,
    pub rows: u32,
    /// Values from a pixel of the input to the next.
    pub pitch: u32,
    /// Of the input: halves or floats.
    pub kept: u32,
    /// The first channel that this launch writes, a multiple of 8.
    pub first_channel: u32,
    pub channel_count: u32,
}

/// Of `tokens`: constant pixels before those of an image, and a table added to all.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Has one row, whose pixels are the tokens.
    pub output: TensorView,
    pub input: u64,
    /// Halves, `[token][channel of the launch]`.
    pub table: u64,
    pub images: u32,
    /// How many tokens come before the input's and are the table's alone.
    pub prefix: u32,
    /// The first channel that this launch writes, a multiple of 8.
    pub first_channel: u32,
    pub channel_count: u32,
}

/// Of `attention_64` and `attention_256`, for heads of up to 64 and 256 channels. The output has the query's pixels and
/// the value's channels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attention {
    pub query: TensorView,
    pub key: TensorView,
    /// Has as many pixels as the key.
    pub value: TensorView,
    /// Of a tensor of one channel: keys where it is 0 are ignored. 0: none is ignored.
    pub mask: u64,
    /// Added to the products: `f32`, `[query][key]`, at an offset by row and head. 0: nothing.
    pub bias: u64,
    pub output: u64,
    /// How many independent attentions an image has.
    pub rows: u32,
    /// How many pixels each row of the query has; `keys` counts the key's.
    pub queries: u32,
    pub keys: u32,
    /// Values of the bias from a row to the next; 0 if all rows have the same.
    pub bias_row: u32,
    pub bias_head: u32,
    pub images: u32,
    pub heads: u32,
    /// Factor of the products of queries and keys.
    pub scale: f32,
}

/// Of `product_of_rows`: in each row the pixels of the first by their channels, times the pixels of the second, which are
/// as many, by theirs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Product {
    pub first: TensorView,
    /// Has as many rows as the first, and as many columns as the first has channels.
    pub second: TensorView,
    /// Has the first's pixels and the second's channels.
    pub output: u64,
    pub images: u32,
    pub gap: u32,
}

/// What a step of `recurrent` computes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellCode {
    GruOfProduct = 0,
    GruOfState = 1,
    Lstm = 2,
    Tanh = 3,
    Relu = 4,
}

impl From<Cell> for CellCode {
    fn from(cell: Cell) -> Self {
        match cell {
            Cell::Gru {
                resets_product: true,
            } => Self::GruOfProduct,
            Cell::Gru {
                resets_product: false,
            } => Self::GruOfState,
            Cell::Lstm => Self::Lstm,
            Cell::Tanh => Self::Tanh,
            Cell::Relu => Self::Relu,
        }
    }
}

/// Of `recurrent`: some steps of a layer over the columns of one row. A state has the channels and the pitch of a pixel
/// of the output.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recurrent {
    /// What the input adds to each gate: channels `[gate][hidden unit]`.
    pub gates: TensorView,
    /// The states: channels `[value][hidden unit]`, as many columns.
    pub output: TensorView,
    /// Halves, `[gate][hidden unit][padded hidden unit before]`.
    pub weights: u64,
    /// One `f32` for each gate of each unit.
    pub bias: u64,
    /// The state before the launch's first step. 0: zeros.
    pub state: u64,
    /// Of the state after the last step, `f32`. 0: no launch continues from there.
    pub carried: u64,
    pub images: u32,
    /// A code of [`CellCode`].
    pub cell: u32,
    /// Hidden units, at most [`HIDDEN_UNITS_MAX`](punctual_types::HIDDEN_UNITS_MAX).
    pub hidden: u32,
    /// Threads that share a unit's sums: a power of 2 up to 32.
    pub lanes: u32,
    /// How many steps of the layer come before this launch's first.
    pub first_step: u32,
    /// How many this launch takes.
    pub steps: u32,
    /// 1: the layer's first step is the last column.
    pub backwards: u32,
    /// Of the state: halves or floats.
    pub kept: u32,
}

/// Of `grid_sample`: pixels of the input at the positions of a grid. The output has the grid's pixels and the input's
/// channels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridSample {
    pub input: TensorView,
    /// For each group a channel with the columns' positions and one with the rows'.
    pub grid: TensorView,
    pub output: u64,
    pub images: u32,
    pub groups: u32,
    /// 1: the pixel at the rounded position; 0: between its neighbours.
    pub nearest: u32,
    /// 0: zeros, 1: the border, 2: the mirrored image.
    pub outside: u32,
    /// 1: -1 and 1 are the centres of the outer pixels.
    pub align_corners: u32,
    pub gap: u32,
}

/// Of `take`: the values at computed positions of an axis.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Take {
    pub input: TensorView,
    pub indices: TensorView,
    pub output: TensorView,
    pub images: u32,
    /// 0: channels, 1: rows, 2: columns.
    pub axis: u32,
    /// Of the indices: halves or floats.
    pub kept: u32,
    pub gap: u32,
}

/// Of `top_columns` and `top_channel`: the positions of the values that come first, in `f32`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopK {
    pub input: TensorView,
    pub output: u64,
    pub images: u32,
    /// Columns of the output; 0 of `top_channel`, whose output has one channel.
    pub count: u32,
    /// 1: the largest come first.
    pub largest: u32,
    /// 1: of equal values the last comes first.
    pub last: u32,
}

/// Of `best_score`: the best score of each pixel, of the classes that count, in `f32`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BestScore {
    pub scores: TensorView,
    /// A vector with a feature for each pixel.
    pub output: TensorView,
    /// A vector of halves, laid out as the output; 0: there is none.
    pub objectness: u64,
    pub images: u32,
    /// The first class that counts.
    pub first: u32,
    /// How many classes count.
    pub classes: u32,
    /// 1: the logistic function of the scores is taken.
    pub logits: u32,
}

/// Of `detections`: [`DETECTION_VALUES`](punctual_types::DETECTION_VALUES) of each row of a list, in `f32`, each row
/// padded to eight; then a row with their count and the mean of the best scores. What the fields mean is said of
/// [`Decoder`](punctual_types::Decoder) and [`Scoring`](punctual_types::Scoring).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Detections {
    /// A vector with a feature for each pixel of the boxes.
    pub best: TensorView,
    pub boxes: TensorView,
    pub scores: TensorView,
    pub output: u64,
    pub images: u32,
    /// Of the best scores: halves or floats.
    pub kept: u32,
    /// Of the boxes: halves or floats.
    pub boxes_kept: u32,
    pub first: u32,
    pub classes: u32,
    /// 0: corners, 1: corner and size, 2: centre and size.
    pub form: u32,
    pub unit_x: f32,
    pub unit_y: f32,
    pub width: f32,
    pub height: f32,
    pub threshold: f32,
    pub overlap: f32,
    /// 1: boxes that overlap better ones are left out.
    pub suppresses: u32,
    pub by_class: u32,
    pub averaged: u32,
    pub rows: u32,
    pub candidates: u32,
    pub gap: u32,
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
    pub gap: u32,
}

/// How quantisation steps of a result become bytes: rounded half to even, offset by the byte of zero, clamped.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rounding {
    /// The byte that stands for zero.
    pub zero: f32,
    /// Bounds of the result, in bytes: the activation's.
    pub low: f32,
    pub high: f32,
    pub gap: u32,
}

impl Rounding {
    /// To the quantisation of the result, with an activation that clips.
    #[must_use]
    pub fn of(to: Quantisation, activation: Activation) -> Self {
        let zero = f32::from(to.zero);
        let byte = |value: f32| ((value / to.scale).round_ties_even() + zero).clamp(0.0, 255.0);
        let (low, high) = activation.bounds();
        Self {
            zero,
            low: byte(low),
            high: byte(high),
            gap: 0,
        }
    }
}

/// Of `conv_bytes`, `conv_bytes_depthwise` and `conv_bytes_grouped`. Weights are `i8` and lie as those of [`Conv`],
/// with channels padded to 16 where they are padded. Biases are in quantisation steps of the sums; those of a dense
/// convolution compensate for the input's byte of zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConvBytes {
    /// Of bytes; a pixel's are padded to a multiple of 16.
    pub input: TensorView,
    pub output: TensorView,
    pub weights: u64,
    /// One `i32` for each channel that this launch computes, padding included.
    pub bias: u64,
    /// Likewise one `f32`: the value of a step of the sum, in steps of the output if that is of bytes.
    pub factors: u64,
    pub images: u32,
    pub kernel_height: u32,
    pub kernel_width: u32,
    pub stride_height: u32,
    pub stride_width: u32,
    pub pad_top: u32,
    pub pad_left: u32,
    pub dilation_height: u32,
    pub dilation_width: u32,
    pub groups: u32,
    /// The first output channel that this launch computes, a multiple of 8.
    pub first_channel: u32,
    pub channel_count: u32,
    /// The byte that stands for zero in the input.
    pub zero: u32,
    /// Of the output: bytes, by `rounding`, or halves, by `epilogue`.
    pub kept: u32,
    pub rounding: Rounding,
    pub epilogue: Epilogue,
}

/// Of `pool_bytes`: as [`Pool`], of bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolBytes {
    pub input: TensorView,
    pub output: TensorView,
    pub images: u32,
    pub kind: u32,
    pub kernel_height: u32,
    pub kernel_width: u32,
    pub stride_height: u32,
    pub stride_width: u32,
    pub pad_top: u32,
    pub pad_left: u32,
    /// The byte that stands for zero in the input.
    pub zero: u32,
    /// The value of a step of the input in steps of the output.
    pub ratio: f32,
    pub rounding: Rounding,
}

/// Of `add_bytes`: tensors of one shape.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AddBytes {
    pub output: TensorView,
    pub first: u64,
    pub second: u64,
    pub images: u32,
    /// The byte that stands for zero in each.
    pub first_zero: u32,
    pub second_zero: u32,
    /// The value of a step of each in steps of the output.
    pub first_ratio: f32,
    pub second_ratio: f32,
    pub gap: u32,
    pub rounding: Rounding,
}

/// Of `convert`: bytes from and to halves, or bytes of another quantisation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Convert {
    pub input: TensorView,
    pub output: TensorView,
    pub images: u32,
    /// A code of [`Kept`]: bytes or halves.
    pub from: u32,
    pub to: u32,
    /// The byte that stands for zero in the input, if that is of bytes.
    pub zero: u32,
    /// Of bytes: the value of a step of the input, in steps of the output if that is of bytes too. Of halves: the value
    /// of a step of the output.
    pub factor: f32,
    pub gap: u32,
    pub rounding: Rounding,
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
    /// Of the output: halves or floats.
    pub kept: u32,
}

/// How the confidence follows from the largest class score.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By softmax over all scores.
    Softmax = 0,
    /// By the logistic function of the score alone.
    Sigmoid = 1,
    /// It is the score itself.
    Probability = 2,
}

/// Of `answers`, the last launch of each stage: class and confidence of each member, then the word
/// that says that the stage is done.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Answers {
    /// Of the class scores, `[image][pitch]` of `f32`. 0: there are none.
    pub scores: u64,
    /// Of the confidence that the network itself computes, the first of eight `f32` for each image. 0: it does not.
    pub confidence: u64,
    /// What the `output` launches counted: `u32`s, `[image][all_counts]`.
    pub counts: u64,
    /// Of an [`Answer`] for each image, in mapped host memory. 0: nobody wants them.
    pub answers: u64,
    /// Of the `u32` in mapped host memory that becomes `sequence`, after everything else is visible.
    pub done: u64,
    pub images: u32,
    pub classes: u32,
    /// `f32`s from an image's scores to the next's.
    pub pitch: u32,
    pub form: u32,
    /// How many counts an image has.
    pub all_counts: u32,
    /// What `done` becomes.
    pub sequence: u32,
}

/// What `answers` writes for each image.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Answer {
    /// The class with the largest score, the first of equals.
    pub class: u32,
    /// How sure the network is of the class. 0 if the network has no confidence, and by softmax if a score is not
    /// finite, so that no threshold accepts the answer.
    pub confidence: f32,
    /// How many values of the outputs are infinite or NaN.
    pub not_finite: u32,
    pub gap: u32,
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

/// Of `report_evicted`: tells the host which launch of a queue was evicted first, and forgets it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReportEvicted {
    /// Of the word that guards call [`first_evicted`](Guard::first_evicted); becomes `u32::MAX` again.
    pub first_evicted: u64,
    /// Of the `u32` in mapped host memory that takes what it was.
    pub report: u64,
}

/// Of `where_am_i`: which multiprocessors the blocks of a launch ran on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Whereabouts {
    /// Of one `u32` a block: the number of its multiprocessor.
    pub multiprocessors: u64,
    /// How long each block stays, in nanoseconds, so that the next one goes elsewhere.
    pub stay_ns: u32,
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

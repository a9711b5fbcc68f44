//! Parameters of kernels. `curve`, `function`, `kept`, `cell` and `form` are codes of enumerations; no kernel reads `gap`.

pub(crate) mod codes;
pub(crate) mod parts;

use crate::IMAGES_MAX;
pub use crate::declaration::Address;
pub use codes::{CellCode, Curve, Form, Function, Kept, Type};
pub use parts::{Answer, DIGITS_MAX, Digits, Epilogue, Guard, Operand, Rounding, TensorView};

/// Most tensors that `gather` reads.
pub const SOURCES_MAX: usize = 8;

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

parameters! {
    ($)
    /// Of the kernels that convolve. Weights are halves; their order is that of the [`Pattern`].
    /// Places in `output`, `residual` and `partial` are those of the whole operator; `weights` and `bias`
    /// are of the launch's channels alone.
    struct Conv {
        input: TensorView,
        output: TensorView,
        /// Added before the activation; has the output's shape. 0: nothing.
        residual: Address,
        /// Packed weights of the channels that this launch computes, the first of them first.
        weights: Address,
        /// One `f32` for each channel that this launch computes, padding included.
        bias: Address,
        /// Of `[split][image, row, column][padded output channel]` sums, `f32`, without bias, residual and
        /// activation, which `conv_reduce` with the same parameters adds. 0: there is one split, and the
        /// launch itself finishes what it computes. For [`Pattern::Dense`] only.
        partial: Address,
        images: u32,
        kernel_height: u32,
        kernel_width: u32,
        stride_height: u32,
        stride_width: u32,
        pad_top: u32,
        pad_left: u32,
        /// 1 is dense.
        groups: u32,
        /// Parts that the sum over taps and input channels is cut into; at least 1.
        splits: u32,
        /// The first output channel that this launch computes (a multiple of 8): an operator whose
        /// weights fill more than a page is several launches.
        first_channel: u32,
        /// How many output channels it computes, padding included.
        channel_count: u32,
        /// Rows of the input between two of the kernel's; at least 1.
        dilation_height: u32,
        dilation_width: u32,
        gap: u32,
        /// What is applied last.
        epilogue: Epilogue,
    }

    /// Of `pool`: windows.
    struct Pool {
        input: TensorView,
        output: TensorView,
        images: u32,
        /// 0: the largest, 1: the mean with padding counted as zeros, 2: the mean of what is inside.
        kind: u32,
        kernel_height: u32,
        kernel_width: u32,
        stride_height: u32,
        stride_width: u32,
        pad_top: u32,
        pad_left: u32,
    }

    /// Of `global_pool`: one window is the whole image, so the output has one pixel.
    struct GlobalPool {
        input: TensorView,
        output: TensorView,
        images: u32,
        /// As in [`Pool`]; both means are the same.
        kind: u32,
    }

    /// Of the kernels for fully connected layers. Weights are halves, `[padded output
    /// feature][row][column][padded channel]` of the input as it lies, those of the first feature of the
    /// launch first: to a kernel for [`Pattern::Dense`] the same as a convolution of one pixel with `depth`
    /// channels. So large batches run as such a convolution into `partial`, and `linear_reduce` finishes.
    struct Linear {
        input: Address,
        /// Of the result: halves, `[image][padded output feature]`. 0: it is not wanted as such.
        output: Address,
        /// Of the result as `f32`, `[image][padded output feature]`: class scores. 0: likewise.
        scores: Address,
        weights: Address,
        /// One `f32` for each feature that this launch computes, padding included.
        bias: Address,
        /// Of `linear_reduce`: the sums, `[split][image][padded output feature]` of `f32`.
        partial: Address,
        images: u32,
        /// Halves of an input image, padding included.
        depth: u32,
        features: u32,
        /// Output features, padded.
        pitch: u32,
        /// The first output feature that this launch computes, a multiple of 8.
        first_feature: u32,
        /// How many it computes, padding included.
        feature_count: u32,
        /// Of `linear_reduce`: parts that the sum was cut into.
        splits: u32,
        gap: u32,
        /// What is applied last.
        epilogue: Epilogue,
    }

    /// Of `elementwise` and `elementwise_further`: a function of one tensor, or of two.
    struct Elementwise {
        output: TensorView,
        first: Operand,
        second: Operand,
        images: u32,
        function: u32,
        /// What is applied last.
        epilogue: Epilogue,
    }

    /// Of `copy`: a box of the output from values of one tensor.
    struct Copy {
        output: TensorView,
        source: Address,
        /// Values from an image of the source to the next; 0 for constants.
        source_image: u32,
        /// Values from the image's first to the box's first.
        start: u32,
        first_channel: u32,
        first_row: u32,
        first_column: u32,
        channels: u32,
        rows: u32,
        columns: u32,
        /// They count the box's pixels, row by row.
        pixel_digits: Digits,
        channel_digits: Digits,
        /// A code of [`Kept`] for the source; `to` is one for the output.
        from: u32,
        to: u32,
        images: u32,
        gap: u32,
    }

    /// Of `output`: values of a tensor of each image, in the order and type that a client reads.
    struct Output {
        source: Address,
        /// Of the first image's values, in mapped host memory.
        target: Address,
        /// Of a `u32` for each block, `[image][all_counts]`: how many of its values are not finite.
        counts: Address,
        /// Bytes from an image's target to the next's.
        target_image: u64,
        /// Values from an image of the source to the next.
        source_image: u32,
        /// Values from the image's first to the first that is read.
        start: u32,
        /// How many values of an image are written.
        elements: u32,
        digits: Digits,
        /// A code of [`Kept`] for the source; `to` is one of [`Type`] for the target.
        from: u32,
        to: u32,
        /// Where the launch's counts begin among those of an image.
        first_count: u32,
        /// Counts of an image, of all launches.
        all_counts: u32,
        images: u32,
    }

    /// Of `softmax`. A group's positions are `step` values apart; groups are counted by `rest`, `outer` and `inner`, the
    /// last fastest: a group begins at `rest * rest_step + outer * extent * step + inner`.
    struct Softmax {
        input: Address,
        output: Address,
        images: u32,
        /// How many values `rest` takes in an image.
        rest: u32,
        rest_step: u32,
        outer: u32,
        inner: u32,
        /// How many positions a group has.
        extent: u32,
        step: u32,
        /// Threads that share a group: a power of 2 up to 32.
        lanes: u32,
        channels: u32,
        /// Halves from a pixel to the next.
        pitch: u32,
        /// 1: the positions are channels.
        along_channels: u32,
        /// 1: the logarithm of the result.
        logarithm: u32,
    }

    /// Of `resize`: each pixel from up to four pixels of the input.
    struct Resize {
        input: TensorView,
        output: TensorView,
        /// For each row of the output, then for each column, four words: the two rows (or columns) of the input that it
        /// lies between, the weight of the second as an `f32`, and padding. Lies with the weights.
        table: Address,
        images: u32,
        /// Halves; or bytes, which are not blended: the nearer pixel is the table's first.
        kept: u32,
    }

    /// Of `layer_norm`: the channels of each pixel, normalised.
    struct LayerNorm {
        input: TensorView,
        output: Address,
        /// One `f32` for each channel, zeros for the padding.
        scale: Address,
        bias: Address,
        images: u32,
        epsilon: f32,
    }

    /// Of `embedding`: for each pixel the row of a table that its first channel names.
    struct Embedding {
        output: TensorView,
        input: Address,
        /// Halves, `[row][channel of the launch]`.
        table: Address,
        images: u32,
        rows: u32,
        /// Values from a pixel of the input to the next.
        pitch: u32,
        /// Of the input: halves or floats.
        kept: u32,
        /// The first channel that this launch writes, a multiple of 8.
        first_channel: u32,
        channel_count: u32,
    }

    /// Of `tokens`: constant pixels before those of an image, and a table added to all.
    struct Tokens {
        /// Has one row, whose pixels are the tokens.
        output: TensorView,
        input: Address,
        /// Halves, `[token][channel of the launch]`.
        table: Address,
        images: u32,
        /// How many tokens come before the input's and are the table's alone.
        prefix: u32,
        /// The first channel that this launch writes, a multiple of 8.
        first_channel: u32,
        channel_count: u32,
    }

    /// Of `attention_64` and `attention_256`, for heads of up to 64 and 256 channels. The output has the query's pixels and
    /// the value's channels.
    struct Attention {
        query: TensorView,
        key: TensorView,
        /// Has as many pixels as the key.
        value: TensorView,
        /// Of a tensor of one channel: keys where it is 0 are ignored. 0: none is ignored.
        mask: Address,
        /// Added to the products: `f32`, `[query][key]`, at an offset by row and head. 0: nothing.
        bias: Address,
        output: Address,
        /// How many independent attentions an image has.
        rows: u32,
        /// How many pixels each row of the query has; `keys` counts the key's.
        queries: u32,
        keys: u32,
        /// Values of the bias from a row to the next; 0 if all rows have the same.
        bias_row: u32,
        bias_head: u32,
        images: u32,
        heads: u32,
        /// Factor of the products of queries and keys.
        scale: f32,
    }

    /// Of `product_of_rows`: in each row the pixels of the first by their channels, times the pixels of the second, which are
    /// as many, by theirs.
    struct Product {
        first: TensorView,
        /// Has as many rows as the first, and as many columns as the first has channels.
        second: TensorView,
        /// Has the first's pixels and the second's channels.
        output: Address,
        images: u32,
        gap: u32,
    }

    /// Of `recurrent`: some steps of a layer over the columns of one row. A state has the channels and the pitch of a pixel
    /// of the output.
    struct Recurrent {
        /// What the input adds to each gate: channels `[gate][hidden unit]`.
        gates: TensorView,
        /// The states: channels `[value][hidden unit]`, as many columns.
        output: TensorView,
        /// Halves, `[gate][hidden unit][padded hidden unit before]`.
        weights: Address,
        /// One `f32` for each gate of each unit.
        bias: Address,
        /// The state before the launch's first step. 0: zeros.
        state: Address,
        /// Of the state after the last step, `f32`. 0: no launch continues from there.
        carried: Address,
        images: u32,
        /// A code of [`CellCode`].
        cell: u32,
        /// Hidden units, at most [`HIDDEN_UNITS_MAX`](punctual_types::HIDDEN_UNITS_MAX).
        hidden: u32,
        /// Threads that share a unit's sums: a power of 2 up to 32.
        lanes: u32,
        /// How many steps of the layer come before this launch's first.
        first_step: u32,
        /// How many this launch takes.
        steps: u32,
        /// 1: the layer's first step is the last column.
        backwards: u32,
        /// Of the state: halves or floats.
        kept: u32,
    }

    /// Of `grid_sample`: pixels of the input at the positions of a grid. The output has the grid's pixels and the input's
    /// channels.
    struct GridSample {
        input: TensorView,
        /// For each group a channel with the columns' positions and one with the rows'.
        grid: TensorView,
        output: Address,
        images: u32,
        groups: u32,
        /// 1: the pixel at the rounded position; 0: between its neighbours.
        nearest: u32,
        /// 0: zeros, 1: the border, 2: the mirrored image.
        outside: u32,
        /// 1: -1 and 1 are the centres of the outer pixels.
        align_corners: u32,
        gap: u32,
    }

    /// Of `take`: the values at computed positions of an axis.
    struct Take {
        input: TensorView,
        indices: TensorView,
        output: TensorView,
        images: u32,
        /// 0: channels, 1: rows, 2: columns.
        axis: u32,
        /// Of the indices: halves or floats.
        kept: u32,
        gap: u32,
    }

    /// Of `top_columns` and `top_channel`: the positions of the values that come first, in `f32`.
    struct TopK {
        input: TensorView,
        output: Address,
        images: u32,
        /// Columns of the output; 0 of `top_channel`, whose output has one channel.
        count: u32,
        /// 1: the largest come first.
        largest: u32,
        /// 1: of equal values the last comes first.
        last: u32,
    }

    /// Of `best_score`: the best score of each pixel, of the classes that count, in `f32`.
    struct BestScore {
        scores: TensorView,
        /// A vector with a feature for each pixel.
        output: TensorView,
        /// A vector of halves, laid out as the output; 0: there is none.
        objectness: Address,
        images: u32,
        /// The first class that counts.
        first: u32,
        /// How many classes count.
        classes: u32,
        /// 1: the logistic function of the scores is taken.
        logits: u32,
    }

    /// Of `detections`: [`DETECTION_VALUES`](punctual_types::DETECTION_VALUES) of each row of a list, in `f32`, each row
    /// padded to eight; then a row with their count and the mean of the best scores. The meaning of the fields is documented at
    /// [`Decoder`](punctual_types::Decoder) and [`Scoring`](punctual_types::Scoring).
    struct Detections {
        /// A vector with a feature for each pixel of the boxes.
        best: TensorView,
        boxes: TensorView,
        scores: TensorView,
        output: Address,
        images: u32,
        /// Of the best scores: halves or floats.
        kept: u32,
        /// Of the boxes: halves or floats.
        boxes_kept: u32,
        first: u32,
        classes: u32,
        /// 0: corners, 1: corner and size, 2: centre and size.
        form: u32,
        unit_x: f32,
        unit_y: f32,
        width: f32,
        height: f32,
        threshold: f32,
        overlap: f32,
        /// 1: boxes that overlap better ones are left out.
        suppresses: u32,
        by_class: u32,
        averaged: u32,
        rows: u32,
        candidates: u32,
        gap: u32,
    }

    /// Of `gather`: output channels picked from channels of tensors of equal rows and columns.
    struct Gather {
        output: TensorView,
        /// One `u32` for each output channel: `source << 24 | channel`. Lies with the weights.
        table: Address,
        sources: [Address; SOURCES_MAX],
        pitches: [u32; SOURCES_MAX],
        images: u32,
        gap: u32,
    }

    /// Of `conv_bytes`, `conv_bytes_depthwise` and `conv_bytes_grouped`. Weights are `i8` and lie as those of [`Conv`],
    /// with channels padded to 16 where they are padded. Biases are in quantisation steps of the sums; those of a dense
    /// convolution compensate for the input's byte of zero.
    struct ConvBytes {
        /// Of bytes; a pixel's are padded to a multiple of 16.
        input: TensorView,
        output: TensorView,
        weights: Address,
        /// One `i32` for each channel that this launch computes, padding included.
        bias: Address,
        /// Likewise one `f32`: the value of a step of the sum, in steps of the output if that is of bytes.
        factors: Address,
        images: u32,
        kernel_height: u32,
        kernel_width: u32,
        stride_height: u32,
        stride_width: u32,
        pad_top: u32,
        pad_left: u32,
        dilation_height: u32,
        dilation_width: u32,
        groups: u32,
        /// The first output channel that this launch computes, a multiple of 8.
        first_channel: u32,
        channel_count: u32,
        /// The byte that stands for zero in the input.
        zero: u32,
        /// Of the output: bytes, by `rounding`, or halves, by `epilogue`.
        kept: u32,
        rounding: Rounding,
        epilogue: Epilogue,
    }

    /// Of `pool_bytes`: as [`Pool`], of bytes.
    struct PoolBytes {
        input: TensorView,
        output: TensorView,
        images: u32,
        kind: u32,
        kernel_height: u32,
        kernel_width: u32,
        stride_height: u32,
        stride_width: u32,
        pad_top: u32,
        pad_left: u32,
        /// The byte that stands for zero in the input.
        zero: u32,
        /// The value of a step of the input in steps of the output.
        ratio: f32,
        rounding: Rounding,
    }

    /// Of `add_bytes`: tensors of one shape.
    struct AddBytes {
        output: TensorView,
        first: Address,
        second: Address,
        images: u32,
        /// The byte that stands for zero in each.
        first_zero: u32,
        second_zero: u32,
        /// The value of a step of each in steps of the output.
        first_ratio: f32,
        second_ratio: f32,
        gap: u32,
        rounding: Rounding,
    }

    /// Of `convert`: bytes from and to halves, or bytes of another quantisation.
    struct Convert {
        input: TensorView,
        output: TensorView,
        images: u32,
        /// A code of [`Kept`]: bytes or halves.
        from: u32,
        to: u32,
        /// The byte that stands for zero in the input, if that is of bytes.
        zero: u32,
        /// Of bytes: the value of a step of the input, in steps of the output if that is of bytes too. Of halves: the value
        /// of a step of the output.
        factor: f32,
        gap: u32,
        rounding: Rounding,
    }

    /// Of `members_in` and `members_out`: a tensor of each member copied between its request buffer and
    /// the place of the batch. This is where the survivors of an exit are brought together.
    struct Members {
        /// Of the tensor in the batch: member after member.
        batch: Address,
        /// Bytes of a member's tensor, a multiple of 16.
        bytes: u64,
        /// Of the tensor in each member's request buffer.
        members: [Address; IMAGES_MAX],
        images: u32,
        gap: u32,
    }

    /// Of `input_planar`: prepared inputs, planar `f32`, into the batch's input tensor.
    struct InputPlanar {
        output: TensorView,
        /// Of each member's first pixel of the first plane, in mapped host memory or a copy of it.
        members: [Address; IMAGES_MAX],
        /// `f32`s from a row to the next.
        row_stride: u32,
        /// `f32`s from a plane to the next.
        plane_stride: u32,
        images: u32,
        /// Of the output: halves or floats.
        kept: u32,
    }

    /// Of `answers`, the last launch of each stage: class and confidence of each member, then the word
    /// that says that the stage is done.
    struct Answers {
        /// Of the class scores, `[image][pitch]` of `f32`. 0: there are none.
        scores: Address,
        /// Of the confidence that the network itself computes, the first of eight `f32` for each image. 0: it does not.
        confidence: Address,
        /// What the `output` launches counted: `u32`s, `[image][all_counts]`.
        counts: Address,
        /// Of an [`Answer`] for each image, in mapped host memory. 0: they are not wanted.
        answers: Address,
        /// Of the `u32` in mapped host memory that becomes `sequence`, after everything else is visible.
        done: Address,
        images: u32,
        classes: u32,
        /// `f32`s from an image's scores to the next's.
        pitch: u32,
        form: u32,
        /// How many counts an image has.
        all_counts: u32,
        /// What `done` becomes.
        sequence: u32,
    }

    /// Of `preprocess_rgb8`, `preprocess_nv12` and `preprocess_yuyv`: a camera's frame cropped, resized
    /// (bilinear, as the CPU's preprocessing) and normalised, into one image of the input tensor.
    struct Preprocess {
        /// Of the frame's first byte (of the first plane), in mapped host memory.
        frame: Address,
        /// Of the second plane of NV12.
        chroma: Address,
        /// The result: an image of the input tensor.
        output: TensorView,
        /// Bytes from a row to the next.
        stride: u32,
        /// Likewise of the second plane.
        chroma_stride: u32,
        /// First column of the crop.
        crop_x: u32,
        /// First row of the crop.
        crop_y: u32,
        crop_width: u32,
        crop_height: u32,
        /// Subtracted a channel (R, G, B), in units of the full scale.
        mean: [f32; 3],
        /// Multiplied a channel afterwards: `1 / std`.
        factor: [f32; 3],
    }

    /// Of `report_evicted`: tells the host which launch of a queue was evicted first, and forgets it.
    struct ReportEvicted {
        /// Of the word that guards call [`first_evicted`](Guard::first_evicted); becomes `u32::MAX` again.
        first_evicted: Address,
        /// Of the `u32` in mapped host memory that takes what it was.
        report: Address,
    }

    /// Of `where_am_i`: which multiprocessors the blocks of a launch ran on.
    struct Whereabouts {
        /// Of one `u32` a block: the number of its multiprocessor.
        multiprocessors: Address,
        /// How long each block stays, in nanoseconds, so that the next one goes elsewhere.
        stay_ns: u32,
        gap: u32,
    }

    /// Of `hold`: blocks that only take time, checking their guard every `check_ns`.
    struct Hold {
        /// How long each block takes, in nanoseconds.
        stay_ns: u32,
        /// Between two checks; 0: at the start only.
        check_ns: u32,
    }
}

impl Output {
    /// Blocks that write an image's values: each writes 1,024.
    #[must_use]
    pub const fn blocks(elements: u32) -> u32 {
        elements.div_ceil(1024)
    }
}

impl Conv {
    /// How its weights lie.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        match self.groups {
            0 | 1 => Pattern::Dense,
            groups if groups == self.input.channels && groups == self.output.channels => {
                Pattern::Depthwise
            }
            _ => Pattern::Grouped,
        }
    }
}

impl ConvBytes {
    /// Channels that an output channel sums, padding included.
    #[must_use]
    pub fn summed_channels(&self) -> u32 {
        match self.groups {
            0 | 1 => self.input.pitch,
            groups => (self.input.channels / groups).max(1),
        }
    }
}

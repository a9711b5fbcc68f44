//! Convolutions and fully connected layers: by which kernel, in how many launches.

use punctual_kernels::cuda::params::{Conv, Epilogue, Kept, Linear};
use punctual_kernels::cuda::{Arguments, TensorView};
use punctual_model::{Operator, OperatorKind};
use punctual_types::Window;

use super::choice::{Candidate, Form, Product};
use super::layout;
use super::list::Of;
use super::pages::{Content, Matrix, Piece};
use super::place::Place;
use super::stage::{Launches, known};

impl Piece {
    pub(super) fn weights(&self) -> Place {
        Place::Weights {
            page: self.page,
            offset: self.weights,
        }
    }

    pub(super) fn bias(&self) -> Place {
        Place::Weights {
            page: self.page,
            offset: self.bias,
        }
    }
}

/// The product that a piece of an operator is for a batch.
pub(super) fn product(matrix: &Matrix, form: Form, pixels: u32, piece: &Piece) -> Product {
    Product {
        pixels,
        channels: piece.count,
        depth: matrix.row_halves(),
        form,
    }
}

impl Launches<'_> {
    pub(super) fn conv(&mut self, of: Of<'_>, operator: &Operator, epilogue: Epilogue) {
        let &OperatorKind::Conv2d {
            window,
            groups,
            residual,
            ..
        } = &operator.kind
        else {
            return;
        };
        let Some(Content::Matrix(matrix)) = Content::of(self.lowering.network, operator) else {
            return;
        };
        let Window {
            kernel,
            stride,
            padding,
            dilation,
        } = window;
        let input = self.read(operator.input);
        let residual = residual.map_or(0, |residual| self.read(residual).address);
        let whole = Conv {
            input,
            output: self.write(operator.output),
            residual,
            images: u32::from(self.batch),
            kernel_height: kernel.height,
            kernel_width: kernel.width,
            stride_height: stride.height,
            stride_width: stride.width,
            pad_top: padding.top,
            pad_left: padding.left,
            dilation_height: dilation.height,
            dilation_width: dilation.width,
            groups,
            splits: 1,
            epilogue,
            ..Conv::default()
        };
        let pixels = whole.images * whole.output.height * whole.output.width;
        for piece in self.lowering.pieces(of.operator) {
            let product = product(&matrix, Form::Conv(matrix.pattern), pixels, piece);
            let chosen = self.choose(&product, of);
            let conv = of_piece(whole, piece);
            if !product.is_added_up(chosen) {
                self.draft.push(of, chosen.kernel, Arguments::Conv(conv));
                continue;
            }
            self.conv_in_parts(of, conv, chosen);
        }
    }

    /// A launch that sums in parts, and one that adds them up and finishes.
    fn conv_in_parts(&mut self, of: Of<'_>, conv: Conv, chosen: Candidate) {
        let partial = self.draft.buffer();
        let conv = Conv {
            partial: partial.encode(),
            splits: chosen.splits,
            ..conv
        };
        let summed = Conv {
            output: nowhere(conv.output),
            residual: 0,
            bias: 0,
            ..conv
        };
        self.draft.push(of, chosen.kernel, Arguments::Conv(summed));
        let added = Conv {
            input: nowhere(conv.input),
            weights: 0,
            ..conv
        };
        let kernel = known("conv_reduce");
        self.draft.push(of, kernel, Arguments::Conv(added));
    }

    pub(super) fn linear(&mut self, of: Of<'_>, operator: &Operator, epilogue: Epilogue) {
        let Some(Content::Matrix(matrix)) = Content::of(self.lowering.network, operator) else {
            return;
        };
        let input = self.read(operator.input);
        let output = operator.output;
        let is_exit = self.is_of_exit(output);
        let scores = is_exit.then(|| self.room(output, Kept::Floats).address);
        let halves = (!is_exit || self.is_read(output)).then(|| self.write(output).address);
        let whole = Linear {
            input: input.address,
            output: halves.unwrap_or(0),
            scores: scores.unwrap_or(0),
            images: u32::from(self.batch),
            depth: input.image() as u32,
            features: matrix.outputs,
            pitch: layout::view_of(self.lowering.network, output, Kept::Halves).pitch,
            splits: 1,
            epilogue,
            ..Linear::default()
        };
        for piece in self.lowering.pieces(of.operator) {
            let product = product(&matrix, Form::Linear, whole.images, piece);
            let chosen = self.choose(&product, of);
            let linear = Linear {
                weights: piece.weights().encode(),
                bias: piece.bias().encode(),
                first_feature: piece.first,
                feature_count: piece.count,
                ..whole
            };
            if !product.is_added_up(chosen) {
                self.draft
                    .push(of, chosen.kernel, Arguments::Linear(linear));
                continue;
            }
            let partial = self.draft.buffer();
            let summed = as_conv(&linear, partial, chosen.splits);
            self.draft.push(of, chosen.kernel, Arguments::Conv(summed));
            let added = Linear {
                input: 0,
                weights: 0,
                partial: partial.encode(),
                splits: chosen.splits,
                ..linear
            };
            self.draft
                .push(of, known("linear_reduce"), Arguments::Linear(added));
        }
    }

    fn choose(&self, product: &Product, of: Of<'_>) -> Candidate {
        let Self {
            lowering, batch, ..
        } = self;
        product.choose(lowering.machine(), *batch, of.operator, lowering.choices)
    }
}

fn of_piece(whole: Conv, piece: &Piece) -> Conv {
    Conv {
        weights: piece.weights().encode(),
        bias: piece.bias().encode(),
        first_channel: piece.first,
        channel_count: piece.count,
        ..whole
    }
}

/// The same shape, not there.
fn nowhere(view: TensorView) -> TensorView {
    TensorView { address: 0, ..view }
}

/// A fully connected layer as a convolution of one pixel, whose sums are left to `linear_reduce`.
fn as_conv(linear: &Linear, partial: Place, splits: u32) -> Conv {
    let vector = |address, channels, pitch| TensorView {
        address,
        height: 1,
        width: 1,
        channels,
        pitch,
    };
    Conv {
        input: vector(linear.input, linear.depth, linear.depth),
        output: vector(0, linear.features, linear.pitch),
        weights: linear.weights,
        partial: partial.encode(),
        images: linear.images,
        kernel_height: 1,
        kernel_width: 1,
        stride_height: 1,
        stride_width: 1,
        dilation_height: 1,
        dilation_width: 1,
        groups: 1,
        splits,
        first_channel: linear.first_feature,
        channel_count: linear.feature_count,
        ..Conv::default()
    }
}

/// What the products of an operator are, for whoever measures its candidates; none for one that sums nothing up.
pub(super) fn products(
    lowering: &super::Lowering<'_>,
    position: u32,
    operator: &Operator,
    batch: u8,
) -> Vec<Product> {
    let Some(Content::Matrix(matrix)) = Content::of(lowering.network, operator) else {
        return Vec::new();
    };
    let output = lowering.network.tensors[operator.output.0 as usize];
    let form = match operator.kind {
        OperatorKind::Linear { .. } => Form::Linear,
        _ => Form::Conv(matrix.pattern),
    };
    let pixels = u32::from(batch) * output.height * output.width;
    let pieces = lowering.pieces(Some(position)).iter();
    pieces
        .map(|piece| product(&matrix, form, pixels, piece))
        .collect()
}

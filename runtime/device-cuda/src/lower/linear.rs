//! Fully connected layers.

use punctual_cuda_kernels::params::{Conv, Kept, Linear, Pattern};
use punctual_cuda_kernels::{TensorView, padded};
use punctual_model::{self as model, Operator};

use super::choice::Form;
use super::error::LowerError;
use super::layout;
use super::list::Of;
use super::pages::{Content, Pack, Packed};
use super::place::Place;
use super::stage::{Launches, Lower};
use super::sums::product;
use super::traffic::Role::{Between, Operand as Read, Result as Made};
use super::traffic::{FLOAT, HALF, Launch, Part, Span, Traffic};

impl Pack for model::Linear {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        let taps = of.input.pixels() as u32;
        Some(of.matrix(Pattern::Dense, of.input.channels, taps))
    }
}

impl Lower for model::Linear {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let Some(Content::Matrix(matrix)) = Content::of(launches.lowering.network, operator) else {
            return Ok(());
        };
        let input = launches.read(operator.input);
        let output = operator.output;
        let is_exit = launches.is_of_exit(output);
        let scores = is_exit.then(|| launches.room(output, Kept::Floats).address);
        let halves = (!is_exit || launches.is_read(output)).then(|| launches.write(output).address);
        let whole = Linear {
            input: input.address,
            output: halves.unwrap_or(0),
            scores: scores.unwrap_or(0),
            images: u32::from(launches.batch),
            depth: input.image() as u32,
            features: matrix.outputs,
            pitch: layout::view_of(launches.lowering.network, output, Kept::Halves).pitch,
            splits: 1,
            epilogue: self.activation.into(),
            ..Linear::default()
        };
        for piece in launches.lowering.pieces(of.operator) {
            let product = product(&matrix, Form::Linear, whole.images, piece);
            let chosen = launches.choose(&product, of);
            let linear = Linear {
                weights: piece.weights().encode(),
                bias: piece.bias().encode(),
                first_feature: piece.first,
                feature_count: piece.count,
                ..whole
            };
            if !product.is_added_up(chosen) {
                launches.draft.push(of, chosen.kernel, linear);
                continue;
            }
            let partial = launches.draft.buffer();
            let summed = as_conv(&linear, partial, chosen.splits);
            launches.draft.push(of, chosen.kernel, summed);
            let added = Linear {
                input: 0,
                weights: 0,
                partial: partial.encode(),
                splits: chosen.splits,
                ..linear
            };
            launches.push(of, "linear_reduce", added);
        }
        Ok(())
    }
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

impl Launch for Linear {
    fn traffic(&self) -> Traffic {
        let images = u64::from(self.images);
        let features = images * u64::from(padded(self.features));
        let input = images * u64::from(self.depth) * HALF;
        let partial = features * u64::from(self.splits) * FLOAT;
        let reads = [
            Span::at(Read(0), self.input, input),
            Span::at(Between, self.partial, partial),
            Span::weights(self.weights),
            Span::weights(self.bias),
        ];
        let writes = [
            Span::at(Made, self.output, features * HALF),
            Span::at(Made, self.scores, features * FLOAT),
        ];
        Traffic::new(reads, writes)
    }

    fn weight_bytes(&self) -> u64 {
        let features = u64::from(self.feature_count);
        let weights = match self.input {
            0 => 0,
            _ => 2 * features * u64::from(self.depth),
        };
        weights + 4 * features
    }

    fn part(&self) -> Option<Part> {
        Some(Part::channels(self.first_feature, self.feature_count))
    }
}

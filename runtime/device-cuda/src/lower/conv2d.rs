//! Convolution of floats.

use punctual_cuda_kernels::TensorView;
use punctual_cuda_kernels::params::{Conv, Pattern};
use punctual_model::{Conv2d, Operator};
use punctual_types::Window;

use super::choice::{Candidate, Form};
use super::error::LowerError;
use super::list::Of;
use super::pages::{Content, Pack, Packed, Piece, pattern};
use super::stage::{Launches, Lower};
use super::sums::product;
use super::traffic::Role::{Between, Operand as Read, Result as Made};
use super::traffic::{FLOAT, Launch, Part, Span, Traffic};

impl Pack for Conv2d {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        let pattern = pattern(self.groups, of.input, of.output);
        let taps = self.window.kernel.area() as u32;
        Some(of.matrix(pattern, of.input.channels / self.groups, taps))
    }
}

impl Lower for Conv2d {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let Some(Content::Matrix(matrix)) = Content::of(launches.lowering.network, operator) else {
            return Ok(());
        };
        let &Conv2d { window, groups, .. } = self;
        let Window {
            kernel,
            stride,
            padding,
            dilation,
        } = window;
        let input = launches.read(operator.input);
        let residual = operator.others.first();
        let residual = residual.map_or(0, |&residual| launches.read(residual).address);
        let whole = Conv {
            input,
            output: launches.write(operator.output),
            residual,
            images: u32::from(launches.batch),
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
            epilogue: self.activation.into(),
            ..Conv::default()
        };
        let pixels = whole.images * whole.output.height * whole.output.width;
        for piece in launches.lowering.pieces(of.operator) {
            let product = product(&matrix, Form::Conv(matrix.pattern), pixels, piece);
            let chosen = launches.choose(&product, of);
            let conv = of_piece(whole, piece);
            if !product.is_added_up(chosen) {
                launches.draft.push(of, chosen.kernel, conv);
                continue;
            }
            launches.conv_in_parts(of, conv, chosen);
        }
        Ok(())
    }
}

impl Launches<'_> {
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
        self.draft.push(of, chosen.kernel, summed);
        let added = Conv {
            input: nowhere(conv.input),
            weights: 0,
            ..conv
        };
        self.push(of, "conv_reduce", added);
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

/// A launch without an input adds up what others have summed; one with parts leaves them to such a launch.
impl Launch for Conv {
    fn traffic(&self) -> Traffic {
        let input = Span::tensor(Read(0), &self.input, self.images);
        let output = Span::tensor(Made, &self.output, self.images);
        let sums = self.output.image() * u64::from(self.images);
        let partial = sums * u64::from(self.splits) * FLOAT;
        let partial = Span::at(Between, self.partial, partial);
        let residual = Span::at(Read(1), self.residual, output.bytes);
        let weights = Span::weights(self.weights);
        let bias = Span::weights(self.bias);
        if input.place.is_nothing() {
            Traffic::new([partial, residual, bias], [output])
        } else if partial.place.is_nothing() {
            Traffic::new([input, residual, weights, bias], [output])
        } else {
            Traffic::new([input, weights], [partial])
        }
    }

    fn weight_bytes(&self) -> u64 {
        let channels = u64::from(self.channel_count);
        let taps = u64::from(self.kernel_height) * u64::from(self.kernel_width);
        let inputs = match self.pattern() {
            Pattern::Dense => u64::from(self.input.pitch),
            Pattern::Depthwise => 1,
            Pattern::Grouped => u64::from(self.input.channels / self.groups),
        };
        // What adds up parts of sums reads biases alone; they are few compared with weights.
        let weights = match self.input.address {
            0 => 0,
            _ => 2 * channels * taps * inputs,
        };
        weights + 4 * channels
    }

    /// Windows that are smaller than their steps reach a part of the input. What adds up parts of sums has none.
    fn share_read(&self) -> f64 {
        if self.input.address == 0 {
            return 1.0;
        }
        let down = f64::from(self.kernel_height) / f64::from(self.stride_height);
        let across = f64::from(self.kernel_width) / f64::from(self.stride_width);
        down.min(1.0) * across.min(1.0)
    }

    fn part(&self) -> Option<Part> {
        Some(Part::channels(self.first_channel, self.channel_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::Place;

    #[test]
    fn weights_are_those_of_the_launch_s_channels() {
        let mut conv = Conv {
            input: TensorView {
                address: Place::Workspace { offset: 0 }.encode(),
                channels: 60,
                pitch: 64,
                ..TensorView::default()
            },
            channel_count: 128,
            kernel_height: 3,
            kernel_width: 3,
            groups: 1,
            ..Conv::default()
        };
        assert_eq!(conv.weight_bytes(), 2 * 128 * 9 * 64 + 4 * 128);
        conv.input.address = 0;
        assert_eq!(
            conv.weight_bytes(),
            4 * 128,
            "what adds parts up has biases alone"
        );
    }

    #[test]
    fn a_window_smaller_than_its_step_reads_a_part_of_its_input() {
        let mut conv = Conv {
            kernel_height: 1,
            kernel_width: 1,
            input: TensorView {
                address: Place::Workspace { offset: 0 }.encode(),
                ..TensorView::default()
            },
            stride_height: 2,
            stride_width: 2,
            ..Conv::default()
        };
        assert_eq!(conv.share_read(), 0.25);
        (conv.kernel_height, conv.kernel_width) = (3, 3);
        assert_eq!(conv.share_read(), 1.0);
    }
}

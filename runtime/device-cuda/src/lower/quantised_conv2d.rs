//! Convolution of bytes.

use punctual_cuda_kernels::params::{ConvBytes, Epilogue, Kept, Pattern, Rounding};
use punctual_model::{Operator, QuantisedConv2d};

use super::error::LowerError;
use super::list::Of;
use super::pages::{Content, Integers, Pack, Packed, pattern};
use super::place::Place;
use super::stage::{Launches, Lower, known};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{Launch, Part, Span, Traffic};

impl Pack for QuantisedConv2d {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        let from = of.network.quantisation(of.operator.input);
        Some(Content::Integers(Integers {
            pattern: pattern(self.groups, of.input, of.output),
            outputs: of.output.channels,
            inputs: of.input.channels / self.groups,
            taps: self.window.kernel.area() as u32,
            weights: of.operator.weights[0],
            scales: of.operator.weights[1],
            bias: of.operator.weights[2],
            from: from.expect("a valid convolution of bytes reads bytes"),
            to: of.network.quantisation(of.operator.output),
        }))
    }
}

impl Lower for QuantisedConv2d {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let &QuantisedConv2d {
            window,
            groups,
            activation,
        } = self;
        let Some(Content::Integers(integers)) = Content::of(launches.lowering.network, operator)
        else {
            return Ok(());
        };
        let kernel = known(match integers.pattern {
            Pattern::Dense => "conv_bytes",
            Pattern::Depthwise => "conv_bytes_depthwise",
            Pattern::Grouped => "conv_bytes_grouped",
        });
        let to = launches.quantisation(operator.output);
        let input = launches.read(operator.input);
        let output = launches.write(operator.output);
        for piece in launches.lowering.pieces(of.operator) {
            let factors = Place::Weights {
                page: piece.page,
                offset: piece.bias + piece.count * size_of::<f32>() as u32,
            };
            let conv = ConvBytes {
                input,
                output,
                weights: piece.weights().encode(),
                bias: piece.bias().encode(),
                factors: factors.encode(),
                images: u32::from(launches.batch),
                kernel_height: window.kernel.height,
                kernel_width: window.kernel.width,
                stride_height: window.stride.height,
                stride_width: window.stride.width,
                pad_top: window.padding.top,
                pad_left: window.padding.left,
                dilation_height: window.dilation.height,
                dilation_width: window.dilation.width,
                groups,
                first_channel: piece.first,
                channel_count: piece.count,
                zero: launches.bytes(operator.input).zero.into(),
                kept: launches.kept(operator.output) as u32,
                rounding: to.map_or(Rounding::default(), |to| Rounding::of(to, activation)),
                epilogue: match to {
                    Some(_) => Epilogue::default(),
                    None => activation.into(),
                },
            };
            launches.draft.push(of, kernel, conv);
        }
        Ok(())
    }
}

impl Launch for ConvBytes {
    fn traffic(&self) -> Traffic {
        Traffic::new(
            [
                Span::kept(Read(0), &self.input, self.images, Kept::Bytes as u32),
                Span::weights(self.weights),
                Span::weights(self.bias),
                Span::weights(self.factors),
            ],
            [Span::kept(Made, &self.output, self.images, self.kept)],
        )
    }

    fn weight_bytes(&self) -> u64 {
        let taps = u64::from(self.kernel_height) * u64::from(self.kernel_width);
        u64::from(self.channel_count) * (taps * u64::from(self.summed_channels()) + 8)
    }

    fn part(&self) -> Option<Part> {
        Some(Part::channels(self.first_channel, self.channel_count))
    }
}

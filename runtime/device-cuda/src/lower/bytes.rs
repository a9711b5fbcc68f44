//! The launches of operators on bytes, which quantised networks have.

use punctual_kernels::cuda::Arguments;
use punctual_kernels::cuda::params::{
    AddBytes, ConvBytes, Convert, Epilogue, Pattern, PoolBytes, Rounding,
};
use punctual_model::{Operator, OperatorKind, TensorId};
use punctual_types::{Activation, Extent, PoolKind, Quantisation, Window};

use super::list::Of;
use super::pages::Content;
use super::place::Place;
use super::stage::{Launches, known, pool_code};

/// The value of a step of `from` in steps of `to`.
fn ratio(from: Quantisation, to: Quantisation) -> f32 {
    (f64::from(from.scale) / f64::from(to.scale)) as f32
}

impl Launches<'_> {
    fn quantisation(&self, tensor: TensorId) -> Option<Quantisation> {
        self.lowering.network.quantisation(tensor)
    }

    /// The quantisation of a tensor, which valid operators on bytes have.
    fn bytes(&self, tensor: TensorId) -> Quantisation {
        let of = self.quantisation(tensor);
        of.expect("a valid operator on bytes reads and writes bytes")
    }

    pub(super) fn conv_bytes(&mut self, of: Of<'_>, operator: &Operator) {
        let OperatorKind::QuantisedConv2d {
            window,
            groups,
            activation,
            ..
        } = operator.kind
        else {
            return;
        };
        let Some(Content::Integers(integers)) = Content::of(self.lowering.network, operator) else {
            return;
        };
        let kernel = known(match integers.pattern {
            Pattern::Dense => "conv_bytes",
            Pattern::Depthwise => "conv_bytes_depthwise",
            Pattern::Grouped => "conv_bytes_grouped",
        });
        let to = self.quantisation(operator.output);
        let input = self.read(operator.input);
        let output = self.write(operator.output);
        for piece in self.lowering.pieces(of.operator) {
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
                images: u32::from(self.batch),
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
                zero: self.bytes(operator.input).zero.into(),
                kept: self.kept(operator.output) as u32,
                rounding: to.map_or(Rounding::default(), |to| Rounding::of(to, activation)),
                epilogue: match to {
                    Some(_) => Epilogue::default(),
                    None => activation.into(),
                },
            };
            self.draft.push(of, kernel, Arguments::ConvBytes(conv));
        }
    }

    pub(super) fn convert(&mut self, of: Of<'_>, operator: &Operator) {
        let from = self.quantisation(operator.input);
        let to = self.quantisation(operator.output);
        let convert = Convert {
            input: self.read(operator.input),
            output: self.write(operator.output),
            images: u32::from(self.batch),
            from: self.kept(operator.input) as u32,
            to: self.kept(operator.output) as u32,
            zero: from.map_or(0, |from| from.zero.into()),
            factor: match (from, to) {
                (Some(from), Some(to)) => ratio(from, to),
                (Some(one), None) | (None, Some(one)) => one.scale,
                (None, None) => 1.0,
            },
            gap: 0,
            rounding: to.map_or(Rounding::default(), |to| Rounding::of(to, Activation::None)),
        };
        self.draft
            .push(of, known("convert"), Arguments::Convert(convert));
    }

    /// A pool or a sum of bytes.
    pub(super) fn on_bytes(&mut self, of: Of<'_>, operator: &Operator) {
        match operator.kind {
            OperatorKind::Pool {
                kind,
                kernel,
                stride,
                padding,
            } => self.pool_bytes(of, operator, kind, Window::new(kernel, stride, padding)),
            OperatorKind::GlobalAveragePool => {
                let kind = PoolKind::Average {
                    counts_padding: false,
                };
                let whole = Window::whole(self.shape(operator.input).extent());
                self.pool_bytes(of, operator, kind, whole);
            }
            OperatorKind::Add { other, activation } => {
                let to = self.bytes(operator.output);
                let (a, b) = (self.bytes(operator.input), self.bytes(other));
                let add = AddBytes {
                    first: self.read(operator.input).address,
                    second: self.read(other).address,
                    output: self.write(operator.output),
                    images: u32::from(self.batch),
                    first_zero: a.zero.into(),
                    second_zero: b.zero.into(),
                    first_ratio: ratio(a, to),
                    second_ratio: ratio(b, to),
                    gap: 0,
                    rounding: Rounding::of(to, activation),
                };
                self.draft
                    .push(of, known("add_bytes"), Arguments::AddBytes(add));
            }
            _ => {}
        }
    }

    fn pool_bytes(&mut self, of: Of<'_>, operator: &Operator, kind: PoolKind, window: Window) {
        let (from, to) = (self.bytes(operator.input), self.bytes(operator.output));
        let Extent { height, width } = window.kernel;
        let pool = PoolBytes {
            input: self.read(operator.input),
            output: self.write(operator.output),
            images: u32::from(self.batch),
            kind: pool_code(kind),
            kernel_height: height,
            kernel_width: width,
            stride_height: window.stride.height,
            stride_width: window.stride.width,
            pad_top: window.padding.top,
            pad_left: window.padding.left,
            zero: from.zero.into(),
            ratio: ratio(from, to),
            rounding: Rounding::of(to, Activation::None),
        };
        self.draft
            .push(of, known("pool_bytes"), Arguments::PoolBytes(pool));
    }
}

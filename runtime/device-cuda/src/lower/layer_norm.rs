//! Pixels brought to mean 0 and variance 1.

use punctual_cuda_kernels::params::{Kept, LayerNorm};
use punctual_model::{self as model, Operator};

use super::error::LowerError;
use super::list::Of;
use super::pages::{Content, Pack, Packed, Rows};
use super::place::Place;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{Launch, Span, Traffic};

impl Pack for model::LayerNorm {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        let weights = &of.operator.weights;
        Some(Content::Rows(Rows {
            ranges: [Some(weights[0]), Some(weights[1])],
            kept: Kept::Floats,
            ..of.rows(1, of.input.channels)
        }))
    }
}

impl Lower for model::LayerNorm {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let epsilon = self.epsilon;
        let input = launches.read(operator.input);
        let output = launches.write(operator.output).address;
        for piece in launches.lowering.pieces(of.operator) {
            let bias = piece.weights + piece.count * size_of::<f32>() as u32;
            let norm = LayerNorm {
                input,
                output,
                scale: piece.weights().encode(),
                bias: Place::Weights {
                    page: piece.page,
                    offset: bias,
                }
                .encode(),
                images: u32::from(launches.batch),
                epsilon,
            };
            launches.push(of, "layer_norm", norm);
        }
        Ok(())
    }
}

impl Launch for LayerNorm {
    fn traffic(&self) -> Traffic {
        let input = Span::tensor(Read(0), &self.input, self.images);
        let output = Span::at(Made, self.output, input.bytes);
        let read = [input, Span::weights(self.scale), Span::weights(self.bias)];
        Traffic::new(read, [output])
    }

    fn weight_bytes(&self) -> u64 {
        8 * u64::from(self.input.pitch)
    }
}

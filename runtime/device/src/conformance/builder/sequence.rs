//! The operators of sequences of tokens.

use punctual_model::{OperatorKind, Tensor, TensorId};

use super::{Builder, features};

impl Builder {
    /// A row of a table of `rows` for each pixel.
    pub fn embedding(&mut self, input: TensorId, channels: u32, rows: u32) -> TensorId {
        let table = self.draw(rows * channels, 3);
        let output = Tensor {
            channels,
            ..self.shape(input)
        };
        self.push(input, OperatorKind::Embedding { table }, output)
    }

    /// Attention of a tensor to itself, in two heads.
    pub fn attention(&mut self, input: TensorId, mask: TensorId) -> TensorId {
        let kind = OperatorKind::Attention {
            by_row: false,
            bias: None,
            others: vec![input, input, mask],
            heads: 2,
            scale: 0.5,
        };
        self.push(input, kind, self.shape(input))
    }

    /// All pixels in a row behind one constant token.
    pub fn tokens(&mut self, input: TensorId) -> TensorId {
        let Tensor {
            channels,
            height,
            width,
        } = self.shape(input);
        let output = Tensor {
            channels,
            height: 1,
            width: height * width + 1,
        };
        let table = self.draw(channels * output.width, 3);
        self.push(input, OperatorKind::Tokens { prefix: 1, table }, output)
    }

    pub fn layer_norm(&mut self, input: TensorId) -> TensorId {
        let shape = self.shape(input);
        let kind = OperatorKind::LayerNorm {
            scale: self.draw(shape.channels, 3),
            bias: self.draw(shape.channels, 3),
            epsilon: 1e-5,
        };
        self.push(input, kind, shape)
    }

    /// One token of a row.
    pub fn token(&mut self, input: TensorId, column: u32) -> TensorId {
        let output = features(self.shape(input).channels);
        self.push(input, OperatorKind::Token { column }, output)
    }
}

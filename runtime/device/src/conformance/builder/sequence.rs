//! The operators of sequences of tokens.

use punctual_model::{Attention, Copy, Embedding, LayerNorm, TensorId, Tokens};

use super::Builder;

impl Builder {
    /// A row of a table of `rows` for each pixel.
    pub fn embedding(&mut self, input: TensorId, channels: u32, rows: u32) -> TensorId {
        let table = self.draw(rows * channels, 3);
        self.push_weighted(&[input], Embedding { channels }, &[table])
    }

    /// Attention of a tensor to itself, in two heads.
    pub fn attention(&mut self, input: TensorId, mask: TensorId) -> TensorId {
        let attention = Attention {
            by_row: false,
            bias: None,
            heads: 2,
            scale: 0.5,
        };
        self.push(&[input, input, input, mask], attention)
    }

    /// All pixels in a row behind one constant token.
    pub fn tokens(&mut self, input: TensorId) -> TensorId {
        let shape = self.shape(input);
        let table = self.draw(shape.channels * (shape.pixels() as u32 + 1), 3);
        self.push_weighted(&[input], Tokens { prefix: 1 }, &[table])
    }

    pub fn layer_norm(&mut self, input: TensorId) -> TensorId {
        let channels = self.shape(input).channels;
        let weights = [self.draw(channels, 3), self.draw(channels, 3)];
        self.push_weighted(&[input], LayerNorm { epsilon: 1e-5 }, &weights)
    }

    /// One token of a row.
    pub fn token(&mut self, input: TensorId, column: u32) -> TensorId {
        let token = Copy::of_column(column, self.shape(input).channels);
        self.push(&[input], token)
    }
}

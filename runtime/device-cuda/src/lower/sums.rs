//! Sums of products: which pieces they are, and by which kernel.

use punctual_model::{Operator, OperatorKind};

use super::choice::{Candidate, Form, Product};
use super::list::Of;
use super::pages::{Content, Matrix, Piece};
use super::place::Place;
use super::stage::Launches;

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
    pub(super) fn choose(&self, product: &Product, of: Of<'_>) -> Candidate {
        let Self {
            lowering, batch, ..
        } = self;
        product.choose(lowering.machine(), *batch, of.operator, lowering.choices)
    }
}

/// What the products of an operator are, for the code that measures its candidates; none for one that sums nothing up.
pub(super) fn products(
    lowering: &super::lowering::Lowering<'_>,
    position: u32,
    operator: &Operator,
    batch: u8,
) -> Vec<Product> {
    let Some(Content::Matrix(matrix)) = Content::of(lowering.network, operator) else {
        return Vec::new();
    };
    let output = lowering.network.tensors[operator.output.0 as usize];
    let form = match operator.kind {
        OperatorKind::Linear(_) => Form::Linear,
        _ => Form::Conv(matrix.pattern),
    };
    let pixels = u32::from(batch) * output.height * output.width;
    let pieces = lowering.pieces(Some(position)).iter();
    pieces
        .map(|piece| product(&matrix, form, pixels, piece))
        .collect()
}

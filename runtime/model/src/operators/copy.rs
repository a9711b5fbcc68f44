//! Values moved to other places.

use punctual_types::{Piece, View};
use serde::{Deserialize, Serialize};

use super::gather::check_sources;
use super::meaning::{Held, Meaning, Operands, Site};
use crate::limits::DIMENSION_MAX;
use crate::reference::noise::Rounding;
use crate::reference::{Operation, Planar};
use crate::{OperatorError, ShapeError, Tensor};

/// Values moved to other places: a transpose, a slice, a shuffle of pixels, a concatenation of rows or columns. Its other
/// operands are sources 1, 2, ...; source 0 is the input. At most
/// [`GATHER_SOURCES_MAX`](crate::GATHER_SOURCES_MAX) in all. All that it reads is kept
/// as the output is.
///
/// Weights: constants, if there are some, which are the source behind these, of as many channels and one pixel. Not of
/// bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Copy {
    /// Together the output, each value once.
    pub pieces: Vec<Piece>,
}

impl Copy {
    /// One column of one row, of `channels` channels.
    #[must_use]
    pub fn of_column(column: u32, channels: u32) -> Self {
        let shape = [channels, 1, 1];
        let view = View {
            start: [0, 0, column],
            ..View::plain(shape)
        };
        let pieces = vec![Piece::whole(view, shape)];
        Self { pieces }
    }
}

impl Meaning for Copy {
    fn label(&self, _input: Tensor) -> String {
        "copy".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        let tables = of.weights.iter().copied().map(Tensor::features);
        let sources = [of.input].into_iter().chain(of.others.iter().copied());
        let sources: Vec<[u32; 3]> = sources.chain(tables).map(Tensor::sides).collect();
        let end = |axis: usize| {
            let pieces = self.pieces.iter();
            let ends = pieces.map(|piece| piece.at[axis].saturating_add(piece.sizes[axis]));
            ends.max().unwrap_or(0)
        };
        let shape = [0, 1, 2].map(end);
        Piece::check(&self.pieces, &sources, shape)?;
        Ok(Tensor::of_sides(shape))
    }

    fn weights(&self, of: &Operands<'_>, _output: Tensor) -> Vec<Held> {
        let table = of.weights.first();
        let held = |&elements: &u32| Held::new("table", elements.clamp(1, DIMENSION_MAX).into());
        table.map(held).into_iter().collect()
    }

    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        check_sources(site)?;
        if site.operator.weights.is_empty() {
            site.moves()
        } else {
            site.has_floats()
        }
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let table = of.operator.weights.first().map(|table| Planar {
            shape: Tensor::features(table.len),
            data: of.weights(0),
        });
        let sources = [of.input()].into_iter().chain(of.others()).chain(table);
        let sources: Vec<Planar> = sources.collect();
        let output = of.output();
        let mut result = vec![0.0; output.elements() as usize];
        for piece in &self.pieces {
            let source = &sources[usize::from(piece.source)];
            let mut filled = View::plain(piece.sizes);
            filled.start = piece.at;
            for (to, from) in filled.positions().zip(piece.view.positions()) {
                result[output.position(to)] = source.value(from);
            }
        }
        result
    }

    fn rounding(&self, _of: &Operation<'_>, _result: &[f32]) -> Rounding {
        Rounding::exact()
    }
}

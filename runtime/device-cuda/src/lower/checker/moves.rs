//! Copies: pieces of a tensor that an operator moves, and tensors brought to another form.

use punctual_cuda_kernels::TensorView;
use punctual_cuda_kernels::params::{Copy, Digits};
use punctual_model::{Network, Operator, OperatorKind, TensorId};
use punctual_types::{Axis, Digit, Piece, View};

use super::super::digits::{start_of, step_of};
use super::super::layout::view_of;
use super::super::place::Place;
use super::super::traffic::{Span, Traffic};
use super::{Fault, Run, Value, range};

impl Run<'_> {
    pub(super) fn copy(
        &mut self,
        position: Option<u32>,
        copy: &Copy,
        traffic: &Traffic,
    ) -> Result<(), Fault> {
        let (Some(source), Some(target)) = (traffic.reads.first(), traffic.writes.first()) else {
            return Err(Fault::NoOperand { operand: 0 });
        };
        let from = match source.place {
            Place::Weights { .. } => None,
            _ => Some(self.tensor_at(source)?.0),
        };
        let found = self.operator_at(position);
        let moving = found.and_then(|(at, operator)| {
            let pieces = pieces(self.checker.network, operator)?;
            // The operator that makes a tensor may also convert it.
            (from != Some(operator.output)).then_some((at, operator, pieces))
        });
        match (moving, from) {
            (Some((at, operator, pieces)), _) => {
                self.piece(copy, source, target, at, operator, &pieces)
            }
            (None, Some(tensor)) => self.convert(copy, source, target, tensor),
            (None, None) => Err(Fault::NoOperator),
        }
    }

    /// The next piece of what an operator moves.
    fn piece(
        &mut self,
        copy: &Copy,
        source: &Span,
        target: &Span,
        position: u32,
        operator: &Operator,
        pieces: &[Piece],
    ) -> Result<(), Fault> {
        let network = self.checker.network;
        let tensor = operator.output;
        let there = range(target).and_then(|range| self.workspace.whole(&range));
        let next = match there {
            Some(&Value::Part {
                tensor: of, made, ..
            }) if of == tensor => made,
            _ => 0,
        };
        let Some(piece) = pieces.get(next as usize) else {
            let (made, found) = (next, next);
            return Err(Fault::Part {
                tensor,
                made,
                found,
            });
        };
        let view = match operator.reads().nth(piece.source.into()) {
            Some(read) => {
                let kept = self.expect_tensor(source, read)?;
                view_of(network, read, kept)
            }
            None => {
                self.check_weights(position, source, 0)?;
                // Constants are one pixel.
                TensorView::default()
            }
        };
        let wrong = |what| {
            let piece = next;
            Err(Fault::Piece {
                tensor,
                piece,
                what,
            })
        };
        if [copy.first_channel, copy.first_row, copy.first_column] != piece.at {
            return wrong("place");
        }
        if [copy.channels, copy.rows, copy.columns] != piece.sizes {
            return wrong("size");
        }
        if !is_of_box(copy, &view, piece) {
            return wrong("source");
        }
        self.result(target, tensor, next..next + 1, pieces.len() as u32)
    }

    /// A tensor in another form.
    fn convert(
        &mut self,
        copy: &Copy,
        source: &Span,
        target: &Span,
        tensor: TensorId,
    ) -> Result<(), Fault> {
        let network = self.checker.network;
        let sides = network.tensors[tensor.index()].sides();
        let kept = self.expect_tensor(source, tensor)?;
        let whole = Piece::whole(View::plain(sides), sides);
        let is_whole = [copy.first_channel, copy.first_row, copy.first_column] == [0; 3]
            && [copy.channels, copy.rows, copy.columns] == sides;
        if !is_whole || !is_of_box(copy, &view_of(network, tensor, kept), &whole) {
            let (piece, what) = (0, "form");
            return Err(Fault::Piece {
                tensor,
                piece,
                what,
            });
        }
        self.result(target, tensor, 0..1, 1)
    }

    fn result(
        &mut self,
        target: &Span,
        tensor: TensorId,
        made: std::ops::Range<u32>,
        all: u32,
    ) -> Result<(), Fault> {
        self.make(target, tensor, made, all)?;
        match self.form(target.bytes, tensor) {
            Some(kept) => self.check_shape(target, tensor, kept),
            None => Ok(()),
        }
    }
}

/// The pieces of an operator that only moves values; none if it computes any.
fn pieces(network: &Network, operator: &Operator) -> Option<Vec<Piece>> {
    let [_, rows, columns] = network.tensors[operator.output.index()].sides();
    let from = |start: [u32; 3], sizes: [u32; 3]| View {
        start,
        ..View::plain(sizes)
    };
    match &operator.kind {
        OperatorKind::Copy(copy) => Some(copy.pieces.clone()),
        OperatorKind::Gather(gather) => {
            let mut pieces = Vec::new();
            let mut channel = 0;
            for run in &gather.runs {
                let sizes = [run.count, rows, columns];
                pieces.push(Piece {
                    source: run.source,
                    view: from([run.first, 0, 0], sizes),
                    at: [channel, 0, 0],
                    sizes,
                });
                channel += run.count;
            }
            Some(pieces)
        }
        _ => None,
    }
}

/// Whether a copy reads what a piece says.
fn is_of_box(copy: &Copy, source: &TensorView, piece: &Piece) -> bool {
    let Some([channels, rows, columns]) = piece.view.split(piece.sizes) else {
        return false;
    };
    let pixels: Vec<Digit> = rows.into_iter().chain(columns).collect();
    copy.start == start_of(source, &piece.view)
        && is_order(&copy.pixel_digits, source, &pixels)
        && is_order(&copy.channel_digits, source, &channels)
}

/// Whether digits count through a tensor as the network's do.
pub(super) fn is_order(found: &Digits, source: &TensorView, expected: &[Digit]) -> bool {
    let step = |digit: &Digit| match digit.axis {
        Axis::Repeat => 0,
        axis => u64::from(digit.step) * u64::from(step_of(source, axis)),
    };
    let expected = expected.iter().map(|d| (u64::from(d.extent), step(d)));
    let expected: Vec<(u64, u64)> = expected.collect();
    let found = found.extents.into_iter().zip(found.steps);
    let found: Vec<(u64, u64)> = found.map(|(e, s)| (e.into(), s.into())).collect();
    let count = |digits: &[(u64, u64)]| digits.iter().map(|&(extent, _)| extent).product::<u64>();
    // Both are sums over digits, so they are equal if they are where a digit of either begins to count.
    let units = |digits: &[(u64, u64)]| -> Vec<u64> {
        (0..digits.len()).map(|at| count(&digits[at..])).collect()
    };
    let all = count(&expected);
    let mut positions = units(&expected);
    positions.extend(units(&found));
    let near = positions
        .iter()
        .flat_map(|&unit| [unit.saturating_sub(1), unit]);
    let mut near = near.filter(|&position| position < all);
    count(&found) == all && near.all(|position| at(&expected, position) == at(&found, position))
}

/// What digits of these extents and steps read at a position.
fn at(digits: &[(u64, u64)], mut position: u64) -> u64 {
    let mut value = 0;
    for &(extent, step) in digits.iter().rev() {
        value += position % extent * step;
        position /= extent;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_equal_if_they_count_alike_however_they_are_cut() {
        let view = TensorView {
            address: 0,
            height: 4,
            width: 6,
            channels: 5,
            pitch: 8,
        };
        let digit = |axis, extent| Digit {
            axis,
            step: 1,
            extent,
        };
        let expected = [digit(Axis::Row, 4), digit(Axis::Column, 6)];
        let mut found = Digits {
            extents: [1; 8],
            steps: [0; 8],
        };
        (found.extents[7], found.steps[7]) = (24, 8);
        assert!(is_order(&found, &view, &expected));
        assert!(!is_order(&found, &view, &expected[1..]));
        let turned = [expected[1], expected[0]];
        assert!(!is_order(&found, &view, &turned));
        found.steps[7] = 16;
        assert!(!is_order(&found, &view, &expected));
    }
}

//! Values moved to other places, and tensors brought to another form.

use punctual_cuda_kernels::params::{Copy, Kept};
use punctual_cuda_kernels::{TensorView, padded};
use punctual_model::{self as model, ChannelRun, Operator, OperatorKind, TensorId};
use punctual_types::{Axis, Digit, Piece, View};

use super::digits::{digits_of, start_of};
use super::error::LowerError;
use super::list::Of;
use super::pages::{Content, Pack, Packed, Rows};
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{Launch, Span, Traffic, value_bytes};

/// A tensor that a copy reads.
struct Source {
    view: TensorView,
    kept: Kept,
    /// Values from an image to the next; 0 for constants.
    image: u32,
}

impl Source {
    fn tensor(view: TensorView, kept: Kept) -> Self {
        Self {
            view,
            kept,
            image: view.image() as u32,
        }
    }
}

impl Pack for model::Copy {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        let table = of.operator.weights.first()?;
        Some(Content::Rows(Rows {
            kept: Kept::Floats,
            ..of.rows(1, table.len)
        }))
    }
}

impl Lower for model::Copy {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let pieces = &self.pieces;
        let to = launches.kept(operator.output);
        let reads = operator.reads();
        let mut sources: Vec<Source> = reads
            .map(|tensor| Source::tensor(launches.read(tensor), launches.kept(tensor)))
            .collect();
        // The constants come last.
        sources.extend(operator.weights.first().map(|table| {
            let view = TensorView {
                address: launches.constant(of).encode(),
                height: 1,
                width: 1,
                channels: table.len,
                pitch: padded(table.len),
            };
            Source {
                image: 0,
                ..Source::tensor(view, Kept::Floats)
            }
        }));
        let output = launches.write(operator.output);
        launches.pieces(of, operator, &sources, output, to, pieces)
    }
}

impl<'l> Launches<'l> {
    /// A launch for each piece.
    fn pieces(
        &mut self,
        of: Of<'_>,
        operator: &Operator,
        sources: &[Source],
        output: TensorView,
        to: Kept,
        pieces: &[Piece],
    ) -> Result<(), LowerError> {
        for piece in pieces {
            let source = &sources[usize::from(piece.source)];
            let too_many = |digits| LowerError::Digits {
                model: self.lowering.network.name.clone(),
                operator: operator.name.clone(),
                digits,
            };
            let split = piece.view.split(piece.sizes);
            let [channels, rows, columns] = split.expect("a valid piece");
            let pixels = rows.iter().chain(&columns);
            let pixel_digits = digits_of(&source.view, pixels).map_err(too_many)?;
            let channel_digits = digits_of(&source.view, &channels).map_err(too_many)?;
            let copy = Copy {
                output,
                source: source.view.address,
                source_image: source.image,
                start: start_of(&source.view, &piece.view),
                first_channel: piece.at[0],
                first_row: piece.at[1],
                first_column: piece.at[2],
                channels: piece.sizes[0],
                rows: piece.sizes[1],
                columns: piece.sizes[2],
                pixel_digits,
                channel_digits,
                from: source.kept as u32,
                to: to as u32,
                images: u32::from(self.batch),
                gap: 0,
            };
            self.push(of, "copy", copy);
        }
        Ok(())
    }

    /// The operator of this stage that copies the tensor from others, its position, and its pieces; `None` if no copy
    /// makes the tensor.
    fn moved(&self, tensor: TensorId) -> Option<(u32, &'l Operator, Vec<Piece>)> {
        let mut operators = (self.first..).zip(&self.stage.operators);
        let (position, operator) = operators.find(|(_, operator)| operator.output == tensor)?;
        let shape = self.shape(tensor);
        let pieces = match &operator.kind {
            OperatorKind::Copy(copy)
                if operator.weights.is_empty() && self.kept(tensor) == Kept::Halves =>
            {
                copy.pieces.clone()
            }
            OperatorKind::Gather(gather) => gathered(&gather.runs, shape.height, shape.width),
            _ => return None,
        };
        Some((position, operator, pieces))
    }

    /// Whether a tensor is in the workspace as floats, is an input, or is only copied from such tensors.
    fn is_numbers(&self, tensor: TensorId) -> bool {
        let of_moved = || {
            let (_, operator, _) = self.moved(tensor)?;
            Some(operator.reads().all(|source| self.is_numbers(source)))
        };
        self.floats_here(tensor).is_some() || self.is_input(tensor) || of_moved().unwrap_or(false)
    }

    /// A tensor as floats as exact as its sources: if it is an input, computed as floats, or only copied from such.
    pub(super) fn numbers(&mut self, tensor: TensorId) -> Result<Option<TensorView>, LowerError> {
        if !self.is_numbers(tensor) {
            return Ok(None);
        }
        if let Some(floats) = self.floats_here(tensor) {
            return Ok(Some(floats));
        }
        let Some((position, operator, pieces)) = self.moved(tensor) else {
            return Ok(Some(self.input(tensor, Kept::Floats)));
        };
        let mut sources = Vec::new();
        for source in operator.reads() {
            let view = self.numbers(source)?;
            sources.extend(view.map(|view| Source::tensor(view, Kept::Floats)));
        }
        let to = self.room(tensor, Kept::Floats);
        let of = Of::operator(position, operator);
        self.pieces(of, operator, &sources, to, Kept::Floats, &pieces)?;
        Ok(Some(to))
    }

    /// A tensor as floats: converted, if it is not in the workspace as floats.
    pub(super) fn floats(&mut self, of: Of<'_>, tensor: TensorId) -> TensorView {
        if let Some(floats) = self.floats_here(tensor) {
            return floats;
        }
        self.read(tensor);
        self.convert_kept(of, tensor, self.kept(tensor), Kept::Floats)
    }

    /// Converts a tensor from how it is kept to another way.
    pub(super) fn convert_kept(
        &mut self,
        of: Of<'_>,
        tensor: TensorId,
        from: Kept,
        to: Kept,
    ) -> TensorView {
        let input = match from {
            Kept::Floats => self.floats_here(tensor).expect("it is there as floats"),
            _ => self.read(tensor),
        };
        let output = self.room(tensor, to);
        let [channels, rows, columns] = self.shape(tensor).sides();
        let digit = |axis, extent| Digit {
            axis,
            step: 1,
            extent,
        };
        let pixels = [digit(Axis::Row, rows), digit(Axis::Column, columns)];
        let copy = Copy {
            output,
            source: input.address,
            source_image: Source::tensor(input, from).image,
            channels,
            rows,
            columns,
            pixel_digits: digits_of(&input, &pixels).expect("two"),
            channel_digits: digits_of(&input, &[digit(Axis::Channel, channels)]).expect("one"),
            from: from as u32,
            to: to as u32,
            images: u32::from(self.batch),
            ..Copy::default()
        };
        self.push(of, "copy", copy);
        output
    }
}

/// Runs of picked channels as pieces of a copy.
fn gathered(runs: &[ChannelRun], height: u32, width: u32) -> Vec<Piece> {
    let mut first = 0;
    let piece = |run: &ChannelRun| {
        let sizes = [run.count, height, width];
        let at = [first, 0, 0];
        first += run.count;
        Piece {
            source: run.source,
            view: View {
                start: [run.first, 0, 0],
                ..View::plain(sizes)
            },
            at,
            sizes,
        }
    };
    runs.iter().map(piece).collect()
}

impl Launch for Copy {
    fn traffic(&self) -> Traffic {
        let values = u64::from(self.source_image) * u64::from(self.images);
        let source = Span::at(Read(0), self.source, values * value_bytes(self.from));
        let output = Span::kept(Made, &self.output, self.images, self.to);
        Traffic::new([source], [output])
    }
}

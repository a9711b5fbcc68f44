//! The operators beside sums of products: what they read, and which kernel they are.

use punctual_kernels::cuda::params::{
    Attention, Copy, Elementwise, Embedding, Function, GridSample, Kept, LayerNorm, Operand,
    Product, Resize, Softmax, Take, Tokens, TopK,
};
use punctual_kernels::cuda::{Arguments, TensorView, padded};
use punctual_model::{ChannelRun, Operator, OperatorKind, SecondOperand, TensorId, WeightRange};
use punctual_types::{
    Activation, Axis, BinaryFunction, Digit, Interpolation, Outside, Piece, Ranking, Sampling, View,
};

use super::LowerError;
use super::digits::{digits_of, start_of, step_of};
use super::list::Of;
use super::place::Place;
use super::stage::{Launches, known};

/// How many integers from 0 on halves hold exactly.
const WHOLE_HALVES: u32 = 2048;

/// Most blocks of a launch in y and in z.
const BLOCKS_DEEP_MAX: u32 = 65_535;

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

impl<'l> Launches<'l> {
    /// The launches of an operator that sums no products up.
    pub(super) fn further(&mut self, of: Of<'_>, operator: &'l Operator) -> Result<(), LowerError> {
        match operator.kind {
            OperatorKind::Add { other, activation } => {
                let second = self.operand(other);
                self.elementwise(of, operator, BinaryFunction::Add, second, activation);
            }
            OperatorKind::Multiply { other, activation } => {
                let second = self.operand(other);
                self.elementwise(of, operator, BinaryFunction::Multiply, second, activation);
            }
            OperatorKind::Binary {
                function,
                second,
                activation,
                ..
            } => {
                let second = self.second(of, second);
                self.elementwise(of, operator, function, second, activation);
            }
            OperatorKind::Unary { function } => {
                let nothing = Operand::default();
                self.elementwise(of, operator, function, nothing, Activation::None);
            }
            OperatorKind::Copy { .. } | OperatorKind::Token { .. } => self.moves(of, operator)?,
            OperatorKind::Softmax { digit, logarithm } => {
                self.softmax(of, operator, digit, logarithm);
            }
            OperatorKind::Resize { .. } => self.resize(of, operator),
            OperatorKind::LayerNorm { epsilon, .. } => self.layer_norm(of, operator, epsilon),
            OperatorKind::Attention { .. } => self.attention(of, operator)?,
            OperatorKind::GridSample {
                grid,
                groups,
                sampling,
            } => self.grid_sample(of, operator, grid, (groups, sampling)),
            OperatorKind::TopK {
                axis,
                count,
                ranking,
            } => self.top_k(of, operator, (axis, count, ranking)),
            OperatorKind::Take { indices, axis } => self.take(of, operator, indices, axis)?,
            OperatorKind::Product { other } => self.product(of, operator, other)?,
            OperatorKind::Embedding { table } => self.embedding(of, operator, table)?,
            OperatorKind::Tokens { prefix, .. } => self.tokens(of, operator, prefix),
            OperatorKind::Recurrent { .. } => self.recurrent(of, operator),
            OperatorKind::BestScore { .. } => self.best_score(of, operator),
            OperatorKind::Detections { .. } => self.detections(of, operator),
            _ => return Err(self.lowering.no_kernel(operator, "operator without a name")),
        }
        Ok(())
    }

    fn moves(&mut self, of: Of<'_>, operator: &Operator) -> Result<(), LowerError> {
        let to = self.kept(operator.output);
        let token = |column| [token(column, self.shape(operator.output).channels)];
        let (sources, pieces) = match &operator.kind {
            OperatorKind::Copy {
                others,
                table,
                pieces,
            } => {
                let sources = self.sources(of, operator.input, others, *table);
                (sources, pieces.clone())
            }
            OperatorKind::Token { column } => {
                let pieces = token(*column).to_vec();
                let source = Source::tensor(self.read(operator.input), Kept::Halves);
                (vec![source], pieces)
            }
            _ => return Ok(()),
        };
        let output = self.write(operator.output);
        self.pieces(of, operator, &sources, (output, to), &pieces)
    }

    fn resize(&mut self, of: Of<'_>, operator: &Operator) {
        let resize = Resize {
            input: self.read(operator.input),
            output: self.write(operator.output),
            table: self.constant(of).encode(),
            images: u32::from(self.batch),
            kept: self.kept(operator.output) as u32,
        };
        self.draft
            .push(of, known("resize"), Arguments::Resize(resize));
    }

    fn product(
        &mut self,
        of: Of<'_>,
        operator: &Operator,
        other: TensorId,
    ) -> Result<(), LowerError> {
        self.check_rows(operator, self.shape(operator.input).height)?;
        let product = Product {
            first: self.read(operator.input),
            second: self.read(other),
            output: self.write(operator.output).address,
            images: u32::from(self.batch),
            gap: 0,
        };
        self.draft
            .push(of, known("product_of_rows"), Arguments::Product(product));
        Ok(())
    }

    fn second(&mut self, of: Of<'_>, second: SecondOperand) -> Operand {
        let shape = match second {
            SecondOperand::Tensor(other) => return self.operand(other),
            SecondOperand::Constant { shape, .. } => shape,
        };
        let view = TensorView {
            address: self.constant(of).encode(),
            height: shape.height,
            width: shape.width,
            channels: shape.channels,
            pitch: padded(shape.channels),
        };
        Operand {
            image: 0,
            ..operand(&view, Kept::Floats)
        }
    }

    /// Where an operator's constants begin, which are not cut.
    fn constant(&self, of: Of<'_>) -> Place {
        let piece = self.lowering.pieces(of.operator).first();
        piece.map_or(Place::Nothing, |piece| piece.weights())
    }

    /// As floats if the tensor is in the workspace as floats: halves may be inexact for positions.
    fn operand(&mut self, tensor: TensorId) -> Operand {
        match self.floats_here(tensor) {
            Some(floats) => operand(&floats, Kept::Floats),
            None => operand(&self.read(tensor), Kept::Halves),
        }
    }

    fn elementwise(
        &mut self,
        of: Of<'_>,
        operator: &Operator,
        function: impl Into<Function>,
        second: Operand,
        activation: Activation,
    ) {
        let input = self.operand(operator.input);
        let swapped = matches!(operator.kind, OperatorKind::Binary { swapped: true, .. });
        let (first, second) = match swapped {
            true => (second, input),
            false => (input, second),
        };
        let function = function.into();
        let both = Elementwise {
            output: self.write(operator.output),
            first,
            second,
            images: u32::from(self.batch),
            function: function as u32,
            epilogue: activation.into(),
        };
        let kernel = known(function.kernel());
        self.draft.push(of, kernel, Arguments::Elementwise(both));
    }

    /// What a copy reads, the constants last.
    fn sources(
        &mut self,
        of: Of<'_>,
        input: TensorId,
        others: &[TensorId],
        table: Option<WeightRange>,
    ) -> Vec<Source> {
        let tensors = std::iter::once(&input).chain(others);
        let mut sources: Vec<Source> = tensors
            .map(|&tensor| Source::tensor(self.read(tensor), self.kept(tensor)))
            .collect();
        sources.extend(table.map(|table| {
            let view = TensorView {
                address: self.constant(of).encode(),
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
        sources
    }

    /// A launch for each piece.
    fn pieces(
        &mut self,
        of: Of<'_>,
        operator: &Operator,
        sources: &[Source],
        (output, to): (TensorView, Kept),
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
            self.draft.push(of, known("copy"), Arguments::Copy(copy));
        }
        Ok(())
    }

    fn softmax(&mut self, of: Of<'_>, operator: &Operator, digit: Digit, logarithm: bool) {
        let input = self.read(operator.input);
        let step = digit.step * step_of(&input, digit.axis);
        let period = digit.step * digit.extent;
        // Values between two positions belong to other groups; `rest` counts how often the axis occurs in an image.
        let (size, rest, rest_step) = match digit.axis {
            Axis::Column => (input.width, input.height, input.width * input.pitch),
            Axis::Row => (input.height, 1, input.height * input.width * input.pitch),
            _ => (input.channels, input.height * input.width, input.pitch),
        };
        let along_channels = digit.axis == Axis::Channel;
        let lanes = match along_channels {
            true => digit.extent.next_power_of_two().min(32),
            false => 1,
        };
        let softmax = Softmax {
            input: input.address,
            output: self.write(operator.output).address,
            images: u32::from(self.batch),
            rest,
            rest_step,
            outer: size / period,
            inner: step,
            extent: digit.extent,
            step,
            lanes,
            channels: input.channels,
            pitch: input.pitch,
            along_channels: u32::from(along_channels),
            logarithm: u32::from(logarithm),
        };
        self.draft
            .push(of, known("softmax"), Arguments::Softmax(softmax));
    }

    fn layer_norm(&mut self, of: Of<'_>, operator: &Operator, epsilon: f32) {
        let input = self.read(operator.input);
        let output = self.write(operator.output).address;
        for piece in self.lowering.pieces(of.operator) {
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
                images: u32::from(self.batch),
                epsilon,
            };
            self.draft
                .push(of, known("layer_norm"), Arguments::LayerNorm(norm));
        }
    }

    fn attention(&mut self, of: Of<'_>, operator: &Operator) -> Result<(), LowerError> {
        let &OperatorKind::Attention {
            ref others,
            heads,
            scale,
            by_row,
            bias,
        } = &operator.kind
        else {
            return Ok(());
        };
        let query = self.read(operator.input);
        let (key, value) = (self.read(others[0]), self.read(others[1]));
        let kernel = match query.channels.max(value.channels) / heads {
            ..=64 => "attention_64",
            65..=256 => "attention_256",
            _ => {
                let kind = "attention by heads of more than 256 channels";
                return Err(self.lowering.no_kernel(operator, kind));
            }
        };
        let pixels = |view: &TensorView| match by_row {
            true => view.width,
            false => view.height * view.width,
        };
        let (queries, keys) = (pixels(&query), pixels(&key));
        let rows = if by_row { query.height } else { 1 };
        self.check_rows(operator, rows)?;
        let of_head = bias
            .filter(|bias| bias.by_head)
            .map_or(0, |_| queries * keys);
        let heads_of_row = bias.map_or(0, |bias| if bias.by_head { heads } else { 1 });
        let of_row = bias.filter(|bias| bias.by_row && by_row);
        let attention = Attention {
            query,
            key,
            value,
            mask: others.get(2).map_or(0, |mask| self.read(*mask).address),
            bias: bias.map_or(Place::Nothing, |_| self.constant(of)).encode(),
            output: self.write(operator.output).address,
            rows,
            queries,
            keys,
            bias_row: of_row.map_or(0, |_| heads_of_row * queries * keys),
            bias_head: of_head,
            images: u32::from(self.batch),
            heads,
            scale,
        };
        self.draft
            .push(of, known(kernel), Arguments::Attention(attention));
        Ok(())
    }

    /// Rows of all images are blocks in z.
    fn check_rows(&self, operator: &Operator, rows: u32) -> Result<(), LowerError> {
        match rows.saturating_mul(u32::from(self.batch)) {
            ..=BLOCKS_DEEP_MAX => Ok(()),
            _ => {
                let kind = "product or attention of more than 65535 rows in a batch";
                Err(self.lowering.no_kernel(operator, kind))
            }
        }
    }

    fn embedding(
        &mut self,
        of: Of<'_>,
        operator: &'l Operator,
        table: WeightRange,
    ) -> Result<(), LowerError> {
        let rows = table.len / self.shape(operator.output).channels;
        let numbers = self.numbers(operator.input)?;
        if numbers.is_none() && rows > WHOLE_HALVES {
            let kind = "table of more than 2048 rows whose numbers are computed";
            return Err(self.lowering.no_kernel(operator, kind));
        }
        let (input, kept) = match numbers {
            Some(numbers) => (numbers, Kept::Floats),
            None => (self.read(operator.input), Kept::Halves),
        };
        let output = self.write(operator.output);
        for piece in self.lowering.pieces(of.operator) {
            let embedding = Embedding {
                output,
                input: input.address,
                table: piece.weights().encode(),
                images: u32::from(self.batch),
                rows,
                pitch: input.pitch,
                kept: kept as u32,
                first_channel: piece.first,
                channel_count: piece.count,
            };
            self.draft
                .push(of, known("embedding"), Arguments::Embedding(embedding));
        }
        Ok(())
    }

    fn grid_sample(
        &mut self,
        of: Of<'_>,
        operator: &Operator,
        grid: TensorId,
        (groups, sampling): (u32, Sampling),
    ) {
        let sample = GridSample {
            input: self.read(operator.input),
            grid: self.read(grid),
            output: self.write(operator.output).address,
            images: u32::from(self.batch),
            groups,
            nearest: u32::from(sampling.interpolation == Interpolation::Nearest),
            outside: match sampling.outside {
                Outside::Zeros => 0,
                Outside::Border => 1,
                Outside::Reflection => 2,
            },
            align_corners: u32::from(sampling.align_corners),
            gap: 0,
        };
        self.draft
            .push(of, known("grid_sample"), Arguments::GridSample(sample));
    }

    /// Positions are floats, as halves are inexact for large ones. Operators that read them as values get halves, too.
    fn top_k(
        &mut self,
        of: Of<'_>,
        operator: &Operator,
        (axis, count, ranking): (Axis, u32, Ranking),
    ) {
        let (kernel, count) = match axis {
            Axis::Channel => ("top_channel", 0),
            _ => ("top_columns", count),
        };
        let top = TopK {
            input: self.read(operator.input),
            output: self.room(operator.output, Kept::Floats).address,
            images: u32::from(self.batch),
            count,
            largest: u32::from(ranking.largest),
            last: u32::from(ranking.last),
        };
        self.draft.push(of, known(kernel), Arguments::TopK(top));
        if self.is_read(operator.output) {
            self.convert_kept(of, operator.output, (Kept::Floats, Kept::Halves));
        }
    }

    fn take(
        &mut self,
        of: Of<'_>,
        operator: &'l Operator,
        indices: TensorId,
        axis: Axis,
    ) -> Result<(), LowerError> {
        let input = self.read(operator.input);
        let (axis, positions) = match axis {
            Axis::Channel => (0, input.channels),
            Axis::Row => (1, input.height),
            _ => (2, input.width),
        };
        let numbers = self.numbers(indices)?;
        if numbers.is_none() && positions > WHOLE_HALVES {
            let kind = "choice among more than 2048 positions that are computed";
            return Err(self.lowering.no_kernel(operator, kind));
        }
        let (indices, kept) = match numbers {
            Some(numbers) => (numbers, Kept::Floats),
            None => (self.read(indices), Kept::Halves),
        };
        let take = Take {
            input,
            indices,
            output: self.write(operator.output),
            images: u32::from(self.batch),
            axis,
            kept: kept as u32,
            gap: 0,
        };
        self.draft.push(of, known("take"), Arguments::Take(take));
        Ok(())
    }

    /// The operator of this stage that copies the tensor from others, its position, and its pieces; `None` if no copy
    /// makes the tensor.
    fn moved(&self, tensor: TensorId) -> Option<(u32, &'l Operator, Vec<Piece>)> {
        let mut operators = (self.first..).zip(&self.stage.operators);
        let (position, operator) = operators.find(|(_, operator)| operator.output == tensor)?;
        let shape = self.shape(tensor);
        let pieces = match &operator.kind {
            OperatorKind::Copy {
                table: None,
                pieces,
                ..
            } if self.kept(tensor) == Kept::Halves => pieces.clone(),
            OperatorKind::Gather { runs, .. } => gathered(runs, shape.height, shape.width),
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
        self.pieces(of, operator, &sources, (to, Kept::Floats), &pieces)?;
        Ok(Some(to))
    }

    fn tokens(&mut self, of: Of<'_>, operator: &Operator, prefix: u32) {
        let input = self.read(operator.input).address;
        let output = self.write(operator.output);
        for piece in self.lowering.pieces(of.operator) {
            let tokens = Tokens {
                output,
                input,
                table: piece.weights().encode(),
                images: u32::from(self.batch),
                prefix,
                first_channel: piece.first,
                channel_count: piece.count,
            };
            self.draft
                .push(of, known("tokens"), Arguments::Tokens(tokens));
        }
    }

    /// A tensor as floats: converted, if it is not in the workspace as floats.
    pub(super) fn floats(&mut self, of: Of<'_>, tensor: TensorId) -> TensorView {
        if let Some(floats) = self.floats_here(tensor) {
            return floats;
        }
        self.read(tensor);
        self.convert_kept(of, tensor, (self.kept(tensor), Kept::Floats))
    }

    /// Converts a tensor from how it is kept to another way.
    pub(super) fn convert_kept(
        &mut self,
        of: Of<'_>,
        tensor: TensorId,
        (from, to): (Kept, Kept),
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
        self.draft.push(of, known("copy"), Arguments::Copy(copy));
        output
    }
}

/// A tensor as an operand, which is repeated along axes of one position.
fn operand(view: &TensorView, kept: Kept) -> Operand {
    let step = |positions: u32, axis: Axis| match positions {
        1 => 0,
        _ => step_of(view, axis),
    };
    Operand {
        address: view.address,
        image: view.image() as u32,
        row: step(view.height, Axis::Row),
        column: step(view.width, Axis::Column),
        channel: step(view.channels, Axis::Channel),
        kept: kept as u32,
        gap: 0,
    }
}

/// A copy of one column of one row.
fn token(column: u32, channels: u32) -> Piece {
    let view = View {
        start: [0, 0, column],
        ..View::plain([channels, 1, 1])
    };
    Piece::whole(view, [channels, 1, 1])
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

//! Output shapes of operators: the one place that knows them.

mod error;

use punctual_types::{
    Axis, Cell, DETECTION_VALUES, Digit, Extent, HEAD_CHANNELS_MAX, HIDDEN_UNITS_MAX, Padding,
    Piece, Scoring, Window,
};

use crate::{
    AttentionBias, ChannelRun, GATHER_SOURCES_MAX, Network, Operator, OperatorKind, SecondOperand,
    Stage, Tensor, TensorId,
};

pub use error::ShapeError;

/// The largest number of rows or columns that a kernel spans, and so of a stride, a dilation or a padding.
pub const KERNEL_MAX: u32 = 1 << 10;

impl std::fmt::Display for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.channels, self.height, self.width)
    }
}

impl Tensor {
    #[must_use]
    pub const fn features(channels: u32) -> Self {
        Self {
            channels,
            height: 1,
            width: 1,
        }
    }

    /// Rows and columns.
    #[must_use]
    pub const fn extent(&self) -> Extent {
        Extent {
            height: self.height,
            width: self.width,
        }
    }

    /// Channels, rows and columns.
    #[must_use]
    pub const fn sides(self) -> [u32; 3] {
        [self.channels, self.height, self.width]
    }

    /// Number of elements of one image's tensor.
    #[must_use]
    pub const fn elements(&self) -> u64 {
        // Saturating, since a shape may come from a file that is not validated yet.
        (self.channels as u64 * self.height as u64).saturating_mul(self.width as u64)
    }
}

/// The shape of a window operator's result with `channels` output channels. Unlike
/// [`Window::output`], it also refuses windows that would lie wholly in the padding.
pub fn window_output(input: Tensor, channels: u32, window: &Window) -> Result<Tensor, ShapeError> {
    let Window {
        kernel,
        stride,
        padding,
        dilation,
    } = *window;
    let span = window.span();
    for (what, extent) in [
        ("kernel", kernel),
        ("stride", stride),
        ("dilation", dilation),
        ("kernel, dilated,", span),
    ] {
        let Extent { height, width } = extent;
        if !(1..=KERNEL_MAX).contains(&height) || !(1..=KERNEL_MAX).contains(&width) {
            return Err(ShapeError::Extent {
                what,
                height,
                width,
            });
        }
    }
    let Padding {
        top,
        left,
        bottom,
        right,
    } = padding;
    if top.max(bottom) >= span.height || left.max(right) >= span.width {
        let kernel = span;
        return Err(ShapeError::Padding { padding, kernel });
    }
    let Ok(Extent { height, width }) = window.output(input.extent()) else {
        return Err(ShapeError::InputTooSmall {
            kernel: span,
            input,
            padding,
        });
    };
    Ok(Tensor {
        channels,
        height,
        width,
    })
}

impl OperatorKind {
    /// The shape of the result for an `input`, where `output_channels` is what the weights say (a
    /// convolution's or linear layer's; ignored by the others) and `others` are the shapes of what it
    /// reads besides: a residual, a second operand, further sources.
    pub fn output_shape(
        &self,
        input: Tensor,
        output_channels: u32,
        others: &[Tensor],
    ) -> Result<Tensor, ShapeError> {
        let addend = |output: Tensor, count: usize| match *others {
            _ if others.len() > count => Err(ShapeError::Operands {
                found: others.len(),
                expected: count,
            }),
            [other] if other != output => Err(ShapeError::Addend {
                first: output,
                other,
            }),
            _ => Ok(output),
        };
        let second = || match *others {
            [other] => Ok(other),
            _ => Err(ShapeError::Operands {
                found: others.len(),
                expected: 1,
            }),
        };
        match *self {
            Self::Conv2d { window, groups, .. } | Self::QuantisedConv2d { window, groups, .. } => {
                check_groups(groups, input.channels, output_channels)?;
                addend(window_output(input, output_channels, &window)?, 1)
            }
            Self::Pool {
                kernel,
                stride,
                padding,
                ..
            } => addend(
                window_output(input, input.channels, &Window::new(kernel, stride, padding))?,
                0,
            ),
            Self::GlobalAveragePool => addend(Tensor::features(input.channels), 0),
            Self::Linear { .. } => addend(Tensor::features(output_channels), 0),
            Self::Add { .. } => addend(input, 1),
            Self::Convert => addend(input, 0),
            Self::Multiply { .. } => match second()? {
                other if other == input || other == Tensor::features(input.channels) => Ok(input),
                other => Err(ShapeError::Factor {
                    first: input,
                    other,
                }),
            },
            Self::Gather { ref runs, .. } => gathered(input, others, runs),
            Self::LayerNorm { .. } => addend(input, 0),
            Self::Attention { heads, by_row, .. } => attended(input, others, heads, by_row),
            Self::Embedding { .. } if input.channels != 1 => Err(ShapeError::Lookup { input }),
            Self::Embedding { .. } => Ok(Tensor {
                channels: output_channels,
                ..input
            }),
            Self::Tokens { prefix, .. } => Ok(tokens(input, prefix)),
            Self::Token { column } if input.height != 1 || column >= input.width => {
                Err(ShapeError::Token { column, input })
            }
            Self::Token { .. } => Ok(Tensor::features(input.channels)),
            Self::Copy {
                table, ref pieces, ..
            } => copied(input, others, table.map(|table| table.len), pieces),
            Self::Binary { second, .. } => match (second, others) {
                (SecondOperand::Tensor(_), &[other]) => broadcast(input, other),
                (SecondOperand::Constant { shape, .. }, []) => broadcast(input, shape),
                _ => Err(ShapeError::Operands {
                    found: others.len(),
                    expected: 1,
                }),
            },
            Self::Unary { .. } => addend(input, 0),
            Self::Softmax { digit, .. } => {
                check_digit(digit, input)?;
                addend(input, 0)
            }
            Self::Resize { resampling } => {
                let Extent { height, width } = resampling.size;
                let resized = Tensor {
                    height,
                    width,
                    ..input
                };
                addend(resized, 0)
            }
            Self::Product { .. } => multiplied(input, second()?),
            Self::GridSample { groups, .. } => sampled(input, second()?, groups),
            Self::TopK { axis, count, .. } => addend(chosen(input, axis, count)?, 0),
            Self::Take { axis, .. } => taken(input, second()?, axis),
            Self::Recurrent { cell, .. } => recurred(input, others, cell),
            Self::BestScore { scoring, .. } => scored(input, others, scoring),
            Self::Detections {
                scoring,
                ref decoder,
                ..
            } => detected(input, others, scoring, decoder.rows),
        }
    }

    /// Multiply-accumulates for one image; zero for operators without weights.
    #[must_use]
    pub fn multiplications(&self, input: Tensor, output: Tensor) -> u64 {
        match *self {
            Self::Conv2d { window, groups, .. } | Self::QuantisedConv2d { window, groups, .. } => {
                let inputs = u64::from(input.channels / groups.max(1));
                let per_pixel = inputs.saturating_mul(window.kernel.area() as u64);
                output.elements().saturating_mul(per_pixel)
            }
            Self::Linear { .. } => input.elements().saturating_mul(output.elements()),
            // Products and weighing, for keys as many as queries.
            Self::Attention { by_row, .. } => {
                let rows = if by_row { 1 } else { input.height };
                let pixels = u64::from(rows) * u64::from(input.width);
                let channels = u64::from(input.channels) + u64::from(output.channels);
                let each = u64::from(input.height) * u64::from(input.width) * channels;
                each.saturating_mul(pixels)
            }
            Self::Product { .. } => {
                let terms = u64::from(input.channels);
                output.elements().saturating_mul(terms)
            }
            // The state is multiplied once for each step.
            Self::Recurrent { weights, .. } => {
                u64::from(weights.len).saturating_mul(u64::from(output.width))
            }
            _ => 0,
        }
    }
}

fn check_groups(groups: u32, inputs: u32, outputs: u32) -> Result<(), ShapeError> {
    if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
        return Err(ShapeError::Groups {
            groups,
            inputs,
            outputs,
        });
    }
    Ok(())
}

/// The digit must count positions of the input's axis, which are whole periods of it.
fn check_digit(digit: Digit, input: Tensor) -> Result<(), ShapeError> {
    let size = match digit.axis {
        Axis::Channel => input.channels,
        Axis::Row => input.height,
        Axis::Column => input.width,
        Axis::Repeat => 0,
    };
    let period = u64::from(digit.step) * u64::from(digit.extent);
    if size == 0 || period == 0 || !u64::from(size).is_multiple_of(period) {
        return Err(ShapeError::Digit { digit, input });
    }
    Ok(())
}

/// Shape of an image's pixels as tokens behind `prefix` constant ones.
fn tokens(input: Tensor, prefix: u32) -> Tensor {
    let pixels = u64::from(input.height) * u64::from(input.width);
    Tensor {
        // Saturating: a tensor that wide is refused.
        width: u32::try_from(pixels)
            .unwrap_or(u32::MAX)
            .saturating_add(prefix),
        height: 1,
        ..input
    }
}

/// Shape of a product of matrices in each row.
fn multiplied(first: Tensor, other: Tensor) -> Result<Tensor, ShapeError> {
    if other.height != first.height || other.width != first.channels {
        return Err(ShapeError::Product { first, other });
    }
    Ok(Tensor {
        channels: other.channels,
        ..first
    })
}

/// Shape of a function of two tensors, repeated where one has one position.
fn broadcast(first: Tensor, second: Tensor) -> Result<Tensor, ShapeError> {
    let side = |a: u32, b: u32| match (a, b) {
        (a, b) if a == b || b == 1 => Ok(a),
        (1, b) => Ok(b),
        _ => Err(ShapeError::Broadcast { first, second }),
    };
    Ok(Tensor {
        channels: side(first.channels, second.channels)?,
        height: side(first.height, second.height)?,
        width: side(first.width, second.width)?,
    })
}

/// Shape of an attention's result: the query's, with the value's channels.
fn attended(
    query: Tensor,
    others: &[Tensor],
    heads: u32,
    by_row: bool,
) -> Result<Tensor, ShapeError> {
    let (key, value, mask) = match *others {
        [key, value] => (key, value, None),
        [key, value, mask] => (key, value, Some(mask)),
        _ => {
            let (found, expected) = (others.len(), 2);
            return Err(ShapeError::Operands { found, expected });
        }
    };
    let expected = Tensor { channels: 1, ..key };
    let fits = key.extent() == value.extent()
        && key.channels == query.channels
        && mask.is_none_or(|mask| mask == expected)
        && heads > 0
        && query.channels.is_multiple_of(heads)
        && value.channels.is_multiple_of(heads)
        && (!by_row || key.height == query.height);
    if !fits {
        return Err(ShapeError::Attention {
            query,
            keys: [key, value, mask.unwrap_or(expected)],
            heads,
        });
    }
    let channels = value.channels;
    match query.channels.max(channels) / heads {
        found if found > HEAD_CHANNELS_MAX => Err(ShapeError::HeadChannels { found }),
        _ => Ok(Tensor { channels, ..query }),
    }
}

impl AttentionBias {
    /// How many values the bias must have for this query and key.
    #[must_use]
    pub fn elements(&self, [query, key]: [Tensor; 2], heads: u32, by_row: bool) -> u64 {
        let pixels = |tensor: Tensor| match by_row {
            true => u64::from(tensor.width),
            false => u64::from(tensor.height) * u64::from(tensor.width),
        };
        let rows = if by_row && self.by_row {
            query.height
        } else {
            1
        };
        let heads = if self.by_head { heads } else { 1 };
        let table = pixels(query).saturating_mul(pixels(key));
        table.saturating_mul(u64::from(rows) * u64::from(heads))
    }
}

/// Shape of an image's pixels at a grid's positions.
fn sampled(input: Tensor, grid: Tensor, groups: u32) -> Result<Tensor, ShapeError> {
    let fits = groups > 0
        && input.channels.is_multiple_of(groups)
        && u64::from(grid.channels) == 2 * u64::from(groups);
    match fits {
        true => Ok(Tensor {
            channels: input.channels,
            ..grid
        }),
        false => Err(ShapeError::Grid {
            input,
            grid,
            groups,
        }),
    }
}

/// Shape of the positions that come first: that of the best channel, or of `count` columns.
fn chosen(input: Tensor, axis: Axis, count: u32) -> Result<Tensor, ShapeError> {
    match axis {
        Axis::Channel if count == 1 => Ok(Tensor {
            channels: 1,
            ..input
        }),
        Axis::Column if (1..=input.width).contains(&count) => Ok(Tensor {
            width: count,
            ..input
        }),
        _ => Err(ShapeError::Choice { axis, count, input }),
    }
}

/// Shape of the values at computed positions of an axis.
fn taken(input: Tensor, indices: Tensor, axis: Axis) -> Result<Tensor, ShapeError> {
    let mut sides = input.sides();
    let along = axis.index();
    let fits = (0..3).all(|at| match indices.sides()[at] {
        _ if along == Some(at) => true,
        size => size == 1 || size == sides[at],
    });
    let Some(along) = along.filter(|_| fits) else {
        return Err(ShapeError::Indices {
            input,
            indices,
            axis,
        });
    };
    sides[along] = indices.sides()[along];
    let [channels, height, width] = sides;
    Ok(Tensor {
        channels,
        height,
        width,
    })
}

/// Shape of a recurrent layer's states.
fn recurred(input: Tensor, others: &[Tensor], cell: Cell) -> Result<Tensor, ShapeError> {
    let hidden = input.channels / cell.gates();
    let fits = input.height == 1
        && (1..=HIDDEN_UNITS_MAX).contains(&hidden)
        && hidden * cell.gates() == input.channels;
    let channels = hidden * cell.values();
    match *others {
        _ if !fits => Err(ShapeError::Gates { cell, input }),
        [] => Ok(Tensor { channels, ..input }),
        [initial] if initial == Tensor::features(channels) => Ok(Tensor { channels, ..input }),
        [initial] => Err(ShapeError::Factor {
            first: Tensor { channels, ..input },
            other: initial,
        }),
        _ => Err(ShapeError::Operands {
            found: others.len(),
            expected: 1,
        }),
    }
}

/// Shape of the best score of each pixel: a vector.
fn scored(scores: Tensor, others: &[Tensor], scoring: Scoring) -> Result<Tensor, ShapeError> {
    check_classes(scores, scoring)?;
    // A vector of more features than a tensor may have is refused.
    let places = u32::try_from(pixels(scores)).unwrap_or(u32::MAX);
    let best = Tensor::features(places);
    match *others {
        [] => Ok(best),
        [objectness] if objectness == best => Ok(best),
        [objectness] => Err(ShapeError::Places {
            places: best,
            other: objectness,
        }),
        _ => Err(ShapeError::Operands {
            found: others.len(),
            expected: 1,
        }),
    }
}

/// Shape of a list of detections, and their count.
fn detected(
    best: Tensor,
    others: &[Tensor],
    scoring: Scoring,
    rows: u32,
) -> Result<Tensor, ShapeError> {
    let &[boxes, scores] = others else {
        return Err(ShapeError::Operands {
            found: others.len(),
            expected: 2,
        });
    };
    let places = best;
    if best != Tensor::features(best.channels) {
        return Err(ShapeError::Places {
            places,
            other: best,
        });
    }
    let of_places = |tensor: Tensor| pixels(tensor) == u64::from(best.channels);
    if boxes.channels != 4 || !of_places(boxes) {
        let other = boxes;
        return Err(ShapeError::Places { places, other });
    }
    if !of_places(scores) {
        let other = scores;
        return Err(ShapeError::Places { places, other });
    }
    check_classes(scores, scoring)?;
    Ok(Tensor {
        channels: DETECTION_VALUES,
        height: 1,
        width: rows.saturating_add(1),
    })
}

fn check_classes(scores: Tensor, scoring: Scoring) -> Result<(), ShapeError> {
    match scoring.fits(scores.channels) {
        true => Ok(()),
        false => Err(ShapeError::Classes { scores, scoring }),
    }
}

fn pixels(tensor: Tensor) -> u64 {
    u64::from(tensor.height) * u64::from(tensor.width)
}

/// Shape of channels picked from tensors of equal rows and columns.
fn gathered(input: Tensor, others: &[Tensor], runs: &[ChannelRun]) -> Result<Tensor, ShapeError> {
    let found = 1 + others.len();
    if found > GATHER_SOURCES_MAX {
        return Err(ShapeError::GatherSources { found });
    }
    let size = |tensor: &Tensor| (tensor.height, tensor.width);
    if let Some(&other) = others.iter().find(|other| size(other) != size(&input)) {
        return Err(ShapeError::GatherSizes {
            first: input,
            other,
        });
    }
    let mut channels = 0_u32;
    for &run in runs {
        let source = match run.source {
            0 => Some(&input),
            source => others.get(usize::from(source) - 1),
        };
        let available = source.map_or(0, |source| source.channels);
        let end = run.first.checked_add(run.count);
        let wrong = ShapeError::GatherRun {
            run,
            channels: available,
        };
        if run.count == 0 || end.is_none_or(|end| end > available) {
            return Err(wrong);
        }
        channels = channels.checked_add(run.count).ok_or(wrong)?;
    }
    Ok(Tensor { channels, ..input })
}

/// Shape of what pieces make.
fn copied(
    input: Tensor,
    others: &[Tensor],
    table: Option<u32>,
    pieces: &[Piece],
) -> Result<Tensor, ShapeError> {
    let found = 1 + others.len();
    if found > GATHER_SOURCES_MAX {
        return Err(ShapeError::GatherSources { found });
    }
    let table = table.map(Tensor::features);
    let sources = [input].into_iter().chain(others.iter().copied());
    let sources: Vec<[u32; 3]> = sources.chain(table).map(Tensor::sides).collect();
    let end = |axis: usize| {
        let ends = pieces
            .iter()
            .map(|piece| piece.at[axis].saturating_add(piece.sizes[axis]));
        ends.max().unwrap_or(0)
    };
    let shape = [0, 1, 2].map(end);
    Piece::check(pieces, &sources, shape)?;
    let [channels, height, width] = shape;
    Ok(Tensor {
        channels,
        height,
        width,
    })
}

impl Operator {
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let ranges = self.kind.weight_ranges();
        let ranges = ranges.chain(self.kind.quantised_weights());
        ranges.map(|range| u64::from(range.len)).sum()
    }
}

impl Network {
    /// Multiply-accumulates of a stage for one image.
    ///
    /// # Panics
    /// When the stage is not one of this valid network.
    #[must_use]
    pub fn multiplications(&self, stage: &Stage) -> u64 {
        let shape = |id: TensorId| self.tensors[id.index()];
        let operators = stage.operators.iter();
        operators
            .map(|operator| {
                operator
                    .kind
                    .multiplications(shape(operator.input), shape(operator.output))
            })
            .fold(0, u64::saturating_add)
    }
}

//! The plain references that every kernel is tested against: one loop a dimension, images as
//! `[channel][row][column]`, sums in f64. Slow, allocating, obviously right.

use punctual_types::{
    Activation, Axis, Between, BinaryFunction, Decoder, Digit, Extent, Filter, Piece, PoolKind,
    Ranking, Resampling, Sampling, Scoring, View, Window, clean, position,
};

use crate::ChannelRun;
pub use crate::shape::Shape;

/// `activation(conv(input) + bias [+ addend])`; `weights` are
/// `[output][input / groups][kernel row][kernel column]`. `window` must fit the padded input.
#[allow(clippy::too_many_arguments)]
pub fn conv2d(
    shape: Shape,
    window: &Window,
    groups: usize,
    activation: Activation,
    weights: &[f32],
    bias: &[f32],
    input: &[f32],
    addend: Option<&[f32]>,
) -> Vec<f32> {
    let (inputs, outputs) = (shape.channels / groups, bias.len());
    let (height, width) = output_extent(shape, window);
    let Extent {
        height: kernel_height,
        width: kernel_width,
    } = window.kernel;
    let taps = window.kernel.area();
    let out = Shape {
        channels: outputs,
        height,
        width,
    };
    let mut output = vec![0.0; out.elements()];
    for channel in 0..outputs {
        let first = channel / (outputs / groups) * inputs;
        for row in 0..height {
            for column in 0..width {
                let mut sum = f64::from(bias[channel]);
                for i in 0..inputs {
                    for ky in 0..kernel_height {
                        for kx in 0..kernel_width {
                            let (y, x) = source(window, row, column, ky, kx);
                            let Some(pixel) = shape.pixel(first + i, y, x) else {
                                continue;
                            };
                            let tap = (ky * kernel_width + kx) as usize;
                            let weight = weights[(channel * inputs + i) * taps + tap];
                            sum += f64::from(input[pixel]) * f64::from(weight);
                        }
                    }
                }
                let at = out.index(channel, row, column);
                sum += addend.map_or(0.0, |addend| f64::from(addend[at]));
                output[at] = activation.of(sum as f32);
            }
        }
    }
    output
}

/// The largest, or the mean, of each window's pixels; padding counts only in a mean that includes it.
pub fn pool(shape: Shape, window: &Window, kind: PoolKind, input: &[f32]) -> Vec<f32> {
    let (height, width) = output_extent(shape, window);
    let mut output = Vec::with_capacity(shape.channels * height * width);
    for channel in 0..shape.channels {
        for row in 0..height {
            for column in 0..width {
                let (mut largest, mut sum, mut count) = (f32::NEG_INFINITY, 0.0, 0);
                for ky in 0..window.kernel.height {
                    for kx in 0..window.kernel.width {
                        let (y, x) = source(window, row, column, ky, kx);
                        let Some(pixel) = shape.pixel(channel, y, x) else {
                            continue;
                        };
                        largest = largest.max(input[pixel]);
                        sum += f64::from(input[pixel]);
                        count += 1;
                    }
                }
                output.push(match kind {
                    PoolKind::Max => largest,
                    PoolKind::Average {
                        counts_padding: true,
                    } => {
                        let area = window.kernel.area();
                        (sum / area as f64) as f32
                    }
                    PoolKind::Average { .. } => (sum / f64::from(count)) as f32,
                });
            }
        }
    }
    output
}

pub fn global_average_pool(shape: Shape, input: &[f32]) -> Vec<f32> {
    let pixels = shape.height * shape.width;
    input
        .chunks_exact(pixels)
        .map(|plane| (plane.iter().copied().map(f64::from).sum::<f64>() / pixels as f64) as f32)
        .collect()
}

/// `activation(weights * input + bias)`; `weights` are `[output][input]`.
pub fn linear(activation: Activation, weights: &[f32], bias: &[f32], input: &[f32]) -> Vec<f32> {
    weights
        .chunks_exact(input.len())
        .zip(bias)
        .map(|(row, &bias)| {
            let products = row
                .iter()
                .zip(input)
                .map(|(&w, &x)| f64::from(w) * f64::from(x));
            activation.of((f64::from(bias) + products.sum::<f64>()) as f32)
        })
        .collect()
}

/// `activation(function(a, b))`, both repeated where they have one channel, row or column.
pub fn binary(
    function: BinaryFunction,
    activation: Activation,
    [(a, of_a), (b, of_b)]: [(&[f32], Shape); 2],
) -> Vec<f32> {
    let output = Shape {
        channels: of_a.channels.max(of_b.channels),
        height: of_a.height.max(of_b.height),
        width: of_a.width.max(of_b.width),
    };
    let place = |own: Shape, [channel, row, column]: [usize; 3]| {
        let channel = channel.min(own.channels - 1);
        let row = row.min(own.height - 1);
        (channel * own.height + row) * own.width + column.min(own.width - 1)
    };
    let mut result = Vec::with_capacity(output.elements());
    for channel in 0..output.channels {
        for row in 0..output.height {
            for column in 0..output.width {
                let at = [channel, row, column];
                let value = function.of(a[place(of_a, at)], b[place(of_b, at)]);
                result.push(activation.of(value));
            }
        }
    }
    result
}

/// `[n][b][m] = sum_k first[k][b][m] * second[n][b][k]`, for shapes whose rows and terms match.
pub fn product([of_first, of_second]: [Shape; 2], first: &[f32], second: &[f32]) -> Vec<f32> {
    let mut result = Vec::new();
    for channel in 0..of_second.channels {
        for row in 0..of_first.height {
            for column in 0..of_first.width {
                let terms = (0..of_first.channels).map(|term| {
                    let a = first[of_first.index(term, row, column)];
                    f64::from(a) * f64::from(second[of_second.index(channel, row, term)])
                });
                result.push(terms.sum::<f64>() as f32);
            }
        }
    }
    result
}

/// `e^x / sum e^x`, or its logarithm, over the positions that `digit` counts on its axis.
pub fn softmax(values: &[f32], shape: Shape, digit: Digit, logarithm: bool) -> Vec<f32> {
    let between = match digit.axis {
        Axis::Channel => shape.height * shape.width,
        Axis::Row => shape.width,
        _ => 1,
    };
    let (extent, step) = (digit.extent as usize, digit.step as usize * between);
    let mut result = vec![0.0; values.len()];
    for first in (0..values.len()).filter(|at| at / step % extent == 0) {
        let places = (0..extent).map(|i| first + i * step);
        let wide = places.clone().map(|at| f64::from(values[at]));
        let largest = wide.clone().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = wide.map(|value| (value - largest).exp()).sum();
        for at in places {
            let less = f64::from(values[at]) - largest;
            let value = if logarithm {
                less - sum.ln()
            } else {
                less.exp() / sum
            };
            result[at] = value as f32;
        }
    }
    result
}

/// The runs' channels, one run after the other, from images of `pixels` each.
pub fn gather(pixels: usize, runs: &[ChannelRun], inputs: &[Vec<f32>]) -> Vec<f32> {
    runs.iter()
        .flat_map(|run| &inputs[run.source][run.first * pixels..][..run.count * pixels])
        .copied()
        .collect()
}

/// The values of a view of an image, in its order.
pub fn viewed<T: Copy>(shape: Shape, view: &View, image: &[T]) -> Vec<T> {
    let at = |[channel, row, column]: [u32; 3]| {
        image[shape.index(channel as usize, row as usize, column as usize)]
    };
    view.positions().map(at).collect()
}

/// A tensor made of pieces, which fill it, of the sources.
pub fn copy<T: Copy + Default>(
    output: Shape,
    pieces: &[Piece],
    sources: &[(Shape, Vec<T>)],
) -> Vec<T> {
    let mut result = vec![T::default(); output.elements()];
    for piece in pieces {
        let (shape, source) = &sources[usize::from(piece.source)];
        let mut boxed = View::plain(piece.sizes);
        boxed.start = piece.at;
        for (to, value) in boxed.positions().zip(viewed(*shape, &piece.view, source)) {
            let [channel, row, column] = to.map(|at| at as usize);
            result[output.index(channel, row, column)] = value;
        }
    }
    result
}

/// An image of the resampling's rows and columns.
pub fn resize(shape: Shape, resampling: &Resampling, input: &[f32]) -> Vec<f32> {
    let (height, width) = (shape.height as u32, shape.width as u32);
    let planes = input.chunks_exact(shape.height * shape.width);
    let mut output = Vec::new();
    for plane in planes {
        let pixel = |row: usize, column: usize| plane[row * shape.width + column];
        match resampling.filter {
            Filter::Nearest(rounding) => {
                for row in resampling.nearest_rows(height, rounding) {
                    let columns = resampling.nearest_columns(width, rounding);
                    output.extend(columns.map(|column| pixel(row, column)));
                }
            }
            Filter::Linear => {
                for row in resampling.linear_rows(height) {
                    output.extend(resampling.linear_columns(width).map(|column| {
                        let along = |row: usize| {
                            let (first, second) = (column.first, column.second);
                            blend(pixel(row, first).into(), pixel(row, second).into(), column)
                        };
                        blend(along(row.first), along(row.second), row) as f32
                    }));
                }
            }
        }
    }
    output
}

fn blend(first: f64, second: f64, between: Between) -> f64 {
    let share = f64::from(between.share);
    first * (1.0 - share) + second * share
}

/// The pixels of an image at the positions of a grid, which has for each group of channels a channel with the columns'
/// positions and one with the rows'.
pub fn grid_sample(
    (input, of_input): (&[f32], Shape),
    (grid, of_grid): (&[f32], Shape),
    sampling: Sampling,
) -> Vec<f32> {
    let each = of_input.channels / (of_grid.channels / 2);
    let mut result = Vec::with_capacity(of_input.channels * of_grid.height * of_grid.width);
    for channel in 0..of_input.channels {
        let group = channel / each;
        for row in 0..of_grid.height {
            for column in 0..of_grid.width {
                let position = |at: usize| grid[of_grid.index(2 * group + at, row, column)];
                let columns = sampling.taps(position(0), of_input.width as u32);
                let rows = sampling.taps(position(1), of_input.height as u32);
                let mut sum = 0.0;
                for (row, down) in [rows.first, rows.second].into_iter().zip(rows.weights) {
                    let pixels = [columns.first, columns.second];
                    for (column, along) in pixels.into_iter().zip(columns.weights) {
                        let at = of_input.index(channel, row as usize, column as usize);
                        sum += f64::from(down) * f64::from(along) * f64::from(input[at]);
                    }
                }
                result.push(sum as f32);
            }
        }
    }
    result
}

/// The positions on an axis of the first `count` values of each line.
pub fn top_k(values: &[f32], shape: Shape, axis: Axis, count: usize, ranking: Ranking) -> Vec<f32> {
    let sizes = [shape.channels, shape.height, shape.width];
    let along = axis.index().expect("an axis of the image");
    let mut chosen = sizes;
    chosen[along] = count;
    let [channels, height, width] = chosen;
    let mut result = Vec::new();
    for channel in 0..channels {
        for row in 0..height {
            for column in 0..width {
                let mut at = [channel, row, column];
                let place = at[along];
                let mut line: Vec<i64> = (0..sizes[along])
                    .map(|number| {
                        at[along] = number;
                        let value = values[shape.index(at[0], at[1], at[2])];
                        ranking.key(value, number as u32)
                    })
                    .collect();
                line.sort_unstable_by(|a, b| b.cmp(a));
                result.push(ranking.number(line[place]) as f32);
            }
        }
    }
    result
}

/// The values at the indices' positions along an axis; the indices are repeated where they have one channel, row or
/// column.
pub fn take(
    (input, of_input): (&[f32], Shape),
    (indices, of_indices): (&[f32], Shape),
    axis: Axis,
) -> Vec<f32> {
    let sizes = |shape: Shape| [shape.channels, shape.height, shape.width];
    let along = axis.index().expect("an axis of the image");
    let mut output = sizes(of_input);
    output[along] = sizes(of_indices)[along];
    let mut result = Vec::new();
    for channel in 0..output[0] {
        for row in 0..output[1] {
            for column in 0..output[2] {
                let mut at = [channel, row, column];
                let shared = |axis: usize| at[axis].min(sizes(of_indices)[axis] - 1);
                let index = indices[of_indices.index(shared(0), shared(1), shared(2))];
                at[along] = position(index, sizes(of_input)[along] as u32) as usize;
                result.push(input[of_input.index(at[0], at[1], at[2])]);
            }
        }
    }
    result
}

/// Rows and columns of what `window`, which must fit the padded input, makes of an image.
pub fn output_extent(shape: Shape, window: &Window) -> (usize, usize) {
    let input = Extent {
        height: shape.height as u32,
        width: shape.width as u32,
    };
    let Extent { height, width } = window
        .output(input)
        .expect("the window fits the padded input");
    (height as usize, width as usize)
}

/// The input row and column under a kernel's element; `None` above or left of the image.
pub(crate) fn source(
    window: &Window,
    row: usize,
    column: usize,
    ky: u32,
    kx: u32,
) -> (Option<usize>, Option<usize>) {
    let Window {
        stride,
        padding,
        dilation,
        ..
    } = window;
    let under = |at: usize, stride: u32, offset: u32, before: u32| {
        (at * stride as usize + offset as usize).checked_sub(before as usize)
    };
    (
        under(row, stride.height, ky * dilation.height, padding.top),
        under(column, stride.width, kx * dilation.width, padding.left),
    )
}

/// The best score of each pixel, times the pixel's objectness if there is one.
pub fn best_score(
    scores: &[f32],
    shape: Shape,
    objectness: Option<&[f32]>,
    scoring: Scoring,
) -> Vec<f32> {
    let places = shape.height * shape.width;
    let classes = scoring.first as usize..(scoring.first + scoring.classes) as usize;
    let score = |place: usize| {
        let values = classes.clone().map(|class| scores[class * places + place]);
        // `f32::max` takes the other of a NaN.
        let best = scoring.probability(values.fold(f32::NAN, f32::max));
        let factor = objectness.map_or(1.0, |values| scoring.probability(values[place]));
        best * factor
    };
    (0..places).map(score).collect()
}

/// Detections by falling score, `[value][row]`, and behind the last row their count and the confidence. `boxes` are
/// `[number][place]`, `scores` `[class][place]`.
pub fn detections(
    best: &[f32],
    boxes: &[f32],
    scores: &[f32],
    scoring: Scoring,
    decoder: &Decoder,
) -> Vec<f32> {
    let places = best.len();
    let mut order: Vec<usize> = (0..places).collect();
    order.sort_by(|&a, &b| clean(best[b]).total_cmp(&clean(best[a])).then(a.cmp(&b)));
    order.truncate(decoder.candidates as usize);
    let class = |place: usize| {
        let value = |class: usize| scores[class * places + place];
        let all = scoring.first as usize..(scoring.first + scoring.classes) as usize;
        let mut found = (all.start, f32::NEG_INFINITY);
        for class in all {
            if value(class) > found.1 {
                found = (class, value(class));
            }
        }
        found.0
    };
    let mut kept: Vec<([f32; 4], f32, usize)> = Vec::new();
    for &place in &order {
        let score = clean(best[place]);
        let corners = decoder.corners([0, 1, 2, 3].map(|at| boxes[at * places + place]));
        let Some(corners) = corners.filter(|_| score > decoder.threshold) else {
            continue;
        };
        let class = class(place);
        let suppresses = |(other, _, of_other): &([f32; 4], f32, usize)| {
            let compared = !decoder.by_class || *of_other == class;
            compared
                && decoder
                    .overlap
                    .is_some_and(|most| overlaps(other, &corners, most))
        };
        if !kept.iter().any(suppresses) {
            kept.push((corners, score, class));
        }
    }
    let columns = decoder.rows as usize + 1;
    let mut list = vec![0.0; 6 * columns];
    kept.truncate(decoder.rows as usize);
    for (row, (corners, score, class)) in kept.iter().enumerate() {
        let values = corners.iter().copied().chain([*score, *class as f32]);
        values
            .enumerate()
            .for_each(|(at, value)| list[at * columns + row] = value);
    }
    let averaged = &order[..decoder.averaged as usize];
    let sum: f32 = averaged.iter().map(|&place| clean(best[place])).sum();
    list[columns - 1] = kept.len() as f32;
    list[2 * columns - 1] = clean(sum / decoder.averaged as f32);
    list
}

/// Whether the area that two boxes share is more than this share of their union.
fn overlaps(a: &[f32; 4], b: &[f32; 4], most: f32) -> bool {
    let area = |b: &[f32; 4]| (b[2] - b[0]) * (b[3] - b[1]);
    let width = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let height = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let common = width * height;
    common > most * (area(a) + area(b) - common)
}

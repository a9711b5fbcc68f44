//! Operators of networks that see an image or a text as a sequence of tokens, which are pixels.

use super::windows::Planar;
use crate::Tensor;

/// Channels of one pixel out of a planar tensor.
fn pixel(data: &[f32], pixels: usize, at: usize) -> impl Iterator<Item = f64> + Clone + '_ {
    data[at..].iter().step_by(pixels).copied().map(f64::from)
}

pub(super) fn layer_norm(data: &[f32], scale: &[f32], bias: &[f32], epsilon: f32) -> Vec<f32> {
    let channels = scale.len();
    let pixels = data.len() / channels;
    let mut result = vec![0.0; data.len()];
    for at in 0..pixels {
        let values = pixel(data, pixels, at);
        let mean = values.clone().sum::<f64>() / channels as f64;
        let squares = values.clone().map(|value| (value - mean).powi(2));
        let deviation = (squares.sum::<f64>() / channels as f64 + f64::from(epsilon)).sqrt();
        for (channel, value) in values.enumerate() {
            let normal = (value - mean) / deviation;
            let scaled = normal * f64::from(scale[channel]) + f64::from(bias[channel]);
            result[channel * pixels + at] = scaled as f32;
        }
    }
    result
}

/// The bias that an attention adds to its products, `[row][head][query][key]`: one for all rows, or heads, unless
/// `by_row`, or `by_head`, is set.
#[derive(Clone, Copy)]
pub(super) struct Bias<'a> {
    pub values: &'a [f32],
    pub by_row: bool,
    pub by_head: bool,
}

impl<'a> Bias<'a> {
    /// The `table` values of a row and a head.
    fn of(self, row: usize, head: usize, heads: usize, table: usize) -> &'a [f32] {
        let row = if self.by_row { row } else { 0 };
        let (head, heads) = if self.by_head { (head, heads) } else { (0, 1) };
        &self.values[(row * heads + head) * table..][..table]
    }
}

/// The heads of an attention: their number, the factor of their products and the bias.
pub(super) struct Heads<'a> {
    pub count: usize,
    pub scale: f32,
    pub bias: Option<Bias<'a>>,
}

/// `operands` are query, key, value and a mask if there is one.
pub(super) fn attention(operands: &[Planar], heads: &Heads, by_row: bool) -> Vec<f32> {
    let (query, value) = (operands[0].shape, operands[2].shape);
    let rows = if by_row { query.height as usize } else { 1 };
    let pixels = (query.height * query.width) as usize;
    let mut result = vec![0.0; value.channels as usize * pixels];
    for row in 0..rows {
        // A row of all channels, as a tensor of its own.
        let of_row = |operand: &Planar| -> Vec<f32> {
            let plane = (operand.shape.height * operand.shape.width) as usize;
            let own = plane / rows;
            let planes = operand.data.chunks_exact(plane);
            planes
                .flat_map(|plane| &plane[row * own..][..own])
                .copied()
                .collect()
        };
        let own: Vec<Vec<f32>> = operands.iter().map(of_row).collect();
        let attended = attention_of_row(&own, pixels / rows, row, heads);
        for (plane, found) in result
            .chunks_exact_mut(pixels)
            .zip(attended.chunks_exact(pixels / rows))
        {
            plane[row * found.len()..][..found.len()].copy_from_slice(found);
        }
    }
    result
}

fn attention_of_row(operands: &[Vec<f32>], pixels: usize, row: usize, heads: &Heads) -> Vec<f32> {
    let (query, key, value, mask) = (&operands[0], &operands[1], &operands[2], operands.get(3));
    let size = query.len() / pixels / heads.count;
    let keys = key.len() / (size * heads.count);
    let values_of_head = value.len() / (keys * heads.count);
    let mut result = vec![0.0; values_of_head * heads.count * pixels];
    for head in 0..heads.count {
        let (q, k) = (&query[head * size * pixels..], &key[head * size * keys..]);
        let v = &value[head * values_of_head * keys..];
        let bias = heads
            .bias
            .map(|bias| bias.of(row, head, heads.count, pixels * keys));
        let k: Vec<Vec<f64>> = (0..keys)
            .map(|to| pixel(k, keys, to).take(size).collect())
            .collect();
        for at in 0..pixels {
            let q: Vec<f64> = pixel(q, pixels, at).take(size).collect();
            let products = (0..keys).map(|to| {
                let pairs = q.iter().zip(&k[to]);
                let product = pairs.map(|(q, k)| q * k).sum::<f64>() * f64::from(heads.scale);
                let product = product + bias.map_or(0.0, |bias| f64::from(bias[at * keys + to]));
                // In f32: beside f32::MIN no product makes a difference.
                let ignored = mask.is_some_and(|mask| mask[to] == 0.0);
                f64::from(product as f32 + if ignored { f32::MIN } else { 0.0 })
            });
            let products: Vec<f64> = products.collect();
            let largest = products.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = products.iter().map(|x| (x - largest).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for channel in 0..values_of_head {
                let values = v[channel * keys..][..keys].iter().zip(&weights);
                let weighed: f64 = values.map(|(&v, w)| f64::from(v) * w).sum();
                result[(head * values_of_head + channel) * pixels + at] = (weighed / sum) as f32;
            }
        }
    }
    result
}

/// The matrices of each row multiplied.
pub(super) fn product(first: Planar, second: Planar, output: Tensor) -> Vec<f32> {
    let terms = first.shape.channels as usize;
    let mut result = Vec::with_capacity(output.elements() as usize);
    for channel in 0..output.channels as usize {
        for row in 0..output.height as usize {
            for column in 0..output.width as usize {
                let products = (0..terms).map(|term| {
                    let first = first.at(term, row as i64, column as i64);
                    let second = second.at(channel, row as i64, term as i64);
                    f64::from(first.unwrap_or(0.0)) * f64::from(second.unwrap_or(0.0))
                });
                result.push(products.sum::<f64>() as f32);
            }
        }
    }
    result
}

pub(super) fn embedding(numbers: &[f32], table: &[f32], channels: usize) -> Vec<f32> {
    let rows = table.len() / channels;
    let row = |number: f32| (number as usize).min(rows - 1);
    let column = |channel: usize| {
        let numbers = numbers.iter().copied();
        numbers.map(move |number| table[row(number) * channels + channel])
    };
    (0..channels).flat_map(column).collect()
}

pub(super) fn tokens(image: &[f32], table: &[f32], output: Tensor, prefix: usize) -> Vec<f32> {
    let (channels, columns) = (output.channels as usize, output.width as usize);
    let pixels = columns - prefix;
    let mut result = Vec::with_capacity(channels * columns);
    for channel in 0..channels {
        for column in 0..columns {
            let constant = table[column * channels + channel];
            let pixel = column.checked_sub(prefix);
            let value = pixel.map_or(0.0, |pixel| image[channel * pixels + pixel]);
            result.push(value + constant);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pixel_is_normalised_by_itself() {
        // Two channels, two pixels: (1, 3) and (5, 5).
        let result = layer_norm(&[1.0, 5.0, 3.0, 5.0], &[2.0, 2.0], &[0.5, 1.0], 1e-12);
        for (found, expected) in result.iter().zip([-1.5, 0.5, 3.0, 1.0]) {
            assert!((found - expected).abs() < 1e-6, "{result:?}");
        }
    }

    /// Attention with one head or several.
    fn attend(heads: usize, operands: &[(&[f32], u32)], bias: Option<Bias>) -> Vec<f32> {
        let operands: Vec<Planar> = operands
            .iter()
            .map(|(data, channels)| Planar {
                shape: Tensor {
                    channels: *channels,
                    height: 1,
                    width: data.len() as u32 / channels,
                },
                data,
            })
            .collect();
        let (count, scale) = (heads, 1.0);
        attention(&operands, &Heads { count, scale, bias }, false)
    }

    #[test]
    fn attention_weighs_the_values_of_the_keys_that_count() {
        // One head, one channel, two pixels; equal products: the mean of both values.
        let (query, key, value) = (&[1.0, 1.0][..], &[0.0, 0.0][..], &[2.0, 6.0][..]);
        let operands = [(query, 1), (key, 1), (value, 1)];
        assert_eq!(attend(1, &operands, None), [4.0, 4.0]);
        let masked = |mask: &[f32]| {
            let operands = [(query, 1), (key, 1), (value, 1), (mask, 1)];
            attend(1, &operands, None)
        };
        assert_eq!(masked(&[1.0, 0.0]), [2.0, 2.0]);
        // If none counts, all do.
        assert_eq!(masked(&[0.0, 0.0]), [4.0, 4.0]);
        // exp(ln 3) : exp(0) is 3 : 1, whether by a key or by the bias.
        let third = [3.0_f32.ln(), 0.0];
        let weighed = attend(1, &[(&[1.0], 1), (&third, 1), (value, 1)], None);
        assert!((weighed[0] - 3.0).abs() < 1e-6, "{weighed:?}");
        let bias = Bias {
            values: &third,
            by_row: false,
            by_head: false,
        };
        let weighed = attend(1, &[(&[1.0], 1), (key, 1), (value, 1)], Some(bias));
        assert!((weighed[0] - 3.0).abs() < 1e-6, "{weighed:?}");
        // Two heads see their own channels only.
        let heads = attend(2, &[(query, 2), (key, 2), (&[5.0, 7.0], 2)], None);
        assert_eq!(heads, [5.0, 7.0]);
    }

    #[test]
    fn each_row_is_a_product_of_its_own() {
        // (1 2) times 3 and 4; (5 6) times 7 and 8.
        let shape = |channels, height, width| Tensor {
            channels,
            height,
            width,
        };
        let first = Planar {
            shape: shape(2, 2, 1),
            data: &[1.0, 5.0, 2.0, 6.0],
        };
        let second = Planar {
            shape: shape(1, 2, 2),
            data: &[3.0, 4.0, 7.0, 8.0],
        };
        assert_eq!(product(first, second, shape(1, 2, 1)), [11.0, 83.0]);
    }

    #[test]
    fn what_is_no_row_takes_the_nearest() {
        let table = [1.0, 2.0, 3.0, 4.0];
        let found = embedding(&[1.0, -3.0, 9.0, f32::NAN], &table, 2);
        assert_eq!(found, [3.0, 1.0, 3.0, 1.0, 4.0, 2.0, 4.0, 2.0]);
    }

    #[test]
    fn constant_tokens_stand_before_the_pixels() {
        let output = Tensor {
            channels: 2,
            height: 1,
            width: 3,
        };
        let table = [10.0, 20.0, 0.5, 0.25, 0.0, 0.0];
        let found = tokens(&[1.0, 2.0, 3.0, 4.0], &table, output, 1);
        assert_eq!(found, [10.0, 1.5, 2.0, 20.0, 3.25, 4.0]);
    }
}

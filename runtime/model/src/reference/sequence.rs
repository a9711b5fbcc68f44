//! Operators of networks that see an image or a text as a sequence of tokens, which are pixels.

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

/// `operands` are key, value and a mask if there is one; `pixels` are those of the query.
pub(super) fn attention(
    query: &[f32],
    operands: &[&[f32]],
    pixels: usize,
    heads: usize,
    scale: f32,
) -> Vec<f32> {
    let (key, value, mask) = (operands[0], operands[1], operands.get(2));
    let size = query.len() / pixels / heads;
    let keys = key.len() / (size * heads);
    let mut result = vec![0.0; query.len()];
    for head in 0..heads {
        let q = &query[head * size * pixels..];
        let (k, v) = (&key[head * size * keys..], &value[head * size * keys..]);
        for at in 0..pixels {
            let products = (0..keys).map(|to| {
                let pairs = pixel(q, pixels, at).zip(pixel(k, keys, to)).take(size);
                let product = pairs.map(|(q, k)| q * k).sum::<f64>() * f64::from(scale);
                // In f32: beside f32::MIN no product makes a difference.
                let ignored = mask.is_some_and(|mask| mask[to] == 0.0);
                f64::from(product as f32 + if ignored { f32::MIN } else { 0.0 })
            });
            let products: Vec<f64> = products.collect();
            let largest = products.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = products.iter().map(|x| (x - largest).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for channel in 0..size {
                let values = v[channel * keys..][..keys].iter().zip(&weights);
                let weighed: f64 = values.map(|(&v, w)| f64::from(v) * w).sum();
                result[(head * size + channel) * pixels + at] = (weighed / sum) as f32;
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

    #[test]
    fn attention_weighs_the_values_of_the_keys_that_count() {
        // One head, one channel, two pixels; equal products: the mean of both values.
        let (key, value) = ([0.0, 0.0], [2.0, 6.0]);
        assert_eq!(
            attention(&[1.0, 1.0], &[&key, &value], 2, 1, 1.0),
            [4.0, 4.0]
        );
        let masked = attention(&[1.0, 1.0], &[&key, &value, &[1.0, 0.0]], 2, 1, 1.0);
        assert_eq!(masked, [2.0, 2.0]);
        // If none counts, all do.
        let none = attention(&[1.0, 1.0], &[&key, &value, &[0.0, 0.0]], 2, 1, 1.0);
        assert_eq!(none, [4.0, 4.0]);
        // exp(ln 3) : exp(0) is 3 : 1.
        let key = [3.0_f32.ln(), 0.0];
        let weighed = attention(&[1.0], &[&key, &value], 1, 1, 1.0);
        assert!((weighed[0] - 3.0).abs() < 1e-6, "{weighed:?}");
        // Two heads see their own channels only.
        let heads = attention(&[1.0, 1.0], &[&[0.0, 0.0], &[5.0, 7.0]], 1, 2, 1.0);
        assert_eq!(heads, [5.0, 7.0]);
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

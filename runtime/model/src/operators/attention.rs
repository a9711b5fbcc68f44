//! Attention.

use punctual_types::HEAD_CHANNELS_MAX;
use serde::{Deserialize, Serialize};

use super::meaning::{Held, Meaning, Operands, Plain, Site, check_figure};
use crate::reference::noise::{Form, Rounding, typical};
use crate::reference::{Operation, Planar, pixel};
use crate::{OperatorError, ShapeError, Tensor};

/// Attention of each pixel of the input, the query, to the pixels of a key. A head takes its share of the channels:
/// `softmax(scale * query . key + bias)` over the key's pixels weighs the value's pixels. The result has the query's
/// pixels and the value's channels.
///
/// Its other operands: key and value, which have equal pixels, the key with the query's channels, and a mask if there is
/// one: one channel of the key's pixels, 0 for those that do not count (`f32::MIN` is added to their products).
///
/// Weights: the bias, `[row][head][query][key]`, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    pub heads: u32,
    /// Factor of the products; finite.
    pub scale: f32,
    /// Whether each row is an attention of its own, such as a window: all tensors have equally many rows then.
    pub by_row: bool,
    pub bias: Option<BiasForm>,
}

/// The bias that an [`Attention`] adds to its products: one for all rows, or heads, unless `by_row`, or `by_head`, is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BiasForm {
    pub by_row: bool,
    pub by_head: bool,
}

impl Attention {
    /// How many values the bias must have for this query and key.
    fn bias_elements(&self, bias: BiasForm, query: Tensor, key: Tensor) -> u64 {
        let pixels = |tensor: Tensor| {
            if self.by_row {
                u64::from(tensor.width)
            } else {
                tensor.pixels()
            }
        };
        let rows = if self.by_row && bias.by_row {
            query.height
        } else {
            1
        };
        let heads = if bias.by_head { self.heads } else { 1 };
        let table = pixels(query).saturating_mul(pixels(key));
        table.saturating_mul(u64::from(rows) * u64::from(heads))
    }
}

impl Meaning for Attention {
    fn label(&self, _input: Tensor) -> String {
        "attention".to_owned()
    }

    /// The query's, with the value's channels.
    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        let (query, heads) = (of.input, self.heads);
        let (key, value, mask) = match *of.others {
            [key, value] => (key, value, None),
            [key, value, mask] => (key, value, Some(mask)),
            _ => return Err(of.not(2)),
        };
        let expected = Tensor { channels: 1, ..key };
        let fits = key.extent() == value.extent()
            && key.channels == query.channels
            && mask.is_none_or(|mask| mask == expected)
            && heads > 0
            && query.channels.is_multiple_of(heads)
            && value.channels.is_multiple_of(heads)
            && (!self.by_row || key.height == query.height);
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

    fn weights(&self, of: &Operands<'_>, _output: Tensor) -> Vec<Held> {
        let bias = self.bias.iter();
        let key = of.others.first().copied().unwrap_or(of.input);
        let elements = bias.map(|&bias| self.bias_elements(bias, of.input, key));
        elements
            .map(|elements| Held::new("bias", elements))
            .collect()
    }

    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        site.has_floats()?;
        check_figure("scale", self.scale, self.scale.is_finite())
    }

    /// Products and weighing, for keys as many as queries.
    fn multiplications(&self, site: Site<'_>) -> u64 {
        let (input, output) = (site.input(), site.output());
        let rows = if self.by_row { 1 } else { input.height };
        let pixels = u64::from(rows) * u64::from(input.width);
        let channels = u64::from(input.channels) + u64::from(output.channels);
        let each = input.pixels() * channels;
        each.saturating_mul(pixels)
    }

    fn plain(&self, _input: Tensor) -> Plain {
        Plain {
            reads: true,
            writes: true,
        }
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let operands: Vec<Planar> = [of.input()].into_iter().chain(of.others()).collect();
        self.attended(&operands, self.bias.map(|_| of.weights(0)))
    }

    fn rounding(&self, of: &Operation<'_>, _result: &[f32]) -> Rounding {
        let (query, mut others) = (of.input(), of.others());
        let [key, value] = [others.next(), others.next()].map(|each| each.expect("two at least"));
        let terms = query.shape.channels / self.heads;
        let products = f64::from(self.scale.abs()) * f64::from(terms);
        let products = products * typical(query.data) * typical(key.data);
        let size = (4.0 + products) * typical(value.data);
        Rounding::of_all(Form::Plain, key.plane(), size)
    }
}

impl Attention {
    /// `operands` are query, key, value and a mask if there is one.
    fn attended(&self, operands: &[Planar], bias: Option<&[f32]>) -> Vec<f32> {
        let (query, value) = (operands[0].shape, operands[2].shape);
        let rows = if self.by_row {
            query.height as usize
        } else {
            1
        };
        let pixels = query.pixels() as usize;
        let mut result = vec![0.0; value.channels as usize * pixels];
        for row in 0..rows {
            // A row of all channels, as a tensor of its own.
            let of_row = |operand: &Planar| -> Vec<f32> {
                let own = operand.plane() / rows;
                let planes = operand.data.chunks_exact(operand.plane());
                planes
                    .flat_map(|plane| &plane[row * own..][..own])
                    .copied()
                    .collect()
            };
            let own: Vec<Vec<f32>> = operands.iter().map(of_row).collect();
            let attended = self.attended_row(&own, pixels / rows, row, bias);
            let planes = result.chunks_exact_mut(pixels);
            for (plane, found) in planes.zip(attended.chunks_exact(pixels / rows)) {
                plane[row * found.len()..][..found.len()].copy_from_slice(found);
            }
        }
        result
    }

    /// The `table` values of the bias for a row and a head.
    fn bias_of<'b>(&self, bias: &'b [f32], row: usize, head: usize, table: usize) -> &'b [f32] {
        let form = self.bias.expect("it has a bias");
        let row = if form.by_row { row } else { 0 };
        let (head, heads) = if form.by_head {
            (head, self.heads as usize)
        } else {
            (0, 1)
        };
        &bias[(row * heads + head) * table..][..table]
    }

    fn attended_row(
        &self,
        operands: &[Vec<f32>],
        pixels: usize,
        row: usize,
        bias: Option<&[f32]>,
    ) -> Vec<f32> {
        let (query, key, value, mask) = (&operands[0], &operands[1], &operands[2], operands.get(3));
        let heads = self.heads as usize;
        let size = query.len() / pixels / heads;
        let keys = key.len() / (size * heads);
        let values_of_head = value.len() / (keys * heads);
        let mut result = vec![0.0; values_of_head * heads * pixels];
        for head in 0..heads {
            let (q, k) = (&query[head * size * pixels..], &key[head * size * keys..]);
            let v = &value[head * values_of_head * keys..];
            let bias = bias.map(|bias| self.bias_of(bias, row, head, pixels * keys));
            let k: Vec<Vec<f64>> = (0..keys)
                .map(|to| pixel(k, keys, to).take(size).collect())
                .collect();
            for at in 0..pixels {
                let q: Vec<f64> = pixel(q, pixels, at).take(size).collect();
                let products = (0..keys).map(|to| {
                    let pairs = q.iter().zip(&k[to]);
                    let product = pairs.map(|(q, k)| q * k).sum::<f64>() * f64::from(self.scale);
                    let product =
                        product + bias.map_or(0.0, |bias| f64::from(bias[at * keys + to]));
                    // In f32: added to f32::MIN no product makes a difference.
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
                    result[(head * values_of_head + channel) * pixels + at] =
                        (weighed / sum) as f32;
                }
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &[f32] = &[2.0, 6.0];

    /// Attention with one head or several.
    fn attend(heads: u32, operands: &[(&[f32], u32)], bias: Option<&[f32]>) -> Vec<f32> {
        let planar = |&(data, channels): &(_, u32)| {
            let data: &[f32] = data;
            let width = data.len() as u32 / channels;
            let shape = Tensor::of_sides([channels, 1, width]);
            Planar { shape, data }
        };
        let operands: Vec<Planar> = operands.iter().map(planar).collect();
        let form = BiasForm {
            by_row: false,
            by_head: false,
        };
        let attention = Attention {
            heads,
            scale: 1.0,
            by_row: false,
            bias: bias.map(|_| form),
        };
        attention.attended(&operands, bias)
    }

    #[test]
    fn attention_weighs_the_values_of_the_keys_that_count() {
        // One head, one channel, two pixels; equal products: the mean of both values.
        let (query, key) = (&[1.0, 1.0][..], &[0.0, 0.0][..]);
        assert_eq!(
            attend(1, &[(query, 1), (key, 1), (VALUE, 1)], None),
            [4.0, 4.0]
        );
        let masked = |mask: &[f32]| {
            let operands = [(query, 1), (key, 1), (VALUE, 1), (mask, 1)];
            attend(1, &operands, None)
        };
        assert_eq!(masked(&[1.0, 0.0]), [2.0, 2.0]);
        // If none counts, all do.
        assert_eq!(masked(&[0.0, 0.0]), [4.0, 4.0]);
        // Two heads see their own channels only.
        let heads = attend(2, &[(query, 2), (key, 2), (&[5.0, 7.0], 2)], None);
        assert_eq!(heads, [5.0, 7.0]);
    }

    #[test]
    fn a_key_weighs_as_a_bias_does() {
        // exp(ln 3) : exp(0) is 3 : 1.
        let third = [3.0_f32.ln(), 0.0];
        let by_key = attend(1, &[(&[1.0], 1), (&third, 1), (VALUE, 1)], None);
        let none = &[0.0, 0.0];
        let by_bias = attend(1, &[(&[1.0], 1), (none, 1), (VALUE, 1)], Some(&third));
        for weighed in [by_key, by_bias] {
            assert!((weighed[0] - 3.0).abs() < 1e-6, "{weighed:?}");
        }
    }
}

//! The operators of sequences equal plain sums in f64 on every instruction set, in any parts.

use crate::support::{blocked, check_output, isa, noise, run_in_parts};
use proptest::prelude::*;
use punctual_kernels::{
    Attention, AttentionBias, AttentionSpec, BlockedLayout, Embedding, HEAD_CHANNELS_MAX, Image,
    Isa, KernelError, LayerNorm, LayerNormSpec, Token, Tokens,
};

/// The value of a channel of a pixel in `[channel][pixel]`.
fn at(data: &[f32], pixels: usize, channel: usize, pixel: usize) -> f64 {
    f64::from(data[channel * pixels + pixel])
}

fn layer_norm(data: &[f32], scale: &[f32], bias: &[f32], epsilon: f32) -> Vec<f32> {
    let channels = scale.len();
    let pixels = data.len() / channels;
    let value = |channel: usize, pixel: usize| {
        let all = (0..channels).map(|channel| at(data, pixels, channel, pixel));
        let mean = all.clone().sum::<f64>() / channels as f64;
        let variance = all.map(|x| (x - mean).powi(2)).sum::<f64>() / channels as f64;
        let normal =
            (at(data, pixels, channel, pixel) - mean) / (variance + f64::from(epsilon)).sqrt();
        (normal * f64::from(scale[channel]) + f64::from(bias[channel])) as f32
    };
    let places = (0..channels).flat_map(|channel| (0..pixels).map(move |pixel| (channel, pixel)));
    places
        .map(|(channel, pixel)| value(channel, pixel))
        .collect()
}

/// Planar tensors of an attention.
struct Heads<'a> {
    spec: &'a AttentionSpec,
    query: &'a [f32],
    key: &'a [f32],
    value: &'a [f32],
    mask: Option<&'a [f32]>,
    bias: &'a [f32],
}

impl Heads<'_> {
    /// The product of a query with a key of one head, with its bias.
    fn product(&self, head: usize, query: usize, key: usize, row: usize) -> f64 {
        let spec = self.spec;
        let size = spec.query.channels() / spec.heads;
        let [pixels, keys] = [spec.query, spec.key].map(|layout| layout.height() * layout.width());
        let rows = if spec.by_row { spec.query.height() } else { 1 };
        let channels = head * size..(head + 1) * size;
        let pairs = channels.map(|channel| {
            at(self.query, pixels, channel, query) * at(self.key, keys, channel, key)
        });
        let ignored = self.mask.is_some_and(|mask| mask[key] == 0.0);
        let added = spec.bias.map_or(0.0, |bias| {
            let (queries, keys) = (pixels / rows, keys / rows);
            let row = if bias.by_row { row } else { 0 };
            let (head, heads) = if bias.by_head {
                (head, spec.heads)
            } else {
                (0, 1)
            };
            let table = &self.bias[(row * heads + head) * queries * keys..];
            f64::from(table[query % queries * keys + key % keys])
        });
        let product = pairs.sum::<f64>() * f64::from(spec.scale) + added;
        product + if ignored { f64::from(f32::MIN) } else { 0.0 }
    }

    fn attended(&self) -> Vec<f32> {
        let spec = self.spec;
        let [pixels, all_keys] =
            [spec.query, spec.key].map(|layout| layout.height() * layout.width());
        let rows = if spec.by_row { spec.query.height() } else { 1 };
        let keys = all_keys / rows;
        let size = spec.value.channels() / spec.heads;
        let value = |channel: usize, pixel: usize| {
            let row = pixel / (pixels / rows);
            let of_row = row * keys..(row + 1) * keys;
            let products: Vec<f64> = of_row
                .clone()
                .map(|key| self.product(channel / size, pixel, key, row))
                .collect();
            let largest = products.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = products.iter().map(|x| (x - largest).exp()).collect();
            let values = of_row.map(|key| at(self.value, all_keys, channel, key));
            let weighed: f64 = values.zip(&weights).map(|(v, w)| v * w).sum();
            (weighed / weights.iter().sum::<f64>()) as f32
        };
        let channels = spec.value.channels();
        let places = (0..channels).flat_map(|c| (0..pixels).map(move |pixel| (c, pixel)));
        places
            .map(|(channel, pixel)| value(channel, pixel))
            .collect()
    }
}

/// Channels of a head, around whole vectors and blocks.
fn sizes() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![1, 3, 4, 8, 12, 16, 20, 32, 80])
}

proptest! {
    #![proptest_config(crate::support::cases(300))]

    #[test]
    fn layer_norm_equals_its_reference(
        isa in isa(),
        (channels, height, width) in (1..=50usize, 1..=3usize, 1..=9usize),
        (input_halo, output_halo) in (0..=2usize, 0..=2usize),
        (batch, parts, seed) in (1..=2usize, 1..=4usize, any::<u64>()),
    ) {
        let input = BlockedLayout::new(isa, channels, height, width, input_halo).unwrap();
        let output = BlockedLayout::new(isa, channels, height, width, output_halo).unwrap();
        let epsilon = 1e-3;
        let kernel = LayerNorm::new(isa, &LayerNormSpec { input, output, epsilon }).unwrap();
        let (scale, bias) = (noise(seed ^ 1, channels), noise(seed ^ 2, channels));
        let mut packed = vec![0.0; kernel.packed_len()];
        kernel.pack(&scale, &bias, &mut packed).unwrap();
        let images: Vec<_> = (0..batch as u64)
            .map(|i| noise(seed ^ (9 + i), input.shape().elements()))
            .collect();
        let members: Vec<_> =
            images.iter().map(|image| vec![blocked(&input, image, 7.0, 3.0)]).collect();
        let run = |part, images: &mut [Image<'_>]| kernel.run(&packed, part, images);
        let outputs = run_in_parts(parts, &output, &members, run);
        for (memory, image) in outputs.iter().zip(&images) {
            check_output(&output, memory, &layer_norm(image, &scale, &bias, epsilon), 2e-5);
        }
    }

    #[test]
    fn attention_equals_its_reference(
        isa in isa(),
        heads in 1..=4usize,
        (size, value_size) in (sizes(), sizes()),
        (height, width, keys) in (1..=3usize, 1..=90usize, 1..=150usize),
        (masked, sharp, by_row) in (any::<bool>(), any::<bool>(), any::<bool>()),
        bias in prop::option::of((any::<bool>(), any::<bool>())),
        (parts, seed) in (1..=4usize, any::<u64>()),
    ) {
        let query = BlockedLayout::new(isa, heads * size, height, width, 0).unwrap();
        let key_rows = if by_row { height } else { 1 };
        let of_keys = |channels| BlockedLayout::new(isa, channels, key_rows, keys, 0).unwrap();
        let (key, value, mask) = (of_keys(heads * size), of_keys(heads * value_size), of_keys(1));
        let output = BlockedLayout::new(isa, heads * value_size, height, width, 0).unwrap();
        // Sharp: the largest product wins nearly all, and moves as tiles of keys go by.
        let scale = if sharp { 30.0 } else { 0.5 };
        let spec = AttentionSpec {
            query,
            key,
            value,
            mask: masked.then_some(mask),
            output,
            heads,
            scale,
            by_row,
            bias: bias.map(|(by_row, by_head)| AttentionBias { by_row, by_head }),
        };
        let kernel = Attention::new(isa, &spec).unwrap();
        let values = |at: u64, layout: BlockedLayout| noise(seed ^ at, layout.shape().elements());
        let (q, k, v) = (values(1, query), values(2, key), values(3, value));
        let m: Vec<f32> = values(4, mask).iter().map(|x| x.max(0.0).ceil()).collect();
        let bias = noise(seed ^ 5, kernel.packed_len());
        let mut packed = vec![0.0; kernel.packed_len()];
        kernel.pack(&bias, &mut packed).unwrap();
        let mut inputs = vec![
            blocked(&query, &q, 7.0, 0.0),
            blocked(&key, &k, 5.0, 0.0),
            blocked(&value, &v, 3.0, 0.0),
        ];
        inputs.extend(masked.then(|| blocked(&mask, &m, 1.0, 0.0)));
        let run = |part, images: &mut [Image<'_>]| kernel.run(&packed, part, images);
        let outputs = run_in_parts(parts, &output, &[inputs], run);
        let mask = masked.then_some(&m[..]);
        let heads = Heads { spec: &spec, query: &q, key: &k, value: &v, mask, bias: &bias };
        check_output(&output, &outputs[0], &heads.attended(), 2e-5 * scale.max(1.0));
    }

    #[test]
    fn tokens_are_looked_up_put_in_a_row_and_taken(
        isa in isa(),
        (channels, height, width) in (1..=40usize, 1..=3usize, 1..=9usize),
        (prefix, rows, halo) in (0..=3usize, 1..=20usize, 0..=2usize),
        (parts, seed) in (1..=4usize, any::<u64>()),
    ) {
        let image = BlockedLayout::new(isa, channels, height, width, halo).unwrap();
        let pixels = height * width;
        let row = BlockedLayout::new(isa, channels, 1, prefix + pixels, halo).unwrap();
        let tokens = Tokens::new(isa, image, row, prefix).unwrap();
        let table = noise(seed, channels * (prefix + pixels));
        let mut packed = vec![0.0; tokens.packed_len()];
        tokens.pack(&table, &mut packed).unwrap();
        let values = noise(seed ^ 1, image.shape().elements());
        let members = [vec![blocked(&image, &values, 7.0, 3.0)]];
        let run = |part, images: &mut [Image<'_>]| tokens.run(&packed, part, images);
        let output = run_in_parts(parts, &row, &members, run).remove(0);
        let expected: Vec<f32> = (0..channels)
            .flat_map(|c| (0..prefix + pixels).map(move |t| (c, t)))
            .map(|(c, t)| {
                let pixel = t.checked_sub(prefix);
                pixel.map_or(0.0, |p| values[c * pixels + p]) + table[t * channels + c]
            })
            .collect();
        check_output(&row, &output, &expected, 0.0);

        let one = BlockedLayout::vector(isa, channels).unwrap();
        let token = Token::new(isa, row, one, prefix).unwrap();
        let members = [vec![output]];
        let taken = run_in_parts(parts, &one, &members, |part, images| token.run(part, images));
        let column: Vec<f32> =
            (0..channels).map(|c| expected[c * (prefix + pixels) + prefix]).collect();
        check_output(&one, &taken[0], &column, 0.0);

        let numbers = BlockedLayout::new(isa, 1, height, width, 0).unwrap();
        let embedding = Embedding::new(isa, numbers, image, rows).unwrap();
        let words = noise(seed ^ 2, rows * channels);
        let mut packed = vec![0.0; embedding.packed_len()];
        embedding.pack(&words, &mut packed).unwrap();
        // Some are no row's number.
        let ids: Vec<f32> = noise(seed ^ 3, pixels).iter().map(|x| (x * 30.0).round()).collect();
        let members = [vec![blocked(&numbers, &ids, f32::NAN, 0.0)]];
        let run = |part, images: &mut [Image<'_>]| embedding.run(&packed, part, images);
        let found = run_in_parts(parts, &image, &members, run);
        let nearest = |id: f32| id.clamp(0.0, (rows - 1) as f32) as usize;
        let expected: Vec<f32> = (0..channels)
            .flat_map(|c| ids.iter().map(move |&id| (c, id)))
            .map(|(c, id)| words[nearest(id) * channels + c])
            .collect();
        check_output(&image, &found[0], &expected, 0.0);
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let isa = Isa::Scalar;
    let layout = |channels, width, halo| BlockedLayout::new(isa, channels, 1, width, halo).unwrap();
    let tensor = layout(8, 5, 0);
    let spec = AttentionSpec {
        query: tensor,
        key: tensor,
        value: tensor,
        mask: None,
        output: tensor,
        heads: 2,
        scale: 1.0,
        by_row: false,
        bias: None,
    };
    let message = |spec: AttentionSpec| Attention::new(isa, &spec).unwrap_err().to_string();
    assert!(
        message(AttentionSpec { heads: 3, ..spec }).contains("beyond the last whole head is 2")
    );
    assert!(message(AttentionSpec { heads: 0, ..spec }).contains("heads is 0"));
    let value = layout(8, 4, 0);
    assert!(message(AttentionSpec { value, ..spec }).contains("the value's pixels is 4"));
    let key = layout(8, 5, 1);
    assert!(message(AttentionSpec { key, ..spec }).contains("halo"));
    let wide = layout(HEAD_CHANNELS_MAX + 1, 5, 0);
    let wide = AttentionSpec {
        query: wide,
        key: wide,
        value: wide,
        output: wide,
        heads: 1,
        ..spec
    };
    assert!(message(wide).contains("channels of a head is 129"));
    let key = BlockedLayout::new(isa, 8, 5, 1, 0).unwrap();
    let turned = AttentionSpec {
        key,
        value: key,
        ..spec
    };
    assert!(Attention::new(isa, &turned).is_ok());
    let by_row = AttentionSpec {
        by_row: true,
        ..turned
    };
    assert!(message(by_row).contains("the key's height is 5"));
    let bias = Some(AttentionBias {
        by_row: true,
        by_head: true,
    });
    let kernel = Attention::new(isa, &AttentionSpec { bias, ..spec }).unwrap();
    assert_eq!(kernel.packed_len(), 2 * 5 * 5);
    let mut packed = [0.0; 50];
    assert!(kernel.pack(&[1.0; 49], &mut packed).is_err());
    assert!(kernel.pack(&[f32::NAN; 50], &mut packed).is_err());
    let scale = f32::NAN;
    assert!(matches!(
        Attention::new(isa, &AttentionSpec { scale, ..spec }),
        Err(KernelError::NotFinite { .. })
    ));
    assert!(Token::new(isa, tensor, BlockedLayout::vector(isa, 8).unwrap(), 5).is_err());
    assert!(Tokens::new(isa, tensor, tensor, 1).is_err());
    assert!(Embedding::new(isa, tensor, tensor, 3).is_err());
}

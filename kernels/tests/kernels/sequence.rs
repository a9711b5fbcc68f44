//! The operators of sequences equal their references on every instruction set, in any parts.

use crate::support::{blocked, check_output, isa, meaning, noise, run_in_parts};
use proptest::prelude::*;
use punctual_kernels::{
    Attention, AttentionBias, AttentionSpec, BlockedLayout, Embedding, HEAD_CHANNELS_MAX, Isa,
    Kernel, KernelError, LayerNorm, LayerNormSpec, Tokens, Weights,
};
use punctual_model as model;

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
        let packed = kernel.packed(&Weights::floats(&[&scale, &bias])).unwrap();
        let images: Vec<_> = (0..batch as u64)
            .map(|i| noise(seed ^ (9 + i), input.shape().elements()))
            .collect();
        let members: Vec<_> =
            images.iter().map(|image| vec![blocked(&input, image, 7.0, 3.0)]).collect();
        let outputs = run_in_parts(parts, &output, &members, &kernel, &packed);
        for (memory, image) in outputs.iter().zip(&images) {
            let meant = meaning(model::LayerNorm { epsilon }, [(&input, image)]);
            let expected = meant.weights(&scale).weights(&bias).run();
            check_output(&output, memory, &expected, 2e-5);
        }
    }

    #[test]
    fn attention_equals_its_reference(
        isa in isa(),
        heads in 1..=4usize,
        (size, value_size) in (sizes(), sizes()),
        (height, width, keys) in (1..=3usize, 1..=90usize, 1..=150usize),
        (masked, sharp, by_row) in (any::<bool>(), any::<bool>(), any::<bool>()),
        form in prop::option::of((any::<bool>(), any::<bool>())),
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
            bias: form.map(|(by_row, by_head)| AttentionBias { by_row, by_head }),
        };
        let kernel = Attention::new(isa, &spec).unwrap();
        let values = |at: u64, layout: BlockedLayout| noise(seed ^ at, layout.shape().elements());
        let (q, k, v) = (values(1, query), values(2, key), values(3, value));
        let m: Vec<f32> = values(4, mask).iter().map(|x| x.max(0.0).ceil()).collect();
        let bias = noise(seed ^ 5, kernel.packed_len());
        let packed = kernel.packed(&Weights::floats(&[&bias])).unwrap();
        let mut inputs = vec![
            blocked(&query, &q, 7.0, 0.0),
            blocked(&key, &k, 5.0, 0.0),
            blocked(&value, &v, 3.0, 0.0),
        ];
        inputs.extend(masked.then(|| blocked(&mask, &m, 1.0, 0.0)));
        let outputs = run_in_parts(parts, &output, &[inputs], &kernel, &packed);
        let meant = model::Attention {
            heads: heads as u32,
            scale,
            by_row,
            bias: form.map(|(by_row, by_head)| model::BiasForm { by_row, by_head }),
        };
        let mask = masked.then_some((&mask, &m));
        let read = [(&query, &q), (&key, &k), (&value, &v)].into_iter().chain(mask);
        let meant = meaning(meant, read);
        let expected = if form.is_some() { meant.weights(&bias).run() } else { meant.run() };
        check_output(&output, &outputs[0], &expected, 2e-5 * scale.max(1.0));
    }

    #[test]
    fn tokens_are_looked_up_and_put_in_a_row(
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
        let packed = tokens.packed(&Weights::floats(&[&table])).unwrap();
        let values = noise(seed ^ 1, image.shape().elements());
        let members = [vec![blocked(&image, &values, 7.0, 3.0)]];
        let output = run_in_parts(parts, &row, &members, &tokens, &packed).remove(0);
        let meant = meaning(model::Tokens { prefix: prefix as u32 }, [(&image, &values)]);
        let expected = meant.weights(&table).run();
        check_output(&row, &output, &expected, 0.0);

        let numbers = BlockedLayout::new(isa, 1, height, width, 0).unwrap();
        let embedding = Embedding::new(isa, numbers, image, rows).unwrap();
        let words = noise(seed ^ 2, rows * channels);
        let packed = embedding.packed(&Weights::floats(&[&words])).unwrap();
        // Some are no row's number.
        let ids: Vec<f32> = noise(seed ^ 3, pixels).iter().map(|x| (x * 30.0).round()).collect();
        let members = [vec![blocked(&numbers, &ids, f32::NAN, 0.0)]];
        let found = run_in_parts(parts, &image, &members, &embedding, &packed);
        let meant = model::Embedding { channels: channels as u32 };
        let expected = meaning(meant, [(&numbers, &ids)]).weights(&words).run();
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
    assert!(
        kernel
            .pack(&Weights::floats(&[&[1.0; 49]]), &mut packed)
            .is_err()
    );
    assert!(
        kernel
            .pack(&Weights::floats(&[&[f32::NAN; 50]]), &mut packed)
            .is_err()
    );
    let scale = f32::NAN;
    assert!(matches!(
        Attention::new(isa, &AttentionSpec { scale, ..spec }),
        Err(KernelError::NotFinite { .. })
    ));
    assert!(Tokens::new(isa, tensor, tensor, 1).is_err());
    assert!(Embedding::new(isa, tensor, tensor, 3).is_err());
}

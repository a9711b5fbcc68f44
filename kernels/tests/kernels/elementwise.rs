//! Sums, products and gathers equal their references on every instruction set.

use crate::support::{blocked, check_output, isa, noise, run_in_parts};
use proptest::prelude::*;
use punctual_kernels::{
    Add, AddSpec, BlockedLayout, ChannelRun, Gather, GatherSpec, Image, Isa, KernelError, Multiply,
    MultiplySpec, reference,
};
use punctual_types::Activation;

/// Channels, rows and columns.
fn size() -> impl Strategy<Value = (usize, usize, usize)> {
    (1..=40usize, 1..=12usize, 1..=12usize)
}

/// Channels of each source, and runs of any of them.
fn runs() -> impl Strategy<Value = (Vec<usize>, Vec<ChannelRun>)> {
    prop::collection::vec(1..=50usize, 1..=8).prop_flat_map(|channels| {
        let sources = channels.clone();
        let run = (0..channels.len()).prop_flat_map(move |source| {
            let there = sources[source];
            (0..there).prop_flat_map(move |first| {
                (1..=there - first).prop_map(move |count| ChannelRun {
                    source,
                    first,
                    count,
                })
            })
        });
        (Just(channels), prop::collection::vec(run, 1..=12))
    })
}

proptest! {
    #![proptest_config(crate::support::cases(500))]

    #[test]
    fn addition_equals_its_reference(
        isa in isa(),
        (channels, height, width) in size(),
        halos in (0..=2usize, 0..=2usize, 0..=2usize),
        activation in crate::support::activation(),
        (batch, parts, seed) in (1..=3usize, 1..=4usize, any::<u64>()),
    ) {
        let layout = |halo| BlockedLayout::new(isa, channels, height, width, halo).unwrap();
        let (input, addend, output) = (layout(halos.0), layout(halos.1), layout(halos.2));
        let add = Add::new(isa, &AddSpec { input, addend, output, activation }).unwrap();
        let elements = input.shape().elements();
        let images: Vec<_> = (0..batch as u64)
            .map(|i| (noise(seed ^ (9 + i), elements), noise(seed ^ (99 + i), elements)))
            .collect();
        let memory: Vec<_> = images
            .iter()
            .map(|(a, b)| vec![blocked(&input, a, 7.0, 1e9), blocked(&addend, b, 7.0, 1e9)])
            .collect();
        let outputs = run_in_parts(parts, &output, &memory, |part, images| add.run(part, images));
        for ((a, b), found) in images.iter().zip(&outputs) {
            check_output(&output, found, &reference::add(activation, a, b), 1e-6);
        }
    }

    #[test]
    fn multiplication_equals_its_reference_value_by_value_and_channel_by_channel(
        isa in isa(),
        (channels, height, width) in size(),
        halos in (0..=2usize, 0..=2usize, 0..=2usize),
        a_channel in any::<bool>(),
        activation in crate::support::activation(),
        (batch, parts, seed) in (1..=3usize, 1..=4usize, any::<u64>()),
    ) {
        let layout = |halo| BlockedLayout::new(isa, channels, height, width, halo).unwrap();
        let (input, output) = (layout(halos.0), layout(halos.1));
        let factor = match a_channel {
            true => BlockedLayout::vector(isa, channels).unwrap(),
            false => layout(halos.2),
        };
        let spec = MultiplySpec { input, factor, output, activation };
        let multiply = Multiply::new(isa, &spec).unwrap();
        let (values, factors) = (input.shape().elements(), factor.shape().elements());
        let images: Vec<_> = (0..batch as u64)
            .map(|i| (noise(seed ^ (9 + i), values), noise(seed ^ (99 + i), factors)))
            .collect();
        let memory: Vec<_> = images
            .iter()
            .map(|(a, b)| vec![blocked(&input, a, 7.0, 1e9), blocked(&factor, b, 7.0, 1e9)])
            .collect();
        let run = |part, images: &mut [Image<'_>]| multiply.run(part, images);
        let outputs = run_in_parts(parts, &output, &memory, run);
        for ((a, b), found) in images.iter().zip(&outputs) {
            check_output(&output, found, &reference::multiply(activation, a, b), 1e-6);
        }
    }

    #[test]
    fn gather_equals_its_reference(
        isa in isa(),
        (channels, runs) in runs(),
        (height, width) in (1..=5usize, 1..=5usize),
        (input_halo, output_halo) in (0..=2usize, 0..=2usize),
        (batch, parts, seed) in (1..=2usize, 1..=4usize, any::<u64>()),
    ) {
        let layout = |channels, halo| {
            BlockedLayout::new(isa, channels, height, width, halo).unwrap()
        };
        let inputs: Vec<_> = channels.iter().map(|&c| layout(c, input_halo)).collect();
        let output = layout(runs.iter().map(|run| run.count).sum(), output_halo);
        let spec = GatherSpec { inputs, output, runs };
        check_gather(isa, &spec, batch, parts, seed);
    }
}

fn check_gather(isa: Isa, spec: &GatherSpec, batch: usize, parts: usize, seed: u64) {
    let gather = Gather::new(isa, spec).unwrap();
    let images: Vec<Vec<Vec<f32>>> = (0..batch as u64)
        .map(|member| {
            let image = |(i, input): (usize, &BlockedLayout)| {
                noise(
                    seed ^ (9 + 10 * i as u64 + member),
                    input.shape().elements(),
                )
            };
            spec.inputs.iter().enumerate().map(image).collect()
        })
        .collect();
    let memory: Vec<Vec<Vec<f32>>> = images
        .iter()
        .map(|images| {
            let pairs = spec.inputs.iter().zip(images);
            pairs
                .map(|(input, image)| blocked(input, image, 7.0, 1e9))
                .collect()
        })
        .collect();
    let run = |part, images: &mut [Image<'_>]| gather.run(part, images);
    let outputs = run_in_parts(parts, &spec.output, &memory, run);
    let pixels = spec.output.height() * spec.output.width();
    for (images, found) in images.iter().zip(&outputs) {
        let expected = reference::gather(pixels, &spec.runs, images);
        check_output(&spec.output, found, &expected, 0.0);
    }
}

/// Concatenations of whole and of broken blocks, and the channel shuffles of ShuffleNetV2.
#[test]
fn usual_gathers_equal_their_references() {
    let whole = |source, count| ChannelRun {
        source,
        first: 0,
        count,
    };
    let interleaved = |channels: usize| -> Vec<ChannelRun> {
        let one = |channel| {
            [0, 1].map(|source| ChannelRun {
                source,
                first: channel,
                count: 1,
            })
        };
        (0..channels).flat_map(one).collect()
    };
    let cases = [
        (
            vec![64, 128, 32, 32],
            vec![whole(0, 64), whole(1, 128), whole(2, 32), whole(3, 32)],
        ),
        (vec![24, 40], vec![whole(0, 24), whole(1, 40)]),
        (vec![58, 58], interleaved(58)),
        (vec![116, 116], interleaved(116)),
        (vec![232, 232], interleaved(232)),
    ];
    for isa in Isa::available() {
        for (channels, runs) in &cases {
            let layout = |channels, halo| BlockedLayout::new(isa, channels, 7, 5, halo).unwrap();
            let inputs: Vec<_> = channels.iter().map(|&c| layout(c, 0)).collect();
            let output = layout(runs.iter().map(|run| run.count).sum(), 1);
            let runs = runs.clone();
            check_gather(
                isa,
                &GatherSpec {
                    inputs,
                    output,
                    runs,
                },
                1,
                2,
                3,
            );
        }
    }
}

#[test]
fn unsound_gathers_and_products_are_refused_with_the_reason() {
    let isa = Isa::Scalar;
    let layout = |channels, height| BlockedLayout::new(isa, channels, height, 5, 0).unwrap();
    let gather = |count, channels, height| {
        let run = ChannelRun {
            source: 0,
            first: 3,
            count,
        };
        let spec = GatherSpec {
            inputs: vec![layout(8, 5)],
            output: layout(channels, height),
            runs: vec![run],
        };
        Gather::new(isa, &spec).err()
    };
    assert_eq!(gather(5, 5, 5), None);
    let what = "the end of a run of channels";
    let (found, limit) = (9, 8);
    assert_eq!(
        gather(6, 6, 5),
        Some(KernelError::TooLarge { what, found, limit })
    );
    let what = "the output's channels";
    let (found, expected) = (6, 5);
    assert_eq!(
        gather(5, 6, 5),
        Some(KernelError::Mismatch {
            what,
            found,
            expected
        })
    );
    let what = "the input's height";
    let (found, expected) = (5, 4);
    assert_eq!(
        gather(5, 5, 4),
        Some(KernelError::Mismatch {
            what,
            found,
            expected
        })
    );

    let spec = MultiplySpec {
        input: layout(8, 5),
        factor: BlockedLayout::vector(isa, 7).unwrap(),
        output: layout(8, 5),
        activation: Activation::None,
    };
    let what = "the addend's channels";
    let (found, expected) = (7, 8);
    let refused = Multiply::new(isa, &spec).err();
    assert_eq!(
        refused,
        Some(KernelError::Mismatch {
            what,
            found,
            expected
        })
    );
}

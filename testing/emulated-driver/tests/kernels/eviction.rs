//! Launches that another epoch overtakes: before they begin, and half-way.
use crate::buffer::Buffer;
use crate::convolution::{Case, window};
use crate::launch::{INDEX, NOTHING, Queue};
use crate::samples::{Sample, floats, halves, samples};
use crate::tensor::shape;
use punctual_cuda_kernels::params::{Linear, ReportEvicted};
use punctual_cuda_kernels::{Arguments, KERNELS};
use punctual_types::Random;

#[test]
fn there_is_a_sample_of_every_kernel_that_an_eviction_must_keep_from_writing() {
    let samples = samples();
    let missing = KERNELS
        .iter()
        .filter(|k| samples.iter().all(|sample| sample.kernel != k.name));
    let missing: Vec<&str> = missing.map(|kernel| kernel.name).collect();
    assert_eq!(missing, ["report_evicted", "hold"]);
}

#[test]
fn a_launch_that_is_evicted_before_it_begins_writes_nothing_but_that_it_begins_and_is_evicted() {
    for sample in samples() {
        let queue = Queue::new();
        sample.launch(&queue, 0);
        assert!(sample.memory[0].is_untouched(), "{}", sample.kernel);
        assert_eq!(queue.first_evicted(), INDEX, "{}", sample.kernel);
        assert_eq!(queue.begun(), INDEX + 1, "{}", sample.kernel);
    }
}

#[test]
fn a_launch_that_was_cut_short_and_runs_again_computes_what_it_would_have() {
    for mut sample in samples() {
        let kernel = sample.kernel;
        let checks = sample.launch(&Queue::new(), u64::MAX);
        let undisturbed = sample.memory[0].bytes();
        assert!(!sample.memory[0].is_untouched(), "{kernel}");
        for evicted_at in moments(checks) {
            sample.memory[0].forget();
            let queue = Queue::new();
            sample.launch(&queue, evicted_at);
            assert_eq!(queue.first_evicted(), INDEX, "{kernel} at {evicted_at}");
            assert_ne!(
                sample.memory[0].bytes(),
                undisturbed,
                "{kernel} at {evicted_at}"
            );
            sample.launch(&Queue::new(), u64::MAX);
            assert_eq!(
                sample.memory[0].bytes(),
                undisturbed,
                "{kernel} at {evicted_at}"
            );
        }
    }
}

/// Looks at which a launch of `looks` looks is evicted. An epoch that moves on anywhere is seen at the next look, so these are all
/// moments that differ; of many, some.
fn moments(looks: u64) -> Vec<u64> {
    const MOST: u64 = 10;
    if looks <= MOST {
        return (1..looks).collect();
    }
    let mut random = Random::new(looks);
    let drawn = (0..MOST - 2).map(|_| random.within(2, looks - 2));
    [1, looks - 1].into_iter().chain(drawn).collect()
}

/// One tile of pixels and channels, and ten tiles of 64 steps.
fn one_block_of_ten_tiles() -> Sample {
    Sample::conv(
        "conv_gemm_64x32",
        &Case {
            images: 1,
            input: shape(640, 8, 8),
            outputs: 32,
            window: window((1, 1), (1, 1), (0, 0, 0, 0)),
            pieces: vec![32],
            ..Case::plain()
        },
    )
}

#[test]
fn what_was_evicted_first_is_reported_and_forgotten_whatever_the_epoch_is() {
    for first in [INDEX, NOTHING] {
        let mut words = Buffer::of_u32(&[first, 0]);
        let mut report = Buffer::of_bytes(4);
        let arguments = Arguments::ReportEvicted(ReportEvicted {
            first_evicted: words.address(),
            report: report.address(),
        });
        let queue = Queue::new();
        // Evicted from the first look on: it looks at no epoch, only at the word that it reports.
        let counts = queue.launch("report_evicted", &arguments, None, 0);
        assert_eq!(counts.expect("runs").looks, 1);
        assert_eq!((report.u32s()[0], words.u32s()[0]), (first, NOTHING));
        assert_eq!((queue.begun(), queue.first_evicted()), (0, NOTHING));
    }
}

#[test]
fn a_main_loop_looks_as_often_as_it_is_told() {
    let sample = one_block_of_ten_tiles();
    for (stride, looks) in [(0, 1), (1, 10), (3, 4), (100, 1)] {
        let queue = Queue::with_check_stride(stride);
        assert_eq!(sample.launch(&queue, u64::MAX), looks, "stride {stride}");
    }
}

#[test]
fn a_long_sum_of_a_linear_layer_looks_again() {
    let linear = |at: &[u64]| {
        Arguments::Linear(Linear {
            input: at[1],
            output: at[0],
            weights: at[2],
            bias: at[3],
            images: 1,
            depth: 20_000,
            features: 4,
            pitch: 8,
            feature_count: 4,
            ..Linear::default()
        })
    };
    let inputs = vec![halves(20_000), halves(4 * 20_000), floats(8)];
    let sample = Sample::new("linear", Buffer::of_bytes(16), inputs, linear);
    // 20,000 steps are three tiles of 8192.
    assert_eq!(sample.launch(&Queue::new(), u64::MAX), 3);
    let queue = Queue::new();
    assert_eq!(sample.launch(&queue, 1), 2, "the third tile is not begun");
    assert_eq!(queue.first_evicted(), INDEX);
}

#[test]
fn a_block_ends_at_the_next_tile_after_the_eviction() {
    let sample = one_block_of_ten_tiles();
    let queue = Queue::new();
    // The look that finds the new epoch is the last one.
    assert_eq!(sample.launch(&queue, 4), 5);
    assert!(sample.memory[0].is_untouched());
    assert_eq!((queue.begun(), queue.first_evicted()), (INDEX + 1, INDEX));
}

#[test]
fn a_launch_without_an_epoch_is_never_evicted() {
    let sample = one_block_of_ten_tiles();
    let queue = Queue::unguarded();
    assert_eq!(sample.launch(&queue, 0), 0);
    assert_eq!(queue.first_evicted(), NOTHING);
    assert!(!sample.memory[0].is_untouched());
}

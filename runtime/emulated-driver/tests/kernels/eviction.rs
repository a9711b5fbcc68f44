//! Launches that another epoch overtakes: before they begin, and half-way.
use crate::buffer::Buffer;
use crate::convolution::{Case, Prepared, window};
use crate::launch::{INDEX, NOTHING, Queue};
use crate::tensor::{Numbers, shape};
use punctual_kernels::Activation;
use punctual_kernels::cuda::params::{
    Answers, Elementwise, Gather, GlobalPool, InputPlanar, Linear, Members, Pool, Preprocess,
    SOURCES_MAX, Whereabouts,
};
use punctual_kernels::cuda::{Arguments, IMAGES_MAX, KERNELS, TensorView};

/// A launch of a kernel, several blocks where it has several.
struct Sample {
    kernel: &'static str,
    arguments: Arguments,
    /// What it reads and writes: its output first.
    memory: Vec<Buffer>,
}

impl Sample {
    fn new(
        kernel: &'static str,
        output: Buffer,
        inputs: Vec<Buffer>,
        arguments: impl FnOnce(&[u64]) -> Arguments,
    ) -> Self {
        let mut memory = inputs;
        memory.insert(0, output);
        let addresses: Vec<u64> = memory.iter_mut().map(Buffer::address).collect();
        Self {
            kernel,
            arguments: arguments(&addresses),
            memory,
        }
    }

    fn conv(kernel: &'static str, case: &Case) -> Self {
        let mut prepared = Prepared::new(case);
        let arguments = prepared.arguments()[0];
        Self {
            kernel,
            arguments,
            memory: prepared.into_memory(),
        }
    }

    fn launch(&self, queue: &Queue, evicted_at: u64) -> u64 {
        let grid = Some([4, 1, 1]);
        queue
            .launch(self.kernel, &self.arguments, grid, evicted_at)
            .unwrap_or_else(|error| panic!("{}: {error}", self.kernel))
    }
}

fn halves(count: usize) -> Buffer {
    let values = Numbers::seeded(20).halves(count, 1.0);
    let half = punctual_kernels::cuda::half::from_f32;
    Buffer::of_halves(&values.into_iter().map(half).collect::<Vec<u16>>())
}

fn floats(count: usize) -> Buffer {
    Buffer::of_f32(&Numbers::seeded(21).halves(count, 1.0))
}

const fn view(address: u64, height: u32, width: u32, channels: u32) -> TensorView {
    TensorView {
        address,
        height,
        width,
        channels,
        pitch: channels,
    }
}

/// 3 images of 12x11 pixels with 16 channels.
const ELEMENTS: usize = 3 * 12 * 11 * 16;

fn members(addresses: &[u64]) -> [u64; IMAGES_MAX] {
    let mut members = [0; IMAGES_MAX];
    members[..addresses.len()].copy_from_slice(addresses);
    members
}

fn convolutions() -> Vec<Sample> {
    let dense = Case {
        input: shape(64, 12, 12),
        outputs: 136,
        residual: true,
        activation: Activation::Relu,
        pieces: vec![136],
        ..Case::plain()
    };
    let grouped = |groups, outputs| Case {
        input: shape(24, 12, 12),
        outputs,
        groups,
        pieces: vec![outputs as u32],
        ..Case::plain()
    };
    let tiles = KERNELS.iter().filter(|kernel| kernel.tile.is_some());
    let mut samples: Vec<Sample> = tiles.map(|k| Sample::conv(k.name, &dense)).collect();
    samples.push(Sample::conv("conv_dense_general", &dense));
    samples.push(Sample::conv("conv_depthwise_general", &grouped(24, 24)));
    samples.push(Sample::conv("conv_grouped_general", &grouped(3, 48)));
    samples
}

fn pools() -> Vec<Sample> {
    let pool = |at: &[u64]| {
        Arguments::Pool(Pool {
            input: view(at[1], 12, 11, 16),
            output: view(at[0], 10, 9, 16),
            images: 3,
            kind: 0,
            kernel_height: 3,
            kernel_width: 3,
            stride_height: 1,
            stride_width: 1,
            pad_top: 0,
            pad_left: 0,
        })
    };
    let global = |at: &[u64]| {
        Arguments::GlobalPool(GlobalPool {
            input: view(at[1], 12, 11, 16),
            output: view(at[0], 1, 1, 16),
            images: 3,
            gap: 0,
        })
    };
    let of = |images: usize| Buffer::of_bytes(images * 16 * 2);
    vec![
        Sample::new("pool", of(3 * 90), vec![halves(ELEMENTS)], pool),
        Sample::new("global_average_pool", of(3), vec![halves(ELEMENTS)], global),
    ]
}

fn layers() -> Vec<Sample> {
    let linear = |at: &[u64]| {
        Arguments::Linear(Linear {
            input: at[1],
            output: at[0],
            weights: at[2],
            bias: at[3],
            images: 3,
            depth: 64,
            features: 48,
            pitch: 48,
            feature_count: 48,
            ..Linear::default()
        })
    };
    let reduce = |at: &[u64]| {
        Arguments::Linear(Linear {
            output: at[0],
            bias: at[1],
            partial: at[2],
            images: 9,
            features: 200,
            pitch: 200,
            feature_count: 200,
            splits: 2,
            ..Linear::default()
        })
    };
    let conv_reduce = |at: &[u64]| {
        Arguments::Conv(punctual_kernels::cuda::params::Conv {
            output: view(at[0], 12, 11, 16),
            bias: at[1],
            partial: at[2],
            images: 3,
            splits: 2,
            channel_count: 16,
            ..Default::default()
        })
    };
    let output = |elements: usize| Buffer::of_bytes(elements * 2);
    vec![
        Sample::new(
            "linear",
            output(3 * 48),
            vec![halves(3 * 64), halves(64 * 48), floats(48)],
            linear,
        ),
        Sample::new(
            "linear_reduce",
            output(9 * 200),
            vec![floats(200), floats(2 * 9 * 200)],
            reduce,
        ),
        Sample::new(
            "conv_reduce",
            output(ELEMENTS),
            vec![floats(16), floats(2 * ELEMENTS)],
            conv_reduce,
        ),
    ]
}

fn elementwise() -> Vec<Sample> {
    let both = |at: &[u64]| {
        Arguments::Elementwise(Elementwise {
            input: view(at[1], 12, 11, 16),
            other: at[2],
            output: at[0],
            images: 3,
            ..Elementwise::default()
        })
    };
    let gather = |at: &[u64]| {
        Arguments::Gather(Gather {
            output: view(at[0], 12, 11, 16),
            table: at[2],
            sources: [at[1]; SOURCES_MAX],
            pitches: [16; SOURCES_MAX],
            images: 3,
            gap: 0,
        })
    };
    let output = || Buffer::of_bytes(ELEMENTS * 2);
    let table = Buffer::of_u32(&(0..16).rev().collect::<Vec<u32>>());
    let inputs = || vec![halves(ELEMENTS), halves(ELEMENTS)];
    vec![
        Sample::new("add", output(), inputs(), both),
        Sample::new("multiply", output(), inputs(), both),
        Sample::new("gather", output(), vec![halves(ELEMENTS), table], gather),
    ]
}

fn ways_in_and_out() -> Vec<Sample> {
    let bytes = 9000 / 16 * 16;
    let copy = |into: bool| {
        move |at: &[u64]| {
            let (batch, member) = if into { (at[0], at[1]) } else { (at[1], at[0]) };
            Arguments::Members(Members {
                batch,
                bytes: bytes as u64,
                members: members(&[member]),
                images: 1,
                gap: 0,
            })
        }
    };
    let planar = |at: &[u64]| {
        Arguments::InputPlanar(InputPlanar {
            output: view(at[0], 12, 11, 8),
            members: members(&[at[1], at[1]]),
            row_stride: 11,
            plane_stride: 132,
            images: 2,
            gap: 0,
        })
    };
    let answers = |at: &[u64]| {
        Arguments::Answers(Answers {
            scores: at[1],
            answers: at[0],
            done: at[2],
            images: 4,
            classes: 40,
            pitch: 40,
            sequence: 1,
        })
    };
    let output = || Buffer::of_bytes(bytes);
    let of_images = Buffer::of_bytes(2 * 12 * 11 * 8 * 2);
    vec![
        Sample::new("members_in", output(), vec![halves(bytes / 2)], copy(true)),
        Sample::new(
            "members_out",
            output(),
            vec![halves(bytes / 2)],
            copy(false),
        ),
        Sample::new("input_planar", of_images, vec![floats(8 * 132)], planar),
        Sample::new(
            "answers",
            Buffer::of_bytes(32),
            vec![floats(160), Buffer::of_bytes(16)],
            answers,
        ),
    ]
}

fn frames_and_places() -> Vec<Sample> {
    let preprocess = |at: &[u64]| {
        Arguments::Preprocess(Preprocess {
            frame: at[1],
            chroma: at[1],
            output: view(at[0], 16, 17, 8),
            stride: 64,
            chroma_stride: 64,
            crop_width: 20,
            crop_height: 20,
            factor: [1.0; 3],
            ..Preprocess::default()
        })
    };
    let frame = |kernel| {
        let output = Buffer::of_bytes(16 * 17 * 8 * 2);
        Sample::new(kernel, output, vec![halves(64 * 20 / 2)], preprocess)
    };
    let place = |at: &[u64]| {
        Arguments::Whereabouts(Whereabouts {
            multiprocessors: at[0],
            stay_ns: 1,
            gap: 0,
        })
    };
    vec![
        frame("preprocess_rgb8"),
        frame("preprocess_nv12"),
        frame("preprocess_yuyv"),
        Sample::new("where_am_i", Buffer::of_bytes(16), Vec::new(), place),
    ]
}

/// One of each kernel but `hold`, which writes nothing.
fn samples() -> Vec<Sample> {
    [
        convolutions(),
        pools(),
        layers(),
        elementwise(),
        ways_in_and_out(),
        frames_and_places(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn there_is_a_sample_of_every_kernel_that_writes() {
    let samples = samples();
    let missing = KERNELS
        .iter()
        .filter(|k| samples.iter().all(|sample| sample.kernel != k.name));
    let missing: Vec<&str> = missing.map(|kernel| kernel.name).collect();
    assert_eq!(missing, ["hold"]);
}

#[test]
fn a_launch_that_is_evicted_before_it_begins_writes_nothing_and_says_so() {
    for sample in samples() {
        let queue = Queue::new();
        sample.launch(&queue, 0);
        assert!(sample.memory[0].is_untouched(), "{}", sample.kernel);
        assert_eq!(queue.first_evicted(), INDEX, "{}", sample.kernel);
        assert_eq!(queue.begun(), 0, "{}", sample.kernel);
    }
}

#[test]
fn a_launch_that_was_cut_short_and_runs_again_computes_what_it_would_have() {
    for mut sample in samples() {
        let kernel = sample.kernel;
        let checks = sample.launch(&Queue::new(), u64::MAX);
        let undisturbed = sample.memory[0].bytes();
        assert!(!sample.memory[0].is_untouched(), "{kernel}");
        for evicted_at in [1, checks / 2, checks - 1] {
            if evicted_at == 0 || evicted_at >= checks {
                continue;
            }
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

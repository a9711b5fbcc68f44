//! A launch of each kernel, with memory of its own.
use crate::buffer::Buffer;
use crate::convolution::{Case, Prepared};
use crate::launch::Queue;
use crate::tensor::{self, shape};
use emulated_cuda::RunError;
use punctual_cuda_kernels::params::{
    AddBytes, Answers, Attention, BestScore, CellCode, ConvBytes, Convert, Copy, Detections,
    Digits, Elementwise, Embedding, Function, Gather, GlobalPool, GridSample, InputPlanar, Kept,
    LayerNorm, Linear, Members, Operand, Output, Pool, PoolBytes, Preprocess, Product, Recurrent,
    Resize, Rounding, SOURCES_MAX, Softmax, Take, Tokens, TopK, Whereabouts,
};
use punctual_cuda_kernels::{Arguments, IMAGES_MAX, KERNELS, TensorView};
use punctual_ptx::Counts;
use punctual_types::{Activation, Random};

/// A launch of a kernel, several blocks where it has several.
pub struct Sample {
    pub kernel: &'static str,
    arguments: Arguments,
    /// What it reads and writes: its output first.
    pub memory: Vec<Buffer>,
}

impl Sample {
    pub fn new(
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

    pub fn conv(kernel: &'static str, case: &Case) -> Self {
        let mut prepared = Prepared::new(case);
        let arguments = prepared.arguments()[0];
        Self {
            kernel,
            arguments,
            memory: prepared.into_memory(),
        }
    }

    pub fn launch(&self, queue: &Queue, evicted_at: u64) -> u64 {
        self.try_launch(queue, evicted_at)
            .unwrap_or_else(|error| panic!("{}: {error}", self.kernel))
            .looks
    }

    pub fn try_launch(&self, queue: &Queue, evicted_at: u64) -> Result<Counts, RunError> {
        let grid = Some([4, 1, 1]);
        queue.launch(self.kernel, &self.arguments, grid, evicted_at)
    }
}

pub fn halves(count: usize) -> Buffer {
    let values = tensor::halves(&mut Random::new(20), count, 1.0);
    let half = punctual_types::half::from_f32;
    Buffer::of_halves(&values.into_iter().map(half).collect::<Vec<u16>>())
}

pub fn floats(count: usize) -> Buffer {
    Buffer::of_f32(&tensor::halves(&mut Random::new(21), count, 1.0))
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
            kind: 2,
        })
    };
    let of = |images: usize| Buffer::of_bytes(images * 16 * 2);
    vec![
        Sample::new("pool", of(3 * 90), vec![halves(ELEMENTS)], pool),
        Sample::new("global_pool", of(3), vec![halves(ELEMENTS)], global),
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
        Arguments::Conv(punctual_cuda_kernels::params::Conv {
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
        let operand = |address| Operand {
            address,
            image: 12 * 11 * 16,
            row: 11 * 16,
            column: 16,
            channel: 1,
            ..Operand::default()
        };
        Arguments::Elementwise(Elementwise {
            output: view(at[0], 12, 11, 16),
            first: operand(at[1]),
            second: operand(at[2]),
            images: 3,
            ..Elementwise::default()
        })
    };
    let further = |at: &[u64]| {
        let Arguments::Elementwise(params) = both(at) else {
            unreachable!()
        };
        Arguments::Elementwise(Elementwise {
            function: Function::Cosine as u32,
            ..params
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
        Sample::new("elementwise", output(), inputs(), both),
        Sample::new("elementwise_further", output(), inputs(), further),
        Sample::new("gather", output(), vec![halves(ELEMENTS), table], gather),
    ]
}

fn moved() -> Vec<Sample> {
    let copy = |at: &[u64]| {
        Arguments::Copy(Copy {
            output: view(at[0], 12, 11, 16),
            source: at[1],
            source_image: 12 * 11 * 16,
            channels: 16,
            rows: 12,
            columns: 11,
            // Transposed: the source has eleven rows of twelve columns.
            pixel_digits: Digits {
                extents: [1, 1, 1, 1, 1, 1, 12, 11],
                steps: [0, 0, 0, 0, 0, 0, 16, 12 * 16],
            },
            channel_digits: Digits {
                extents: [1, 1, 1, 1, 1, 1, 1, 16],
                steps: [0, 0, 0, 0, 0, 0, 0, 1],
            },
            images: 3,
            ..Copy::default()
        })
    };
    let output = |at: &[u64]| {
        Arguments::Output(Output {
            source: at[1],
            target: at[0],
            counts: at[2],
            target_image: 8448,
            source_image: 12 * 11 * 16,
            elements: 12 * 11 * 16,
            digits: Digits {
                extents: [1, 1, 1, 1, 1, 1, 16, 132],
                steps: [0, 0, 0, 0, 0, 0, 1, 16],
            },
            all_counts: 3,
            images: 3,
            ..Output::default()
        })
    };
    let resize = |at: &[u64]| {
        Arguments::Resize(Resize {
            input: view(at[1], 12, 11, 16),
            output: view(at[0], 6, 5, 16),
            table: at[2],
            images: 3,
            kept: 0,
        })
    };
    let table = (0..11).flat_map(|at| [at, at + 1, 0x3e80_0000, 0]);
    let table = Buffer::of_u32(&table.collect::<Vec<u32>>());
    let input = || halves(ELEMENTS);
    vec![
        Sample::new("copy", Buffer::of_bytes(ELEMENTS * 2), vec![input()], copy),
        Sample::new(
            "output",
            Buffer::of_bytes(3 * 8448),
            vec![input(), Buffer::of_bytes(3 * 3 * 4)],
            output,
        ),
        Sample::new(
            "resize",
            Buffer::of_bytes(3 * 30 * 16 * 2),
            vec![input(), table],
            resize,
        ),
    ]
}

fn sequences() -> Vec<Sample> {
    let softmax = |at: &[u64]| {
        Arguments::Softmax(Softmax {
            input: at[1],
            output: at[0],
            images: 3,
            rest: 12 * 11,
            rest_step: 16,
            outer: 1,
            inner: 1,
            extent: 16,
            step: 1,
            lanes: 16,
            channels: 16,
            pitch: 16,
            along_channels: 1,
            logarithm: 0,
        })
    };
    let norm = |at: &[u64]| {
        Arguments::LayerNorm(LayerNorm {
            input: view(at[1], 12, 11, 16),
            output: at[0],
            scale: at[2],
            bias: at[3],
            images: 3,
            epsilon: 1e-5,
        })
    };
    let embedding = |at: &[u64]| {
        Arguments::Embedding(Embedding {
            output: view(at[0], 1, 132, 16),
            input: at[1],
            table: at[2],
            images: 3,
            rows: 2,
            pitch: 16,
            channel_count: 16,
            ..Embedding::default()
        })
    };
    let tokens = |at: &[u64]| {
        Arguments::Tokens(Tokens {
            output: view(at[0], 1, 132, 16),
            input: at[1],
            table: at[2],
            images: 3,
            prefix: 1,
            first_channel: 0,
            channel_count: 16,
        })
    };
    let attention = |at: &[u64]| {
        Arguments::Attention(Attention {
            query: view(at[1], 12, 11, 16),
            key: view(at[1], 12, 11, 16),
            value: view(at[1], 12, 11, 16),
            output: at[0],
            rows: 1,
            queries: 132,
            keys: 132,
            images: 3,
            heads: 2,
            scale: 0.5,
            ..Attention::default()
        })
    };
    let product = |at: &[u64]| {
        Arguments::Product(Product {
            first: view(at[1], 12, 11, 16),
            second: view(at[1], 12, 16, 8),
            output: at[0],
            images: 2,
            gap: 0,
        })
    };
    let sample = |at: &[u64]| {
        Arguments::GridSample(GridSample {
            input: view(at[1], 12, 11, 16),
            grid: view(at[1], 12, 11, 16),
            output: at[0],
            images: 3,
            groups: 2,
            ..GridSample::default()
        })
    };
    let take = |at: &[u64]| {
        Arguments::Take(Take {
            input: view(at[1], 12, 11, 16),
            indices: view(at[1], 12, 11, 16),
            output: view(at[0], 12, 11, 16),
            images: 3,
            axis: 2,
            ..Take::default()
        })
    };
    let top = |count: u32| {
        move |at: &[u64]| {
            Arguments::TopK(TopK {
                input: view(at[1], 12, 11, 16),
                output: at[0],
                images: 3,
                count,
                largest: 1,
                last: 0,
            })
        }
    };
    let best = |at: &[u64]| {
        Arguments::BestScore(BestScore {
            scores: view(at[1], 12, 11, 16),
            output: TensorView {
                pitch: 136,
                ..view(at[0], 1, 1, 12 * 11)
            },
            images: 3,
            classes: 16,
            logits: 1,
            ..BestScore::default()
        })
    };
    let detections = |at: &[u64]| {
        Arguments::Detections(Detections {
            best: view(at[1], 1, 1, 12 * 11),
            boxes: view(at[1], 12, 11, 16),
            scores: view(at[1], 12, 11, 16),
            output: at[0],
            images: 3,
            classes: 16,
            unit_x: 10.0,
            unit_y: 10.0,
            width: 10.0,
            height: 10.0,
            overlap: 0.5,
            suppresses: 1,
            averaged: 1,
            rows: 20,
            candidates: 40,
            ..Detections::default()
        })
    };
    let output = || Buffer::of_bytes(ELEMENTS * 2);
    let input = || halves(ELEMENTS);
    let (columns, channel) = (3 * 12 * 4 * 16 * 4, 3 * 12 * 11 * 8 * 4);
    let positions = |bytes| Buffer::of_bytes(bytes);
    let products = Buffer::of_bytes(2 * 12 * 11 * 8 * 2);
    vec![
        Sample::new("product_of_rows", products, vec![input()], product),
        recurrent(),
        Sample::new("grid_sample", output(), vec![input()], sample),
        Sample::new("take", output(), vec![input()], take),
        Sample::new("top_columns", positions(columns), vec![input()], top(4)),
        Sample::new("top_channel", positions(channel), vec![input()], top(0)),
        Sample::new("best_score", positions(3 * 136 * 4), vec![input()], best),
        Sample::new(
            "detections",
            positions(3 * 21 * 8 * 4),
            vec![input()],
            detections,
        ),
        Sample::new("softmax", output(), vec![input()], softmax),
        Sample::new(
            "layer_norm",
            output(),
            vec![input(), floats(16), floats(16)],
            norm,
        ),
        Sample::new("embedding", output(), vec![input(), halves(32)], embedding),
        Sample::new("tokens", output(), vec![input(), input()], tokens),
        Sample::new("attention_64", output(), vec![input()], attention),
        Sample::new("attention_256", output(), vec![input()], attention),
    ]
}

/// A layer of 16 units over 11 columns, which goes twice over its units in each step.
fn recurrent() -> Sample {
    let layer = |at: &[u64]| {
        Arguments::Recurrent(Recurrent {
            gates: view(at[1], 1, 11, 48),
            output: view(at[0], 1, 11, 16),
            weights: at[2],
            bias: at[3],
            images: 3,
            cell: CellCode::GruOfState as u32,
            hidden: 16,
            lanes: 2,
            steps: 11,
            ..Recurrent::default()
        })
    };
    let inputs = vec![halves(3 * 11 * 48), halves(48 * 16), floats(48)];
    Sample::new(
        "recurrent",
        Buffer::of_bytes(3 * 11 * 16 * 2),
        inputs,
        layer,
    )
}

/// Samples of three images of 12x11 pixels with 16 channels.
fn of_bytes() -> Vec<Sample> {
    // Bounds below the bytes of memory that was never written.
    let rounding = Rounding {
        zero: 128.0,
        high: 200.0,
        ..Rounding::default()
    };
    let conv = move |groups: u32| {
        move |at: &[u64]| {
            Arguments::ConvBytes(ConvBytes {
                input: view(at[1], 12, 11, 16),
                output: view(at[0], 10, 9, 16),
                weights: at[2],
                factors: at[3],
                bias: at[4],
                images: 3,
                kernel_height: 3,
                kernel_width: 3,
                stride_height: 1,
                stride_width: 1,
                dilation_height: 1,
                dilation_width: 1,
                groups,
                channel_count: 16,
                kept: Kept::Bytes as u32,
                rounding,
                ..ConvBytes::default()
            })
        }
    };
    let pool = move |at: &[u64]| {
        Arguments::PoolBytes(PoolBytes {
            input: view(at[1], 12, 11, 16),
            output: view(at[0], 10, 9, 16),
            images: 3,
            kernel_height: 3,
            kernel_width: 3,
            stride_height: 1,
            stride_width: 1,
            ratio: 1.0,
            rounding,
            ..PoolBytes::default()
        })
    };
    let add = move |at: &[u64]| {
        Arguments::AddBytes(AddBytes {
            output: view(at[0], 12, 11, 16),
            first: at[1],
            second: at[1],
            images: 3,
            first_ratio: 0.25,
            second_ratio: 0.25,
            rounding,
            ..AddBytes::default()
        })
    };
    let convert = move |at: &[u64]| {
        Arguments::Convert(Convert {
            input: view(at[1], 12, 11, 16),
            output: view(at[0], 12, 11, 16),
            images: 3,
            from: Kept::Bytes as u32,
            to: Kept::Bytes as u32,
            factor: 0.5,
            rounding,
            ..Convert::default()
        })
    };
    let input = || halves(ELEMENTS / 2);
    // Sums of 144 products of random bytes: most results lie between the bounds.
    let weighed = || {
        let factors = Buffer::of_f32(&[5e-4; 16]);
        let bias = Buffer::of_u32(&[0; 16]);
        vec![input(), halves(16 * 9 * 16 / 2), factors, bias]
    };
    let smaller = || Buffer::of_bytes(3 * 90 * 16);
    let same = || Buffer::of_bytes(ELEMENTS);
    vec![
        Sample::new("conv_bytes", smaller(), weighed(), conv(1)),
        Sample::new("conv_bytes_depthwise", smaller(), weighed(), conv(16)),
        Sample::new("conv_bytes_grouped", smaller(), weighed(), conv(2)),
        Sample::new("pool_bytes", smaller(), vec![input()], pool),
        Sample::new("add_bytes", same(), vec![input()], add),
        Sample::new("convert", same(), vec![input()], convert),
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
            kept: 0,
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
            ..Answers::default()
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
            Buffer::of_bytes(64),
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

/// One of each kernel but `hold`, which writes nothing, and `report_evicted`, which nothing evicts.
pub fn samples() -> Vec<Sample> {
    [
        convolutions(),
        pools(),
        layers(),
        elementwise(),
        moved(),
        sequences(),
        of_bytes(),
        ways_in_and_out(),
        frames_and_places(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

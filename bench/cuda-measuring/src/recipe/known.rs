//! Launches whose results are known to the last bit, on whichever architecture they run.
//!
//! Their inputs are small whole numbers, so that each product and each sum is one that halves and `f32` hold exactly: in which
//! order a device adds, how its tensor cores round and what its compiler fuses changes nothing. Left out are kernels that
//! take exponentials, roots or quotients, of which devices may give different last bits, and those of which no result is
//! to be known ([`LEFT_OUT`]).
//!
//! `known_answers.txt` has a hash of each output, as the interpreter of PTX computes it
//! (`cargo test -p punctual-cuda-measuring --test known_answers`; with `PUNCTUAL_REWRITE=1` it writes the file).

use punctual_cuda_kernels::params::{
    AddBytes, BestScore, Conv, ConvBytes, Convert, Copy as Copying, Curve, Digits, Elementwise,
    Embedding, Epilogue, Function, Gather, GlobalPool, InputPlanar, Kept, Linear, Members, Operand,
    Output, Pool, PoolBytes, Product, Resize, Rounding, SOURCES_MAX, Take, Tokens, TopK,
};
use punctual_cuda_kernels::{Arguments, IMAGES_MAX, KERNELS};

use super::{
    FIRST, FOURTH, OUTPUT, Recipe, SECOND, THIRD, UNWRITTEN, floats, halves, view, whole, words,
};

/// Kernels without a known answer, and why.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("elementwise_further", "mostly transcendental functions"),
    ("softmax", "exponentials"),
    ("layer_norm", "a root"),
    ("recurrent", "exponentials"),
    ("attention_64", "exponentials"),
    ("attention_256", "exponentials"),
    ("grid_sample", "positions between pixels"),
    ("detections", "quotients"),
    ("answers", "exponentials"),
    ("preprocess_rgb8", "positions between pixels"),
    ("preprocess_nv12", "positions between pixels"),
    ("preprocess_yuyv", "positions between pixels"),
    ("report_evicted", "it reports an eviction"),
    ("where_am_i", "it says where it runs"),
    ("hold", "it writes nothing"),
];

/// Two images of 6x5 pixels with 16 channels.
const IMAGES: u32 = 2;
const SIZE: [u32; 3] = [6, 5, 16];
const PIXELS: usize = 6 * 5;
const VALUES: usize = IMAGES as usize * PIXELS * 16;

/// The hash of an output, in hexadecimal digits.
#[must_use]
pub fn hash(output: &[u8]) -> String {
    blake3::hash(output).to_hex().to_string()
}

/// The hash that the output of a kernel must have. `None`: the kernel has no known answer.
#[must_use]
pub fn expected(name: &str) -> Option<&'static str> {
    let lines = include_str!("known_answers.txt").lines();
    let mut pairs = lines.filter_map(|line| line.split_once(' '));
    pairs.find(|(kernel, _)| *kernel == name).map(|(_, h)| h)
}

/// A launch of each kernel that has a known answer, in the table's order.
#[must_use]
pub fn all() -> Vec<Recipe> {
    let mut all = [
        convolutions(),
        pools(),
        layers(),
        elementwise(),
        moved(),
        positions(),
        tables(),
        byte_convolutions(),
        bytes(),
        members(),
    ]
    .concat();
    let place = |recipe: &Recipe| KERNELS.iter().position(|k| k.name == recipe.name());
    all.sort_by_key(place);
    all
}

/// 3x3 with padding, a residual and an activation.
fn convolution(name: &str, inputs: u32, outputs: u32, groups: u32) -> Recipe {
    let (input, output) = ([6, 5, inputs], [6, 5, outputs]);
    let conv = Conv {
        input: view(FIRST, input),
        output: view(OUTPUT, output),
        weights: SECOND,
        bias: THIRD,
        residual: FOURTH,
        images: IMAGES,
        kernel_height: 3,
        kernel_width: 3,
        stride_height: 1,
        stride_width: 1,
        pad_top: 1,
        pad_left: 1,
        groups,
        splits: 1,
        channel_count: outputs,
        dilation_height: 1,
        dilation_width: 1,
        epilogue: Epilogue {
            curve: Curve::Clip as u32,
            low: 0.0,
            high: f32::INFINITY,
            ..Epilogue::default()
        },
        ..Conv::default()
    };
    let values = |channels: u32| IMAGES as usize * PIXELS * channels as usize;
    let weights = 9 * inputs / groups * outputs;
    let inputs = vec![
        halves(values(inputs), 2),
        halves(weights as usize, 1),
        floats(outputs as usize, 3),
        halves(values(outputs), 2),
    ];
    Recipe::new(name, 2 * values(outputs), inputs, Arguments::Conv(conv))
}

fn convolutions() -> Vec<Recipe> {
    let tiles = KERNELS.iter().filter(|kernel| kernel.tile.is_some());
    let mut all: Vec<Recipe> = tiles
        .map(|kernel| convolution(kernel.name, 32, 72, 1))
        .collect();
    all.push(convolution("conv_dense_general", 32, 72, 1));
    all.push(convolution("conv_depthwise_general", 24, 24, 24));
    all.push(convolution("conv_grouped_general", 24, 48, 3));
    all
}

fn pools() -> Vec<Recipe> {
    let pool = Pool {
        input: view(FIRST, SIZE),
        output: view(OUTPUT, [4, 3, 16]),
        images: IMAGES,
        kernel_height: 3,
        kernel_width: 3,
        stride_height: 1,
        stride_width: 1,
        ..Pool::default()
    };
    // The mean of 32 pixels: a quotient that is exact.
    let global = GlobalPool {
        input: view(FIRST, [8, 4, 16]),
        output: view(OUTPUT, [1, 1, 16]),
        images: IMAGES,
        kind: 2,
    };
    let input = || vec![halves(2 * 32 * 16, 2)];
    vec![
        Recipe::new("pool", 2 * 2 * 12 * 16, input(), Arguments::Pool(pool)),
        Recipe::new(
            "global_pool",
            2 * 2 * 16,
            input(),
            Arguments::GlobalPool(global),
        ),
    ]
}

fn layers() -> Vec<Recipe> {
    let linear = Linear {
        input: FIRST,
        output: OUTPUT,
        weights: SECOND,
        bias: THIRD,
        images: 3,
        depth: 64,
        features: 48,
        pitch: 48,
        feature_count: 48,
        ..Linear::default()
    };
    let reduce = Linear {
        output: OUTPUT,
        bias: FIRST,
        partial: SECOND,
        images: 3,
        features: 48,
        pitch: 48,
        feature_count: 48,
        splits: 2,
        ..Linear::default()
    };
    let conv_reduce = Conv {
        output: view(OUTPUT, SIZE),
        bias: FIRST,
        partial: SECOND,
        images: IMAGES,
        splits: 2,
        channel_count: 16,
        ..Conv::default()
    };
    vec![
        Recipe::new(
            "linear",
            2 * 3 * 48,
            vec![halves(3 * 64, 2), halves(64 * 48, 2), floats(48, 3)],
            Arguments::Linear(linear),
        ),
        Recipe::new(
            "linear_reduce",
            2 * 3 * 48,
            vec![floats(48, 3), floats(2 * 3 * 48, 100)],
            Arguments::Linear(reduce),
        ),
        Recipe::new(
            "conv_reduce",
            2 * VALUES,
            vec![floats(16, 3), floats(2 * VALUES, 100)],
            Arguments::Conv(conv_reduce),
        ),
    ]
}

fn elementwise() -> Vec<Recipe> {
    let operand = |address| Operand {
        address,
        image: PIXELS as u32 * 16,
        row: 5 * 16,
        column: 16,
        channel: 1,
        ..Operand::default()
    };
    let multiply = Elementwise {
        output: view(OUTPUT, SIZE),
        first: operand(FIRST),
        second: operand(SECOND),
        images: IMAGES,
        function: Function::Multiply as u32,
        ..Elementwise::default()
    };
    let gather = Gather {
        output: view(OUTPUT, SIZE),
        table: SECOND,
        sources: [FIRST; SOURCES_MAX],
        pitches: [16; SOURCES_MAX],
        images: IMAGES,
        gap: 0,
    };
    let values = || halves(VALUES, 9);
    vec![
        Recipe::new(
            "elementwise",
            2 * VALUES,
            vec![values(), halves(VALUES, 5)],
            Arguments::Elementwise(multiply),
        ),
        Recipe::new(
            "gather",
            2 * VALUES,
            vec![values(), words((0..16).rev())],
            Arguments::Gather(gather),
        ),
    ]
}

fn moved() -> Vec<Recipe> {
    let digits = |extents: [u32; 2], steps: [u32; 2]| Digits {
        extents: [1, 1, 1, 1, 1, 1, extents[0], extents[1]],
        steps: [0, 0, 0, 0, 0, 0, steps[0], steps[1]],
    };
    // Transposed: the source has five rows of six columns.
    let copy = Copying {
        output: view(OUTPUT, SIZE),
        source: FIRST,
        source_image: PIXELS as u32 * 16,
        channels: 16,
        rows: 6,
        columns: 5,
        pixel_digits: digits([6, 5], [16, 6 * 16]),
        channel_digits: digits([1, 16], [0, 1]),
        images: IMAGES,
        ..Copying::default()
    };
    // Planes of `f32`; the counts of what is not finite are not read back.
    let output = Output {
        source: FIRST,
        target: OUTPUT,
        counts: SECOND,
        target_image: PIXELS as u64 * 16 * 4,
        source_image: PIXELS as u32 * 16,
        elements: PIXELS as u32 * 16,
        digits: digits([16, PIXELS as u32], [1, 16]),
        all_counts: 1,
        images: IMAGES,
        ..Output::default()
    };
    let resize = Resize {
        input: view(FIRST, SIZE),
        output: view(OUTPUT, [3, 2, 16]),
        table: SECOND,
        images: IMAGES,
        kept: 0,
    };
    // Each row and column a quarter of the way to the next one: sixteenths, which halves hold.
    let table = words((0..5).flat_map(|at| [at, at + 1, 0.25_f32.to_bits(), 0]));
    let values = || halves(VALUES, 20);
    vec![
        Recipe::new("copy", 2 * VALUES, vec![values()], Arguments::Copy(copy)),
        Recipe::new(
            "output",
            4 * VALUES,
            vec![values(), vec![UNWRITTEN; 8]],
            Arguments::Output(output),
        ),
        Recipe::new(
            "resize",
            2 * 2 * 6 * 16,
            vec![values(), table],
            Arguments::Resize(resize),
        ),
    ]
}

fn positions() -> Vec<Recipe> {
    let take = Take {
        input: view(FIRST, SIZE),
        indices: view(SECOND, SIZE),
        output: view(OUTPUT, SIZE),
        images: IMAGES,
        axis: 2,
        ..Take::default()
    };
    let top = |count| {
        Arguments::TopK(TopK {
            input: view(FIRST, SIZE),
            output: OUTPUT,
            images: IMAGES,
            count,
            largest: 1,
            last: 0,
        })
    };
    let best = BestScore {
        scores: view(FIRST, SIZE),
        output: view(OUTPUT, [1, 1, PIXELS as u32]),
        images: IMAGES,
        classes: 16,
        ..BestScore::default()
    };
    let values = || halves(VALUES, 30);
    vec![
        Recipe::new(
            "take",
            2 * VALUES,
            vec![values(), halves(VALUES, 2)],
            Arguments::Take(take),
        ),
        Recipe::new("top_columns", 4 * 2 * 6 * 4 * 16, vec![values()], top(4)),
        Recipe::new("top_channel", 4 * 2 * PIXELS * 8, vec![values()], top(0)),
        Recipe::new(
            "best_score",
            4 * 2 * 32,
            vec![values()],
            Arguments::BestScore(best),
        ),
    ]
}

fn tables() -> Vec<Recipe> {
    let embedding = Embedding {
        output: view(OUTPUT, [1, PIXELS as u32, 16]),
        input: FIRST,
        table: SECOND,
        images: IMAGES,
        rows: 4,
        pitch: 16,
        channel_count: 16,
        ..Embedding::default()
    };
    let tokens = Tokens {
        output: view(OUTPUT, [1, PIXELS as u32, 16]),
        input: FIRST,
        table: SECOND,
        images: IMAGES,
        prefix: 1,
        first_channel: 0,
        channel_count: 16,
    };
    let product = Product {
        first: view(FIRST, SIZE),
        second: view(SECOND, [6, 16, 8]),
        output: OUTPUT,
        images: IMAGES,
        gap: 0,
    };
    vec![
        Recipe::new(
            "embedding",
            2 * VALUES,
            vec![halves(VALUES, 1), halves(4 * 16, 9)],
            Arguments::Embedding(embedding),
        ),
        Recipe::new(
            "tokens",
            2 * VALUES,
            vec![halves(VALUES, 9), halves(VALUES, 5)],
            Arguments::Tokens(tokens),
        ),
        Recipe::new(
            "product_of_rows",
            2 * 2 * PIXELS * 8,
            vec![halves(VALUES, 3), halves(2 * 6 * 16 * 8, 3)],
            Arguments::Product(product),
        ),
    ]
}

/// How results of bytes are rounded and clamped.
const ROUNDING: Rounding = Rounding {
    zero: 128.0,
    low: 10.0,
    high: 245.0,
    gap: 0,
};

/// A window of 3x3 goes so often into the image.
const WINDOWS: [u32; 3] = [4, 3, 16];

fn random_bytes(count: usize) -> Vec<u8> {
    let byte = |value: i32| (value + 128) as u8;
    whole(127).take(count).map(byte).collect()
}

/// Quantised: factors are powers of two, so that no product of theirs is rounded before it becomes a byte.
fn byte_convolutions() -> Vec<Recipe> {
    let conv = |name, groups| {
        let arguments = Arguments::ConvBytes(ConvBytes {
            input: view(FIRST, SIZE),
            output: view(OUTPUT, WINDOWS),
            weights: SECOND,
            factors: THIRD,
            bias: FOURTH,
            images: IMAGES,
            kernel_height: 3,
            kernel_width: 3,
            stride_height: 1,
            stride_width: 1,
            dilation_height: 1,
            dilation_width: 1,
            groups,
            channel_count: 16,
            kept: Kept::Bytes as u32,
            rounding: ROUNDING,
            ..ConvBytes::default()
        });
        let factors = (0..16).map(|_| 2.0_f32.powi(-11).to_bits());
        let biases = whole(90).take(16).map(|bias| bias as u32);
        let inputs = vec![
            random_bytes(VALUES),
            random_bytes(16 * 9 * 16),
            words(factors),
            words(biases),
        ];
        Recipe::new(name, 2 * 12 * 16, inputs, arguments)
    };
    vec![
        conv("conv_bytes", 1),
        conv("conv_bytes_depthwise", 16),
        conv("conv_bytes_grouped", 2),
    ]
}

/// Likewise.
fn bytes() -> Vec<Recipe> {
    let pool = PoolBytes {
        input: view(FIRST, SIZE),
        output: view(OUTPUT, WINDOWS),
        images: IMAGES,
        kernel_height: 3,
        kernel_width: 3,
        stride_height: 1,
        stride_width: 1,
        ratio: 0.5,
        rounding: ROUNDING,
        ..PoolBytes::default()
    };
    let add = AddBytes {
        output: view(OUTPUT, SIZE),
        first: FIRST,
        second: SECOND,
        images: IMAGES,
        first_ratio: 0.25,
        second_ratio: 0.5,
        rounding: ROUNDING,
        ..AddBytes::default()
    };
    let convert = Convert {
        input: view(FIRST, SIZE),
        output: view(OUTPUT, SIZE),
        images: IMAGES,
        from: Kept::Bytes as u32,
        to: Kept::Bytes as u32,
        factor: 0.5,
        rounding: ROUNDING,
        ..Convert::default()
    };
    let one = || vec![random_bytes(VALUES)];
    vec![
        Recipe::new("pool_bytes", 2 * 12 * 16, one(), Arguments::PoolBytes(pool)),
        Recipe::new(
            "add_bytes",
            VALUES,
            [one(), one()].concat(),
            Arguments::AddBytes(add),
        ),
        Recipe::new("convert", VALUES, one(), Arguments::Convert(convert)),
    ]
}

fn members() -> Vec<Recipe> {
    let mut places = [0; IMAGES_MAX];
    let of = |batch, member: u64, places: &mut [u64; IMAGES_MAX]| {
        places[0] = member;
        Arguments::Members(Members {
            batch,
            bytes: 9_984,
            members: *places,
            images: 1,
            gap: 0,
        })
    };
    let into = of(OUTPUT, FIRST, &mut places);
    let out = of(FIRST, OUTPUT, &mut places);
    places[..2].copy_from_slice(&[FIRST, SECOND]);
    let planar = Arguments::InputPlanar(InputPlanar {
        output: view(OUTPUT, [6, 5, 3]),
        members: places,
        row_stride: 5,
        plane_stride: 30,
        images: 2,
        kept: 0,
    });
    let values = || halves(9_984 / 2, 40);
    let picture = || floats(3 * PIXELS, 50);
    vec![
        Recipe::new("members_in", 9_984, vec![values()], into),
        Recipe::new("members_out", 9_984, vec![values()], out),
        Recipe::new(
            "input_planar",
            2 * 2 * PIXELS * 8,
            vec![picture(), picture()],
            planar,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_a_known_answer_or_a_reason_why_not() {
        let recipes = all();
        for kernel in KERNELS {
            let known = recipes.iter().filter(|recipe| recipe.name() == kernel.name);
            let reason = LEFT_OUT.iter().filter(|(name, _)| *name == kernel.name);
            assert_eq!(known.count() + reason.count(), 1, "{}", kernel.name);
        }
    }

    #[test]
    fn every_known_answer_is_recorded_and_no_two_outputs_are_alike_by_chance() {
        for recipe in all() {
            let hash = expected(recipe.name()).expect("recorded");
            assert_eq!(hash.len(), 64, "{}", recipe.name());
            // What a launch that does nothing would leave.
            assert_ne!(hash, super::hash(&recipe.memory()[0]), "{}", recipe.name());
        }
    }
}

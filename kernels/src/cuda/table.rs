//! The table of kernels: where each lies, and the shape of its launches.

use super::Arguments;
use super::params::{Conv, ConvBytes, Linear, Output, Pattern, TensorView};

/// A unit of code that is loaded as a whole. One that is not loaded yet costs a request nothing as long as
/// [`Module::General`] is: it has a kernel for everything (PASK).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Module {
    /// What every network needs, and a kernel for each [`Pattern`].
    General,
    /// Operators that detectors, segmenters, transformers and recurrent networks need beside convolutions.
    Operators,
    /// Operators on bytes, for quantised networks.
    Bytes,
    Probe,
    Preprocess,
    /// `conv_gemm_64x32`.
    Gemm64x32,
    /// `conv_gemm_64x64`.
    Gemm64x64,
    /// `conv_gemm_128x64`.
    Gemm128x64,
    /// `conv_gemm_128x128`.
    Gemm128x128,
}

impl Module {
    pub const ALL: [Module; 9] = [
        Module::General,
        Module::Operators,
        Module::Bytes,
        Module::Probe,
        Module::Preprocess,
        Module::Gemm64x32,
        Module::Gemm64x64,
        Module::Gemm128x64,
        Module::Gemm128x128,
    ];

    /// Its name in the images; `kernels/cuda/src/NAME.cu` is its source.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Module::General => "general",
            Module::Operators => "operators",
            Module::Bytes => "bytes",
            Module::Probe => "probe",
            Module::Preprocess => "preprocess",
            Module::Gemm64x32 => "conv_gemm_64x32",
            Module::Gemm64x64 => "conv_gemm_64x64",
            Module::Gemm128x64 => "conv_gemm_128x64",
            Module::Gemm128x128 => "conv_gemm_128x128",
        }
    }

    /// Whether devices of this compute capability have the instructions: `mma.sync` of 16x8x16
    /// halves and `cp.async` came with 8.0.
    #[must_use]
    pub const fn runs_on(self, major: u32) -> bool {
        match self {
            Module::General
            | Module::Operators
            | Module::Bytes
            | Module::Probe
            | Module::Preprocess => true,
            _ => major >= 8,
        }
    }

    /// Whether [`Module::General`] has a kernel for everything in it.
    #[must_use]
    pub const fn is_replaceable(self) -> bool {
        matches!(
            self,
            Module::Gemm64x32 | Module::Gemm64x64 | Module::Gemm128x64 | Module::Gemm128x128
        )
    }
}

/// What a block of a tensor-core kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    pub pixels: u32,
    pub channels: u32,
    /// Steps of the sum (taps times padded input channels) in a tile of the main loop.
    pub depth: u32,
    /// Tiles of the main loop in shared memory at a time.
    pub stages: u32,
}

impl Tile {
    /// Halves of pixels and weights for all stages, in bytes.
    #[must_use]
    pub const fn shared_bytes(self) -> u32 {
        self.stages * (self.pixels + self.channels) * self.depth * 2
    }
}

/// A kernel and how it is launched.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pub name: &'static str,
    pub module: Module,
    /// Threads of a block, in x.
    pub block: u32,
    /// Dynamic shared memory, in bytes: at most 48 KiB, which needs no attribute to be set.
    pub shared_bytes: u32,
    /// Which convolutions it is for, if for any.
    pub pattern: Option<Pattern>,
    /// What a block computes on tensor cores.
    pub tile: Option<Tile>,
    grid: fn(&Arguments) -> Option<[u32; 3]>,
}

impl Kernel {
    /// Blocks of a launch with these arguments. `None`: they are another kernel's, or the launcher chooses
    /// the grid (`where_am_i` and `hold`: any number of blocks in x).
    #[must_use]
    pub fn grid(&self, arguments: &Arguments) -> Option<[u32; 3]> {
        (self.grid)(arguments)
    }

    const fn plain(name: &'static str, block: u32, grid: Grid) -> Kernel {
        Kernel {
            name,
            module: Module::General,
            block,
            shared_bytes: 0,
            pattern: None,
            tile: None,
            grid,
        }
    }

    const fn conv(name: &'static str, pattern: Pattern, grid: Grid) -> Kernel {
        let mut kernel = Kernel::plain(name, 128, grid);
        kernel.pattern = Some(pattern);
        kernel
    }

    const fn gemm(module: Module, block: u32, tile: Tile, grid: Grid) -> Kernel {
        let mut kernel = Kernel::conv(module.name(), Pattern::Dense, grid);
        kernel.module = module;
        kernel.block = block;
        kernel.shared_bytes = tile.shared_bytes();
        kernel.tile = Some(tile);
        assert!(kernel.shared_bytes <= SHARED_BYTES_MAX);
        kernel
    }

    const fn of(module: Module, name: &'static str, block: u32, grid: Grid) -> Kernel {
        let mut kernel = Kernel::plain(name, block, grid);
        kernel.module = module;
        kernel
    }
}

/// What a launch may use of shared memory without asking for more.
pub const SHARED_BYTES_MAX: u32 = 48 << 10;

type Grid = fn(&Arguments) -> Option<[u32; 3]>;

#[must_use]
pub fn kernel(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name == name)
}

/// Pixels and channels of a block of `conv_dense_general`: two pixels and eight channels a thread.
const GENERAL: Tile = Tile {
    pixels: 64,
    channels: 32,
    depth: 0,
    stages: 0,
};
const T64X32: Tile = Tile {
    pixels: 64,
    channels: 32,
    depth: 64,
    stages: 4,
};
const T64X64: Tile = Tile {
    pixels: 64,
    channels: 64,
    depth: 64,
    stages: 3,
};
const T128X64: Tile = Tile {
    pixels: 128,
    channels: 64,
    depth: 32,
    stages: 4,
};
const T128X128: Tile = Tile {
    pixels: 128,
    channels: 128,
    depth: 32,
    stages: 3,
};

/// All kernels. What each computes is said where its parameters are ([`params`](super::params)).
pub static KERNELS: &[Kernel] = &[
    Kernel::conv("conv_dense_general", Pattern::Dense, |a| tiles(a, GENERAL)),
    Kernel::conv("conv_grouped_general", Pattern::Grouped, |a| {
        conv(a, |conv| threads(pixels(conv) * (conv.channel_count / 8)))
    }),
    // A thread has two columns.
    Kernel::conv("conv_depthwise_general", Pattern::Depthwise, |a| {
        conv(a, |conv| {
            let pairs = conv.images * conv.output.height * conv.output.width.div_ceil(2);
            threads(pairs * (conv.channel_count / 8))
        })
    }),
    Kernel::gemm(Module::Gemm64x32, 128, T64X32, |a| tiles(a, T64X32)),
    Kernel::gemm(Module::Gemm64x64, 128, T64X64, |a| tiles(a, T64X64)),
    Kernel::gemm(Module::Gemm128x64, 128, T128X64, |a| tiles(a, T128X64)),
    Kernel::gemm(Module::Gemm128x128, 256, T128X128, |a| tiles(a, T128X128)),
    Kernel::plain("conv_reduce", 128, |a| {
        conv(a, |conv| threads(pixels(conv) * (conv.channel_count / 8)))
    }),
    Kernel::plain("pool", 128, |a| match a {
        Arguments::Pool(pool) => Some(threads(vectors(&pool.output, pool.images))),
        _ => None,
    }),
    // Eight vectors of channels by sixteen shares of the pixels.
    Kernel::plain("global_pool", 128, |a| match a {
        Arguments::GlobalPool(pool) => Some([pool.output.pitch.div_ceil(64), pool.images, 1]),
        _ => None,
    }),
    // Four features of up to four images.
    Kernel::plain("linear", 128, |a| {
        linear(a, |linear| {
            [
                linear.feature_count.div_ceil(4),
                linear.images.div_ceil(4),
                1,
            ]
        })
    }),
    Kernel::plain("linear_reduce", 128, |a| {
        linear(a, |linear| {
            threads(linear.images * (linear.feature_count / 8))
        })
    }),
    Kernel::plain("elementwise", 128, |a| match a {
        Arguments::Elementwise(both) => Some(threads(vectors(&both.output, both.images))),
        _ => None,
    }),
    Kernel::of(Module::Operators, "elementwise_further", 128, |a| match a {
        Arguments::Elementwise(both) => Some(threads(8 * vectors(&both.output, both.images))),
        _ => None,
    }),
    Kernel::plain("gather", 128, |a| match a {
        Arguments::Gather(gather) => Some(threads(vectors(&gather.output, gather.images))),
        _ => None,
    }),
    Kernel::plain("members_in", 128, members),
    Kernel::plain("members_out", 128, members),
    Kernel::plain("input_planar", 128, |a| match a {
        Arguments::InputPlanar(input) => {
            let pixels = input.output.height * input.output.width;
            Some([pixels.div_ceil(128), input.images, 1])
        }
        _ => None,
    }),
    Kernel::of(Module::Operators, "copy", 128, copy),
    // Each block writes 1024 values of an image.
    Kernel::of(Module::Operators, "output", 128, |a| match a {
        Arguments::Output(output) => Some([Output::blocks(output.elements), output.images, 1]),
        _ => None,
    }),
    Kernel::of(Module::Operators, "softmax", 128, |a| match a {
        Arguments::Softmax(softmax) => {
            let groups = softmax.images * softmax.rest * softmax.outer * softmax.inner;
            Some(threads(groups * softmax.lanes))
        }
        _ => None,
    }),
    Kernel::of(Module::Operators, "resize", 128, |a| match a {
        Arguments::Resize(resize) => Some(threads(vectors(&resize.output, resize.images))),
        _ => None,
    }),
    // Each warp normalises one pixel.
    Kernel::of(Module::Operators, "layer_norm", 128, |a| match a {
        Arguments::LayerNorm(norm) => {
            let pixels = norm.images * norm.input.height * norm.input.width;
            Some([pixels.div_ceil(4), 1, 1])
        }
        _ => None,
    }),
    Kernel::of(Module::Operators, "embedding", 128, |a| match a {
        Arguments::Embedding(embedding) => {
            let pixels = embedding.output.height * embedding.output.width;
            let vectors = embedding.channel_count / 8;
            Some(threads(embedding.images * pixels * vectors))
        }
        _ => None,
    }),
    Kernel::of(Module::Operators, "tokens", 128, |a| match a {
        Arguments::Tokens(tokens) => {
            let vectors = tokens.channel_count / 8;
            Some(threads(tokens.images * tokens.output.width * vectors))
        }
        _ => None,
    }),
    // Each block computes 32 pixels and 64 channels of a row.
    Kernel::of(Module::Operators, "product_of_rows", 128, |a| match a {
        Arguments::Product(product) => Some([
            product.first.width.div_ceil(32),
            product.second.pitch.div_ceil(64),
            product.images * product.first.height,
        ]),
        _ => None,
    }),
    // An image a block: a step needs all of the state before it.
    Kernel::of(Module::Operators, "recurrent", 512, |a| match a {
        Arguments::Recurrent(layer) => Some([layer.images, 1, 1]),
        _ => None,
    }),
    Kernel::of(Module::Operators, "grid_sample", 128, |a| match a {
        Arguments::GridSample(sample) => {
            let pixels = sample.images * sample.grid.height * sample.grid.width;
            Some(threads(pixels * sample.input.pitch))
        }
        _ => None,
    }),
    Kernel::of(Module::Operators, "take", 128, |a| match a {
        Arguments::Take(take) => Some(threads(8 * vectors(&take.output, take.images))),
        _ => None,
    }),
    Kernel::of(Module::Operators, "top_columns", 128, |a| match a {
        Arguments::TopK(top) => Some(threads(8 * vectors(&top.input, top.images))),
        _ => None,
    }),
    Kernel::of(Module::Operators, "top_channel", 128, |a| match a {
        Arguments::TopK(top) => Some(threads(top.images * top.input.height * top.input.width)),
        _ => None,
    }),
    Kernel::of(Module::Operators, "best_score", 128, |a| match a {
        Arguments::BestScore(best) => Some(threads(best.images * best.output.pitch)),
        _ => None,
    }),
    // An image a block: a list is made of all of its places.
    Kernel::of(Module::Operators, "detections", 512, |a| match a {
        Arguments::Detections(list) => Some([list.images, 1, 1]),
        _ => None,
    }),
    Kernel::of(Module::Operators, "attention_64", 128, attention),
    Kernel::of(Module::Operators, "attention_256", 128, attention),
    // Each block computes 32 pixels and 32 channels.
    Kernel::of(Module::Bytes, "conv_bytes", 128, |a| match a {
        Arguments::ConvBytes(conv) => Some([
            conv_bytes_pixels(conv).div_ceil(32),
            conv.channel_count.div_ceil(32),
            1,
        ]),
        _ => None,
    }),
    Kernel::of(
        Module::Bytes,
        "conv_bytes_depthwise",
        128,
        conv_bytes_vectors,
    ),
    Kernel::of(Module::Bytes, "conv_bytes_grouped", 128, conv_bytes_vectors),
    Kernel::of(Module::Bytes, "pool_bytes", 128, |a| match a {
        Arguments::PoolBytes(pool) => Some(threads(vectors(&pool.output, pool.images))),
        _ => None,
    }),
    Kernel::of(Module::Bytes, "add_bytes", 128, |a| match a {
        Arguments::AddBytes(add) => Some(threads(vectors(&add.output, add.images))),
        _ => None,
    }),
    Kernel::of(Module::Bytes, "convert", 128, |a| match a {
        Arguments::Convert(convert) => {
            let output = &convert.output;
            Some(threads(vectors(output, convert.images)))
        }
        _ => None,
    }),
    // A warp an image, in one block, so that it can say when all are done.
    Kernel::plain("answers", 1024, |a| match a {
        Arguments::Answers(_) => Some([1, 1, 1]),
        _ => None,
    }),
    // Behind evicted launches: alone among all, it has no look at the epoch.
    Kernel::plain("report_evicted", 32, |a| match a {
        Arguments::ReportEvicted(_) => Some([1, 1, 1]),
        _ => None,
    }),
    Kernel::of(Module::Probe, "where_am_i", 32, |_| None),
    Kernel::of(Module::Probe, "hold", 32, |_| None),
    Kernel::of(Module::Preprocess, "preprocess_rgb8", 128, preprocess),
    Kernel::of(Module::Preprocess, "preprocess_nv12", 128, preprocess),
    Kernel::of(Module::Preprocess, "preprocess_yuyv", 128, preprocess),
];

/// One-dimensional grid of so many threads in blocks of 128.
const fn threads(threads: u32) -> [u32; 3] {
    [threads.div_ceil(128), 1, 1]
}

/// Vectors of eight channels of a batch.
const fn vectors(view: &TensorView, images: u32) -> u32 {
    images * view.height * view.width * (view.pitch / 8)
}

const fn pixels(conv: &Conv) -> u32 {
    conv.images * conv.output.height * conv.output.width
}

fn conv(arguments: &Arguments, grid: fn(&Conv) -> [u32; 3]) -> Option<[u32; 3]> {
    match arguments {
        Arguments::Conv(conv) => Some(grid(conv)),
        _ => None,
    }
}

fn linear(arguments: &Arguments, grid: fn(&Linear) -> [u32; 3]) -> Option<[u32; 3]> {
    match arguments {
        Arguments::Linear(linear) => Some(grid(linear)),
        _ => None,
    }
}

/// A block a tile of pixels, a tile of channels and a split of the sum.
fn tiles(arguments: &Arguments, tile: Tile) -> Option<[u32; 3]> {
    match arguments {
        Arguments::Conv(conv) => Some([
            pixels(conv).div_ceil(tile.pixels),
            conv.channel_count.div_ceil(tile.channels),
            conv.splits,
        ]),
        _ => None,
    }
}

const fn conv_bytes_pixels(conv: &ConvBytes) -> u32 {
    conv.images * conv.output.height * conv.output.width
}

fn conv_bytes_vectors(arguments: &Arguments) -> Option<[u32; 3]> {
    match arguments {
        Arguments::ConvBytes(conv) => {
            let vectors = conv.channel_count / 8;
            Some(threads(conv_bytes_pixels(conv) * vectors))
        }
        _ => None,
    }
}

/// The padding belongs to the box that has the last channel.
fn copy(arguments: &Arguments) -> Option<[u32; 3]> {
    let Arguments::Copy(copy) = arguments else {
        return None;
    };
    let end = copy.first_channel + copy.channels;
    let end = match end == copy.output.channels {
        true => copy.output.pitch,
        false => end,
    };
    let vectors = end.div_ceil(8) - copy.first_channel / 8;
    Some(threads(copy.images * copy.rows * copy.columns * vectors))
}

/// Each block computes sixteen queries of a head of an image.
fn attention(arguments: &Arguments) -> Option<[u32; 3]> {
    match arguments {
        Arguments::Attention(attention) => {
            let images = attention.images * attention.rows;
            Some([attention.queries.div_ceil(16), attention.heads, images])
        }
        _ => None,
    }
}

/// Four vectors of 16 bytes a thread.
fn members(arguments: &Arguments) -> Option<[u32; 3]> {
    match arguments {
        Arguments::Members(members) => {
            let blocks = members.bytes.div_ceil(16 * 4 * 128);
            Some([u32::try_from(blocks).ok()?, members.images, 1])
        }
        _ => None,
    }
}

fn preprocess(arguments: &Arguments) -> Option<[u32; 3]> {
    match arguments {
        Arguments::Preprocess(p) => Some(threads(p.output.height * p.output.width)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_found_by_its_name_and_no_other_is() {
        for wanted in KERNELS {
            assert_eq!(kernel(wanted.name).map(|k| k.module), Some(wanted.module));
        }
        let mut names: Vec<_> = KERNELS.iter().map(|kernel| kernel.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KERNELS.len());
        assert!(kernel("conv").is_none());
    }

    #[test]
    fn every_pattern_has_a_kernel_in_the_general_module() {
        for pattern in [Pattern::Dense, Pattern::Depthwise, Pattern::Grouped] {
            let general = |kernel: &&Kernel| {
                kernel.pattern == Some(pattern) && kernel.module == Module::General
            };
            assert_eq!(KERNELS.iter().filter(general).count(), 1, "{pattern:?}");
        }
    }

    #[test]
    fn a_grid_covers_odd_shapes_and_is_refused_for_arguments_of_another_kernel() {
        let mut params = Conv {
            images: 3,
            splits: 2,
            channel_count: 72,
            ..Conv::default()
        };
        (params.output.height, params.output.width) = (7, 7);
        let arguments = Arguments::Conv(params);
        let grid = |name: &str| kernel(name).expect("in the table").grid(&arguments);
        assert_eq!(grid("conv_gemm_64x64"), Some([3, 2, 2]));
        assert_eq!(grid("conv_gemm_128x128"), Some([2, 1, 2]));
        assert_eq!(grid("conv_dense_general"), Some([3, 3, 2]));
        assert_eq!(grid("conv_depthwise_general"), Some([6, 1, 1]));
        assert_eq!(grid("pool"), None);
        assert_eq!(grid("hold"), None);
    }
}

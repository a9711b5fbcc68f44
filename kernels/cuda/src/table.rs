//! The table of kernels: where each lies, and the shape of its launches.

use crate::params::{
    Arguments, Attention, Conv, ConvBytes, Copy, Grid, Members, Output, Pattern, TensorView,
};

/// A unit of code that is loaded as a whole. One that is not loaded yet costs a request nothing as long as
/// [`Module::General`] is: it has a kernel for everything (PASK).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Module {
    /// What every network needs, and a kernel for each [`Pattern`].
    General,
    /// Operators that detectors, segmenters, transformers and recurrent networks need in addition to convolutions.
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

/// Blocks of a launch, in x, y and z.
pub type Blocks = Option<[u32; 3]>;

/// A kernel and how it is launched.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pub name: &'static str,
    pub module: Module,
    /// Threads of a block, in x: 128 where the table says nothing else.
    pub block: u32,
    /// Dynamic shared memory, in bytes: at most 48 KiB, which needs no attribute to be set.
    pub shared_bytes: u32,
    /// Which convolutions it is for, if for any.
    pub pattern: Option<Pattern>,
    /// What a block computes on tensor cores.
    pub tile: Option<Tile>,
    grid: Grid,
}

impl Kernel {
    /// Blocks of a launch with these arguments. `None`: they are another kernel's, or the launcher chooses
    /// the grid (`where_am_i` and `hold`: any number of blocks in x).
    #[must_use]
    pub fn grid(&self, arguments: &Arguments) -> Blocks {
        self.grid.blocks(arguments)
    }

    /// Name of the structure that it takes behind its guard.
    #[must_use]
    pub const fn parameters(&self) -> &'static str {
        self.grid.parameters()
    }

    const fn new(module: Module, name: &'static str, grid: Grid) -> Kernel {
        Kernel {
            name,
            module,
            block: 128,
            shared_bytes: 0,
            pattern: None,
            tile: None,
            grid,
        }
    }

    const fn block(mut self, threads: u32) -> Kernel {
        self.block = threads;
        self
    }

    const fn pattern(mut self, pattern: Pattern) -> Kernel {
        self.pattern = Some(pattern);
        self
    }

    const fn tile(mut self, tile: Tile) -> Kernel {
        self.shared_bytes = tile.shared_bytes();
        self.tile = Some(tile);
        assert!(self.shared_bytes <= SHARED_BYTES_MAX);
        self.pattern(Pattern::Dense)
    }
}

/// `kernel!(MODULE, NAME(parameters: STRUCTURE) => BLOCKS)`
macro_rules! kernel {
    ($module:ident, $name:ident($parameters:tt: $structure:ident) => $blocks:expr) => {
        Kernel::new(
            Module::$module,
            stringify!($name),
            Grid::$structure(|$parameters| $blocks),
        )
    };
}

/// What a launch may use of shared memory without asking for more.
pub const SHARED_BYTES_MAX: u32 = 48 << 10;

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

/// All kernels. What each computes is said where its parameters are ([`params`](crate::params)).
pub static KERNELS: &[Kernel] = &[
    kernel!(General, conv_dense_general(conv: Conv) => tiles(conv, GENERAL))
        .pattern(Pattern::Dense),
    kernel!(General, conv_grouped_general(conv: Conv) => conv_vectors(conv))
        .pattern(Pattern::Grouped),
    kernel!(General, conv_depthwise_general(conv: Conv) => column_pairs(conv))
        .pattern(Pattern::Depthwise),
    kernel!(Gemm64x32, conv_gemm_64x32(conv: Conv) => tiles(conv, T64X32)).tile(T64X32),
    kernel!(Gemm64x64, conv_gemm_64x64(conv: Conv) => tiles(conv, T64X64)).tile(T64X64),
    kernel!(Gemm128x64, conv_gemm_128x64(conv: Conv) => tiles(conv, T128X64)).tile(T128X64),
    kernel!(Gemm128x128, conv_gemm_128x128(conv: Conv) => tiles(conv, T128X128))
        .tile(T128X128)
        .block(256),
    kernel!(General, conv_reduce(conv: Conv) => conv_vectors(conv)),
    kernel!(General, pool(pool: Pool) => vectors(&pool.output, pool.images)),
    // Eight vectors of channels by sixteen shares of the pixels.
    kernel!(General, global_pool(pool: GlobalPool) => Some([pool.output.pitch.div_ceil(64), pool.images, 1])),
    // Four features of up to four images.
    kernel!(General, linear(of: Linear) => Some([of.feature_count.div_ceil(4), of.images.div_ceil(4), 1])),
    kernel!(General, linear_reduce(of: Linear) => threads(of.images * (of.feature_count / 8))),
    kernel!(General, elementwise(of: Elementwise) => vectors(&of.output, of.images)),
    kernel!(Operators, elementwise_further(of: Elementwise) => values(&of.output, of.images)),
    kernel!(General, gather(gather: Gather) => vectors(&gather.output, gather.images)),
    kernel!(General, members_in(members: Members) => member_vectors(members)),
    kernel!(General, members_out(members: Members) => member_vectors(members)),
    kernel!(General, input_planar(input: InputPlanar) => {
        let pixels = input.output.height * input.output.width;
        Some([pixels.div_ceil(128), input.images, 1])
    }),
    kernel!(Operators, copy(copy: Copy) => vectors_of_box(copy)),
    kernel!(Operators, output(output: Output) => Some([Output::blocks(output.elements), output.images, 1])),
    kernel!(Operators, softmax(softmax: Softmax) => {
        let groups = softmax.images * softmax.rest * softmax.outer * softmax.inner;
        threads(groups * softmax.lanes)
    }),
    kernel!(Operators, resize(resize: Resize) => vectors(&resize.output, resize.images)),
    // Each warp normalises one pixel.
    kernel!(Operators, layer_norm(norm: LayerNorm) => {
        let pixels = norm.images * norm.input.height * norm.input.width;
        Some([pixels.div_ceil(4), 1, 1])
    }),
    kernel!(Operators, embedding(embedding: Embedding) => {
        let pixels = embedding.images * embedding.output.height * embedding.output.width;
        threads(pixels * (embedding.channel_count / 8))
    }),
    kernel!(Operators, tokens(tokens: Tokens) => {
        threads(tokens.images * tokens.output.width * (tokens.channel_count / 8))
    }),
    // Each block computes 32 pixels and 64 channels of a row.
    kernel!(Operators, product_of_rows(product: Product) => {
        let [pixels, channels] = [product.first.width.div_ceil(32), product.second.pitch.div_ceil(64)];
        Some([pixels, channels, product.images * product.first.height])
    }),
    // An image a block: a step needs all of the state before it.
    kernel!(Operators, recurrent(layer: Recurrent) => Some([layer.images, 1, 1])).block(512),
    kernel!(Operators, grid_sample(sample: GridSample) => {
        threads(sample.images * sample.grid.height * sample.grid.width * sample.input.pitch)
    }),
    kernel!(Operators, take(take: Take) => values(&take.output, take.images)),
    kernel!(Operators, top_columns(top: TopK) => values(&top.input, top.images)),
    kernel!(Operators, top_channel(top: TopK) => threads(top.images * top.input.height * top.input.width)),
    kernel!(Operators, best_score(best: BestScore) => threads(best.images * best.output.pitch)),
    // An image a block: a list is made of all of its places.
    kernel!(Operators, detections(list: Detections) => Some([list.images, 1, 1])).block(512),
    kernel!(Operators, attention_64(attention: Attention) => queries(attention)),
    kernel!(Operators, attention_256(attention: Attention) => queries(attention)),
    // Each block computes 32 pixels and 32 channels.
    kernel!(Bytes, conv_bytes(conv: ConvBytes) => {
        let pixels = conv.images * conv.output.height * conv.output.width;
        Some([pixels.div_ceil(32), conv.channel_count.div_ceil(32), 1])
    }),
    kernel!(Bytes, conv_bytes_depthwise(conv: ConvBytes) => conv_bytes_vectors(conv)),
    kernel!(Bytes, conv_bytes_grouped(conv: ConvBytes) => conv_bytes_vectors(conv)),
    kernel!(Bytes, pool_bytes(pool: PoolBytes) => vectors(&pool.output, pool.images)),
    kernel!(Bytes, add_bytes(add: AddBytes) => vectors(&add.output, add.images)),
    kernel!(Bytes, convert(convert: Convert) => vectors(&convert.output, convert.images)),
    // A warp an image, in one block, so that it can say when all are done.
    kernel!(General, answers(_: Answers) => Some([1, 1, 1])).block(1024),
    // Behind evicted launches: alone among all, it has no look at the epoch.
    kernel!(General, report_evicted(_: ReportEvicted) => Some([1, 1, 1])).block(32),
    kernel!(Probe, where_am_i(_: Whereabouts) => None).block(32),
    kernel!(Probe, hold(_: Hold) => None).block(32),
    kernel!(Preprocess, preprocess_rgb8(frame: Preprocess) => pixels(&frame.output)),
    kernel!(Preprocess, preprocess_nv12(frame: Preprocess) => pixels(&frame.output)),
    kernel!(Preprocess, preprocess_yuyv(frame: Preprocess) => pixels(&frame.output)),
];

/// One-dimensional grid of `threads` threads in blocks of 128.
const fn threads(threads: u32) -> Blocks {
    Some([threads.div_ceil(128), 1, 1])
}

/// A thread a value of a batch, padding included.
const fn values(view: &TensorView, images: u32) -> Blocks {
    threads(images * view.height * view.width * view.pitch)
}

/// A thread a vector of eight channels of a batch.
const fn vectors(view: &TensorView, images: u32) -> Blocks {
    threads(images * view.height * view.width * (view.pitch / 8))
}

/// A thread a pixel of an image.
const fn pixels(image: &TensorView) -> Blocks {
    threads(image.height * image.width)
}

const fn conv_pixels(conv: &Conv) -> u32 {
    conv.images * conv.output.height * conv.output.width
}

const fn conv_vectors(conv: &Conv) -> Blocks {
    threads(conv_pixels(conv) * (conv.channel_count / 8))
}

/// A thread has two columns.
const fn column_pairs(conv: &Conv) -> Blocks {
    let pairs = conv.images * conv.output.height * conv.output.width.div_ceil(2);
    threads(pairs * (conv.channel_count / 8))
}

/// A block a tile of pixels, a tile of channels and a split of the sum.
const fn tiles(conv: &Conv, tile: Tile) -> Blocks {
    let pixels = conv_pixels(conv).div_ceil(tile.pixels);
    let channels = conv.channel_count.div_ceil(tile.channels);
    Some([pixels, channels, conv.splits])
}

const fn conv_bytes_vectors(conv: &ConvBytes) -> Blocks {
    let pixels = conv.images * conv.output.height * conv.output.width;
    threads(pixels * (conv.channel_count / 8))
}

/// The padding belongs to the box that has the last channel.
const fn vectors_of_box(copy: &Copy) -> Blocks {
    let end = copy.first_channel + copy.channels;
    let end = if end == copy.output.channels {
        copy.output.pitch
    } else {
        end
    };
    let vectors = end.div_ceil(8) - copy.first_channel / 8;
    threads(copy.images * copy.rows * copy.columns * vectors)
}

/// Each block computes sixteen queries of a head of an image.
const fn queries(attention: &Attention) -> Blocks {
    let images = attention.images * attention.rows;
    Some([attention.queries.div_ceil(16), attention.heads, images])
}

/// A thread four vectors of 16 bytes.
fn member_vectors(members: &Members) -> Blocks {
    let blocks = members.bytes.div_ceil(16 * 4 * 128);
    Some([u32::try_from(blocks).ok()?, members.images, 1])
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

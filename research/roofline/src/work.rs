//! What a block of a launch does, read from the kernels' sources and counted in their machine code for 8.7 with
//! `nvdisasm` 13.5 (25 November 2026): instructions of the path that is usually taken.

use punctual_cuda_kernels::params::{
    Answers, Attention, Conv, ConvBytes, Detections, GlobalPool, LayerNorm, Linear, Pattern,
    Product, Recurrent, Softmax, TopK,
};
use punctual_cuda_kernels::{Arguments, Kernel, Tile};
use punctual_device_cuda::lower::Step;

/// What a block does, from its first instruction to its last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Multiply-accumulates, those of padding included.
    pub products: f64,
    /// Whether tensor cores make them.
    pub on_tensor_cores: bool,
    pub warps: f64,
    /// Instructions of each warp, outside of rounds and in each.
    pub instructions: f64,
    pub round_instructions: f64,
    /// Times that the block waits for what it has read, one after the other: tiles of the main loop.
    pub rounds: f64,
    /// Rounds whose values are being read while one is computed.
    pub ahead: f64,
    /// Rounds from one look at the epoch to the next with a stride of 1; 0: the block looks at its start alone.
    pub rounds_a_look: f64,
    /// Bytes from and to shared memory.
    pub shared_bytes: f64,
    /// Bytes that the multiprocessor loads.
    pub loaded_bytes: f64,
}

/// To finish eight channels of a pixel: bias, residual, activation, store.
const FINISH: f64 = 200.0;
/// Of a thread that moves eight values: 120 to 312.
const MOVE: f64 = 220.0;
/// Instructions of a warp of a tile's kernel before its main loop.
const TILE_BEGIN: f64 = 500.0;
/// Those of a round of a tile without products, loads of fragments and copies: 71 to 85 of 113 to 141.
const TILE_ROUND: f64 = 78.0;
/// Rows of warps of a tile, as `conv_gemm_*.cu` divide it.
const WARPS_DOWN: u32 = 2;

impl Work {
    /// What a block of the launch does. `loaded` are the launch's bytes for each of its blocks, for those kernels that read
    /// nothing twice.
    pub fn of(step: &Step, loaded: f64) -> Self {
        let kernel = step.kernel;
        let plain = Self {
            warps: f64::from(kernel.block.div_ceil(32)),
            instructions: MOVE,
            rounds: 1.0,
            loaded_bytes: loaded,
            ..Self::default()
        };
        match step.arguments() {
            Arguments::Conv(conv) => match kernel.tile {
                Some(tile) => of_tile(conv, kernel, tile),
                None => of_conv(conv, kernel.name, plain),
            },
            Arguments::ConvBytes(conv) => of_conv_bytes(conv, plain),
            Arguments::Linear(linear) => of_linear(linear, kernel.name, plain),
            Arguments::Product(product) => of_product(product, plain),
            Arguments::Recurrent(recurrent) => of_recurrent(recurrent, plain),
            Arguments::Attention(attention) => of_attention(attention, plain),
            Arguments::Pool(pool) => of_window(plain, pool.kernel_height, pool.kernel_width),
            Arguments::PoolBytes(pool) => of_window(plain, pool.kernel_height, pool.kernel_width),
            Arguments::GlobalPool(pool) => of_global_pool(pool, plain),
            Arguments::Softmax(softmax) => of_softmax(softmax, plain),
            Arguments::TopK(top_k) => of_top_k(top_k, plain),
            Arguments::LayerNorm(norm) => of_layer_norm(norm, plain),
            Arguments::Detections(detections) => of_detections(detections, plain),
            Arguments::Answers(answers) => of_answers(answers, plain),
            Arguments::Elementwise(_) => Self {
                instructions: 300.0,
                ..plain
            },
            Arguments::Copy(_) | Arguments::Output(_) => Self {
                instructions: 600.0,
                rounds: 2.0,
                ..plain
            },
            Arguments::Embedding(_)
            | Arguments::Gather(_)
            | Arguments::GridSample(_)
            | Arguments::Resize(_)
            | Arguments::Take(_) => Self {
                rounds: 2.0,
                ..plain
            },
            _ => plain,
        }
    }

    /// Instructions of all warps.
    pub fn all_instructions(&self) -> f64 {
        self.warps * (self.instructions + self.rounds * self.round_instructions)
    }

    /// With products of a thread, and instructions for each.
    fn summed(self, products_of_thread: f64, instructions_each: f64) -> Self {
        Self {
            products: products_of_thread * self.warps * 32.0,
            instructions: FINISH,
            round_instructions: products_of_thread * instructions_each / self.rounds,
            ..self
        }
    }
}

fn of_tile(conv: &Conv, kernel: &Kernel, tile: Tile) -> Work {
    let warps = kernel.block / 32;
    let (down, across) = (WARPS_DOWN, warps / WARPS_DOWN);
    let depth = conv.kernel_height * conv.kernel_width * conv.input.pitch;
    let rounds = depth.div_ceil(tile.depth).div_ceil(conv.splits.max(1));
    let steps = tile.depth / 16;
    let fragments = (tile.pixels / down / 16) * (tile.channels / across / 8) * steps;
    let loads = (tile.pixels / down / 16 + tile.channels / across / 16) * steps;
    let copies = (tile.pixels + tile.channels) * (tile.depth / 8) / kernel.block;
    let filled = (tile.pixels + tile.channels) * tile.depth * 2;
    let read = (tile.pixels * across + tile.channels * down) * tile.depth * 2;
    let sums = tile.pixels * tile.channels;
    let rounds = f64::from(rounds);
    Work {
        products: f64::from(sums * tile.depth) * rounds,
        on_tensor_cores: true,
        warps: f64::from(warps),
        instructions: TILE_BEGIN + FINISH * f64::from(sums / 8 / kernel.block),
        round_instructions: f64::from(fragments + loads + copies) + TILE_ROUND,
        rounds,
        ahead: f64::from(tile.stages - 1),
        rounds_a_look: 1.0,
        // The sums pass through it once.
        shared_bytes: rounds * f64::from(filled + read) + f64::from(8 * sums),
        loaded_bytes: rounds * f64::from(filled),
    }
}

fn of_conv(conv: &Conv, kernel: &str, plain: Work) -> Work {
    let taps = f64::from(conv.kernel_height * conv.kernel_width);
    let splits = f64::from(conv.splits.max(1));
    if kernel == "conv_reduce" {
        let rounds = (splits / 4.0).ceil();
        return Work::summed(Work { rounds, ..plain }, 8.0 * splits, 3.0);
    }
    match conv.pattern() {
        Pattern::Dense => {
            let depth = taps * f64::from(conv.input.pitch) / splits;
            let plain = Work {
                rounds: (depth / 8.0).ceil(),
                rounds_a_look: 32.0,
                loaded_bytes: 96.0 * depth * 2.0,
                ..plain
            };
            Work::summed(plain, 16.0 * depth, 2.5)
        }
        Pattern::Depthwise => {
            let rounds = if conv.kernel_width == 3 { 1.0 } else { taps };
            Work::summed(Work { rounds, ..plain }, 16.0 * taps, 3.7)
        }
        Pattern::Grouped => {
            let inputs = f64::from((conv.input.channels / conv.groups).max(1));
            let plain = Work {
                rounds: taps * 8.0 * (inputs / 8.0).ceil(),
                rounds_a_look: f64::from(conv.kernel_width) * (inputs / 8.0).ceil(),
                ..plain
            };
            Work::summed(plain, 8.0 * taps * inputs, 4.8)
        }
    }
}

fn of_conv_bytes(conv: &ConvBytes, plain: Work) -> Work {
    let taps = f64::from(conv.kernel_height * conv.kernel_width);
    let inputs = f64::from(conv.summed_channels());
    // Eight channels of a pixel a thread, four products an instruction.
    let rounds = (taps * inputs / 16.0).ceil();
    Work { rounds, ..plain }.summed(8.0 * taps * inputs, 0.6)
}

fn of_linear(linear: &Linear, kernel: &str, plain: Work) -> Work {
    if kernel == "linear_reduce" {
        let splits = f64::from(linear.splits.max(1));
        let rounds = (splits / 4.0).ceil();
        return Work::summed(Work { rounds, ..plain }, 8.0 * splits, 3.0);
    }
    let (images, depth) = (f64::from(linear.images.min(4)), f64::from(linear.depth));
    let plain = Work {
        rounds: (depth / 1024.0).ceil(),
        rounds_a_look: 8.0,
        loaded_bytes: (4.0 + images) * depth * 2.0,
        ..plain
    };
    Work::summed(plain, 4.0 * images * depth / 128.0, 2.0)
}

fn of_attention(attention: &Attention, plain: Work) -> Work {
    // Sixteen queries of a head, 32 keys a round.
    let heads = attention.heads.max(1);
    let size = f64::from(attention.query.channels / heads + attention.value.channels / heads);
    let keys = f64::from(attention.keys);
    let plain = Work {
        rounds: (keys / 32.0).ceil(),
        rounds_a_look: 1.0,
        loaded_bytes: keys * size * 2.0,
        ..plain
    };
    let products = 16.0 * plain.rounds * 32.0 * size;
    Work {
        shared_bytes: products / 4.0,
        ..plain.summed(products / 128.0, 3.4)
    }
}

/// Three neighbours of a row are read at a time.
fn of_window(plain: Work, rows: u32, columns: u32) -> Work {
    let rounds = f64::from(rows * columns.div_ceil(3));
    let products = 8.0 * f64::from(rows * columns);
    Work { rounds, ..plain }.summed(products, 6.3)
}

fn of_global_pool(pool: &GlobalPool, plain: Work) -> Work {
    let pixels = f64::from(pool.input.height * pool.input.width) / 16.0;
    let rounds = (pixels / 4.0).ceil();
    Work { rounds, ..plain }.summed(8.0 * pixels, 4.9)
}

fn of_layer_norm(norm: &LayerNorm, plain: Work) -> Work {
    let own = f64::from(norm.input.pitch) / 32.0;
    Work {
        rounds: 3.0,
        ..plain
    }
    .summed(3.0 * own, 6.0)
}

fn of_product(product: &Product, plain: Work) -> Work {
    let depth = f64::from(product.first.channels);
    let plain = Work {
        rounds: (depth / 32.0).ceil(),
        rounds_a_look: 1.0,
        loaded_bytes: 96.0 * depth * 2.0,
        shared_bytes: depth * 128.0 * 32.0,
        ..plain
    };
    plain.summed(16.0 * depth, 1.6)
}

fn of_recurrent(recurrent: &Recurrent, plain: Work) -> Work {
    let (steps, gates) = (
        f64::from(recurrent.steps),
        f64::from(recurrent.gates.channels),
    );
    let weights = gates * f64::from(recurrent.hidden);
    let plain = Work {
        // What the step before left, the gates, and the sums of lanes.
        rounds: 3.0 * steps,
        rounds_a_look: 3.0,
        loaded_bytes: steps * weights * 2.0,
        ..plain
    };
    plain.summed(steps * weights / 512.0, 2.7)
}

fn of_softmax(softmax: &Softmax, plain: Work) -> Work {
    let own = f64::from(softmax.extent.div_ceil(softmax.lanes.max(1)));
    // Largest, sum, result.
    let rounds = 3.0 * (own / 4.0).ceil();
    Work { rounds, ..plain }.summed(3.0 * own, 14.0)
}

fn of_top_k(top_k: &TopK, plain: Work) -> Work {
    let rounds = f64::from(top_k.input.width) / 4.0;
    Work { rounds, ..plain }.summed(1.0, 100.0)
}

fn of_detections(detections: &Detections, plain: Work) -> Work {
    // About forty passes over the best scores, in a block of 512 threads, and a sorting network.
    let own = f64::from(detections.best.channels.div_ceil(512));
    Work {
        rounds: 40.0,
        ..plain
    }
    .summed(40.0 * own, 12.0)
}

fn of_answers(answers: &Answers, plain: Work) -> Work {
    let own = f64::from(answers.classes.div_ceil(32).max(1));
    // A warp an image; the others have nothing to do.
    let plain = Work {
        warps: f64::from(answers.images),
        rounds: 2.0 * (own / 4.0).ceil(),
        ..plain
    };
    plain.summed(own, 30.0)
}

#[cfg(test)]
mod tests {
    use punctual_cuda_kernels::{TensorView, kernel};

    use super::*;

    fn pointwise(depth: u32, splits: u32) -> Conv {
        Conv {
            input: TensorView {
                pitch: depth,
                channels: depth,
                ..TensorView::default()
            },
            groups: 1,
            splits,
            kernel_height: 1,
            kernel_width: 1,
            ..Conv::default()
        }
    }

    fn tile(name: &str, depth: u32, splits: u32) -> Work {
        let kernel = kernel(name).expect("in the table");
        of_tile(
            &pointwise(depth, splits),
            kernel,
            kernel.tile.expect("a tile"),
        )
    }

    #[test]
    fn a_tile_makes_whole_rounds_of_products_and_a_split_its_part_of_them() {
        let whole = tile("conv_gemm_64x64", 512, 1);
        assert_eq!((whole.rounds, whole.products), (8.0, 64.0 * 64.0 * 512.0));
        assert_eq!(tile("conv_gemm_64x64", 500, 1).products, whole.products);
        assert_eq!(tile("conv_gemm_64x64", 512, 4).rounds, 2.0);
    }

    #[test]
    fn the_rounds_of_tiles_have_about_the_instructions_that_were_counted() {
        for (name, counted) in [
            ("conv_gemm_64x32", 113.0),
            ("conv_gemm_64x64", 141.0),
            ("conv_gemm_128x64", 124.0),
            ("conv_gemm_128x128", 119.0),
        ] {
            let round = tile(name, 512, 1).round_instructions;
            assert!((round / counted - 1.0).abs() < 0.1, "{name}: {round}");
        }
    }

    #[test]
    fn a_tile_reads_each_fragment_once_for_each_warp_that_needs_it() {
        // Two by two warps: 16 KiB are filled, 32 KiB are read, and 4096 sums pass through twice.
        let work = tile("conv_gemm_64x64", 64, 1);
        assert_eq!(work.shared_bytes, f64::from((48 << 10) + (32 << 10)));
        assert_eq!(work.loaded_bytes, f64::from(16 << 10));
    }
}

//! Convolution of floats.

use punctual_cuda_kernels::params::{Conv, Pattern};
use punctual_cuda_kernels::{Kernel, TensorView, Tile};
use punctual_model::{Conv2d, Operator};
use punctual_types::Window;

use super::choice::{Candidate, Form};
use super::error::LowerError;
use super::list::Of;
use super::pages::{Content, Pack, Packed, Piece, pattern};
use super::stage::{Launches, Lower};
use super::sums::product;
use super::traffic::Role::{Between, Operand as Read, Result as Made};
use super::traffic::{FLOAT, Launch, Part, Span, Traffic};
use super::work::{FINISH, Work};

impl Pack for Conv2d {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        let pattern = pattern(self.groups, of.input, of.output);
        let taps = self.window.kernel.area() as u32;
        Some(of.matrix(pattern, of.input.channels / self.groups, taps))
    }
}

impl Lower for Conv2d {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let Some(Content::Matrix(matrix)) = Content::of(launches.lowering.network, operator) else {
            return Ok(());
        };
        let &Conv2d { window, groups, .. } = self;
        let Window {
            kernel,
            stride,
            padding,
            dilation,
        } = window;
        let input = launches.read(operator.input);
        let residual = operator.others.first();
        let residual = residual.map_or(0, |&residual| launches.read(residual).address);
        let whole = Conv {
            input,
            output: launches.write(operator.output),
            residual,
            images: u32::from(launches.batch),
            kernel_height: kernel.height,
            kernel_width: kernel.width,
            stride_height: stride.height,
            stride_width: stride.width,
            pad_top: padding.top,
            pad_left: padding.left,
            dilation_height: dilation.height,
            dilation_width: dilation.width,
            groups,
            splits: 1,
            epilogue: self.activation.into(),
            ..Conv::default()
        };
        let pixels = whole.images * whole.output.height * whole.output.width;
        for piece in launches.lowering.pieces(of.operator) {
            let product = product(&matrix, Form::Conv(matrix.pattern), pixels, piece);
            let chosen = launches.choose(&product, of);
            let conv = of_piece(whole, piece);
            if !product.is_added_up(chosen) {
                launches.draft.push(of, chosen.kernel, conv);
                continue;
            }
            launches.conv_in_parts(of, conv, chosen);
        }
        Ok(())
    }
}

impl Launches<'_> {
    /// A launch that sums in parts, and one that adds them up and finishes.
    fn conv_in_parts(&mut self, of: Of<'_>, conv: Conv, chosen: Candidate) {
        let partial = self.draft.buffer();
        let conv = Conv {
            partial: partial.encode(),
            splits: chosen.splits,
            ..conv
        };
        let summed = Conv {
            output: nowhere(conv.output),
            residual: 0,
            bias: 0,
            ..conv
        };
        self.draft.push(of, chosen.kernel, summed);
        let added = Conv {
            input: nowhere(conv.input),
            weights: 0,
            ..conv
        };
        self.push(of, "conv_reduce", added);
    }
}

fn of_piece(whole: Conv, piece: &Piece) -> Conv {
    Conv {
        weights: piece.weights().encode(),
        bias: piece.bias().encode(),
        first_channel: piece.first,
        channel_count: piece.count,
        ..whole
    }
}

/// The same shape, not there.
fn nowhere(view: TensorView) -> TensorView {
    TensorView { address: 0, ..view }
}

/// How a convolution's weights lie.
fn pattern_of(conv: &Conv) -> Pattern {
    match conv.groups {
        0 | 1 => Pattern::Dense,
        groups if groups == conv.input.channels && groups == conv.output.channels => {
            Pattern::Depthwise
        }
        _ => Pattern::Grouped,
    }
}

/// A launch without an input adds up what others have summed; one with parts leaves them to such a launch.
impl Launch for Conv {
    fn traffic(&self) -> Traffic {
        let input = Span::tensor(Read(0), &self.input, self.images);
        let output = Span::tensor(Made, &self.output, self.images);
        let sums = self.output.image() * u64::from(self.images);
        let partial = sums * u64::from(self.splits) * FLOAT;
        let partial = Span::at(Between, self.partial, partial);
        let residual = Span::at(Read(1), self.residual, output.bytes);
        let weights = Span::weights(self.weights);
        let bias = Span::weights(self.bias);
        if input.place.is_nothing() {
            Traffic::new([partial, residual, bias], [output])
        } else if partial.place.is_nothing() {
            Traffic::new([input, residual, weights, bias], [output])
        } else {
            Traffic::new([input, weights], [partial])
        }
    }

    fn weight_bytes(&self) -> u64 {
        let channels = u64::from(self.channel_count);
        let taps = u64::from(self.kernel_height) * u64::from(self.kernel_width);
        let inputs = match pattern_of(self) {
            Pattern::Dense => u64::from(self.input.pitch),
            Pattern::Depthwise => 1,
            Pattern::Grouped => u64::from(self.input.channels / self.groups),
        };
        // What adds up parts of sums reads biases alone; they are few compared with weights.
        let weights = match self.input.address {
            0 => 0,
            _ => 2 * channels * taps * inputs,
        };
        weights + 4 * channels
    }

    /// Windows that are smaller than their steps reach a part of the input. What adds up parts of sums has none.
    fn share_read(&self) -> f64 {
        if self.input.address == 0 {
            return 1.0;
        }
        let down = f64::from(self.kernel_height) / f64::from(self.stride_height);
        let across = f64::from(self.kernel_width) / f64::from(self.stride_width);
        down.min(1.0) * across.min(1.0)
    }

    fn part(&self) -> Option<Part> {
        Some(Part::channels(self.first_channel, self.channel_count))
    }

    fn work(&self, kernel: &Kernel, plain: Work) -> Work {
        match kernel.tile {
            Some(tile) => of_tile(self, kernel, tile),
            None => of_conv(self, kernel.name, plain),
        }
    }
}

/// Instructions of a warp of a tile's kernel before its main loop.
const TILE_BEGIN: f64 = 500.0;
/// Those of a round of a tile without products, loads of fragments and copies: 71 to 85 of 113 to 141.
const TILE_ROUND: f64 = 78.0;
/// Rows of warps of a tile, as `conv_gemm_*.cu` divide it.
const WARPS_DOWN: u32 = 2;

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
    match pattern_of(conv) {
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

#[cfg(test)]
mod tests {
    use punctual_cuda_kernels::kernel;

    use super::*;
    use crate::lower::Place;

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

    #[test]
    fn weights_are_those_of_the_launch_s_channels() {
        let mut conv = Conv {
            input: TensorView {
                address: Place::Workspace { offset: 0 }.encode(),
                channels: 60,
                pitch: 64,
                ..TensorView::default()
            },
            channel_count: 128,
            kernel_height: 3,
            kernel_width: 3,
            groups: 1,
            ..Conv::default()
        };
        assert_eq!(conv.weight_bytes(), 2 * 128 * 9 * 64 + 4 * 128);
        conv.input.address = 0;
        assert_eq!(
            conv.weight_bytes(),
            4 * 128,
            "what adds parts up has biases alone"
        );
    }

    #[test]
    fn a_window_smaller_than_its_step_reads_a_part_of_its_input() {
        let mut conv = Conv {
            kernel_height: 1,
            kernel_width: 1,
            input: TensorView {
                address: Place::Workspace { offset: 0 }.encode(),
                ..TensorView::default()
            },
            stride_height: 2,
            stride_width: 2,
            ..Conv::default()
        };
        assert_eq!(conv.share_read(), 0.25);
        (conv.kernel_height, conv.kernel_width) = (3, 3);
        assert_eq!(conv.share_read(), 1.0);
    }
}

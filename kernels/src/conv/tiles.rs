//! Which tiles exist for each instruction set, and which one suits a convolution.

use super::strip::{APART, Strip, StripKernel, strip};
use crate::Isa;
use crate::tiles::{self, ANY, Tile};

/// The most blocks of output channels in one tile.
pub(super) const BLOCKS_MAX: usize = 3;
/// The most columns in one tile.
pub(super) const COLUMNS_MAX: usize = 16;

const BLOCKED: bool = true;
const PLANAR: bool = false;

/// Compiles the tiles `(blocks, rows, columns)` for one instruction set.
macro_rules! tiles {
    ($table:ident, $vector:ty, [$($feature:literal)?], $(
        $input:ident $stride:tt: [$(($o:literal, $r:literal, $c:literal)),* $(,)?]
    )*) => {
        static $table: &[Tile<StripKernel>] = {
            $(#[target_feature(enable = $feature)])?
            unsafe fn compiled<
                const BLOCKED: bool,
                const S: usize,
                const O: usize,
                const R: usize,
                const C: usize,
            >(
                s: &Strip,
            ) {
                // SAFETY: the caller's promise; the features are enabled here.
                unsafe { strip::<$vector, BLOCKED, S, O, R, C>(s) }
            }
            &[$($(Tile {
                blocked: $input,
                stride_width: $stride,
                blocks: $o,
                rows: $r,
                columns: $c,
                kernel: compiled::<$input, { $stride }, $o, $r, $c>,
            }),*),*]
        };
    };
}

// 32 registers: at most 28 sums, a step's weights, and a broadcast value.
#[cfg(target_arch = "x86_64")]
tiles!(AVX512, crate::simd::Avx512, ["avx512f"],
    BLOCKED 1: [
        (1, 1, 1), (1, 1, 2), (1, 1, 4), (1, 1, 8), (1, 1, 14), (1, 1, 16),
        (1, 2, 4), (1, 2, 7), (1, 2, 8),
        (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 1, 6), (2, 1, 7), (2, 1, 8), (2, 1, 9),
        (2, 1, 10), (2, 1, 12), (2, 1, 14), (2, 2, 2), (2, 2, 4), (2, 2, 7), (2, 3, 4),
        (3, 1, 1), (3, 1, 2), (3, 1, 4), (3, 1, 7), (3, 1, 8), (3, 2, 2), (3, 2, 4),
    ]
    BLOCKED 2: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 1, 14), (1, 2, 4),
        (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 1, 7), (2, 1, 8), (2, 1, 12), (2, 1, 14),
        (2, 2, 4), (2, 2, 7),
        (3, 1, 1), (3, 1, 4), (3, 1, 7), (3, 1, 8), (3, 2, 4),
    ]
    BLOCKED APART: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 1, 14),
        (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 1, 7), (2, 1, 8), (2, 1, 12), (2, 1, 14), (2, 2, 7),
        (3, 1, 1), (3, 1, 4), (3, 1, 7), (3, 1, 8),
    ]
    BLOCKED ANY: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 4)]
    PLANAR 1: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 1, 16),
        (2, 1, 1), (2, 1, 4), (2, 1, 8), (2, 1, 12), (3, 1, 1), (3, 1, 4), (3, 1, 8),
    ]
    PLANAR 2: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 1, 16),
        (2, 1, 1), (2, 1, 4), (2, 1, 8), (2, 1, 12), (3, 1, 1), (3, 1, 4), (3, 1, 8),
    ]
    PLANAR ANY: [
        (1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (2, 1, 7), (2, 3, 3), (3, 1, 1), (3, 1, 4),
    ]
);

// 16 registers.
#[cfg(target_arch = "x86_64")]
tiles!(AVX2_FMA, crate::simd::Avx2Fma, ["avx2,fma"],
    BLOCKED 1: [
        (1, 1, 1), (1, 1, 2), (1, 1, 4), (1, 1, 8), (1, 1, 12), (1, 2, 4), (1, 2, 6),
        (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 1, 5), (2, 1, 6), (2, 2, 2),
        (3, 1, 1), (3, 1, 2), (3, 1, 3), (3, 1, 4), (3, 2, 2),
    ]
    BLOCKED 2: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 1, 12),
        (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 1, 6), (3, 1, 1), (3, 1, 2), (3, 1, 4),
    ]
    BLOCKED APART: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 1, 12),
        (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 1, 5), (2, 1, 6), (3, 1, 1), (3, 1, 2), (3, 1, 4),
    ]
    BLOCKED ANY: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 4)]
    PLANAR 1: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (2, 1, 1), (2, 1, 4), (2, 1, 6), (3, 1, 1), (3, 1, 4),
    ]
    PLANAR 2: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (2, 1, 1), (2, 1, 4), (2, 1, 6), (3, 1, 1), (3, 1, 4),
    ]
    PLANAR ANY: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 4)]
);

// Reasoned from the Cortex-A78 (two multiply-add pipes, latency 4), not measured. At least eight
// sums, so that each pipe always has one that is ready. From blocks a tile multiplies by lane: its
// sums, one vector a pixel and one of weights share 32 registers, so a tile of O blocks and P pixels
// has (O + 1) * P + 1 <= 32. Two loads a cycle then feed any of them: a tile of 2 x 8 loads 16
// vectors for 64 multiplications. A broadcast would take a slot in the same pipes as those.
#[cfg(target_arch = "aarch64")]
tiles!(NEON, crate::simd::Neon, ["neon"],
    BLOCKED 1: [
        (1, 1, 1), (1, 1, 2), (1, 1, 4), (1, 1, 8), (1, 1, 14), (1, 2, 4), (1, 2, 7),
        (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 1, 7), (2, 1, 8), (2, 1, 10), (2, 2, 2), (2, 2, 4),
        (3, 1, 1), (3, 1, 2), (3, 1, 4), (3, 1, 6), (3, 1, 7), (3, 2, 2),
    ]
    BLOCKED 2: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 1, 14), (1, 2, 4),
        (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 1, 7), (2, 1, 8), (2, 1, 10), (2, 2, 4),
        (3, 1, 1), (3, 1, 4), (3, 1, 7),
    ]
    BLOCKED APART: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 1, 14),
        (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 1, 7), (2, 1, 8), (2, 1, 10),
        (3, 1, 1), (3, 1, 4), (3, 1, 7),
    ]
    BLOCKED ANY: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 4)]
    PLANAR 1: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (2, 1, 1), (2, 1, 4), (2, 1, 8), (3, 1, 1), (3, 1, 8),
    ]
    PLANAR 2: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (2, 1, 1), (2, 1, 4), (2, 1, 8), (3, 1, 1), (3, 1, 8),
    ]
    PLANAR ANY: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 4)]
);

tiles!(SCALAR, crate::simd::Scalar, [],
    BLOCKED 1: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 2, 4), (2, 1, 1), (2, 1, 4), (2, 2, 2),
        (3, 1, 1), (3, 1, 2), (3, 1, 4),
    ]
    BLOCKED 2: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 4)]
    BLOCKED APART: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 4)]
    BLOCKED ANY: [(1, 1, 1), (2, 1, 1), (3, 1, 1)]
    PLANAR 1: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 4)]
    PLANAR 2: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 4)]
    PLANAR ANY: [(1, 1, 1), (2, 1, 1), (3, 1, 1)]
);

fn table(isa: Isa) -> &'static [Tile<StripKernel>] {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => AVX512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2Fma => AVX2_FMA,
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => NEON,
        _ => SCALAR,
    }
}

pub(super) type Choices = tiles::Choices<StripKernel>;

/// The tiles of `blocks` output blocks for such inputs; `apart` says that not all taps are side by side. Tables have them next
/// to each other.
pub(super) fn fitting(
    isa: Isa,
    blocked: bool,
    apart: bool,
    stride_width: usize,
    blocks: usize,
) -> &'static [Tile<StripKernel>] {
    let stride_width = match (stride_width, apart) {
        (1, true) if blocked => APART,
        (stride @ 1..=2, false) => stride,
        _ => ANY,
    };
    let kind = (blocked, stride_width, blocks);
    let fits = |tile: &Tile<StripKernel>| (tile.blocked, tile.stride_width, tile.blocks) == kind;
    let table = table(isa);
    let first = table.iter().position(fits).unwrap_or(table.len());
    let count = table[first..].iter().take_while(|tile| fits(tile)).count();
    &table[first..first + count]
}

/// Chooses among [`fitting`] tiles for strips of `rows` x `columns`.
pub(super) fn choices(
    fitting: &'static [Tile<StripKernel>],
    rows: usize,
    columns: usize,
) -> Choices {
    Choices::among(fitting.iter(), rows, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::direct::tests::{check_meaning, pattern};
    use crate::{BlockedLayout, Conv2d, Conv2dSpec, ConvInput, PlanarLayout};
    use punctual_types::{Activation, Extent, Padding, Window};

    #[test]
    fn every_table_covers_the_smallest_image_for_each_kind_and_number_of_blocks() {
        for isa in Isa::available() {
            for blocked in [BLOCKED, PLANAR] {
                for stride_width in 1..=3 {
                    for blocks in 1..=BLOCKS_MAX {
                        for apart in [false, true] {
                            let fitting = fitting(isa, blocked, apart, stride_width, blocks);
                            let choices = choices(fitting, 1, 1);
                            assert_eq!((choices.best().rows, choices.best().columns), (1, 1));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_tile_lies_apart_from_those_of_its_kind() {
        for isa in Isa::available() {
            for tile in table(isa) {
                let apart = tile.stride_width == APART;
                let own = fitting(isa, tile.blocked, apart, stride(tile), tile.blocks);
                assert!(
                    own.iter().any(|other| std::ptr::eq(other, tile)),
                    "{tile:?}"
                );
            }
        }
    }

    #[test]
    fn the_least_cost_is_that_of_the_choice() {
        for side in 1..=20 {
            let fitting = fitting(Isa::detect(), BLOCKED, false, 1, 2);
            let chosen = choices(fitting, 7, side).cost();
            assert_eq!(tiles::least_cost(fitting, 7, side), chosen);
        }
    }

    #[test]
    fn tiles_are_chosen_to_cover_the_image_without_remainder() {
        if Isa::Avx512.is_available() {
            let chosen = |blocks, side| {
                let fitting = fitting(Isa::Avx512, BLOCKED, false, 1, blocks);
                let best = choices(fitting, side, side).best();
                (
                    best.rows * best.columns,
                    side % best.rows,
                    side % best.columns,
                )
            };
            assert_eq!(chosen(2, 14), (14, 0, 0));
            assert_eq!(chosen(2, 8), (8, 0, 0));
            assert_eq!(chosen(1, 64), (16, 0, 0));
        }
    }

    #[test]
    fn every_tile_is_the_best_for_some_image_and_equals_the_reference_there() {
        for isa in Isa::available() {
            for tile in table(isa) {
                let (rows, columns) = image_for(isa, tile);
                check_on_an_image(isa, tile, rows, columns);
            }
        }
    }

    /// Rows and columns of a small output for which the tile is chosen.
    fn image_for(isa: Isa, tile: &Tile<StripKernel>) -> (usize, usize) {
        let sizes = (1..=48).flat_map(|rows| (1..=48).map(move |columns| (rows, columns)));
        let chosen = |&(rows, columns): &(usize, usize)| {
            let stride = stride(tile);
            let apart = tile.stride_width == APART;
            let fitting = fitting(isa, tile.blocked, apart, stride, tile.blocks);
            let best = choices(fitting, rows, columns).best();
            (best.rows, best.columns) == (tile.rows, tile.columns)
        };
        sizes
            .into_iter()
            .find(chosen)
            .unwrap_or_else(|| panic!("{isa}: no image for {tile:?}"))
    }

    fn stride(tile: &Tile<StripKernel>) -> usize {
        match tile.stride_width {
            ANY => 3,
            APART => 1,
            stride => stride,
        }
    }

    fn check_on_an_image(isa: Isa, tile: &Tile<StripKernel>, rows: usize, columns: usize) {
        // Enough input channels for sums in three parts.
        const INPUTS: usize = 70;
        let stride = stride(tile);
        let (height, width) = ((rows - 1) * stride + 1, (columns - 1) * stride + 1);
        let stride = Extent::square(stride as u32);
        let dilation = if tile.stride_width == APART { 2 } else { 1 };
        let window = Window {
            dilation: Extent::square(dilation),
            ..Window::new(Extent::square(3), stride, Padding::uniform(dilation))
        };
        let halo = dilation as usize;
        let outputs = tile.blocks * isa.lanes();
        let output = BlockedLayout::new(isa, outputs, rows, columns, 0).unwrap();
        let image = pattern(INPUTS * height * width, 61);
        let weights = pattern(outputs * INPUTS * 9, 53);
        let bias = pattern(outputs, 11);
        let (input, memory) = if tile.blocked {
            let layout = BlockedLayout::new(isa, INPUTS, height, width, halo).unwrap();
            let mut memory = vec![0.0; layout.len()];
            layout.pack(&image, &mut memory);
            (ConvInput::Blocked(layout), memory)
        } else {
            let layout = PlanarLayout::new(INPUTS, height, width, halo).unwrap();
            let mut memory = vec![0.0; layout.len()];
            for (i, &value) in image.iter().enumerate() {
                let row = i / width;
                memory[layout.index(row / height, row % height, i % width)] = value;
            }
            (ConvInput::Planar(layout), memory)
        };
        let activation = Activation::None;
        let spec = Conv2dSpec {
            input,
            output,
            residual: None,
            window,
            groups: 1,
            activation,
        };
        let conv = Conv2d::new(isa, &spec).unwrap();
        check_meaning(&conv, &memory, [&image, &weights, &bias], 5e-5);
    }
}

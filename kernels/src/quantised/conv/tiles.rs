//! Which tiles exist for each instruction set, and which one suits a convolution.

use super::strip::{Strip, StripKernel, depthwise_strip, strip};
use crate::quantised::sums::{Portable, Sums};
use crate::tiles::{self, ANY, Tile};

/// The most blocks of output channels in one tile.
pub(super) const BLOCKS_MAX: usize = 3;

/// Compiles the tiles `(blocks, rows, columns)` for one instruction set.
macro_rules! tiles {
    ($table:ident, $depthwise:ident, $vector:ty, [$($feature:literal)?], $(
        $stride:tt: [$(($o:literal, $r:literal, $c:literal)),* $(,)?]
    )*) => {
        static $table: &[Tile<StripKernel>] = {
            $(#[target_feature(enable = $feature)])?
            unsafe fn compiled<const S: usize, const O: usize, const R: usize, const C: usize>(
                s: &Strip,
            ) {
                // SAFETY: the caller's promise; the features are enabled here.
                unsafe { strip::<$vector, S, O, R, C>(s) }
            }
            &[$($(Tile {
                blocked: true,
                stride_width: $stride,
                blocks: $o,
                rows: $r,
                columns: $c,
                kernel: compiled::<{ $stride }, $o, $r, $c>,
            }),*),*]
        };

        $(#[target_feature(enable = $feature)])?
        unsafe fn $depthwise(s: &Strip) {
            // SAFETY: the caller's promise; the features are enabled here.
            unsafe { depthwise_strip::<$vector>(s) }
        }
    };
}

// 32 registers: at most 28 sums, a step's weights, and a broadcast quad.
#[cfg(target_arch = "x86_64")]
tiles!(VNNI, depthwise_vnni, crate::quantised::sums::Vnni, ["avx512f,avx512bw,avx512vnni"],
    1: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 1, 14), (1, 1, 16), (1, 2, 7), (1, 2, 8),
        (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 1, 6), (2, 1, 7), (2, 1, 8),
        (2, 1, 12), (2, 1, 14), (2, 2, 4), (2, 2, 7),
        (3, 1, 1), (3, 1, 4), (3, 1, 7), (3, 1, 8), (3, 2, 4),
    ]
    2: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 1, 14),
        (2, 1, 1), (2, 1, 4), (2, 1, 7), (2, 1, 8), (2, 1, 14), (2, 2, 7),
        (3, 1, 1), (3, 1, 4), (3, 1, 7), (3, 1, 8),
    ]
    ANY: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 4)]
);

// 16 registers; a vector of pixels takes two and one of weights, too.
#[cfg(target_arch = "x86_64")]
tiles!(AVX2, depthwise_avx2, crate::quantised::sums::Avx2, ["avx2,fma"],
    1: [(1, 1, 1), (1, 1, 4), (1, 1, 8), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 2)]
    2: [(1, 1, 1), (1, 1, 4), (1, 1, 8), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 2)]
    ANY: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 2)]
);

// 32 registers.
#[cfg(target_arch = "aarch64")]
tiles!(NEON_DOT, depthwise_neon_dot, crate::quantised::sums::NeonDot, ["neon,dotprod"],
    1: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (1, 1, 14),
        (2, 1, 1), (2, 1, 4), (2, 1, 7), (2, 1, 8), (2, 1, 12),
        (3, 1, 1), (3, 1, 4), (3, 1, 7), (3, 1, 8),
    ]
    2: [
        (1, 1, 1), (1, 1, 4), (1, 1, 8), (2, 1, 1), (2, 1, 4), (2, 1, 7), (2, 1, 8),
        (3, 1, 1), (3, 1, 4), (3, 1, 7), (3, 1, 8),
    ]
    ANY: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1), (3, 1, 4)]
);

tiles!(PORTABLE_4, depthwise_4, Portable<4>, [],
    ANY: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (2, 1, 4), (3, 1, 1)]
);

#[cfg(target_arch = "x86_64")]
tiles!(PORTABLE_8, depthwise_8, Portable<8>, [],
    ANY: [(1, 1, 1), (1, 1, 4), (2, 1, 1), (3, 1, 1)]
);

#[cfg(target_arch = "x86_64")]
tiles!(PORTABLE_16, depthwise_16, Portable<16>, ["avx2"],
    ANY: [(1, 1, 1), (1, 1, 2), (2, 1, 1), (3, 1, 1)]
);

fn table(sums: Sums) -> &'static [Tile<StripKernel>] {
    match sums {
        #[cfg(target_arch = "x86_64")]
        Sums::Vnni => VNNI,
        #[cfg(target_arch = "x86_64")]
        Sums::Avx2 => AVX2,
        #[cfg(target_arch = "x86_64")]
        Sums::Portable(16) => PORTABLE_16,
        #[cfg(target_arch = "x86_64")]
        Sums::Portable(8) => PORTABLE_8,
        #[cfg(target_arch = "aarch64")]
        Sums::NeonDot => NEON_DOT,
        Sums::Portable(_) => PORTABLE_4,
    }
}

/// The kernel of a depthwise convolution.
pub(super) fn depthwise(sums: Sums) -> StripKernel {
    match sums {
        #[cfg(target_arch = "x86_64")]
        Sums::Vnni => depthwise_vnni,
        #[cfg(target_arch = "x86_64")]
        Sums::Avx2 => depthwise_avx2,
        #[cfg(target_arch = "x86_64")]
        Sums::Portable(16) => depthwise_16,
        #[cfg(target_arch = "x86_64")]
        Sums::Portable(8) => depthwise_8,
        #[cfg(target_arch = "aarch64")]
        Sums::NeonDot => depthwise_neon_dot,
        Sums::Portable(_) => depthwise_4,
    }
}

pub(super) type Choices = tiles::Choices<StripKernel>;

/// Chooses, by the horizontal stride or [`ANY`], for strips of `blocks` output blocks x `rows` x `columns`.
pub(super) fn choices(
    sums: Sums,
    stride_width: usize,
    blocks: usize,
    rows: usize,
    columns: usize,
) -> Choices {
    let fits = [stride_width, ANY];
    let tiles = table(sums).iter();
    let fitting =
        tiles.filter(move |tile| fits.contains(&tile.stride_width) && tile.blocks == blocks);
    Choices::among(fitting, rows, columns)
}

/// The shapes of the tiles for a horizontal stride: blocks of output channels, rows, columns.
#[cfg(test)]
pub(super) fn shapes(
    sums: Sums,
    stride_width: usize,
) -> impl Iterator<Item = (usize, usize, usize)> {
    let tiles = table(sums).iter();
    let fits = move |tile: &&Tile<StripKernel>| [stride_width, ANY].contains(&tile.stride_width);
    tiles
        .filter(fits)
        .map(|tile| (tile.blocks, tile.rows, tile.columns))
}

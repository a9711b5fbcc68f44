//! Vectors of i32 sums into which bytes are multiplied, one type an instruction set.
//!
//! As with [`simd`](crate::simd): everything is `#[inline(always)]` into a function that has the `#[target_feature]`.

#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub(super) use neon::NeonDot;
pub(super) use portable::Portable;
pub(super) use vector::{Vector, offset};
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Vnni};

use crate::Isa;

/// Which of them computes, for the instruction set that fixes the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sums {
    /// AVX-512 with its dot product of bytes: 16 lanes.
    #[cfg(target_arch = "x86_64")]
    Vnni,
    /// AVX2, by pairs of 16-bit products: 8 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// NEON with its dot product of bytes: 4 lanes.
    #[cfg(target_arch = "aarch64")]
    NeonDot,
    /// Plain Rust, as many lanes as the instruction set has.
    Portable(usize),
}

impl Sums {
    /// The fastest one for `isa`, which this processor has.
    pub fn of(isa: Isa) -> Sums {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512
                if std::arch::is_x86_feature_detected!("avx512vnni")
                    && std::arch::is_x86_feature_detected!("avx512bw") =>
            {
                Sums::Vnni
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2Fma => Sums::Avx2,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon if std::arch::is_aarch64_feature_detected!("dotprod") => Sums::NeonDot,
            _ => Sums::Portable(isa.lanes()),
        }
    }

    /// Those that this processor has, for tests.
    #[cfg(test)]
    pub fn available() -> Vec<(Isa, Sums)> {
        let fastest = Isa::available().map(|isa| (isa, Sums::of(isa)));
        let portable = Isa::available().map(|isa| (isa, Sums::Portable(isa.lanes())));
        fastest.chain(portable).collect()
    }
}

//! The instruction sets that the kernels are written for, chosen once at start.

use core::fmt;

/// An instruction set. It fixes the number of lanes, hence the layout of blocked tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// x86-64 with AVX-512F: 16 lanes.
    Avx512,
    /// x86-64 with AVX2 and FMA: 8 lanes.
    Avx2Fma,
    /// AArch64 Advanced SIMD: 4 lanes.
    Neon,
    /// Plain Rust, everywhere: 4 lanes.
    Scalar,
}

impl Isa {
    /// All of them, the fastest first.
    pub const ALL: [Isa; 4] = [Isa::Avx512, Isa::Avx2Fma, Isa::Neon, Isa::Scalar];

    /// The fastest that this processor has.
    pub fn detect() -> Isa {
        Isa::available().next().unwrap_or(Isa::Scalar)
    }

    /// Those that this processor has, the fastest first. Never empty: `Scalar` is always there.
    pub fn available() -> impl Iterator<Item = Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2Fma => {
                std::arch::is_x86_feature_detected!("avx2")
                    && std::arch::is_x86_feature_detected!("fma")
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Isa::Scalar => true,
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// Values in one vector: the channels of a block in [`BlockedLayout`](crate::BlockedLayout).
    pub const fn lanes(self) -> usize {
        match self {
            Isa::Avx512 => 16,
            Isa::Avx2Fma => 8,
            Isa::Neon | Isa::Scalar => 4,
        }
    }

    /// Its name as profiles spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2Fma => "avx2-fma",
            Isa::Neon => "neon",
            Isa::Scalar => "scalar",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

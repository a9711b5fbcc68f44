//! One vector type an instruction set behind one trait, so that each kernel is written once.
//!
//! How a generic kernel comes to be compiled for an instruction set: every method here and the
//! kernels themselves are `#[inline(always)]`, and [`compiled_for`] wraps a kernel into a function
//! with that `#[target_feature]`, into which all of them are inlined. The kernels use no closures,
//! whose bodies would be functions of their own without the feature.

#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
pub(crate) use scalar::Scalar;
pub(crate) use vector::{KEPT, LaneMap, Vector};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2Fma, Avx512};

/// The kernel, compiled for an instruction set, as `unsafe fn(&Arguments)`; `Scalar` where this
/// architecture has no such instruction set (a kernel's constructor has refused it before).
macro_rules! compiled_for {
    ($isa:expr, $kernel:ident, $arguments:ty) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        unsafe fn avx512(arguments: &$arguments) {
            // SAFETY: the caller's promise; the feature is enabled here.
            unsafe { $kernel::<crate::simd::Avx512>(arguments) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn avx2_fma(arguments: &$arguments) {
            // SAFETY: the caller's promise; the features are enabled here.
            unsafe { $kernel::<crate::simd::Avx2Fma>(arguments) }
        }
        #[cfg(target_arch = "aarch64")]
        #[target_feature(enable = "neon")]
        unsafe fn neon(arguments: &$arguments) {
            // SAFETY: the caller's promise; the feature is enabled here.
            unsafe { $kernel::<crate::simd::Neon>(arguments) }
        }
        unsafe fn scalar(arguments: &$arguments) {
            // SAFETY: the caller's promise.
            unsafe { $kernel::<crate::simd::Scalar>(arguments) }
        }
        let compiled: unsafe fn(&$arguments) = match $isa {
            #[cfg(target_arch = "x86_64")]
            crate::Isa::Avx512 => avx512,
            #[cfg(target_arch = "x86_64")]
            crate::Isa::Avx2Fma => avx2_fma,
            #[cfg(target_arch = "aarch64")]
            crate::Isa::Neon => neon,
            _ => scalar,
        };
        compiled
    }};
}
pub(crate) use compiled_for;

/// A plain loop, `fn(&mut Row)`, compiled for what an instruction set has beyond its architecture's
/// least, as `unsafe fn(&mut Row)`. Of two, the first is compiled for AVX2, the second for the least.
macro_rules! vectorised {
    ($isa:expr, $kernel:path, $row:ty) => {
        crate::simd::vectorised!($isa, $kernel, $kernel, $row)
    };
    ($isa:expr, $avx2:path, $least:path, $row:ty) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        unsafe fn avx2(row: &mut $row) {
            $avx2(row)
        }
        unsafe fn least(row: &mut $row) {
            $least(row)
        }
        let compiled: unsafe fn(&mut $row) = match $isa {
            // A processor with AVX-512 has AVX2.
            #[cfg(target_arch = "x86_64")]
            crate::Isa::Avx512 | crate::Isa::Avx2Fma => avx2,
            _ => least,
        };
        compiled
    }};
}
pub(crate) use vectorised;

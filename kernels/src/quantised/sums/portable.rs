//! Plain Rust, for any number of lanes.

use super::vector::{Vector, offset};
use crate::quantised::rounding::Rounding;

#[derive(Clone, Copy)]
pub(in crate::quantised) struct Portable<const LANES: usize>([i32; LANES]);

impl<const LANES: usize> Portable<LANES> {
    /// The sums in the other vectors' ways of storing them, which need no speed of their own.
    #[inline(always)]
    pub fn new(sums: [i32; LANES]) -> Self {
        Portable(sums)
    }
}

impl<const LANES: usize> Vector for Portable<LANES> {
    const LANES: usize = LANES;
    type Pixels = [[u8; 4]; LANES];
    type Weights = [[i8; 4]; LANES];

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: the caller's promise.
        Portable(unsafe { from.cast::<[i32; LANES]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn weights(from: *const i8) -> Self::Weights {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<Self::Weights>().read() }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const u8) -> Self::Pixels {
        // SAFETY: the caller's promise.
        [unsafe { from.cast::<[u8; 4]>().read() }; LANES]
    }

    #[inline(always)]
    unsafe fn spread(from: *const u8) -> Self::Pixels {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[u8; LANES]>().read() }.map(|byte| [byte, 0, 0, 0])
    }

    #[inline(always)]
    unsafe fn dot(mut self, pixels: Self::Pixels, weights: Self::Weights) -> Self {
        let offset = i32::from(offset(LANES));
        for lane in 0..LANES {
            for at in 0..4 {
                let pixel = i32::from(pixels[lane][at]) - offset;
                let product = pixel * i32::from(weights[lane][at]);
                self.0[lane] = self.0[lane].wrapping_add(product);
            }
        }
        self
    }

    #[inline(always)]
    unsafe fn store_bytes(self, scales: *const f32, rounding: &Rounding, to: *mut u8) {
        // SAFETY: the caller's promise.
        let scales = unsafe { scales.cast::<[f32; LANES]>().read_unaligned() };
        let mut result = [0; LANES];
        for lane in 0..LANES {
            result[lane] = rounding.byte(self.0[lane] as f32 * scales[lane]);
        }
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[u8; LANES]>().write(result) }
    }

    #[inline(always)]
    unsafe fn store_floats(self, scales: *const f32, low: f32, high: f32, to: *mut f32) {
        // SAFETY: the caller's promise.
        let scales = unsafe { scales.cast::<[f32; LANES]>().read_unaligned() };
        let mut result = [0.0; LANES];
        for lane in 0..LANES {
            let value = self.0[lane] as f32 * scales[lane];
            let value = if value > low { value } else { low };
            result[lane] = if value < high { value } else { high };
        }
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(result) }
    }
}

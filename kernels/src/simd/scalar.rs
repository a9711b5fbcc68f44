//! Four lanes in plain Rust. Products are rounded before they are added: a fused one would be a
//! library call where the instruction is missing.

use super::vector::{LaneMap, Vector};

#[derive(Clone, Copy)]
#[repr(align(16))]
pub(crate) struct Scalar([f32; 4]);

impl Scalar {
    #[inline(always)]
    fn zip(mut self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a = f(*a, b);
        }
        self
    }
}

impl Vector for Scalar {
    const LANES: usize = 4;
    const REGISTERS: usize = 16;
    type Lanes = [i32; 4];

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Scalar([value; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise; an array of f32 needs no more alignment than f32.
        Scalar(unsafe { from.cast::<[f32; 4]>().read() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as in `load`.
        unsafe { to.cast::<[f32; 4]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn load_fours(from: *const f32, _step: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::load(from) }
    }

    #[inline(always)]
    unsafe fn alternate_low(self, other: Self) -> Self {
        Scalar([self.0[0], other.0[0], self.0[1], other.0[1]])
    }

    #[inline(always)]
    unsafe fn alternate_high(self, other: Self) -> Self {
        Scalar([self.0[2], other.0[2], self.0[3], other.0[3]])
    }

    #[inline(always)]
    unsafe fn low_halves(self, other: Self) -> Self {
        Scalar([self.0[0], self.0[1], other.0[0], other.0[1]])
    }

    #[inline(always)]
    unsafe fn high_halves(self, other: Self) -> Self {
        Scalar([self.0[2], self.0[3], other.0[2], other.0[3]])
    }

    #[inline(always)]
    unsafe fn mul_add(mut self, a: Self, b: Self) -> Self {
        for i in 0..4 {
            self.0[i] += a.0[i] * b.0[i];
        }
        self
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }

    #[inline(always)]
    unsafe fn round(self) -> Self {
        self.zip(self, |x, _| x.round_ties_even())
    }

    #[inline(always)]
    unsafe fn scale(self, exponent: Self) -> Self {
        // The bits of 2^n for a normal number: its biased exponent. A NaN becomes 2^0.
        self.zip(exponent, |x, n| {
            x * f32::from_bits(((n as i32 + 127) as u32) << 23)
        })
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        self.zip(self, |a, _| a.sqrt())
    }

    #[inline(always)]
    unsafe fn clamp(self, low: Self, high: Self) -> Self {
        self.zip(low, |x, low| if x < low { low } else { x })
            .zip(high, |x, high| if x > high { high } else { x })
    }

    #[inline(always)]
    unsafe fn where_less(self, other: Self, mut yes: Self, no: Self) -> Self {
        for i in 0..4 {
            let is_less = self.0[i] < other.0[i];
            yes.0[i] = if is_less { yes.0[i] } else { no.0[i] };
        }
        yes
    }

    #[inline(always)]
    unsafe fn where_equal(self, other: Self, mut yes: Self, no: Self) -> Self {
        for i in 0..4 {
            if self.0[i] != other.0[i] {
                yes.0[i] = no.0[i];
            }
        }
        yes
    }

    #[inline(always)]
    unsafe fn split(self) -> (Self, Self) {
        let (mut significand, mut exponent) = (self, self);
        for i in 0..4 {
            let bits = self.0[i].to_bits();
            significand.0[i] = f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000);
            exponent.0[i] = (bits >> 23) as i32 as f32 - 127.0;
        }
        (significand, exponent)
    }

    #[inline(always)]
    unsafe fn lanes(from: &LaneMap) -> Self::Lanes {
        [from[0], from[1], from[2], from[3]]
    }

    #[inline(always)]
    unsafe fn pick(mut self, other: Self, lanes: Self::Lanes) -> Self {
        for (value, from) in self.0.iter_mut().zip(lanes) {
            if from >= 0 {
                *value = other.0[from as usize];
            }
        }
        self
    }
}

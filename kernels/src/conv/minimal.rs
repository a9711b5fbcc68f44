//! Minimal filtering in one dimension (Winograd; Lavin & Gray, "Fast Algorithms for Convolutional
//! Neural Networks", 2016): `OUT` outputs of a filter with three taps from `IN = OUT + 2` inputs by
//! `IN` multiplications, `output(input(d) * weights(g))`, product by product.
//!
//! A filter is a product of polynomials, computed by their values at `IN - 1` points and at
//! infinity. Applied to columns, then to rows, the same gives `OUT` x `OUT` outputs of 3 x 3 taps.

use crate::simd::Vector;

/// A minimal filter of three taps.
///
/// # Safety
/// Of every method: the processor has the instruction set of `V`.
pub(super) trait Filter<const IN: usize, const OUT: usize> {
    unsafe fn input<V: Vector>(d: [V; IN]) -> [V; IN];
    unsafe fn weights<V: Vector>(g: [V; 3]) -> [V; IN];
    /// Consecutive outputs from the products at the points.
    unsafe fn output<V: Vector>(m: [V; IN]) -> [V; OUT];
}

/// Two outputs; points 0, 1, -1.
pub(super) struct Two;

impl Filter<4, 2> for Two {
    #[inline(always)]
    unsafe fn input<V: Vector>(d: [V; 4]) -> [V; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            [
                d[0].sub(d[2]),
                d[2].add(d[1]),
                d[2].sub(d[1]),
                d[1].sub(d[3]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn weights<V: Vector>(g: [V; 3]) -> [V; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let half = V::splat(0.5);
            let (even, odd) = (g[0].add(g[2]).mul(half), g[1].mul(half));
            [g[0], even.add(odd), even.sub(odd), g[2]]
        }
    }

    #[inline(always)]
    unsafe fn output<V: Vector>(m: [V; 4]) -> [V; 2] {
        // SAFETY: the caller's promise.
        unsafe { [m[0].add(m[1]).add(m[2]), m[1].sub(m[2]).sub(m[3])] }
    }
}

/// Four outputs; points 0, ±√½, ±√2: smaller rounding errors than ±1, ±2, whose powers spread more.
pub(super) struct Four;

/// The points: `A` squared is a half, `B` squared is two, and their product is one.
const A: f32 = core::f32::consts::FRAC_1_SQRT_2;
const B: f32 = core::f32::consts::SQRT_2;

impl Filter<6, 4> for Four {
    #[inline(always)]
    unsafe fn input<V: Vector>(d: [V; 6]) -> [V; 6] {
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b) = (V::splat(A), V::splat(B));
            let (minus_two, minus_half) = (V::splat(-2.0), V::splat(-0.5));
            let minus_sum = V::splat(-2.5);
            let even_a = d[4].mul_add(d[2], minus_two);
            let odd_a = d[3].mul_add(d[1], minus_two).mul(a);
            let even_b = d[4].mul_add(d[2], minus_half);
            let odd_b = d[3].mul_add(d[1], minus_half).mul(b);
            [
                d[0].add(d[4]).mul_add(d[2], minus_sum),
                even_a.add(odd_a),
                even_a.sub(odd_a),
                even_b.add(odd_b),
                even_b.sub(odd_b),
                d[1].add(d[5]).mul_add(d[3], minus_sum),
            ]
        }
    }

    #[inline(always)]
    unsafe fn weights<V: Vector>(g: [V; 3]) -> [V; 6] {
        // SAFETY: the caller's promise.
        unsafe {
            // Each point's value over the product of its distances from the others.
            let (over_a, over_b) = (V::splat(-1.0 / 1.5), V::splat(1.0 / 6.0));
            let even_a = g[0].mul_add(g[2], V::splat(0.5)).mul(over_a);
            let odd_a = g[1].mul(V::splat(A)).mul(over_a);
            let even_b = g[0].mul_add(g[2], V::splat(2.0)).mul(over_b);
            let odd_b = g[1].mul(V::splat(B)).mul(over_b);
            [
                g[0],
                even_a.add(odd_a),
                even_a.sub(odd_a),
                even_b.add(odd_b),
                even_b.sub(odd_b),
                g[2],
            ]
        }
    }

    #[inline(always)]
    unsafe fn output<V: Vector>(m: [V; 6]) -> [V; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let (even_a, odd_a) = (m[1].add(m[2]), m[1].sub(m[2]).mul(V::splat(A)));
            let (even_b, odd_b) = (m[3].add(m[4]), m[3].sub(m[4]).mul(V::splat(B)));
            let (half, two) = (V::splat(0.5), V::splat(2.0));
            [
                m[0].add(even_a).add(even_b),
                odd_a.add(odd_b),
                even_a.mul(half).mul_add(even_b, two),
                m[5].mul_add(odd_a, half).mul_add(odd_b, two),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Scalar;

    fn check<F: Filter<IN, OUT>, const IN: usize, const OUT: usize>() {
        let data: [f32; IN] = core::array::from_fn(|i| (i * 5 % 7) as f32 - 2.5);
        let taps = [0.75, -1.5, 2.0];
        let mut found = [0.0; 4];
        // SAFETY: every processor has plain Rust.
        let outputs = unsafe {
            let d = F::input(data.map(|value| Scalar::splat(value)));
            let g = F::weights(taps.map(|value| Scalar::splat(value)));
            F::output(core::array::from_fn(|i| d[i].mul(g[i])))
        };
        for (i, output) in outputs.into_iter().enumerate() {
            // SAFETY: four lanes, four values.
            unsafe { output.store(found.as_mut_ptr()) };
            let expected: f32 = (0..3).map(|tap| data[i + tap] * taps[tap]).sum();
            assert!(
                (found[0] - expected).abs() < 1e-5,
                "{found:?}, not {expected}"
            );
        }
    }

    #[test]
    fn minimal_filters_give_what_the_sums_of_products_give() {
        check::<Two, 4, 2>();
        check::<Four, 6, 4>();
    }
}

//! The code of activations.

use punctual_types::Activation;

use crate::functions;
use crate::simd::{Vector, compiled_for};
use crate::{Isa, KernelError};

/// Consecutive values, changed in place.
pub(crate) struct Values {
    pub values: *mut f32,
    pub elements: usize,
}

/// The code of an activation that is more than a clip.
///
/// # Safety
/// The processor has the instruction set; `values` is valid for `elements`, a multiple of the
/// lanes, and nothing aliases it.
pub(crate) type Curve = unsafe fn(&Values);

/// What a kernel calls on stretches of its output that it has just stored, still in the nearest
/// cache: so the inner loops are the same for all activations, and those that are clips pay nothing
/// for the others.
pub(crate) fn curve(activation: Activation, isa: Isa) -> Option<Curve> {
    match activation {
        Activation::None | Activation::Relu | Activation::Clip { .. } => None,
        Activation::Sigmoid => Some(compiled_for!(isa, sigmoid, Values)),
        Activation::Silu => Some(compiled_for!(isa, silu, Values)),
        Activation::HardSigmoid => Some(compiled_for!(isa, hard_sigmoid, Values)),
        Activation::HardSwish => Some(compiled_for!(isa, hard_swish, Values)),
        Activation::Gelu => Some(compiled_for!(isa, gelu, Values)),
        Activation::Tanh => Some(compiled_for!(isa, tanh, Values)),
    }
}

/// Whether what the activation clips to is a range.
pub(crate) fn check(activation: Activation) -> Result<(), KernelError> {
    let (low, high) = activation.bounds();
    if low <= high {
        Ok(())
    } else {
        Err(KernelError::ClipBounds { low, high })
    }
}

/// Each function of a vector, applied to [`Values`].
macro_rules! in_place {
    ($($name:ident),*) => {$(
        /// # Safety
        /// See [`Curve`].
        #[inline(always)]
        unsafe fn $name<V: Vector>(v: &Values) {
            let mut at = 0;
            while at < v.elements {
                // SAFETY: `at + LANES <= elements`.
                unsafe {
                    let value = v.values.add(at);
                    functions::$name(V::load(value)).store(value);
                }
                at += V::LANES;
            }
        }
    )*};
}
in_place!(sigmoid, silu, hard_sigmoid, hard_swish, gelu, tanh);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBuffer;

    const CURVES: [Activation; 6] = [
        Activation::Sigmoid,
        Activation::Silu,
        Activation::HardSigmoid,
        Activation::HardSwish,
        Activation::Gelu,
        Activation::Tanh,
    ];

    /// `values`, a multiple of 16 of them, through a curve.
    fn applied(isa: Isa, curve: Curve, values: impl Iterator<Item = f32>) -> AlignedBuffer {
        let values: Vec<f32> = values.collect();
        let mut buffer = AlignedBuffer::zeroed(values.len());
        buffer.copy_from_slice(&values);
        let all = Values {
            values: buffer.as_mut_ptr(),
            elements: buffer.len(),
        };
        assert_eq!(all.elements % isa.lanes(), 0);
        // SAFETY: the instruction set is available, and the buffer is ours.
        unsafe { curve(&all) };
        buffer
    }

    /// Dense near 0, where the functions bend, and out to the largest numbers.
    fn arguments() -> impl Iterator<Item = f32> {
        let near = (-160_000..160_000).map(|i| i as f32 / 8000.0);
        let far = (0..1600).map(|i| 20.0 * 1.05_f32.powi(i));
        let far = far.filter(|x| x.is_finite()).take(1600 / 2);
        near.chain(far.flat_map(|x| [x, -x]))
    }

    #[test]
    fn every_curve_is_within_1e_6_of_f64_on_every_instruction_set() {
        for isa in Isa::available() {
            for activation in CURVES {
                let curve = curve(activation, isa).expect("a curve");
                let found = applied(isa, curve, arguments());
                for (x, &found) in arguments().zip(found.iter()) {
                    let expected = activation.of(x);
                    let error = (found - expected).abs();
                    let limit = 6e-7 * x.abs().max(1.0);
                    assert!(
                        error <= limit,
                        "{isa} {activation:?}({x}) is {found}, not {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_nan_stays_a_nan_and_infinity_has_its_limit() {
        for isa in Isa::available() {
            for activation in CURVES {
                let curve = curve(activation, isa).expect("a curve");
                let nan = applied(isa, curve, (0..16).map(|_| f32::NAN));
                assert!(nan.iter().all(|x| x.is_nan()), "{isa} {activation:?}");
                let limit = applied(isa, curve, (0..16).map(|_| f32::INFINITY))[0];
                let expected = activation.of(f32::INFINITY);
                assert!(
                    limit == expected || (limit - expected).abs() < 1e-6,
                    "{isa} {activation:?}: {limit}"
                );
            }
        }
    }

    #[inline(always)]
    unsafe fn exp_of<V: Vector>(v: &Values) {
        for at in (0..v.elements).step_by(V::LANES) {
            // SAFETY: `at + LANES <= elements`.
            unsafe {
                let value = v.values.add(at);
                functions::exp(V::load(value)).store(value);
            }
        }
    }

    #[test]
    fn exp_is_within_a_quarter_of_a_millionth_of_f64_and_saturates() {
        for isa in Isa::available() {
            let curve: Curve = compiled_for!(isa, exp_of, Values);
            let arguments = || (-8704..8816).map(|i| i as f32 / 100.0 - 0.001);
            let found = applied(isa, curve, arguments());
            for (x, &found) in arguments().zip(found.iter()) {
                let expected = f64::from(x).exp();
                let error = (f64::from(found) - expected).abs();
                assert!(
                    error <= 2.5e-7 * expected,
                    "{isa} exp({x}) is {found}, not {expected}"
                );
            }
            let ends = applied(isa, curve, (0..16).map(|i| [1e30, -1e30][i % 2]));
            assert!(ends[0] > 2e38 && ends[0].is_finite());
            assert!(ends[1] > 1e-38 && ends[1] < 1.3e-38);
        }
    }
}

//! The code of activations.

use punctual_types::Activation;

use crate::functions;
use crate::simd::{Vector, compiled_for};
use crate::spec::check_finite;
use crate::{Isa, KernelError};

/// Consecutive values, changed in place, and the activation's parameters.
struct Values {
    values: *mut f32,
    elements: usize,
    figures: [f32; 3],
}

/// The code of an activation that is more than a clip.
///
/// # Safety
/// The processor has the instruction set; `values` is valid for `elements`, a multiple of the
/// lanes, and nothing aliases it.
type Code = unsafe fn(&Values);

/// What a kernel applies to stretches of its output that it has just stored, still in the nearest
/// cache: so the inner loops are the same for all activations, and those that are clips pay nothing
/// for the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curve {
    code: Code,
    figures: [f32; 3],
}

impl Curve {
    /// Changes values in place.
    ///
    /// # Safety
    /// See [`Code`].
    #[inline(always)]
    pub(crate) unsafe fn apply(&self, values: *mut f32, elements: usize) {
        let figures = self.figures;
        // SAFETY: the caller's promise.
        unsafe {
            (self.code)(&Values {
                values,
                elements,
                figures,
            });
        }
    }
}

/// The curve of an activation; `None` for those that are clips.
pub(crate) fn curve(activation: Activation, isa: Isa) -> Option<Curve> {
    let code = match activation {
        Activation::None | Activation::Relu | Activation::Clip { .. } => return None,
        Activation::Sigmoid => compiled_for!(isa, sigmoid, Values),
        Activation::Silu => compiled_for!(isa, silu, Values),
        Activation::HardSigmoid => compiled_for!(isa, hard_sigmoid, Values),
        Activation::HardSwish => compiled_for!(isa, hard_swish, Values),
        Activation::Gelu => compiled_for!(isa, gelu, Values),
        Activation::Tanh => compiled_for!(isa, tanh, Values),
        Activation::LeakyRelu { .. } => compiled_for!(isa, leaky_relu, Values),
        Activation::Elu { .. } => compiled_for!(isa, elu, Values),
        Activation::Mish => compiled_for!(isa, mish, Values),
        Activation::Softplus => compiled_for!(isa, softplus, Values),
        Activation::Softsign => compiled_for!(isa, softsign, Values),
        Activation::TanhGelu => compiled_for!(isa, tanh_gelu, Values),
    };
    let mut figures = [0.0; 3];
    for (to, (_, figure)) in figures.iter_mut().zip(activation.figures()) {
        *to = figure;
    }
    Some(Curve { code, figures })
}

/// Refuses a clip whose bounds are no range, and other parameters that are not finite.
pub(crate) fn check(activation: Activation) -> Result<(), KernelError> {
    if !activation.is_clip() {
        let figures = activation.figures().map(|(_, figure)| figure);
        return check_finite("activation's figure", &figures.collect::<Vec<_>>());
    }
    let (low, high) = activation.bounds();
    if low <= high {
        Ok(())
    } else {
        Err(KernelError::ClipBounds { low, high })
    }
}

/// Each function of a vector, applied to [`Values`].
macro_rules! in_place {
    ($($name:ident: |$x:ident, $figures:ident| $value:expr),*) => {$(
        /// # Safety
        /// See [`Code`].
        #[inline(always)]
        unsafe fn $name<V: Vector>(v: &Values) {
            let mut at = 0;
            while at < v.elements {
                // SAFETY: `at + LANES <= elements`.
                unsafe {
                    let value = v.values.add(at);
                    let ($x, $figures) = (V::load(value), v.figures);
                    $value.store(value);
                }
                at += V::LANES;
            }
        }
    )*};
}
in_place!(
    sigmoid: |x, _figures| functions::sigmoid(x),
    silu: |x, _figures| functions::silu(x),
    hard_sigmoid: |x, _figures| functions::hard_sigmoid(x),
    hard_swish: |x, _figures| functions::hard_swish(x),
    gelu: |x, _figures| functions::gelu(x),
    tanh: |x, _figures| functions::tanh(x),
    leaky_relu: |x, figures| functions::leaky_relu(x, figures),
    elu: |x, figures| functions::elu(x, figures),
    mish: |x, _figures| functions::mish(x),
    softplus: |x, _figures| functions::softplus(x),
    softsign: |x, _figures| functions::softsign(x),
    tanh_gelu: |x, _figures| functions::tanh_gelu(x)
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBuffer;

    const CURVES: [Activation; 14] = [
        Activation::Sigmoid,
        Activation::Silu,
        Activation::HardSigmoid,
        Activation::HardSwish,
        Activation::Gelu,
        Activation::Tanh,
        Activation::LeakyRelu { slope: 0.1 },
        Activation::Elu {
            above: 1.0,
            below: 0.7,
            rate: 1.0,
        },
        Activation::Elu {
            above: 1.050_701,
            below: 1.758_099_3,
            rate: 1.0,
        },
        Activation::Elu {
            above: 1.0,
            below: 2.0,
            rate: 0.5,
        },
        Activation::Mish,
        Activation::Softplus,
        Activation::Softsign,
        Activation::TanhGelu,
    ];

    /// `values`, a multiple of 16 of them, through a curve.
    fn applied(isa: Isa, curve: Curve, values: impl Iterator<Item = f32>) -> AlignedBuffer {
        let values: Vec<f32> = values.collect();
        let mut buffer = AlignedBuffer::zeroed(values.len());
        buffer.copy_from_slice(&values);
        assert_eq!(buffer.len() % isa.lanes(), 0);
        // SAFETY: the instruction set is available, and the buffer is ours.
        unsafe { curve.apply(buffer.as_mut_ptr(), buffer.len()) };
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

    fn plain(code: Code) -> Curve {
        let figures = [0.0; 3];
        Curve { code, figures }
    }

    /// Positive numbers over the whole domain of a function: 2^20 of them, in equal steps of their bits.
    fn positive_numbers() -> impl Iterator<Item = f32> {
        (0..=f32::INFINITY.to_bits())
            .step_by(1 << 11)
            .map(f32::from_bits)
    }

    #[inline(always)]
    unsafe fn logarithm_of<V: Vector>(v: &Values) {
        for at in (0..v.elements).step_by(V::LANES) {
            // SAFETY: `at + LANES <= elements`.
            unsafe {
                let value = v.values.add(at);
                functions::logarithm(V::load(value)).store(value);
            }
        }
    }

    #[test]
    fn logarithm_is_within_a_quarter_of_a_millionth_of_f64_over_all_numbers() {
        for isa in Isa::available() {
            let curve = plain(compiled_for!(isa, logarithm_of, Values));
            let near_one = (1 << 15..3 << 15).map(|i| i as f32 / 65536.0);
            let arguments: Vec<f32> = positive_numbers().take(1_044_480).chain(near_one).collect();
            let found = applied(isa, curve, arguments.iter().copied());
            for (x, &found) in arguments.iter().zip(found.iter()) {
                let expected = f64::from(*x).ln();
                let error = (f64::from(found) - expected).abs();
                let is_infinite = f64::from(found) == expected;
                assert!(
                    is_infinite || error <= 2.5e-7 * expected.abs(),
                    "{isa} ln({x}) is {found}, not {expected}"
                );
            }
            let ends = [f32::INFINITY, -1.0, f32::NAN, -0.0];
            let ends = applied(isa, curve, (0..16).map(|i| ends[i % 4]));
            assert!(ends[0] == f32::INFINITY && ends[1].is_nan() && ends[2].is_nan());
            assert_eq!(ends[3], f32::NEG_INFINITY);
        }
    }

    #[test]
    fn what_bends_near_zero_loses_nothing_there() {
        let small = || (0..80).flat_map(|i| [-1.0, 1.0].map(|sign| sign * 0.5_f32.powi(i)));
        let elu = Activation::Elu {
            above: 1.0,
            below: 1.0,
            rate: 1.0,
        };
        for isa in Isa::available() {
            for activation in [elu, Activation::Softsign, Activation::Mish] {
                let curve = curve(activation, isa).expect("a curve");
                for (x, &found) in small().zip(applied(isa, curve, small()).iter()) {
                    let expected = activation.of(x);
                    let error = (found - expected).abs();
                    assert!(
                        error <= 6e-7 * expected.abs(),
                        "{isa} {activation:?}({x}) is {found}, not {expected}"
                    );
                }
            }
            let curve = curve(Activation::Softplus, isa).expect("a curve");
            let below = || (0..640).map(|i| i as f32 / -8.0);
            for (x, &found) in below().zip(applied(isa, curve, below()).iter()) {
                let expected = Activation::Softplus.of(x);
                assert!(
                    (found - expected).abs() <= 4e-7 * expected,
                    "{isa} softplus({x}) is {found}, not {expected}"
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
            let curve = plain(compiled_for!(isa, exp_of, Values));
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

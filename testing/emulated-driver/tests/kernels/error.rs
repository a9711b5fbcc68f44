//! How far a kernel's result may be from its reference.

/// Half a unit in the last place of a half, relative; and absolute, of the smallest.
const HALF_ROUNDING: f64 = 1.0 / 2048.0;
const HALF_SMALLEST: f64 = 1.0 / 33_554_432.0;

/// Of `f32`.
const FLOAT_ROUNDING: f64 = 1.0 / 16_777_216.0;

/// The steepest slope of an activation, that of hard swish at 3.
const SLOPE: f64 = 1.5;

/// What the approximations of activations may be off, of the larger of 1 and the value.
const CURVE: f64 = 2e-6;

/// What may lie between a result in halves and its reference: `steps` additions in `f32` of summands whose
/// absolute values sum up to `magnitude`, each rounded; an activation; the rounding to half.
pub fn allowed(reference: f32, steps: usize, magnitude: f32) -> f64 {
    let reference = f64::from(reference).abs();
    let sum = steps as f64 * FLOAT_ROUNDING * f64::from(magnitude);
    let before = SLOPE * sum + CURVE * reference.max(1.0);
    before + HALF_ROUNDING * (reference + before) + HALF_SMALLEST
}

/// Panics unless each of the results is within [`allowed`] of its reference.
pub fn check(what: &str, found: &[f32], references: &[f32], steps: usize, magnitudes: &[f32]) {
    assert_eq!(found.len(), references.len(), "{what}");
    for (at, (&found, &reference)) in found.iter().zip(references).enumerate() {
        let error = (f64::from(found) - f64::from(reference)).abs();
        let allowed = allowed(reference, steps, magnitudes[at]);
        assert!(
            error <= allowed,
            "{what}: value {at} is {found}, not {reference}; {error:e} off, {allowed:e} allowed"
        );
    }
}

//! The checks that operators share.

use punctual_types::Quantisation;

use crate::KernelError;

/// The largest size of a dimension: rows, columns, channels, kernel sides, strides.
pub(crate) const DIMENSION_MAX: usize = 1 << 20;
/// The largest tensor or packed weight, in elements: products of two offsets stay far from overflowing `isize` bytes.
pub(crate) const ELEMENTS_MAX: usize = 1 << 30;

pub(crate) fn check_equal(
    what: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), KernelError> {
    if found == expected {
        Ok(())
    } else {
        Err(KernelError::Mismatch {
            what,
            found,
            expected,
        })
    }
}

/// # Panics
/// If the memory for packed weights does not have the length that they take.
#[track_caller]
pub(crate) fn check_room(found: usize, expected: usize) {
    assert_eq!(found, expected, "the room for packed weights");
}

/// Checks that weights and biases are finite, and as many as expected.
pub(crate) fn check_weights(
    weights: &[f32],
    count: usize,
    bias: &[f32],
    outputs: usize,
) -> Result<(), KernelError> {
    check_equal("the number of weights", weights.len(), count)?;
    check_equal("the number of biases", bias.len(), outputs)?;
    check_finite("weights", weights)?;
    check_finite("bias", bias)
}

pub(crate) fn check_finite(what: &'static str, values: &[f32]) -> Result<(), KernelError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(KernelError::NotFinite {
            what,
            index,
            value: values[index],
        }),
    }
}

pub(crate) fn check_step(scale: f32) -> Result<(), KernelError> {
    if Quantisation::is_step(scale) {
        Ok(())
    } else {
        Err(KernelError::Scale { scale })
    }
}

pub(crate) fn check_dimensions(
    channels: usize,
    height: usize,
    width: usize,
    halo: usize,
) -> Result<(), KernelError> {
    for (what, found) in [("channels", channels), ("height", height), ("width", width)] {
        if found == 0 {
            return Err(KernelError::Zero { what });
        }
        check_limit(what, found, DIMENSION_MAX)?;
    }
    check_limit("halo", halo, DIMENSION_MAX)
}

pub(crate) fn check_elements(a: usize, b: usize, c: usize) -> Result<(), KernelError> {
    let elements = a.saturating_mul(b).saturating_mul(c);
    check_limit("elements of a tensor", elements, ELEMENTS_MAX)
}

pub(crate) fn check_limit(
    what: &'static str,
    found: usize,
    limit: usize,
) -> Result<(), KernelError> {
    if found <= limit {
        Ok(())
    } else {
        Err(KernelError::TooLarge { what, found, limit })
    }
}

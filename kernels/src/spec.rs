//! The checks that operators share.

use punctual_types::{Extent, Window};

use crate::layout::{DIMENSION_MAX, check_limit};
use crate::{BlockedLayout, KernelError};

/// Checks that the window's sizes can be counted with.
pub(crate) fn check_window(window: &Window) -> Result<(), KernelError> {
    let Window { stride, .. } = window;
    let span = window.span();
    for (what, found) in [
        ("kernel height", span.height),
        ("kernel width", span.width),
        ("stride", stride.height.max(stride.width)),
    ] {
        check_limit(what, found as usize, DIMENSION_MAX)?;
    }
    Ok(())
}

/// Checks that the output has the rows and columns that the window makes of the input's.
pub(crate) fn check_output(
    output: &BlockedLayout,
    window: &Window,
    height: usize,
    width: usize,
) -> Result<(), KernelError> {
    let extent = window.output(Extent {
        height: height as u32,
        width: width as u32,
    })?;
    check_equal(
        "the output's height",
        output.height(),
        extent.height as usize,
    )?;
    check_equal("the output's width", output.width(), extent.width as usize)
}

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
    (weights, count): (&[f32], usize),
    (bias, outputs): (&[f32], usize),
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

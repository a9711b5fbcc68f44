//! What tensors and specifications are refused for.

use punctual_types::Size;

/// Why there are no detections, key points or masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A tensor that is not of the specified shape.
    #[error(
        "{what}: {found} values, {expected} were specified; give the whole tensor of one frame, and the sizes that `punctual inspect` lists"
    )]
    Length {
        what: &'static str,
        found: usize,
        expected: usize,
    },
    /// Lists that belong together have different lengths.
    #[error("{what}: {found} were given, {expected} were specified; give one for each")]
    Count {
        what: &'static str,
        found: usize,
        expected: usize,
    },
    /// A size that must not be 0.
    #[error("{what} is 0, and must be at least 1")]
    Zero { what: &'static str },
    #[error("{what} is {found}, the limit is {limit}")]
    TooMany {
        what: &'static str,
        found: usize,
        limit: usize,
    },
}

/// Whether `values` has as many as the product of `sides`.
pub(crate) fn expect(
    what: &'static str,
    values: &[f32],
    sides: &[usize],
) -> Result<(), DecodeError> {
    let product = sides
        .iter()
        .fold(1_usize, |all, side| all.saturating_mul(*side));
    let found = values.len();
    (found == product).then_some(()).ok_or(DecodeError::Length {
        what,
        found,
        expected: product,
    })
}

/// Whether a list has one for each.
pub(crate) fn expect_count(
    what: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), DecodeError> {
    let equal = found == expected;
    equal.then_some(()).ok_or(DecodeError::Count {
        what,
        found,
        expected,
    })
}

pub(crate) fn expect_input(input: Size) -> Result<(), DecodeError> {
    expect_some("the input's width", input.width as usize)?;
    expect_some("the input's height", input.height as usize)
}

/// Whether a size is at least 1.
pub(crate) fn expect_some(what: &'static str, size: usize) -> Result<(), DecodeError> {
    (size > 0).then_some(()).ok_or(DecodeError::Zero { what })
}

/// Whether a size is not beyond a limit.
pub(crate) fn expect_most(
    what: &'static str,
    found: usize,
    limit: usize,
) -> Result<(), DecodeError> {
    let fits = found <= limit;
    fits.then_some(())
        .ok_or(DecodeError::TooMany { what, found, limit })
}

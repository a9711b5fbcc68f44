//! The checks of windows that operators share.

use punctual_types::Window;

use crate::shape::Shape;
use crate::spec::{DIMENSION_MAX, check_equal, check_limit};
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
    input: Shape,
) -> Result<(), KernelError> {
    let expected = input.windowed(window, output.channels())?;
    check_equal("the output's height", output.height(), expected.height)?;
    check_equal("the output's width", output.width(), expected.width)
}

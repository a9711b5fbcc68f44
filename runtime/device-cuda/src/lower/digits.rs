//! In which order values of a tensor are read, as kernels count them.

use punctual_cuda_kernels::TensorView;
use punctual_cuda_kernels::params::{DIGITS_MAX, Digits};
use punctual_types::{Axis, Digit, View};

/// The digits with their steps in values of the tensor. Neighbours that count through memory without a gap become one.
///
/// # Errors
/// How many there are, if a kernel does not take that number.
pub(super) fn digits_of<'d>(
    view: &TensorView,
    digits: impl IntoIterator<Item = &'d Digit>,
) -> Result<Digits, usize> {
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for digit in digits.into_iter().filter(|digit| digit.extent > 1) {
        let step = digit.step * step_of(view, digit.axis);
        match merged.last_mut() {
            Some((extent, outer)) if *outer == step * digit.extent => {
                *extent *= digit.extent;
                *outer = step;
            }
            _ => merged.push((digit.extent, step)),
        }
    }
    let unused = DIGITS_MAX.checked_sub(merged.len()).ok_or(merged.len())?;
    let mut digits = Digits {
        extents: [1; DIGITS_MAX],
        steps: [0; DIGITS_MAX],
    };
    for (at, (extent, step)) in merged.into_iter().enumerate() {
        (digits.extents[unused + at], digits.steps[unused + at]) = (extent, step);
    }
    Ok(digits)
}

/// Values from a position of an axis to the next.
pub(super) fn step_of(view: &TensorView, axis: Axis) -> u32 {
    match axis {
        Axis::Channel => 1,
        Axis::Row => view.width * view.pitch,
        Axis::Column => view.pitch,
        Axis::Repeat => 0,
    }
}

/// Values from the tensor's first to the view's first.
pub(super) fn start_of(view: &TensorView, counted: &View) -> u32 {
    let [channel, row, column] = counted.start;
    channel + (row * view.width + column) * view.pitch
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENSOR: TensorView = TensorView {
        address: 0,
        height: 4,
        width: 6,
        channels: 5,
        pitch: 8,
    };

    fn digit(axis: Axis, step: u32, extent: u32) -> Digit {
        Digit { axis, step, extent }
    }

    #[test]
    fn digits_that_count_on_without_a_break_are_one() {
        let all = [digit(Axis::Row, 1, 4), digit(Axis::Column, 1, 6)];
        let digits = digits_of(&TENSOR, &all).expect("few");
        assert_eq!(digits.extents, [1, 1, 1, 1, 1, 1, 1, 24]);
        assert_eq!(digits.steps[7], 8);
        let apart = [digit(Axis::Column, 1, 6), digit(Axis::Row, 1, 4)];
        let digits = digits_of(&TENSOR, &apart).expect("few");
        assert_eq!(digits.extents[6..], [6, 4]);
        assert_eq!(digits.steps[6..], [8, 48]);
    }

    #[test]
    fn more_digits_than_a_kernel_takes_are_counted() {
        let many = [digit(Axis::Repeat, 1, 2), digit(Axis::Column, 1, 2)];
        let many = many.iter().cycle().take(9);
        assert_eq!(digits_of(&TENSOR, many), Err(9));
    }
}

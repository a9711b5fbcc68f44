//! The positions that computed numbers stand for.

/// The position that a computed number stands for, of `size`, which is at least 1. Negative numbers count from the end.
/// A fraction is rounded towards 0, a number outside takes the nearest position, and a NaN the first.
#[must_use]
#[inline]
pub fn position(index: f32, size: u32) -> u32 {
    // A cast of a float saturates, and turns a NaN into 0.
    let index = index as i64;
    let from_start = if index < 0 {
        index.saturating_add(size.into())
    } else {
        index
    };
    from_start.clamp(0, i64::from(size) - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_means_a_position() {
        let of_four = |index| position(index, 4);
        assert_eq!([0.0, 3.0, 2.9, -0.5].map(of_four), [0, 3, 2, 0]);
        assert_eq!([-1.0, -4.0].map(of_four), [3, 0]);
        assert_eq!([4.0, 1e30, f32::INFINITY].map(of_four), [3; 3]);
        assert_eq!(
            [-5.0, -1e30, f32::NEG_INFINITY, f32::NAN].map(of_four),
            [0; 4]
        );
    }
}

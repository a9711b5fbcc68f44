//! Numbers.

/// The errors of answers that are numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    count: u64,
    absolute: f64,
    squared: f64,
}

impl Errors {
    /// Of numbers given as truth and answer. An answer that is no number has an infinite error.
    #[must_use]
    pub fn of(numbers: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut errors = Self::default();
        for (truth, answer) in numbers {
            let error = (answer - truth).abs();
            let error = if error.is_nan() { f64::INFINITY } else { error };
            errors.count += 1;
            errors.absolute += error;
            errors.squared += error * error;
        }
        errors
    }

    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.absolute += other.absolute;
        self.squared += other.squared;
    }

    /// Mean absolute error, in the numbers' own unit; 0 without numbers.
    #[must_use]
    pub fn mean_absolute(&self) -> f64 {
        self.absolute / self.count.max(1) as f64
    }

    /// Root of the mean squared error, in the numbers' own unit; 0 without numbers.
    #[must_use]
    pub fn root_mean_square(&self) -> f64 {
        (self.squared / self.count.max(1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_all_numbers_together() {
        let mut errors = Errors::of([(1.0, 1.0), (2.0, 5.0)]);
        errors.add(&Errors::of([(0.0, -3.0)]));
        assert_eq!(
            (errors.mean_absolute(), errors.root_mean_square()),
            (2.0, 6_f64.sqrt())
        );
        assert_eq!(Errors::default().root_mean_square(), 0.0);
        assert_eq!(Errors::of([(0.0, f64::NAN)]).mean_absolute(), f64::INFINITY);
    }
}

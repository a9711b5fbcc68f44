//! Whether an exit's confidence is what its answers deserve (Guo et al., "On Calibration of Modern
//! Neural Networks", 2017, section 2).

/// Equal bins of confidence in a reliability table.
pub const RELIABILITY_BINS: usize = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReliabilityBin {
    pub answers: usize,
    /// Their mean confidence, 0 to 1; 0 without answers.
    pub confidence: f64,
    /// Their mean quality, 0 to 1; of answers that are right or wrong the share that is right. 0 without answers.
    pub accuracy: f64,
}

/// How confidence and accuracy go together at one exit.
#[derive(Clone, Debug, PartialEq)]
pub struct Reliability {
    /// Bin `i` holds confidences from `i / 10` up to `(i + 1) / 10`.
    pub bins: [ReliabilityBin; RELIABILITY_BINS],
    /// Expected calibration error: the mean distance of confidence and accuracy over the bins,
    /// weighted by answers. 0 is perfect.
    pub expected_error: f64,
}

impl Reliability {
    /// Of answers given as confidence and quality, both 0 to 1.
    #[must_use]
    pub fn of(answers: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut bins = [ReliabilityBin::default(); RELIABILITY_BINS];
        let mut total = 0_usize;
        for (confidence, quality) in answers {
            let bin = (confidence * RELIABILITY_BINS as f64) as usize;
            let bin = &mut bins[bin.min(RELIABILITY_BINS - 1)];
            bin.answers += 1;
            bin.confidence += confidence;
            bin.accuracy += quality;
            total += 1;
        }
        for bin in bins.iter_mut().filter(|bin| bin.answers > 0) {
            bin.confidence /= bin.answers as f64;
            bin.accuracy /= bin.answers as f64;
        }
        let weighted = bins.iter().map(|bin| {
            let weight = bin.answers as f64 / total.max(1) as f64;
            weight * (bin.confidence - bin.accuracy).abs()
        });
        Self {
            expected_error: weighted.sum(),
            bins,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_that_is_met_has_no_error() {
        let answers = (0..100).map(|i| (0.75, f64::from(u8::from(i % 4 != 0))));
        let reliability = Reliability::of(answers);
        assert!(reliability.expected_error < 1e-12);
        assert_eq!(reliability.bins[7].answers, 100);
    }

    #[test]
    fn overconfidence_is_the_distance_weighted_by_answers() {
        let sure_and_wrong = (0..50).map(|_| (1.0, 0.0));
        let met = (0..50).map(|i| (0.5, f64::from(u8::from(i % 2 == 0))));
        let reliability = Reliability::of(sure_and_wrong.chain(met));
        assert!((reliability.expected_error - 0.5).abs() < 1e-12);
        let last = reliability.bins[RELIABILITY_BINS - 1];
        assert_eq!((last.confidence, last.accuracy), (1.0, 0.0));
    }

    #[test]
    fn without_answers_there_is_no_error_and_no_nan() {
        let reliability = Reliability::of([]);
        assert_eq!(reliability.expected_error, 0.0);
        assert_eq!(
            reliability.bins,
            [ReliabilityBin::default(); RELIABILITY_BINS]
        );
    }
}

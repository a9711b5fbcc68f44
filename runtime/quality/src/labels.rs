//! Sets of labels.

/// How many labels truth and answers have, together and each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetCounts {
    /// Labels that both have.
    pub both: u64,
    pub truth: u64,
    pub answer: u64,
}

impl SetCounts {
    /// Of one sample, given for each label whether the truth and whether the answer has it.
    #[must_use]
    pub fn of(labels: impl IntoIterator<Item = (bool, bool)>) -> Self {
        let mut counts = Self::default();
        for (truth, answer) in labels {
            counts.both += u64::from(truth && answer);
            counts.truth += u64::from(truth);
            counts.answer += u64::from(answer);
        }
        counts
    }

    pub fn add(&mut self, other: &Self) {
        self.both += other.both;
        self.truth += other.truth;
        self.answer += other.answer;
    }

    /// Jaccard index: labels of both over labels of either, 0 to 1; 1 if there are none.
    #[must_use]
    pub fn jaccard(&self) -> f64 {
        match self.truth + self.answer - self.both {
            0 => 1.0,
            either => self.both as f64 / either as f64,
        }
    }

    /// Twice the labels of both over the sum of their numbers, 0 to 1; 1 if there are none.
    #[must_use]
    pub fn f1(&self) -> f64 {
        match self.truth + self.answer {
            0 => 1.0,
            sum => (2 * self.both) as f64 / sum as f64,
        }
    }

    /// Whether both sets are the same.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.both == self.truth && self.both == self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_as_alike_as_their_common_share() {
        let counts = SetCounts::of([(true, true), (true, false), (false, true), (false, false)]);
        assert_eq!((counts.jaccard(), counts.f1()), (1.0 / 3.0, 1.0 / 2.0));
        assert!(!counts.is_exact());
        let none = SetCounts::of([(false, false)]);
        assert_eq!((none.jaccard(), none.f1()), (1.0, 1.0));
        assert!(none.is_exact());
    }

    #[test]
    fn samples_add_up_by_labels() {
        let mut all = SetCounts::of([(true, true), (true, true)]);
        all.add(&SetCounts::of([(true, false)]));
        assert_eq!(all.f1(), 4.0 / 5.0);
    }
}

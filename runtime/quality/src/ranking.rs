//! Whether confidence puts good answers before bad ones.

/// Of all pairs of answers of which one is better, the share in which the better one has the higher confidence; equal
/// confidences count half (Harrell's concordance index). 1: confidence orders all answers as their quality does; 0.5: it
/// says nothing. Where quality is 0 or 1 this is the area under the ROC curve. `None` if all answers are equally good.
#[must_use]
pub fn concordance(answers: impl IntoIterator<Item = (u16, u16)>) -> Option<f64> {
    // Confidence and quality.
    let mut answers: Vec<(u16, u16)> = answers.into_iter().collect();
    answers.sort_unstable_by_key(|&(_, quality)| quality);
    // How many answers that are worse have at most this confidence.
    let mut worse = Counts::default();
    let (mut pairs, mut concordant) = (0_u64, 0.0);
    let mut seen = 0;
    for equally_good in answers.chunk_by(|a, b| a.1 == b.1) {
        for &(confidence, _) in equally_good {
            let (below, upto) = (worse.below(confidence), worse.upto(confidence));
            pairs += seen;
            concordant += (below + upto) as f64 / 2.0;
        }
        equally_good
            .iter()
            .for_each(|&(confidence, _)| worse.add(confidence));
        seen += equally_good.len() as u64;
    }
    (pairs > 0).then(|| concordant / pairs as f64)
}

/// How often each number was added: a binary indexed tree, so that sums are quick.
struct Counts(Vec<u64>);

impl Default for Counts {
    fn default() -> Self {
        Self(vec![0; usize::from(u16::MAX) + 2])
    }
}

impl Counts {
    fn add(&mut self, number: u16) {
        let mut at = usize::from(number) + 1;
        while let Some(count) = self.0.get_mut(at) {
            *count += 1;
            at += at & at.wrapping_neg();
        }
    }

    /// Numbers below this one.
    fn below(&self, number: u16) -> u64 {
        self.first(usize::from(number))
    }

    /// Numbers up to this one.
    fn upto(&self, number: u16) -> u64 {
        self.first(usize::from(number) + 1)
    }

    fn first(&self, mut at: usize) -> u64 {
        let mut sum = 0;
        while at > 0 {
            sum += self.0[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    #[test]
    fn confidence_that_orders_as_quality_does_is_concordant() {
        assert_eq!(concordance([(1, 10), (2, 20), (3, 30)]), Some(1.0));
        assert_eq!(concordance([(3, 10), (2, 20), (1, 30)]), Some(0.0));
        assert_eq!(concordance([(5, 10), (5, 20), (5, 30)]), Some(0.5));
        assert_eq!(concordance([(0, 65_535), (65_535, 0), (9, 9)]), Some(0.0));
    }

    #[test]
    fn equally_good_answers_are_no_pair() {
        // Of (1, 0) with the three better ones, the second is less sure and the last equally so.
        let answers = [(1, 0), (2, 7), (0, 7), (1, 7)];
        assert_eq!(concordance(answers), Some(0.5));
        assert_eq!(concordance([(1, 7), (9, 7)]), None);
        assert_eq!(concordance([]), None);
    }

    #[test]
    fn the_concordance_is_that_of_all_pairs() {
        let mut random = fastrand::Rng::with_seed(7);
        let answers: Vec<(u16, u16)> = (0..300)
            .map(|_| (random.u16(..40), random.u16(..20)))
            .collect();
        let (mut pairs, mut concordant) = (0.0, 0.0);
        for better in &answers {
            for worse in answers.iter().filter(|worse| worse.1 < better.1) {
                pairs += 1.0;
                concordant += match better.0.cmp(&worse.0) {
                    Ordering::Greater => 1.0,
                    Ordering::Equal => 0.5,
                    Ordering::Less => 0.0,
                };
            }
        }
        assert_eq!(concordance(answers), Some(concordant / pairs));
    }
}

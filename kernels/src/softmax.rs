//! The head of an exit: the most likely class and how likely it is.

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Top1 {
    /// The class with the largest score; the first of them if several are equal.
    pub class: u16,
    /// Its softmax probability, in `[0, 1]`.
    pub confidence: f32,
}

/// The largest of `softmax(logits)` and its class.
///
/// A score that is not a number, or that is positive infinity, says that the computation went
/// wrong: the confidence is then 0, so that no threshold accepts the answer, and the class is that
/// of the largest of the scores that are numbers. Scores of negative infinity have probability 0.
///
/// Panics unless there are 1 to 65,536 logits.
pub fn softmax_top1(logits: &[f32]) -> Top1 {
    assert!(
        (1..=1 << 16).contains(&logits.len()),
        "{} logits",
        logits.len()
    );
    let (mut class, mut largest) = (0, f32::NEG_INFINITY);
    for (index, &logit) in logits.iter().enumerate() {
        // False for NaN.
        if logit > largest {
            (class, largest) = (index as u16, logit);
        }
    }
    // NaN for each NaN, and for infinity minus infinity.
    let sum: f32 = logits.iter().map(|&logit| (logit - largest).exp()).sum();
    // The largest one itself counts 1, so a sum below 1 can only be NaN.
    let confidence = if sum >= 1.0 { 1.0 / sum } else { 0.0 };
    Top1 { class, confidence }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_share_the_probability_and_the_first_class_wins() {
        assert_eq!(
            softmax_top1(&[2.0; 4]),
            Top1 {
                class: 0,
                confidence: 0.25
            }
        );
    }

    #[test]
    fn probability_is_that_of_the_textbook_softmax() {
        let logits = [0.5f32, -1.0, 3.0, 2.0];
        let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
        let top = softmax_top1(&logits);
        assert_eq!(top.class, 2);
        assert!((f64::from(top.confidence) - 3f64.exp() / sum).abs() < 1e-6);
    }

    #[test]
    fn huge_scores_do_not_overflow() {
        assert_eq!(
            softmax_top1(&[3e38, -3e38]),
            Top1 {
                class: 0,
                confidence: 1.0
            }
        );
    }

    #[test]
    fn scores_that_are_not_numbers_are_never_confident() {
        let nan = f32::NAN;
        let inf = f32::INFINITY;
        assert_eq!(
            softmax_top1(&[nan, 1.0, 9.0]),
            Top1 {
                class: 2,
                confidence: 0.0
            }
        );
        assert_eq!(softmax_top1(&[1.0, inf, nan]).confidence, 0.0);
        assert_eq!(
            softmax_top1(&[1.0, inf]),
            Top1 {
                class: 1,
                confidence: 0.0
            }
        );
        assert_eq!(
            softmax_top1(&[nan; 3]),
            Top1 {
                class: 0,
                confidence: 0.0
            }
        );
        assert_eq!(
            softmax_top1(&[-inf; 3]),
            Top1 {
                class: 0,
                confidence: 0.0
            }
        );
    }

    #[test]
    fn a_class_ruled_out_by_negative_infinity_counts_nothing() {
        assert_eq!(
            softmax_top1(&[f32::NEG_INFINITY, 0.0]),
            Top1 {
                class: 1,
                confidence: 1.0
            }
        );
    }
}

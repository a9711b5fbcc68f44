//! How far answers in halves may lie from the reference's, on the networks of the conformance suite.

/// How far below the best class's score the score of the class that is answered may lie.
///
/// Halves are off by up to 2^-11 of their size. Each layer rounds its weights and its result, so a
/// layer adds up to two such errors, and one in `sqrt(2)` of that where they fall at random; scores
/// of the suite's networks are of size 4 at most and lie behind at most 20 layers:
/// `4 * sqrt(20) * sqrt(2) * 2^-11 = 0.012`.
pub const SCORE_TOLERANCE: f32 = 0.0125;

/// How far a confidence may lie from the reference's where each score is off by up to `scores`.
///
/// Between two classes, a difference of scores that is wrong by `2 s` moves the larger probability by
/// `s / 2` at most, as the logistic function is nowhere steeper than a quarter. The rest is rounding.
#[must_use]
pub const fn confidence_tolerance(scores: f32) -> f32 {
    scores / 2.0 + 2e-4
}

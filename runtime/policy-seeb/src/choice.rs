//! SEEB's Algorithm 2: batch size and confidence threshold of a group.

use super::latency::LatencyModel;
use super::{SeebBatch, SeebConfig};
use punctual_core::Confidence;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// B*: images a batch.
    pub(crate) batch: usize,
    /// θ*: members leave at this confidence.
    pub(crate) threshold: Confidence,
}

/// Chooses for a group of `images` on `units` TPCs whose tightest deadline less τ is `budget` ns
/// away (negative: past); `batch_max` is the largest batch that can be run.
///
/// The published cost is that of one batch, not of an image, so with β1 > 0 the cheapest batch size
/// is 1 whenever that is feasible; it stands here as published. But section 5.4 says that Algorithm 2
/// "determines the largest permissible value without violating SLA constraints", which is
/// another choice: [`SeebBatch::Largest`], the threshold then being the cheapest for that size.
/// When nothing is feasible the paper leaves the batch size open (B* is still empty in line 23):
/// the largest candidate is taken, which ends the group soonest.
pub(crate) fn choose(
    model: &LatencyModel,
    images: usize,
    batch_max: usize,
    units: u16,
    budget: f64,
    rules: &SeebConfig,
) -> Choice {
    let (least, most) = match rules.fixed_batch {
        Some(fixed) => {
            let fixed = usize::from(fixed).clamp(1, batch_max);
            (fixed, fixed)
        }
        None => (1, power_of_two_up_to(images.clamp(1, batch_max))),
    };
    let mut best: Option<(f64, Choice)> = None;
    let mut batch = most;
    loop {
        for &threshold in rules.candidates() {
            let latency = model.latency(batch, threshold, units);
            if latency > budget {
                continue;
            }
            let cost = rules.lambda1 * latency / 1e9
                - rules.lambda2 * f64::from(threshold.0) / f64::from(u16::MAX);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, Choice { batch, threshold }));
            }
        }
        let settled = rules.batch == SeebBatch::Largest && best.is_some();
        if settled || batch <= least {
            break;
        }
        batch /= 2;
    }
    let fallback = Choice {
        batch: most,
        threshold: rules.candidates()[0],
    };
    best.map_or(fallback, |(_, choice)| choice)
}

/// 2^⌊log2 n⌋.
const fn power_of_two_up_to(n: usize) -> usize {
    1 << n.ilog2()
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const MS: f64 = 1e6;

    fn threshold(tenths: u32) -> Confidence {
        Confidence((tenths * u32::from(u16::MAX) / 10) as u16)
    }

    /// L = 2 + s + 10 θ + 12 / TPCs, in ms.
    const MODEL: LatencyModel = LatencyModel {
        base: 2.0 * MS,
        per_image: MS,
        per_threshold: 10.0 * MS,
        per_unit: 12.0 * MS,
        r_squared: 1.0,
        error_mean: 0.0,
        error_max: 0.0,
    };

    fn rules(lambda1: f64, lambda2: f64) -> SeebConfig {
        SeebConfig {
            lambda1,
            lambda2,
            thresholds: [1, 3, 5, 7, 9].map(threshold).to_vec(),
            ..SeebConfig::default()
        }
    }

    /// Five images on 4 TPCs, 12.1 ms to d_min - τ: L(s, θ) = 5 + s + 10 θ.
    ///
    /// | θ   | L(4) | L(2) | L(1) |
    /// |-----|------|------|------|
    /// | 0.1 | 10   | 8    | 7    |
    /// | 0.3 | 12   | 10   | 9    |
    /// | 0.5 | 14   | 12   | 11   |
    /// | 0.7 | 16   | 14   | 13   |
    ///
    /// Feasible are those up to 12.1. With λ1 = 1/s and λ2 = 1, cost = L - θ in seconds: the
    /// largest feasible θ is 0.5, and the smaller batch is the cheaper. With λ2 = 0.001 a tenth of
    /// threshold saves 1 ms and costs 0.1 ms, so θ = 0.1.
    #[test]
    fn the_cheapest_feasible_pair_of_batch_and_threshold_is_taken() {
        let chosen = |lambda2| choose(&MODEL, 5, 32, 4, 12.1 * MS, &rules(1.0, lambda2));
        let expected = |tenths| Choice {
            batch: 1,
            threshold: threshold(tenths),
        };
        assert_eq!(chosen(1.0), expected(5));
        assert_eq!(chosen(0.001), expected(1));
    }

    /// In the table above: of the largest batch with a feasible threshold, 4, the best threshold.
    #[test]
    fn the_largest_feasible_batch_is_taken_where_that_is_the_rule() {
        let largest = SeebConfig {
            batch: SeebBatch::Largest,
            ..rules(1.0, 1.0)
        };
        let chosen = choose(&MODEL, 5, 32, 4, 12.1 * MS, &largest);
        let expected = Choice {
            batch: 4,
            threshold: threshold(3),
        };
        assert_eq!(chosen, expected);
    }

    #[test]
    fn without_a_feasible_pair_the_lowest_threshold_is_taken() {
        let chosen = choose(&MODEL, 5, 32, 4, -1.0, &rules(1.0, 1.0));
        assert_eq!(
            chosen,
            Choice {
                batch: 4,
                threshold: threshold(1)
            }
        );
    }

    #[test]
    fn batches_are_powers_of_two_up_to_the_group_and_to_what_is_compiled() {
        let batch =
            |images, compiled| choose(&MODEL, images, compiled, 4, -1.0, &rules(1.0, 1.0)).batch;
        let groups: Vec<usize> = (1..=9).map(|images| batch(images, 32)).collect();
        assert_eq!(groups, [1, 2, 2, 4, 4, 4, 4, 8, 8]);
        assert_eq!(batch(9, 4), 4);
    }

    #[test]
    fn fixed_knobs_stay_as_they_are() {
        let fixed = SeebConfig {
            fixed_batch: Some(2),
            fixed_threshold: Some(threshold(9)),
            ..rules(1.0, 1.0)
        };
        for budget in [-1.0, 100.0 * MS] {
            let chosen = choose(&MODEL, 5, 32, 4, budget, &fixed);
            assert_eq!(
                chosen,
                Choice {
                    batch: 2,
                    threshold: threshold(9)
                }
            );
        }
    }
}

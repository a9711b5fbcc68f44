//! Networks of Nexus.
//!
//! | figure | origin |
//! | --- | --- |
//! | [`TABLE_2`] | given: Table 2 |
//! | [`linear`]: L(b) = alpha b + beta, optimum 500 requests/s at an SLO of 100 ms, alpha 1.0 to 1.8 ms | given: equation 1, sections 4.3 and 6.3 |
//! | SSD at batch 1: 47 ms | given: section 7.3.2 |
//! | SSD at larger batches | reconstructed: 36 ms an image more |

use super::single_exit;
use punctual_simulator::scenario::Model;

/// Batch and latency in milliseconds of models A, B and C.
pub const TABLE_2: [(&str, [(u8, f64); 3]); 3] = [
    ("model-a", [(4, 50.0), (8, 75.0), (16, 100.0)]),
    ("model-b", [(4, 50.0), (8, 90.0), (16, 125.0)]),
    ("model-c", [(4, 60.0), (8, 95.0), (16, 125.0)]),
];

/// The models of Table 2. The table begins at batch 4; smaller ones are given its time, as they would be padded.
#[must_use]
pub fn table_2() -> Vec<Model> {
    let model = |(name, times): (&str, [(u8, f64); 3])| {
        let mut times_ms = vec![(1, times[0].1)];
        times_ms.extend(times);
        single_exit(name, "Nexus, Table 2", 1, &times_ms)
    };
    TABLE_2.map(model).into()
}

/// Batch that the optimum of section 4.3 implies: 500 requests a second in batches of at most half the SLO of 100 ms.
pub const OPTIMAL_BATCH: u8 = 25;

/// L(b) = alpha b + beta, with beta such that [`OPTIMAL_BATCH`] takes 50 ms; every batch size up to 32 is there.
#[must_use]
pub fn linear(alpha_ms: f64) -> Model {
    let beta_ms = 50.0 - alpha_ms * f64::from(OPTIMAL_BATCH);
    let times: Vec<(u8, f64)> = (1..=32)
        .map(|batch| (batch, alpha_ms * f64::from(batch) + beta_ms))
        .collect();
    single_exit("linear", "Nexus, section 6.3", 1, &times)
}

/// SSD, the detector of the two-stage queries.
#[must_use]
pub fn ssd() -> Model {
    let times = [1, 2, 4, 8].map(|batch| (batch, 11.0 + 36.0 * f64::from(batch)));
    single_exit(
        "ssd",
        "Nexus, section 7.3.2; batches reconstructed",
        1,
        &times,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alpha_has_its_optimum_at_500_requests_a_second() {
        for alpha in [1.0, 1.4, 1.8] {
            let time = linear(alpha).stages[0].time(OPTIMAL_BATCH, 1).budget;
            let rate = f64::from(OPTIMAL_BATCH) * 1e9 / time.as_nanos() as f64;
            assert!((rate - 500.0).abs() < 1e-6, "{rate}");
        }
    }

    #[test]
    fn the_throughputs_of_table_2_are_those_published() {
        let published = [
            [80.0, 107.0, 160.0],
            [80.0, 89.0, 128.0],
            [66.7, 84.0, 128.0],
        ];
        for (model, rates) in TABLE_2.iter().zip(published) {
            for ((batch, ms), rate) in model.1.iter().zip(rates) {
                let found = f64::from(*batch) * 1_000.0 / ms;
                assert!(
                    (found - rate).abs() < 0.7,
                    "{}: {found}, not {rate}",
                    model.0
                );
            }
        }
    }
}

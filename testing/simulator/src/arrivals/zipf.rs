//! Rates by rank.

/// `count` rates that sum to `total_hz`, the k-th in proportion to `1 / k^exponent` (Nexus uses
/// 0.9 for its 20 games, section 7.3.1). The largest comes first.
#[must_use]
pub fn zipf_rates(count: u32, exponent: f64, total_hz: f64) -> Vec<f64> {
    let weight = |rank: u32| f64::from(rank).powf(-exponent);
    let sum: f64 = (1..=count).map(weight).sum();
    (1..=count)
        .map(|rank| total_hz * weight(rank) / sum)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_sum_to_the_total_and_fall_with_the_rank() {
        let rates = zipf_rates(20, 0.9, 100.0);
        assert!((rates.iter().sum::<f64>() - 100.0).abs() < 1e-9);
        assert!(rates.windows(2).all(|pair| pair[0] > pair[1]));
        assert!((rates[0] / rates[1] - 2f64.powf(0.9)).abs() < 1e-9);
    }
}

//! Draws that only arrivals need.

use punctual_types::Random;

/// Log-normal with the given median and deviation of the logarithm.
pub(crate) fn log_normal(random: &mut Random, median: f64, sigma: f64) -> f64 {
    median * (sigma * random.normal()).exp()
}

/// A whole number with mean `mean`: its floor, or one more with the probability of the fraction.
pub(crate) fn rounded(random: &mut Random, mean: f64) -> u32 {
    let whole = mean.floor();
    whole as u32 + u32::from(random.unit() < mean - whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 100_000;

    fn mean(mut draw: impl FnMut(&mut Random) -> f64) -> f64 {
        let mut random = Random::new(7);
        (0..DRAWS).map(|_| draw(&mut random)).sum::<f64>() / f64::from(DRAWS)
    }

    #[test]
    fn half_of_a_log_normal_lies_below_its_median() {
        let below = mean(|random| f64::from(log_normal(random, 8.0, 0.8) < 8.0));
        assert!((below - 0.5).abs() < 0.01, "{below}");
    }

    #[test]
    fn rounding_keeps_the_mean() {
        let mean = mean(|random| f64::from(rounded(random, 2.3)));
        assert!((mean - 2.3).abs() < 0.01, "{mean}");
    }
}

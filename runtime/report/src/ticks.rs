//! Which values of an axis have a label, and how it is written: round values, all labels different.

/// Labels of one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticks {
    values: Vec<f64>,
    /// Digits behind the point that tell neighbours apart.
    digits: usize,
}

/// More than these run together.
const MOST: f64 = 8.0;

impl Ticks {
    /// At these values, whose labels are others' to write.
    #[cfg(feature = "charts")]
    pub(crate) fn at(values: impl Iterator<Item = f64>) -> Self {
        Self {
            values: values.collect(),
            digits: 0,
        }
    }

    /// Of an axis on which equal differences are equally far apart: steps of 1, 2 or 5 times a power of ten.
    #[must_use]
    pub fn linear(low: f64, high: f64) -> Self {
        let least = (high - low) / MOST;
        let power = 10_f64.powf(least.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = steps
            .into_iter()
            .find(|step| *step >= least)
            .unwrap_or(10.0 * power);
        let first = (low / step).ceil();
        let count = ((high / step).floor() - first).clamp(0.0, MOST);
        let digits = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        let values = (0..=count as u32).map(|at| (first + f64::from(at)) * step);
        Self {
            values: values.collect(),
            digits,
        }
    }

    /// Of an axis on which equal factors are equally far apart: powers of ten, with 2 and 5 between where they are few. An axis
    /// that is too short for these is labelled as if it were linear.
    #[must_use]
    pub fn log(low: f64, high: f64) -> Self {
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let decades = (high / low).log10();
        let factors: &[f64] = if decades <= MOST / 3.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let each = (decades / MOST).ceil().max(1.0) as usize;
        let values = powers.step_by(each).flat_map(|power| {
            let ten = 10_f64.powi(power);
            factors.iter().map(move |factor| factor * ten)
        });
        let values: Vec<f64> = values
            .filter(|value| (low..=high).contains(value))
            .collect();
        match &values[..] {
            [first, _, ..] => Self {
                digits: (-first.log10().floor()).clamp(0.0, 12.0) as usize,
                values,
            },
            _ => Self::linear(low, high),
        }
    }

    /// Rising.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The label of a value.
    #[must_use]
    pub fn label(&self, value: f64) -> String {
        let text = format!("{value:.0$}", self.digits);
        if self.digits == 0 {
            return text;
        }
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &Ticks) -> Vec<String> {
        ticks
            .values
            .iter()
            .map(|value| ticks.label(*value))
            .collect()
    }

    #[test]
    fn labels_are_round() {
        assert_eq!(
            labels(&Ticks::linear(-1.0, 102.0)),
            ["0", "20", "40", "60", "80", "100"]
        );
        assert_eq!(
            labels(&Ticks::linear(99.2, 102.3)),
            ["99.5", "100", "100.5", "101", "101.5", "102"]
        );
        assert_eq!(
            labels(&Ticks::log(4.9, 140.0)),
            ["5", "10", "20", "50", "100"]
        );
        assert_eq!(
            labels(&Ticks::log(0.03, 2.0)),
            ["0.05", "0.1", "0.2", "0.5", "1", "2"]
        );
        assert_eq!(
            labels(&Ticks::log(1.0, 1e6)),
            ["1", "10", "100", "1000", "10000", "100000", "1000000"]
        );
    }

    #[test]
    fn labels_of_any_axis_lie_on_it_rise_differ_and_are_few() {
        let mut random = 1_u64;
        let mut uniform = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 11) as f64 / (1_u64 << 53) as f64
        };
        for _ in 0..20_000 {
            let low = 10_f64.powf(10.0 * uniform() - 5.0);
            let high = low * (1.0 + 10_f64.powf(8.0 * uniform() - 2.0));
            for ticks in [
                Ticks::linear(low, high),
                Ticks::log(low, high),
                Ticks::linear(-high, low),
            ] {
                let labels = labels(&ticks);
                assert!(
                    (2..=10).contains(&labels.len()),
                    "{low} to {high}: {labels:?}"
                );
                assert!(ticks.values.is_sorted(), "{labels:?}");
                let mut different = labels.clone();
                different.dedup();
                assert_eq!(different, labels, "{low} to {high}");
            }
        }
    }
}

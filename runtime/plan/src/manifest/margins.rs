use punctual_core::Nanos;
use punctual_diagnostics::{Problems, Section};
use serde::Serialize;

/// How a budget is made from measurements, and the bounds that no profile can give.
///
/// A budget is `factor * q + noise_floor`, where `q` is the measured 99% quantile, or the longest
/// measurement when there are fewer than [`Margins::SAMPLES_FOR_P99`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Margins {
    /// Factor on the measured quantile. Manifest key `daemon.budget_factor`.
    pub factor: f64,
    /// Added to each budget, for interrupts and cold caches, which cost the same however short the work is.
    pub noise_floor: Nanos,
    /// Capture to the decision to prepare, apart from the preparation: the client's own copy,
    /// the wake-ups of port, scheduler and intake. Manifest key `daemon.channel_bound_us`.
    pub channel: Nanos,
    /// One decision and hand-over to a worker (delta). Manifest key `daemon.dispatch_bound_us`.
    pub dispatch: Nanos,
    /// A finished stage to the client (epsilon). Manifest key `daemon.egress_bound_us`.
    pub egress: Nanos,
}

impl Default for Margins {
    fn default() -> Self {
        Self {
            factor: 1.25,
            noise_floor: Nanos::from_micros(20),
            channel: Nanos::from_micros(2_000),
            dispatch: Nanos::from_micros(100),
            egress: Nanos::from_micros(300),
        }
    }
}

impl Margins {
    /// Three of the profiler's blocks of 69 samples. Its 99% quantile is the median of the blocks'
    /// longest samples; of fewer than three blocks a single disturbance can move the median.
    pub const SAMPLES_FOR_P99: u32 = 207;

    pub(super) fn read(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Self {
        let usual = Self::default();
        let mut bound =
            |key, usual: Nanos| section.microseconds(key, usual.as_nanos() as f64 / 1e3, problems);
        Self {
            noise_floor: bound("noise_us", usual.noise_floor),
            channel: bound("channel_bound_us", usual.channel),
            dispatch: bound("dispatch_bound_us", usual.dispatch),
            egress: bound("egress_bound_us", usual.egress),
            factor: section.number("budget_factor", usual.factor, 1.0..=10.0, "", problems),
        }
    }

    /// The budget for something that was measured.
    #[must_use]
    pub fn budget(&self, samples: u32, p99_ns: u64, max_ns: u64) -> Nanos {
        let quantile = if samples < Self::SAMPLES_FOR_P99 {
            max_ns.max(p99_ns)
        } else {
            p99_ns
        };
        // A float is exact enough here (2^53 ns are 104 days), and `as` saturates.
        Nanos::new((quantile as f64 * self.factor).ceil() as u64) + self.noise_floor
    }
}

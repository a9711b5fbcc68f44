//! How long stages really take, drawn from a distribution around their budgets.

use crate::virtual_device::{Course, Ending, Timing};
use punctual_core::{Infer, Instant, ModelId, Nanos, PartitionConfig, StageTime};
use punctual_types::Random;
use serde::{Deserialize, Serialize};

use crate::faults::Fault;

/// The distribution of real times, all as multiples of a stage's budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Durations {
    /// Points of the quantile function by rising share; linear between two, constant outside.
    pub quantiles: Vec<Quantile>,
    /// What happens beyond some quantile instead.
    pub tail: Option<Tail>,
    /// What is added whatever a stage's budget: points of the quantile function of it, as above.
    pub noise: Vec<Offset>,
    /// The same for transfers of weights.
    pub transfer_noise: Vec<Offset>,
    /// Rare stages that run much longer.
    pub overruns: Option<Overruns>,
    /// Times when everything is slower: heat, or a step of the memory clock.
    pub slow: Vec<SlowPhase>,
    /// Probability that an action fails, reported at its end.
    pub failures: f64,
    /// The least time, as a share of the preemption bound, that stopping takes; the most is the bound itself.
    pub stopping_least: f64,
    /// The least time, as a share of its profiled time, that a preparation takes; the most is that time.
    pub preparation_least: f64,
}

/// A share of all stages takes at most a multiple of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantile {
    /// Share of stages, 0 to 1.
    pub share: f64,
    /// Multiple of the budget, above 0.
    pub factor: f64,
}

/// A share of all stages takes at most `ns` nanoseconds longer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offset {
    /// Share of stages, 0 to 1.
    pub share: f64,
    /// Nanoseconds; negative: shorter.
    pub ns: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tail {
    /// The share of stages from which on the tail holds, such as 0.99.
    pub from: f64,
    /// The exponent: the smaller, the heavier; above 0.
    pub shape: f64,
    /// The largest multiple of the budget.
    pub most: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overruns {
    pub probability: f64,
    /// How many times longer it then takes.
    pub factor: f64,
}

/// A time when all stages are slower. It comes and goes in straight lines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowPhase {
    /// When it begins to get slower.
    pub from: Instant,
    /// When it begins to get better.
    pub until: Instant,
    /// How long either takes; zero: a step.
    pub ramp: Nanos,
    /// How many times longer stages take in between.
    pub factor: f64,
}

impl Default for Durations {
    /// Every stage takes exactly its budget, and stopping exactly its bound.
    fn default() -> Self {
        Self {
            quantiles: Vec::new(),
            tail: None,
            noise: Vec::new(),
            transfer_noise: Vec::new(),
            overruns: None,
            slow: Vec::new(),
            failures: 0.0,
            stopping_least: 1.0,
            preparation_least: 1.0,
        }
    }
}

impl Durations {
    /// The multiple of the budget that a share `share` of all stages stays within, slow phases and overruns aside.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        match self.tail {
            Some(tail) if share > tail.from => {
                let rarer = (1.0 - tail.from) / (1.0 - share);
                (self.between_points(tail.from) * rarer.powf(1.0 / tail.shape)).min(tail.most)
            }
            _ => self.between_points(share),
        }
    }

    fn between_points(&self, share: f64) -> f64 {
        between(&self.quantiles, share, |q| (q.share, q.factor)).unwrap_or(1.0)
    }

    /// The multiple by which slow phases stretch what starts at `at`.
    #[must_use]
    pub fn slowness(&self, at: Instant) -> f64 {
        self.slow.iter().map(|phase| phase.slowness(at)).product()
    }
}

/// The value at `share` on the straight lines between points, as which `point` gives each of
/// `points`; none without points.
fn between<T>(points: &[T], share: f64, point: impl Fn(&T) -> (f64, f64)) -> Option<f64> {
    let above = points.partition_point(|p| point(p).0 < share);
    let low = above.checked_sub(1).map(|index| point(&points[index]));
    match (low, points.get(above).map(point)) {
        (Some((from, low)), Some((to, high))) => {
            Some(low + (share - from) / (to - from) * (high - low))
        }
        (end, None) | (None, end) => end.map(|(_, value)| value),
    }
}

impl SlowPhase {
    fn slowness(&self, at: Instant) -> f64 {
        let share = |since: Nanos| {
            if since >= self.ramp {
                1.0
            } else {
                since.as_nanos() as f64 / self.ramp.as_nanos() as f64
            }
        };
        if at < self.from {
            return 1.0;
        }
        let risen = share(at.min(self.until).since(self.from));
        let fallen = if at < self.until {
            0.0
        } else {
            share(at.since(self.until))
        };
        1.0 + (self.factor - 1.0) * risen * (1.0 - fallen)
    }
}

/// Draws the courses of a run's actions.
#[derive(Clone, Debug)]
pub struct Draws {
    durations: Durations,
    random: Random,
    /// How many times longer a model really takes, for those whose profile lies.
    lies: Vec<(ModelId, f64)>,
    lost: Vec<u64>,
    outages: Vec<(Instant, Instant)>,
    started: u64,
}

impl Draws {
    /// The draws of a run with this seed and these faults.
    #[must_use]
    pub fn new(durations: Durations, faults: &[Fault], seed: u64) -> Self {
        let mut draws = Self {
            durations,
            random: Random::new(seed).stream("durations", 0),
            lies: Vec::new(),
            lost: Vec::new(),
            outages: Vec::new(),
            started: 0,
        };
        for fault in faults {
            match *fault {
                Fault::ProfileLies { model, factor } => draws.lies.push((model, factor)),
                Fault::CompletionLost { nth } => draws.lost.push(nth),
                Fault::DeviceFails { from, until } => draws.outages.push((from, until)),
                _ => {}
            }
        }
        draws
    }

    fn stretched(&mut self, budget: Nanos, started: Instant) -> f64 {
        let durations = &self.durations;
        let mut factor = 1.0;
        if !durations.quantiles.is_empty() || durations.tail.is_some() {
            factor = durations.quantile(self.random.unit());
        }
        if let Some(overruns) = durations.overruns
            && self.random.chance(overruns.probability)
        {
            factor *= overruns.factor;
        }
        budget.as_nanos() as f64 * factor * durations.slowness(started)
    }

    /// A draw of what is added; nothing is drawn without points.
    fn noise(random: &mut Random, points: &[Offset]) -> f64 {
        if points.is_empty() {
            return 0.0;
        }
        between(points, random.unit(), |p| (p.share, p.ns)).unwrap_or(0.0)
    }

    fn ending(&mut self) -> Ending {
        let nth = self.started;
        self.started += 1;
        if self.lost.contains(&nth) {
            Ending::Lost
        } else if self.durations.failures > 0.0 && self.random.chance(self.durations.failures) {
            Ending::Failed
        } else {
            Ending::Finished
        }
    }
}

/// A span of time from a number of nanoseconds; at least 1.
fn at_least_one(nanos: f64) -> Nanos {
    // `as` saturates, and a time beyond 584 years is as good as endless.
    Nanos::new((nanos.round() as u64).max(1))
}

impl Timing for Draws {
    fn course(&mut self, infer: &Infer, started: Instant, time: StageTime) -> Course {
        let lie = self.lies.iter().find(|(model, _)| *model == infer.model);
        let lie = lie.map_or(1.0, |(_, factor)| *factor);
        let stretched = self.stretched(time.budget, started) * lie;
        let noise = Self::noise(&mut self.random, &self.durations.noise);
        let took = at_least_one(stretched + noise);
        let ending = self.ending();
        let hit = |(from, until): &&(Instant, Instant)| started < *until && started + took > *from;
        match self.outages.iter().find(hit) {
            Some((from, _)) => Course {
                took: from.since(started).max(Nanos::new(1)),
                ending: Ending::Failed,
            },
            None => Course { took, ending },
        }
    }

    fn stopping(&mut self, partition: &PartitionConfig) -> Nanos {
        let bound = partition.preemption_bound.as_nanos() as f64;
        let least = self.durations.stopping_least;
        let share = if least < 1.0 {
            least + (1.0 - least) * self.random.unit()
        } else {
            1.0
        };
        Nanos::new((bound * share) as u64)
    }

    fn transfer(&mut self, _: ModelId, started: Instant, load: Nanos) -> Nanos {
        let stretched = self.stretched(load, started);
        let noise = Self::noise(&mut self.random, &self.durations.transfer_noise);
        at_least_one(stretched + noise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    fn heavy() -> Durations {
        Durations {
            quantiles: [(0.0, 0.5), (0.5, 0.8), (0.99, 1.0)]
                .map(|(share, factor)| Quantile { share, factor })
                .to_vec(),
            tail: Some(Tail {
                from: 0.99,
                shape: 1.5,
                most: 8.0,
            }),
            ..Durations::default()
        }
    }

    #[test]
    fn draws_have_the_quantiles_asked_for_and_a_bounded_tail() {
        let mut draws = Draws::new(heavy(), &[], 3);
        let budget = Nanos::new(MS);
        let mut times: Vec<f64> = (0..100_000)
            .map(|_| draws.stretched(budget, Instant::ZERO) / MS as f64)
            .collect();
        times.sort_by(f64::total_cmp);
        let quantile = |share: f64| times[(share * (times.len() - 1) as f64) as usize];
        for (share, expected) in [(0.25, 0.65), (0.5, 0.8), (0.9, 0.963), (0.99, 1.0)] {
            let found = quantile(share);
            assert!(
                (found - expected).abs() < 0.01,
                "{share}: {found}, not {expected}"
            );
        }
        // Beyond p99 a tenth of the stages takes 10^(1/1.5) times as long: Pareto.
        let p999 = quantile(0.999);
        assert!((p999 - 10f64.powf(1.0 / 1.5)).abs() < 0.5, "{p999}");
        assert!(*times.last().expect("many") <= 8.0);
    }

    #[test]
    fn noise_is_added_in_nanoseconds_whatever_the_budget() {
        let noise = [(0.01, -55_000.0), (0.5, 0.0), (0.99, 144_000.0)];
        let points = noise.map(|(share, ns)| Offset { share, ns });
        let mut random = Random::new(3);
        let mut draws: Vec<f64> = (0..100_000)
            .map(|_| Draws::noise(&mut random, &points))
            .collect();
        draws.sort_by(f64::total_cmp);
        for (share, expected) in [(0.005, -55_000.0), (0.5, 0.0), (0.745, 72_000.0)] {
            let found = draws[(share * draws.len() as f64) as usize];
            assert!((found - expected).abs() < 1_500.0, "{share}: {found}");
        }
        assert_eq!(Draws::noise(&mut random, &[]), 0.0);
    }

    #[test]
    fn without_a_distribution_stages_take_their_budget() {
        let mut draws = Draws::new(Durations::default(), &[], 3);
        assert_eq!(draws.stretched(Nanos::new(MS), at(7)), MS as f64);
    }

    #[test]
    fn a_slow_phase_comes_and_goes_in_straight_lines() {
        let durations = Durations {
            slow: vec![SlowPhase {
                from: at(10),
                until: at(30),
                ramp: Nanos::from_millis(10),
                factor: 3.0,
            }],
            ..Durations::default()
        };
        for (ms, expected) in [
            (9, 1.0),
            (15, 2.0),
            (20, 3.0),
            (29, 3.0),
            (35, 2.0),
            (40, 1.0),
        ] {
            assert_eq!(durations.slowness(at(ms)), expected, "at {ms} ms");
        }
    }

    #[test]
    fn a_phase_that_ends_before_it_is_fully_there_is_never_worse_than_it_got() {
        let phase = SlowPhase {
            from: at(0),
            until: at(5),
            ramp: Nanos::from_millis(10),
            factor: 3.0,
        };
        let worst = (0..30).map(|ms| phase.slowness(at(ms))).fold(1.0, f64::max);
        assert!(worst <= 2.0, "{worst}");
    }

    #[test]
    fn overruns_come_as_often_as_asked() {
        let durations = Durations {
            overruns: Some(Overruns {
                probability: 0.01,
                factor: 5.0,
            }),
            ..Durations::default()
        };
        let mut draws = Draws::new(durations, &[], 3);
        let long = (0..100_000)
            .filter(|_| draws.stretched(Nanos::new(MS), Instant::ZERO) > 4.9 * MS as f64)
            .count();
        assert!((900..1100).contains(&long), "{long}");
    }
}

//! Which rate and which deadlines a first manifest asks for: what was said, or what profiles allow, or a guess that says so.

use punctual_core::Nanos;
use punctual_model::{Package, Profile};
use punctual_plan::Margins;

/// What the user said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    pub rate_hz: Option<f64>,
    pub deadline_ms: Option<f64>,
}

/// Budgets of a network on its partition, a frame alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// To the first exit, which is what is promised.
    pub first: Nanos,
    /// To the last.
    pub all: Nanos,
}

impl Work {
    /// By a profile; none if that has no figures of this many compute units.
    pub fn of(package: &Package, profile: &Profile, units: u8) -> Option<Self> {
        let margins = Margins::default();
        let stages = 0..package.network().stages.len() as u8;
        let budget = |stage| {
            let entry = profile.stage(stage, 1, units)?;
            Some(margins.budget(entry.samples, entry.p99_ns, entry.max_ns))
        };
        let budgets: Option<Vec<Nanos>> = stages.map(budget).collect();
        let budgets = budgets?;
        Some(Self {
            first: *budgets.first()?,
            all: budgets.iter().fold(Nanos::ZERO, |sum, one| sum + *one),
        })
    }
}

/// A figure of the manifest, and why it is this one.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub value: f64,
    pub why: String,
}

/// What a task is promised.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    pub rate_hz: Figure,
    pub deadline_ms: Figure,
}

/// Frames a second that cameras send, or every second one of them, and so on.
const USUAL_HZ: [f64; 8] = [30.0, 20.0, 15.0, 10.0, 5.0, 2.0, 1.0, 0.5];

/// The part of a partition that first answers may take: the rest is for deeper ones, and for what comes in between.
const PROMISED_SHARE: f64 = 0.7;

const GUESSED_DEADLINE_MS: f64 = 50.0;

/// Deadlines beyond a period are whole multiples of this.
const STEP_MS: f64 = 5.0;

/// A promise for each of the networks, which share a partition; `works` is theirs if all were measured.
pub fn propose(wanted: Wanted, networks: usize, works: Option<&[Work]>) -> Vec<Promise> {
    let rate_hz = rate(wanted, works);
    let promise = |network| Promise {
        deadline_ms: deadline(wanted, rate_hz.value, network, works),
        rate_hz: rate_hz.clone(),
    };
    (0..networks).map(promise).collect()
}

fn rate(wanted: Wanted, works: Option<&[Work]>) -> Figure {
    if let Some(value) = wanted.rate_hz {
        let why = "as --rate said".to_owned();
        return Figure { value, why };
    }
    let Some(works) = works else {
        let why = "a guess, as nothing was measured: a camera's usual rate".to_owned();
        return Figure {
            value: USUAL_HZ[0],
            why,
        };
    };
    let seconds: f64 = works
        .iter()
        .map(|work| milliseconds(work.first) / 1e3)
        .sum();
    let fits = |hz: &f64| seconds * hz <= PROMISED_SHARE;
    let value = USUAL_HZ.into_iter().find(fits);
    let value = value.unwrap_or(USUAL_HZ[USUAL_HZ.len() - 1]);
    let share = 100.0 * seconds * value;
    let why = format!(
        "a usual rate, at which first answers take {share:.0}% of the partition, by profiles"
    );
    Figure { value, why }
}

fn deadline(wanted: Wanted, rate_hz: f64, network: usize, works: Option<&[Work]>) -> Figure {
    if let Some(value) = wanted.deadline_ms {
        let why = "as --deadline said".to_owned();
        return Figure { value, why };
    }
    let period_ms = (1e3 / rate_hz).floor().max(1.0);
    let Some(works) = works else {
        let why = "a guess, as nothing was measured".to_owned();
        let value = GUESSED_DEADLINE_MS;
        return Figure { value, why };
    };
    let Margins {
        channel,
        dispatch,
        egress,
        ..
    } = Margins::default();
    let own = works[network].all;
    let others = works
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != network);
    let needed = others.fold(own + channel + dispatch + egress, |sum, (_, other)| {
        sum + other.first
    });
    let (own, needed) = (milliseconds(own), milliseconds(needed));
    if needed <= period_ms {
        let why = format!(
            "before the next frame comes; the deepest answer takes {own:.1} ms, by the profile"
        );
        let value = period_ms;
        return Figure { value, why };
    }
    let value = (needed / STEP_MS).ceil() * STEP_MS;
    let why = format!(
        "the deepest answer takes {own:.1} ms, by the profile, and waits for other networks' first ones"
    );
    Figure { value, why }
}

fn milliseconds(span: Nanos) -> f64 {
    span.as_nanos() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(first_ms: u64, all_ms: u64) -> Work {
        Work {
            first: Nanos::from_millis(first_ms),
            all: Nanos::from_millis(all_ms),
        }
    }

    fn figures(wanted: Wanted, works: &[Work]) -> Vec<(f64, f64)> {
        let promises = propose(wanted, works.len(), Some(works)).into_iter();
        let figures = promises.map(|promise| (promise.rate_hz.value, promise.deadline_ms.value));
        figures.collect()
    }

    #[test]
    fn a_quick_network_has_the_usual_rate_and_answers_before_the_next_frame() {
        assert_eq!(figures(Wanted::default(), &[work(2, 9)]), [(30.0, 33.0)]);
    }

    #[test]
    fn slow_networks_have_a_lower_rate_and_time_for_their_deepest_answers() {
        let works = [work(40, 90), work(20, 20)];
        assert_eq!(
            figures(Wanted::default(), &works),
            [(10.0, 115.0), (10.0, 100.0)]
        );
        assert_eq!(figures(Wanted::default(), &[work(9_000, 9_000)])[0].0, 0.5);
    }

    #[test]
    fn what_was_said_is_kept() {
        let wanted = Wanted {
            rate_hz: Some(60.0),
            deadline_ms: Some(7.5),
        };
        assert_eq!(figures(wanted, &[work(40, 90)]), [(60.0, 7.5)]);
        assert_eq!(propose(wanted, 2, None).len(), 2);
    }

    #[test]
    fn a_guess_says_that_it_is_one() {
        let promise = &propose(Wanted::default(), 1, None)[0];
        assert_eq!(
            (promise.rate_hz.value, promise.deadline_ms.value),
            (30.0, 50.0)
        );
        for figure in [&promise.rate_hz, &promise.deadline_ms] {
            assert!(figure.why.starts_with("a guess"), "{figure:?}");
        }
    }
}

//! What a case's world does: real times, and faults.

use punctual_core::{Instant, ModelId, Nanos};
use punctual_types::Random;

use super::draw::{client, moment};
use crate::faults::Fault;
use crate::timing::{Durations, Overruns, Quantile, SlowPhase, Tail};

/// Exact in two cases of five, within the profile in two, beyond it in one.
pub(super) fn durations(random: &mut Random) -> Durations {
    let kind = random.below(5);
    let mut durations = Durations {
        stopping_least: random.unit(),
        preparation_least: random.unit(),
        ..Durations::default()
    };
    if kind < 2 {
        return durations;
    }
    durations.quantiles = [(0.0, random.unit()), (0.7, 1.0)]
        .map(|(share, factor)| Quantile {
            share,
            factor: f64::max(factor, 0.01),
        })
        .to_vec();
    if kind < 4 {
        return durations;
    }
    if random.chance(0.5) {
        durations.tail = Some(Tail {
            from: 0.9,
            shape: 1.2,
            most: 20.0,
        });
    }
    if random.chance(0.5) {
        durations.overruns = Some(Overruns {
            probability: 0.02,
            factor: 1.0 + random.unit() * 30.0,
        });
    }
    if random.chance(0.5) {
        durations.slow = vec![SlowPhase {
            from: Instant::from_nanos(random.below(3_000_000)),
            until: Instant::from_nanos(3_000_000 + random.below(3_000_000)),
            ramp: Nanos::new(random.below(500_000)),
            factor: 1.0 + random.unit() * 2.0,
        }];
    }
    if random.chance(0.3) {
        durations.failures = random.unit() * 0.1;
    }
    durations
}

/// None in half of the cases, else one to four.
pub(super) fn faults(
    random: &mut Random,
    length: Nanos,
    clients: u16,
    models: usize,
) -> Vec<Fault> {
    if random.below(2) == 0 {
        return Vec::new();
    }
    (0..random.within(1, 4))
        .map(|_| fault(random, length, clients, models))
        .collect()
}

fn fault(random: &mut Random, length: Nanos, clients: u16, models: usize) -> Fault {
    let from = moment(random, length);
    let until = from + Nanos::new(random.below(length.as_nanos() / 4 + 1));
    match random.below(9) {
        0 => Fault::ClientGone {
            client: client(random, clients),
            at: from,
        },
        1 => Fault::ClientStalled {
            client: client(random, clients),
            from,
            until,
        },
        2 => Fault::PayloadUnreadable {
            client: client(random, clients),
            from,
            until,
        },
        3 => Fault::ClockStep {
            client: client(random, clients),
            at: from,
            by_ns: random.below(400_000) as i64 - 200_000,
        },
        4 => Fault::SlowClient {
            client: client(random, clients),
            takes: Nanos::new(random.below(400_000)),
        },
        5 => Fault::CompletionLost {
            nth: random.below(200),
        },
        6 => Fault::DeviceFails { from, until },
        7 => Fault::BestEffortShed { from, until },
        _ => Fault::ProfileLies {
            model: ModelId(random.below(models as u64) as u16),
            factor: 0.2 + random.unit() * 4.0,
        },
    }
}

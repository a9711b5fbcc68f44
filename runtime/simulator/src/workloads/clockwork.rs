//! Clockwork's experiments (section 6), on one of its GPUs: a Tesla V100 that holds 201 copies of
//! ResNet50. Where the paper has six or twelve workers, this is the share of one of them.
//!
//! The paper's requests have latency objectives (SLOs); they are the deadlines here. Copies of a
//! network are networks with weights of their own, so their requests share no batch.

use punctual_core::{ModelId, Nanos};

use super::Workload;
use crate::arrivals::{Pattern, Shape, zipf_rates};
use crate::profiles::clockwork::{GPU_PAGES, networks, resnet50};
use crate::scenario::{Board, Model, Scenario, Task};

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "clockwork-closed",
        about: "Clockwork, Figure 5: 15 ResNet50 copies, 16 closed-loop clients each, SLO 100 ms",
        build: || closed(Nanos::from_millis(100)),
    },
    Workload {
        name: "clockwork-low-slo",
        about: "Clockwork, Figure 7: 8 ResNet50 copies at 200 requests/s together, SLO 10 ms (a sixth of 48 at 1,200)",
        build: || low_slo(8, 200.0, Nanos::from_millis(10)),
    },
    Workload {
        name: "clockwork-isolation",
        about: "Clockwork, Figure 8: one client at 200 requests/s, SLO 25 ms, beside two closed-loop batch clients of 16",
        build: || isolation(2, 16, Nanos::from_millis(25)),
    },
    Workload {
        name: "clockwork-many-models",
        about: "Clockwork, Figure 6: 1,000 requests/s spread over 3,600 models that join one a second, beside one at 200",
        build: || {
            many_models(
                3_600,
                Nanos::from_millis(1_000),
                Nanos::from_millis(300_000),
            )
        },
    },
    Workload {
        name: "clockwork-minutes",
        about: "Clockwork, Figure 9: an hour of 336 models of 61 kinds, sustained, cold, bursty and spiking each 5, 15, 60 minutes",
        build: || minutes(Nanos::from_millis(3_600_000)),
    },
];

/// Pause of a closed-loop client after a refusal: a round trip on the paper's network.
const RETRY: Nanos = Nanos::from_millis(1);

/// The objective of sections 6.2 and 6.5.
const SLO: Nanos = Nanos::from_millis(100);

/// Requests a second of the minute-count workload. The paper's twelve workers serve 803 each at
/// full use, with batches; the rate here is a third of that, so that the load factor has room.
const MINUTES_HZ: f64 = 260.0;

/// Models of the minute-count workload: a twelfth of the paper's 4,026.
const MINUTES_MODELS: usize = 336;

fn board() -> Board {
    Board {
        request_buffers: 1_024,
        ..Board::of(1)
    }
}

fn copies(count: usize) -> Vec<Model> {
    (0..count)
        .map(|index| resnet50().model(&format!("resnet50-{index}")))
        .collect()
}

/// Section 6.1: 15 copies, each with 16 closed-loop clients. The paper varies the objective from
/// 10 to 500 ms.
#[must_use]
pub fn closed(slo: Nanos) -> Scenario {
    const COPIES: usize = 15;
    const CLIENTS: u16 = 16;
    let task = |index: usize| {
        let pattern = Pattern::ClosedLoop {
            outstanding: CLIENTS,
            think: Nanos::ZERO,
            retry: RETRY,
        };
        let model = ModelId(index as u16);
        let mut task = Task::real_time(&format!("resnet50-{index}"), model, slo, pattern);
        task.clients = CLIENTS;
        task
    };
    let tasks = (0..COPIES).map(task).collect();
    Scenario::new(copies(COPIES), tasks, board(), Nanos::from_millis(30_000))
}

/// Section 6.3: so many copies with Poisson arrivals of `total_hz` together. The paper varies the
/// objective from 2.9 to 74 ms in steps of a half.
#[must_use]
pub fn low_slo(models: usize, total_hz: f64, slo: Nanos) -> Scenario {
    let rate_hz = total_hz / models as f64;
    let task = |index: usize| {
        let (name, model) = (format!("resnet50-{index}"), ModelId(index as u16));
        Task::real_time(&name, model, slo, Pattern::Poisson { rate_hz })
    };
    let tasks = (0..models).map(task).collect();
    Scenario::new(copies(models), tasks, board(), Nanos::from_millis(30_000))
}

/// Section 6.4: one latency-sensitive client at 200 requests a second (open loop, Poisson: the
/// paper does not say) beside batch clients without an objective, each with so many requests open.
#[must_use]
pub fn isolation(batch_clients: usize, outstanding: u16, slo: Nanos) -> Scenario {
    let pattern = Pattern::Poisson { rate_hz: 200.0 };
    let mut tasks = vec![Task::real_time("sensitive", ModelId(0), slo, pattern)];
    for index in 1..=batch_clients {
        let pattern = Pattern::ClosedLoop {
            outstanding,
            think: Nanos::ZERO,
            retry: RETRY,
        };
        let mut task = Task::best_effort(&format!("batch-{index}"), ModelId(index as u16), pattern);
        task.clients = outstanding;
        tasks.push(task);
    }
    let models = copies(batch_clients + 1);
    Scenario::new(models, tasks, board(), Nanos::from_millis(30_000))
}

/// Section 6.2: a minor workload of 200 requests a second on one model, and a major one of 1,000
/// on `models` further ones, of which one joins `every` so often from `start` on. It lasts until
/// all have joined.
#[must_use]
pub fn many_models(models: u32, every: Nanos, start: Nanos) -> Scenario {
    let minor = Pattern::Poisson { rate_hz: 200.0 };
    let mut tasks = vec![Task::real_time("minor", ModelId(0), SLO, minor)];
    for before in 0..models {
        let pattern = Pattern::Shared {
            total_hz: 1_000.0,
            before,
            models,
            every,
            start,
        };
        let model = ModelId(before as u16 + 1);
        tasks.push(Task::real_time(
            &format!("major-{before}"),
            model,
            SLO,
            pattern,
        ));
    }
    let length = start + every.saturating_mul(u64::from(models));
    Scenario::new(copies(models as usize + 1), tasks, paged(), length)
}

/// Section 6.5: models of all 61 kinds whose rates follow Zipf's law, each with one of the shapes
/// that the paper names.
#[must_use]
pub fn minutes(length: Nanos) -> Scenario {
    const SHAPES: [Shape; 6] = [
        Shape::Sustained,
        Shape::Bursty,
        Shape::Spikes { every: 5 },
        Shape::Cold,
        Shape::Spikes { every: 15 },
        Shape::Spikes { every: 60 },
    ];
    let kinds = networks();
    let rates = zipf_rates(MINUTES_MODELS as u32, 0.9, MINUTES_HZ);
    let (mut models, mut tasks) = (Vec::new(), Vec::new());
    for (index, rate_hz) in rates.into_iter().enumerate() {
        let kind = &kinds[index % kinds.len()];
        let name = format!("{}-{}", kind.name, index / kinds.len());
        let shape = SHAPES[index % SHAPES.len()];
        let pattern = Pattern::Minutes { rate_hz, shape };
        models.push(kind.model(&name));
        tasks.push(Task::real_time(&name, ModelId(index as u16), SLO, pattern));
    }
    Scenario::new(models, tasks, paged(), length)
}

fn paged() -> Board {
    Board {
        pages: GPU_PAGES,
        ..board()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minute_counts_ask_for_less_than_the_gpu_can_do_and_more_models_than_it_holds() {
        let scenario = minutes(SLO);
        let used: f64 = scenario
            .tasks
            .iter()
            .map(|task| {
                let stage = &scenario.models[task.config.model.index()].stages[0];
                let batched = stage.time(4, 1).budget.as_nanos() as f64 / 4e9;
                task.pattern.rate_hz().expect("open loop") * batched
            })
            .sum();
        assert!((0.4..0.9).contains(&used), "{used}");
        let pages: u32 = scenario
            .models
            .iter()
            .filter_map(|m| Some(m.weights?.pages))
            .sum();
        assert!(pages > GPU_PAGES, "{pages}");
    }

    #[test]
    fn three_thousand_six_hundred_and_one_models_are_there() {
        let scenario = many_models(3_600, Nanos::from_millis(1), SLO);
        assert_eq!(
            (scenario.models.len(), scenario.tasks.len()),
            (3_601, 3_601)
        );
    }
}

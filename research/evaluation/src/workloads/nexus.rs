//! Nexus's workloads, on one GPU.

use punctual_core::{ModelId, Nanos, TaskId};

use super::Workload;
use crate::profiles::clockwork::{TABLE_1, resnet50};
use crate::profiles::nexus;
use punctual_simulator::arrivals::{Pattern, zipf_rates};
use punctual_simulator::scenario::{Board, Scenario, Task};

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "nexus-zipf",
        about: "Nexus, Figure 16: 16 ResNet50 sessions, SLOs of 50 to 200 ms, rates by Zipf-0.9, 240 requests/s together",
        build: zipf,
    },
    Workload {
        name: "nexus-drop",
        about: "Nexus, Figures 5 and 9: one model with L(b) = 1.4 b + 15 ms, SLO 100 ms, Poisson at 450 requests/s",
        build: || drop(1.4, Pattern::Poisson { rate_hz: DROP_HZ }),
    },
    Workload {
        name: "nexus-drop-uniform",
        about: "the same with uniform arrivals",
        build: || drop(1.4, uniform(DROP_HZ)),
    },
    Workload {
        name: "nexus-query-0.1",
        about: "Nexus, Figure 17: SSD, then Inception for one in ten of its answers, 400 ms for both",
        build: || query(0.1),
    },
    Workload {
        name: "nexus-query-1",
        about: "Nexus, Figure 17: SSD, then Inception once for each answer, 400 ms for both",
        build: || query(1.0),
    },
    Workload {
        name: "nexus-query-10",
        about: "Nexus, Figure 17: SSD, then Inception ten times for each answer, 400 ms for both",
        build: || query(10.0),
    },
];

/// Nine tenths of the optimum of 500 requests a second (section 4.3).
const DROP_HZ: f64 = 450.0;

/// The objective of section 4.3.
const DROP_SLO: Nanos = Nanos::from_millis(100);

/// Queries a second: about half of what one GPU can do at a fan-out of 1.
const QUERIES_HZ: f64 = 12.0;

/// The objective of a query, the middle of the 300 to 500 ms of section 7.5, and what of it is the
/// detector's: 345 of 400 ms, as Nexus splits it for its traffic application (section 7.3.2).
const QUERY_SLO: Nanos = Nanos::from_millis(400);
const DETECTOR_SLO: Nanos = Nanos::from_millis(345);

fn board() -> Board {
    Board {
        request_buffers: 512,
        ..Board::of(1)
    }
}

const fn uniform(rate_hz: f64) -> Pattern {
    Pattern::Periodic {
        rate_hz,
        phase: Nanos::ZERO,
        jitter: Nanos::ZERO,
    }
}

/// Section 7.5 mixes sessions on eight GPUs; this is as many sessions as it has, on one, at a rate
/// that one can serve. Latencies of ResNet50 are Clockwork's: Nexus publishes one batch size only.
fn zipf() -> Scenario {
    const SESSIONS: u32 = 16;
    let rates = zipf_rates(SESSIONS, 0.9, 240.0);
    let session = |(index, rate_hz): (usize, f64)| {
        let slo = Nanos::from_millis([50, 100, 150, 200][index % 4]);
        let name = format!("session-{index}");
        Task::real_time(
            &name,
            ModelId(index as u16),
            slo,
            Pattern::Poisson { rate_hz },
        )
    };
    let tasks: Vec<Task> = rates.into_iter().enumerate().map(session).collect();
    let models = tasks
        .iter()
        .map(|task| resnet50().model(&task.name))
        .collect();
    Scenario::new(models, tasks, board(), Nanos::from_millis(60_000))
}

/// Section 4.3 and 6.3: one model with L(b) = alpha b + beta, whose optimum is 500 requests a
/// second at an objective of 100 ms. The paper varies alpha from 1.0 to 1.8 ms.
#[must_use]
pub fn drop(alpha_ms: f64, pattern: Pattern) -> Scenario {
    let mut task = Task::real_time("linear", ModelId(0), DROP_SLO, pattern);
    task.config.queue_max = 256;
    let models = vec![nexus::linear(alpha_ms)];
    Scenario::new(models, vec![task], board(), Nanos::from_millis(60_000))
}

/// Section 7.5: a query runs SSD on a frame, then Inception on each of `fan_out` objects. The
/// objective of the query is divided between the two.
#[must_use]
pub fn query(fan_out: f64) -> Scenario {
    let frames = uniform(QUERIES_HZ);
    let after = TaskId(0);
    let recogniser = QUERY_SLO.saturating_sub(DETECTOR_SLO);
    let objects = Pattern::Query { after, fan_out };
    let tasks = vec![
        Task::real_time("detect", ModelId(0), DETECTOR_SLO, frames),
        Task::real_time("recognise", ModelId(1), recogniser, objects),
    ];
    let models = vec![nexus::ssd(), TABLE_1[1].model("inception")];
    Scenario::new(models, tasks, board(), Nanos::from_millis(60_000))
}

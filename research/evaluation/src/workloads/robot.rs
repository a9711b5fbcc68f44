//! A robot with three cameras at 30 frames a second on two cores: detection within 33 ms, sign
//! classification within 20 ms, driver monitoring from what is left. The signs are the project's
//! own network, measured; the other two are synthetic (`profiles::robot`).

use punctual_core::{ClientId, Instant, ModelId, Nanos};

use super::Workload;
use crate::profiles::{robot, signs};
use punctual_simulator::arrivals::{Pattern, TraceEntry};
use punctual_simulator::faults::Fault;
use punctual_simulator::scenario::{Board, Scenario, Task};
use punctual_simulator::timing::{Durations, Quantile, SlowPhase};

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "robot",
        about: "three cameras at 30 frames/s on two cores: detection 33 ms, signs 20 ms, driver monitoring best-effort",
        build: || robot(MINUTE),
    },
    Workload {
        name: "robot-burst",
        about: "the robot, which once a second has twelve further signs in one frame",
        build: burst,
    },
    Workload {
        name: "robot-stalled-client",
        about: "the robot, whose detection camera stands still for half a second and then sends all at once",
        build: stalled,
    },
    Workload {
        name: "robot-thermal-step",
        about: "the robot, which gets 1.4 times slower by heat for 20 s",
        build: thermal_step,
    },
    Workload {
        name: "robot-day",
        about: "a day of the robot, 7.8 million frames",
        build: || robot(MINUTE.saturating_mul(24 * 60)),
    },
];

const MINUTE: Nanos = Nanos::from_millis(60_000);

const FRAMES_HZ: f64 = 30.0;

/// The least time between two frames: turns are rounded down to a nanosecond.
const FRAME: Nanos = Nanos::new(33_333_333);

/// How late a frame's descriptor can be: the way through the channel.
const CHANNEL: Nanos = Nanos::from_micros(500);

/// Signs in one frame of a burst, beyond the one of the camera's own turn.
const BURST: usize = 12;

fn robot(length: Nanos) -> Scenario {
    let camera = |phase_ms| Pattern::Periodic {
        rate_hz: FRAMES_HZ,
        phase: Nanos::from_millis(phase_ms),
        jitter: CHANNEL,
    };
    let real_time = |name, model, deadline_ms, pattern| {
        let deadline = Nanos::from_millis(deadline_ms);
        Task::real_time(name, ModelId(model), deadline, pattern).reserved(FRAME)
    };
    let mut tasks = vec![
        real_time("detection", 0, 33, camera(0)),
        real_time("signs", 1, 20, camera(7)),
        Task::best_effort("monitoring", ModelId(2), camera(13)),
    ];
    for task in &mut tasks {
        task.config.prepare = signs::PREPARE;
        // Three cameras share the core that prepares: in the worst case each waits for the others.
        task.config.jitter = CHANNEL + signs::PREPARE.saturating_mul(3);
        task.config.batch_max = 8;
        task.config.queue_max = 16;
    }
    let board = Board {
        preemption_bound: signs::PREEMPTION,
        dispatch_cost: Nanos::from_micros(50),
        egress_bound: Nanos::from_micros(100),
        request_buffers: 64,
        ..Board::of(2)
    };
    let models = vec![robot::detection(), signs::model(), robot::monitoring()];
    let mut scenario = Scenario::new(models, tasks, board, length);
    scenario.durations = within_profile();
    scenario.planned()
}

/// Stages as measured for `signs`, but never beyond the budget (its p99): here the assumptions of the guarantee hold.
fn within_profile() -> Durations {
    let points = [
        (0.0, 0.8),
        (0.5, signs::MEDIAN_SHARE),
        (0.99, 0.99),
        (1.0, 1.0),
    ];
    Durations {
        quantiles: points
            .map(|(share, factor)| Quantile { share, factor })
            .into(),
        stopping_least: 0.0,
        preparation_least: 0.7,
        ..Durations::default()
    }
}

/// A second of frames at 30 Hz, with a burst half-way.
fn burst() -> Scenario {
    let mut scenario = robot(MINUTE);
    let frame = |turn: u64| Nanos::new(turn * 1_000_000_000 / 30);
    let mut times: Vec<Nanos> = (0..30).map(frame).collect();
    times.extend([frame(15); BURST]);
    times.sort_unstable();
    scenario.tasks[1].pattern = Pattern::Trace {
        entries: times
            .into_iter()
            .map(|at| TraceEntry { at, deadline: None })
            .collect(),
        span: Some(Nanos::from_millis(1_000)),
    };
    scenario
}

fn stalled() -> Scenario {
    let mut scenario = robot(MINUTE);
    let stall = |second: u64| Fault::ClientStalled {
        client: ClientId(0),
        from: at_millis(second * 1_000),
        until: at_millis(second * 1_000 + 500),
    };
    scenario.faults = [10, 30, 50].map(stall).into();
    scenario
}

fn thermal_step() -> Scenario {
    let mut scenario = robot(MINUTE);
    scenario.durations.slow = vec![SlowPhase {
        from: at_millis(20_000),
        until: at_millis(40_000),
        ramp: Nanos::from_millis(1_000),
        factor: 1.4,
    }];
    scenario
}

fn at_millis(ms: u64) -> Instant {
    Instant::ZERO + Nanos::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_robots_frames_are_promised() {
        let scenario = robot(MINUTE).reserved_if_possible();
        let reserved: Vec<bool> = scenario.tasks.iter().map(|t| t.config.reserved).collect();
        assert_eq!(reserved, [true, true, false]);
    }

    #[test]
    fn a_burst_brings_its_signs_at_once() {
        let scenario = burst();
        let Pattern::Trace { entries, .. } = &scenario.tasks[1].pattern else {
            panic!("a trace");
        };
        let groups = entries.chunk_by(|a, b| a.at == b.at);
        assert_eq!(groups.map(<[TraceEntry]>::len).max(), Some(BURST + 1));
        assert_eq!(entries.len(), 30 + BURST);
    }
}

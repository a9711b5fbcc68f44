//! A robot with three cameras at 30 frames a second on two cores: detection within 33 ms, sign
//! classification within 20 ms, driver monitoring from what is left. The signs are the project's
//! own network, measured; the other two are synthetic (`profiles::robot`).

use punctual_core::{ModelId, Nanos, StageId};

use super::Workload;
use crate::arrivals::Pattern;
use crate::profiles::{robot, signs};
use crate::scenario::{Board, Scenario, Task};
use crate::timing::Durations;

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "robot",
        about: "three cameras at 30 frames/s on two cores: detection 33 ms, signs 20 ms, driver monitoring best-effort",
        build: || robot(MINUTE),
    },
    Workload {
        name: "robot-day",
        about: "a day of the robot",
        build: || robot(MINUTE.saturating_mul(24 * 60)),
    },
];

const MINUTE: Nanos = Nanos::from_millis(60_000);

const FRAMES_HZ: f64 = 30.0;

/// The least time between two frames: turns are rounded down to a nanosecond.
const FRAME: Nanos = Nanos::new(33_333_333);

/// How late a frame's descriptor can be; the way through the channel.
const CHANNEL: Nanos = Nanos::from_micros(500);

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
    tasks[2].config.mandatory_exit = StageId(0);
    Scenario {
        name: String::new(),
        about: String::new(),
        models: vec![robot::detection(), signs::model(), robot::monitoring()],
        tasks,
        board: Board {
            units: 2,
            workers: 1,
            preemption_bound: signs::PREEMPTION,
            dispatch_cost: Nanos::from_micros(50),
            egress_bound: Nanos::from_micros(100),
            request_buffers: 64,
            pages: 0,
            contention_permille: 1000,
        },
        planned: Vec::new(),
        length,
        durations: Durations::default(),
        faults: Vec::new(),
        window: None,
    }
    .planned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{PolicyConfig, Scheduler};

    #[test]
    fn the_robots_frames_are_promised() {
        let scenario = robot(MINUTE);
        assert!(scenario.tasks[..2].iter().all(|task| task.config.reserved));
        assert!(Scheduler::new(scenario.config(&PolicyConfig::default())).is_ok());
    }
}

//! Frames that come later than the plan says, and what they cost those that do not.

use punctual_core::{Criticality, Nanos, PolicySpec as _, PunctualConfig, StageId, TaskId};

use crate::arrivals::Pattern;
use crate::audit::Auditor;
use crate::outcome::Served;
use crate::run::{Settings, simulate};
use crate::scenario::{Scenario, Task};
use crate::testbed::{ms, scenario, task};

/// From capture to here a frame is in time: the jitter less the preparation.
const IN_TIME: Nanos = Nanos::from_micros(500);

/// Two cameras of which one is up to 3 ms late, together with frames that take what is not reserved.
fn late_camera() -> Scenario {
    let deep = |name, period| {
        let mut task = task(name, Criticality::RealTime, period);
        task.config.mandatory_exit = StageId(1);
        task
    };
    let mut late = deep("late", 20);
    late.pattern = Pattern::Periodic {
        rate_hz: 50.0,
        phase: Nanos::ZERO,
        jitter: ms(3),
    };
    let mut greedy = deep("greedy", 5);
    greedy.config.reserved = false;
    greedy.pattern = Pattern::Poisson { rate_hz: 300.0 };
    let mut scenario = scenario();
    scenario.planned[0].1 = vec![0, 1, 2];
    scenario.tasks = Vec::<Task>::from([late, deep("punctual", 20), greedy]);
    scenario
}

#[test]
fn a_camera_that_is_late_now_and_then_loses_none_of_the_frames_that_are_in_time() {
    let scenario = late_camera();
    let policy = PunctualConfig::default();
    for seed in 0..5 {
        let settings = Settings {
            seed,
            keep_requests: true,
        };
        let mut auditor = Auditor::new(&scenario.config(&policy), policy.contract());
        let outcome = simulate(&scenario, &policy, 1.0, settings, &mut auditor);
        let outcome = outcome.expect("a valid plan");
        let in_time = |served: &&Served| served.submitted <= served.intended + IN_TIME;
        let of = |task| {
            outcome
                .served
                .iter()
                .filter(move |s| s.task == TaskId(task))
        };
        assert!(of(0).filter(in_time).count() > 50);
        assert!(of(0).count() > 5 * of(0).filter(in_time).count());
        let kept = of(0).filter(in_time).chain(of(1));
        let refused: Vec<&Served> = kept.filter(|served| served.rejected().is_some()).collect();
        assert!(refused.is_empty(), "seed {seed}: {refused:#?}");
        assert!(of(2).any(|served| served.rejected().is_some()));
        assert_eq!(auditor.findings().list(), [], "seed {seed}");
    }
}

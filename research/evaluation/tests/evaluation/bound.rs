//! The clairvoyant bound of real runs.

use punctual_core::{Nanos, PolicySpec, PunctualConfig, StageId};

use punctual_evaluation::bound::{Knowledge, of_run};
use punctual_evaluation::workloads;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::testbed::{ms, run_at, scenario};
use punctual_simulator::timing::{Durations, Quantile};

/// Some of the loads are more than the device can bear.
fn scenarios() -> [Scenario; 5] {
    let varied = Durations {
        quantiles: [(0.0, 0.6), (1.0, 1.0)]
            .map(|(share, factor)| Quantile { share, factor })
            .to_vec(),
        ..Durations::default()
    };
    let mut second_exit = scenario();
    second_exit.tasks[0].config.mandatory_exit = StageId(1);
    let mut shared_well = scenario();
    shared_well.board.contention_permille = 500;
    let mut two_devices = scenario();
    two_devices.board.workers = 2;
    let with_varied = Scenario {
        durations: varied,
        ..scenario()
    };
    [
        scenario(),
        with_varied,
        second_exit,
        shared_well,
        two_devices,
    ]
}

#[test]
fn no_policy_is_right_more_often_than_the_bound_allows() {
    for scenario in scenarios() {
        for policy in punctual_baselines::all().iter() {
            for load in [1, 3, 8] {
                let (outcome, _) = run_at(&scenario, policy, load, 5);
                let bound = of_run(&scenario, &outcome.served, Knowledge::Answers);
                let right = outcome.total.correct_on_time as f64;
                assert_eq!(bound.jobs as u64, outcome.total.submitted);
                assert!(
                    right <= bound.value + 1e-6,
                    "{} at load {load}: {right} right answers, bound {}",
                    policy.name(),
                    bound.value
                );
            }
        }
    }
}

#[test]
fn an_idle_device_leaves_room_for_every_answer_that_some_exit_has_right() {
    let scenario = scenario();
    let (outcome, _) = run_at(&scenario, &PunctualConfig::default(), 1, 5);
    let bound = of_run(&scenario, &outcome.served, Knowledge::Answers);
    // The second exit is right about every picture.
    assert_eq!(bound.accuracy(), Some(1.0));
}

#[test]
fn under_overload_the_bound_is_what_the_time_is_worth() {
    let mut scenario = scenario();
    // Without the best-effort task, whose answers have no deadline.
    scenario.tasks.truncate(2);
    scenario.planned[0].1 = vec![0, 1];
    let (outcome, _) = run_at(&scenario, &PunctualConfig::default(), 16, 5);
    let bound = of_run(&scenario, &outcome.served, Knowledge::Answers);
    // At batch 2 the first stage takes 1.5 ms for each picture, enough for one half of them; the
    // second another 2.25 ms. Work goes on for 10 s and one deadline of 20 ms.
    let work = bound.work;
    assert!(
        work > Nanos::from_millis(9_900) && work <= Nanos::from_millis(10_020),
        "{work}"
    );
    let submitted = outcome.total.submitted as f64;
    let easy = outcome
        .served
        .iter()
        .filter(|served| served.sample.is_multiple_of(2))
        .count() as f64;
    let by_hand = easy + (10_020.0 - easy * 1.5) / 3.75;
    assert!(
        bound.value <= by_hand && by_hand < submitted,
        "{bound:?} {by_hand}"
    );
    assert!(bound.value > 0.98 * by_hand, "{bound:?} {by_hand}");
}

#[test]
fn what_confidences_tell_is_worth_no_more_than_the_answers_themselves() {
    let scenario = scenario();
    for load in [1, 8] {
        let (outcome, _) = run_at(&scenario, &PunctualConfig::default(), load, 5);
        let of = |knowledge| of_run(&scenario, &outcome.served, knowledge).value;
        let (answers, expected) = (of(Knowledge::Answers), of(Knowledge::Confidences));
        assert!(expected <= answers, "{expected} {answers}");
        // The first exit's confidences say which answers are right: little is lost.
        assert!(expected > 0.9 * answers, "{expected} {answers}");
    }
}

#[test]
fn no_policy_beats_the_bound_on_the_published_workloads() {
    for name in ["seeb-gamma-high", "robot-burst"] {
        let mut scenario = workloads::by_name(name).expect("it is built in");
        scenario.length = ms(1_000);
        for policy in punctual_baselines::all().iter() {
            let settings = Settings {
                seed: 2,
                keep_requests: true,
            };
            let outcome = simulate(&scenario, policy, 4.0, settings, &mut ());
            let Ok(outcome) = outcome else { continue };
            let bound = of_run(&scenario, &outcome.served, Knowledge::Answers);
            let right = outcome.total.correct_on_time as f64;
            assert!(
                right <= bound.value + 1e-6,
                "{name} under {}: {right} right answers, bound {}",
                policy.name(),
                bound.value
            );
        }
    }
}

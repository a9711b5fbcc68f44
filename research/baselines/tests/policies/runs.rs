//! What holds of every run in virtual time, whichever policy decides.

use punctual_core::{Instant, PolicySpec, PunctualConfig, TaskId};
use punctual_simulator::outcome::{Ending, Served};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::testbed::{run_at, scenario};
use punctual_simulator::timing::{Durations, Quantile};

fn varied() -> Scenario {
    let point = |(share, factor)| Quantile { share, factor };
    Scenario {
        durations: Durations {
            quantiles: [(0.0, 0.6), (0.5, 0.8), (1.0, 1.0)].map(point).to_vec(),
            stopping_least: 0.0,
            preparation_least: 0.2,
            ..Durations::default()
        },
        ..scenario()
    }
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    for policy in punctual_baselines::all().iter() {
        let again = || run_at(&varied(), policy, 2, 7);
        assert_eq!(again(), again(), "{}", policy.name());
        let (other, _) = run_at(&varied(), policy, 2, 8);
        assert_ne!(again().0.served, other.served, "{}", policy.name());
    }
}

#[test]
fn every_submission_is_counted_once_whatever_the_policy_and_the_load() {
    for policy in punctual_baselines::all().iter() {
        for load in [1, 4] {
            let (outcome, _) = run_at(&varied(), policy, load, 3);
            let all = &outcome.total;
            assert_eq!(outcome.ending, Ending::Drained, "{}", policy.name());
            assert_eq!(all.submitted, all.on_time + all.missed());
            assert_eq!(all.submitted, outcome.served.len() as u64);
            let of_tasks: u64 = outcome.tasks.iter().map(|task| task.submitted).sum();
            assert_eq!(all.submitted, of_tasks);
            let effort = outcome.effort;
            assert_eq!(
                (all.lost, effort.stray_replies, effort.stale_events),
                (0, 0, 0)
            );
            assert!(all.on_time > 0, "{}", policy.name());
        }
    }
}

#[test]
fn all_policies_see_the_same_submissions_and_pictures() {
    let seen = |policy: &dyn PolicySpec| -> Vec<(TaskId, Instant, u32)> {
        let (outcome, _) = run_at(&varied(), policy, 3, 5);
        let key = |served: &Served| (served.task, served.submitted, served.sample);
        let mut seen: Vec<_> = outcome.served.iter().map(key).collect();
        seen.sort_unstable_by_key(|(task, at, _)| (*at, *task));
        seen
    };
    let policies = punctual_baselines::all();
    let first = seen(&PunctualConfig::default());
    assert!(first.len() > 1_000);
    for policy in policies.iter() {
        assert_eq!(seen(policy), first, "{}", policy.name());
    }
}

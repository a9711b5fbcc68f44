//! What holds of every run.

use punctual_core::{Action, Event, PunctualConfig, TaskId};

use crate::scenario::Scenario;
use crate::testbed::{run_at, scenario};
use crate::timing::{Durations, Quantile};

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
fn what_was_promised_is_kept_and_the_device_is_never_busy_more_than_always() {
    let (outcome, _) = run_at(&varied(), &PunctualConfig::default(), 1, 3);
    for camera in [TaskId(0), TaskId(1)] {
        let summary = outcome.summary_of(camera);
        assert_eq!(summary.missed, 0, "{summary:?}");
        assert!(summary.latency_us.max <= 20_000.0, "{summary:?}");
        // Half of the pictures is right at the first exit, all are at the second.
        assert!(summary.accuracy > 0.95, "{summary:?}");
        assert_eq!(summary.accuracy_full_depth, 1.0);
    }
    let utilisation = outcome.effort.utilisation(outcome.ended);
    assert!((0.3..=1.0).contains(&utilisation), "{utilisation}");
}

#[test]
fn an_observer_is_told_each_event_before_the_actions_that_it_leads_to() {
    let (outcome, record) = run_at(&varied(), &PunctualConfig::default(), 2, 3);
    assert_eq!(record.events.len() as u64, outcome.effort.steps);
    assert!(record.events.is_sorted_by_key(|(now, _)| *now));
    let arrived = record.events.iter();
    let arrived = arrived.filter(|(_, event)| matches!(event, Event::Arrived(_)));
    assert_eq!(arrived.count() as u64, outcome.total.submitted);
    let replies = record.actions.iter();
    let replies = replies.filter(|(_, action)| matches!(action, Action::Reply(_)));
    assert_eq!(replies.count() as u64, outcome.total.submitted);
}

#[test]
fn spans_are_the_busy_time_of_the_device() {
    let (outcome, record) = run_at(&varied(), &PunctualConfig::default(), 2, 3);
    let spans = record.spans.iter();
    let busy: u64 = spans.map(|span| span.to.since(span.from).as_nanos()).sum();
    assert_eq!(busy as f64, outcome.effort.busy);
    assert!(outcome.effort.preempted > 0);
    let mut spans = record.spans.clone();
    spans.sort_unstable_by_key(|span| span.from);
    assert!(spans.windows(2).all(|pair| pair[0].to <= pair[1].from));
}

#[test]
fn latencies_are_those_of_the_requests() {
    let (outcome, _) = run_at(&varied(), &PunctualConfig::default(), 1, 3);
    let answered = outcome.served.iter().filter(|served| served.exit.is_some());
    let longest = answered.map(|served| served.latency().as_nanos()).max();
    let longest_us = longest.expect("some are answered") as f64 / 1e3;
    let found = outcome.summary().latency_us;
    assert!(
        (found.max / longest_us - 1.0).abs() < 0.01,
        "{found:?}, not {longest_us}"
    );
    assert!(found.p50 > 0.0 && found.p50 < found.max);
}

//! Each fault does what it says.

use punctual_core::{ClientId, Event, ModelId, TaskId, Verdict};

use crate::faults::Fault;
use crate::outcome::{Ending, Outcome, Served};
use crate::testbed::{at, run_with_faults};

const CLIENT: ClientId = ClientId(0);

fn of_first_task(outcome: &Outcome) -> impl Iterator<Item = &Served> {
    let served = outcome.served.iter();
    served.filter(|served| served.task == TaskId(0))
}

#[test]
fn a_client_that_is_gone_submits_nothing_more() {
    let (outcome, record) = run_with_faults(&[Fault::ClientGone {
        client: CLIENT,
        at: at(5_000),
    }]);
    assert!(of_first_task(&outcome).all(|served| served.submitted < at(5_000)));
    assert_eq!(of_first_task(&outcome).count().abs_diff(5_000 / 33), 0);
    let gone = Event::ClientGone { client: CLIENT };
    assert_eq!(
        record
            .events
            .iter()
            .filter(|(_, event)| *event == gone)
            .count(),
        1
    );
    assert_eq!(outcome.ending, Ending::Drained);
}

#[test]
fn a_stalled_clients_frames_come_at_once_and_the_old_ones_are_refused() {
    let (outcome, _) = run_with_faults(&[Fault::ClientStalled {
        client: CLIENT,
        from: at(1_000),
        until: at(2_000),
    }]);
    let held: Vec<_> = of_first_task(&outcome)
        .filter(|served| (at(1_000)..at(2_000)).contains(&served.intended))
        .collect();
    assert!((30..=31).contains(&held.len()), "{}", held.len());
    assert!(held.iter().all(|served| served.submitted == at(2_000)));
    let refused = held.iter().filter(|served| served.rejected().is_some());
    assert!(refused.count() >= held.len() - 1);
    let other = outcome.summary_of(TaskId(1));
    assert_eq!(other.missed, 0, "{other:?}");
}

#[test]
fn an_unreadable_payload_fails_and_the_next_one_does_not() {
    let (outcome, _) = run_with_faults(&[Fault::PayloadUnreadable {
        client: CLIENT,
        from: at(1_000),
        until: at(1_100),
    }]);
    let failed = outcome.tasks[0].failed.payload;
    assert!((3..=4).contains(&failed), "{failed}");
    assert_eq!(outcome.tasks[0].missed(), failed);
}

#[test]
fn a_clock_step_moves_the_claimed_captures_but_not_into_the_future() {
    for by_ns in [-30_000_000, 30_000_000] {
        let (_, record) = run_with_faults(&[Fault::ClockStep {
            client: CLIENT,
            at: at(5_000),
            by_ns,
        }]);
        for (now, event) in &record.events {
            let Event::Arrived(arrival) = event else {
                continue;
            };
            let off = now.since(arrival.captured).as_nanos();
            let stepped = arrival.ticket.client == CLIENT && *now >= at(5_000) && by_ns < 0;
            assert_eq!(off, if stepped { 30_000_000 } else { 0 });
        }
    }
}

#[test]
fn an_action_that_runs_while_the_device_fails_fails() {
    let (outcome, record) = run_with_faults(&[Fault::DeviceFails {
        from: at(1_000),
        until: at(1_200),
    }]);
    let failures = record.events.iter();
    let failures = failures.filter(|(_, event)| matches!(event, Event::Failed { .. }));
    let times: Vec<_> = failures.map(|(now, _)| *now).collect();
    assert!(times.len() > 3, "{times:?}");
    assert!(
        times.iter().all(|now| (at(1_000)..at(1_201)).contains(now)),
        "{times:?}"
    );
    assert!(outcome.total.failed.device > 0);
    let finished_inside = record.events.iter().any(|(now, event)| {
        matches!(event, Event::Finished(_)) && (at(1_001)..at(1_200)).contains(now)
    });
    assert!(!finished_inside);
}

#[test]
fn a_lost_completion_is_never_reported() {
    let whole = run_with_faults(&[]).1;
    let (outcome, record) = run_with_faults(&[Fault::CompletionLost { nth: 10 }]);
    let first_loss = record
        .events
        .iter()
        .zip(&whole.events)
        .find(|(with, without)| with != without)
        .map(|(_, (_, without))| without);
    assert!(
        matches!(first_loss, Some(Event::Finished(_))),
        "{first_loss:?}"
    );
    let total = &outcome.total;
    assert!(
        total.lost + total.failed.device + total.late > 0,
        "{total:?}"
    );
}

#[test]
fn stages_of_a_model_whose_profile_lies_take_so_much_longer() {
    let (_, record) = run_with_faults(&[Fault::ProfileLies {
        model: ModelId(0),
        factor: 1.5,
    }]);
    let first = record.events.iter().find_map(|(_, event)| match event {
        Event::Finished(finished) => Some(finished.measured.as_nanos()),
        _ => None,
    });
    assert_eq!(first, Some(3_000_000));
}

#[test]
fn requests_that_nobody_answers_are_lost_and_the_run_ends() {
    // With its first completion lost and nothing to take its place, the device is never free.
    let (outcome, _) = run_with_faults(&[Fault::CompletionLost { nth: 0 }]);
    let lost = outcome
        .served
        .iter()
        .filter(|served| served.verdict.is_none());
    assert_eq!(lost.count() as u64, outcome.total.lost);
    match outcome.ending {
        Ending::Drained => assert_eq!(outcome.total.lost, 0),
        _ => assert!(outcome.total.lost > 0),
    }
    let late = outcome
        .served
        .iter()
        .filter(|served| served.verdict == Some(Verdict::Late));
    assert_eq!(late.count() as u64, outcome.total.late);
}

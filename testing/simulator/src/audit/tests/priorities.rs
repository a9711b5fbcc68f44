//! Promised work that has to wait for nothing, and what must be found when it waits.

use std::sync::Arc;

use punctual_core::{Action, Event, PolicySpec, PunctualConfig, Rejection, Verdict};

use super::bench::{Bench, at, ms, plan};
use crate::audit::{Auditor, Invariant, Violation};

/// What is found in a run of [`plan`] by a policy that never waits, if its orders pass through `fault`.
fn found(fault: impl FnMut(Action) -> Vec<Action> + 'static) -> Vec<Violation> {
    let config = plan();
    let policy = PunctualConfig {
        waiting: false,
        ..PunctualConfig::default()
    };
    let auditor = Auditor::new(&config, policy.contract()).without_waiting();
    let mut bench = Bench::under(&config, Arc::new(policy));
    bench.auditor = auditor;
    bench.orders = Box::new(fault);
    bench.frames();
    bench.schedule(at(121), Event::Shed { hold: true });
    bench.frame(2, at(122));
    bench.run(&config, at(2_000));
    let list = bench.auditor.findings().list().iter();
    list.map(|finding| finding.violation).collect()
}

fn assert_named(found: &[Violation], named: fn(&Violation) -> bool, invariant: Invariant) {
    let named = found.iter().find(|violation| named(violation));
    let named = named.unwrap_or_else(|| panic!("not named: {found:#?}"));
    assert_eq!(named.invariant(), invariant);
}

#[test]
fn nothing_is_found_where_promised_work_waits_for_nothing() {
    assert_eq!(found(|action| vec![action]), []);
}

#[test]
fn a_partition_that_idles_while_promised_work_is_ready_is_found() {
    let idle = |action: Action| match &action {
        Action::Infer(infer) if infer.model.0 == 0 => Vec::new(),
        _ => vec![action],
    };
    let named = |v: &Violation| matches!(v, Violation::IdleWhilePromised { .. });
    assert_named(&found(idle), named, Invariant::Promises);
}

#[test]
fn best_effort_work_that_is_not_told_to_stop_at_once_is_found() {
    let keep = |action: Action| match action {
        Action::Preempt { .. } => Vec::new(),
        action => vec![action],
    };
    let named = |v: &Violation| matches!(v, Violation::NotToldToStop { .. });
    assert_named(&found(keep), named, Invariant::BestEffort);
}

#[test]
fn best_effort_work_that_waits_while_it_is_to_be_given_up_is_found() {
    let shedding = Verdict::Rejected(Rejection::Shedding);
    let keep = move |action: Action| match &action {
        Action::Reply(reply) if reply.verdict == shedding && reply.request.is_some() => Vec::new(),
        _ => vec![action],
    };
    let mut kept = Bench::new(&plan());
    kept.orders = Box::new(keep);
    // The second waits for the first when such work must be given up.
    kept.frame(2, at(0));
    kept.frame(2, at(1));
    kept.schedule(at(2), Event::Shed { hold: true });
    kept.run(&plan(), at(200));
    let list = kept.auditor.findings().list().iter();
    let list: Vec<_> = list.map(|finding| finding.violation).collect();
    let named = |v: &Violation| matches!(v, Violation::NotGivenUp { .. });
    assert_named(&list, named, Invariant::BestEffort);
}

#[test]
fn a_window_that_opens_later_than_it_is_ordered_is_found() {
    let later = |mut action: Action| {
        if let Action::Infer(infer) = &mut action {
            infer.window.earliest = infer.window.earliest + ms(1);
            infer.window.latest = infer.window.latest.max(infer.window.earliest);
        }
        vec![action]
    };
    let named = |v: &Violation| matches!(v, Violation::WrongWindow { .. });
    assert_named(&found(later), named, Invariant::Windows);
}

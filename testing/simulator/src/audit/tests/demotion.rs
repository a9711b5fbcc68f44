//! Models that lost their promises, and what must be found about that.

use std::cell::Cell;
use std::rc::Rc;

use punctual_core::{Action, Config, Demotion, Event, ModelId, Nanos, PartitionId, TaskConfig};

use super::bench::{Bench, at, model, ms, plan, task};
use crate::audit::{Invariant, Violation};

/// Two tasks with networks of their own, 2 of 20 ms each.
fn config() -> Config {
    let own = |model| TaskConfig {
        batch_max: 1,
        ..task(model, ms(20))
    };
    Config {
        tasks: vec![own(0), own(1)],
        models: vec![model(ms(2), ms(3)), model(ms(2), ms(3))],
        ..plan()
    }
}

/// What is found about a first model that takes three times its profile for a hundred frames.
fn found(
    takes: fn(&punctual_core::Infer, Nanos) -> Nanos,
    orders: impl FnMut(Action) -> Vec<Action> + 'static,
) -> Vec<Violation> {
    let config = config();
    let mut bench = Bench::new(&config);
    bench.takes = takes;
    bench.orders = Box::new(orders);
    for n in 0..100 {
        bench.frame(0, at(20 * n));
        bench.frame(1, at(20 * n));
    }
    bench.run(&config, at(3_000));
    let found = bench.auditor.findings().list().iter();
    found.map(|f| f.violation).collect()
}

fn liar(infer: &punctual_core::Infer, budget: Nanos) -> Nanos {
    if infer.model.0 == 0 {
        budget.saturating_mul(3)
    } else {
        budget
    }
}

fn demotion(model: u16) -> Action {
    Action::Demote(Demotion {
        partition: PartitionId(0),
        model: ModelId(model),
        overran: 4,
        of: 16,
        worst: 3_000,
    })
}

fn assert_wrong_demotion(found: &[Violation]) {
    let named = |v: &&Violation| matches!(v, Violation::WrongDemotion { .. });
    let named = found.iter().find(named);
    let named = named.unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(named.invariant(), Invariant::Promises);
}

#[test]
fn nothing_is_found_about_a_model_that_is_demoted_rightly() {
    let demoted = Rc::new(Cell::new(0));
    let count = Rc::clone(&demoted);
    let found = found(liar, move |action| {
        count.set(count.get() + usize::from(matches!(action, Action::Demote(_))));
        vec![action]
    });
    assert_eq!((found, demoted.get()), (vec![], 1));
}

#[test]
fn a_demotion_of_a_model_that_keeps_its_profile_is_found() {
    let mut done = false;
    let found = found(
        |_, budget| budget,
        move |action| {
            let first = !std::mem::replace(&mut done, true);
            let demoted = first.then(|| demotion(1));
            demoted.into_iter().chain([action]).collect()
        },
    );
    assert_wrong_demotion(&found);
}

#[test]
fn a_model_that_gets_its_promises_back_at_once_is_found() {
    let found = found(liar, |action| match &action {
        Action::Demote(demotion) => {
            let back = Action::Reinstate {
                partition: demotion.partition,
                model: demotion.model,
            };
            vec![action, back]
        }
        _ => vec![action],
    });
    assert_wrong_demotion(&found);
}

#[test]
fn nothing_is_found_when_a_demoted_models_completion_is_lost_and_given_up_by_its_profile() {
    let config = config();
    let mut bench = Bench::new(&config);
    bench.takes = liar;
    let demoted = Rc::new(Cell::new(false));
    let lost = Rc::new(Cell::new(None));
    let (known, named) = (Rc::clone(&demoted), Rc::clone(&lost));
    bench.orders = Box::new(move |action| {
        match &action {
            Action::Demote(_) => known.set(true),
            Action::Infer(infer) if known.get() && infer.model.0 == 0 && named.get().is_none() => {
                named.set(Some(infer.id));
            }
            _ => {}
        }
        vec![action]
    });
    let named = Rc::clone(&lost);
    bench.reports = Box::new(move |event| {
        if matches!(event, Event::Finished(finished) if Some(finished.action) == named.get()) {
            *event = Event::Tick;
        }
    });
    for n in 0..100 {
        bench.frame(0, at(20 * n));
        bench.frame(1, at(20 * n));
    }
    bench.run(&config, at(3_000));
    assert!(lost.get().is_some());
    assert_eq!(bench.auditor.findings().list(), []);
}

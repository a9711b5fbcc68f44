//! Models that are loaded in turn, and what must be found about that.

use punctual_core::{
    Action, Event, ModelId, Readiness, Rejection, RequestId, StageId, TaskId, Verdict,
};

use super::bench::{Bench, at, plan};
use crate::audit::{Invariant, Violation};

/// What is found in a run of [`plan`] whose first model can run this part at first, and all of it after 50 ms.
fn found(stages: u8, as_measured: bool, orders: fn(&mut Action)) -> Vec<Violation> {
    let config = plan();
    let mut bench = Bench::new(&config);
    bench.orders = Box::new(move |mut action| {
        orders(&mut action);
        vec![action]
    });
    let said = |stages, as_measured| {
        Event::Readiness(Readiness {
            model: ModelId(0),
            stages,
            as_measured,
            stays_general: false,
        })
    };
    bench.schedule(at(0), said(stages, as_measured));
    bench.schedule(at(50), said(2, true));
    bench.frames();
    bench.run(&config, at(2_000));
    let found = bench.auditor.findings().list().iter();
    found.map(|f| f.violation).collect()
}

fn assert_found(found: &[Violation], which: fn(&Violation) -> bool, invariant: Invariant) {
    let named = found.iter().find(|violation| which(violation));
    let named = named.unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(named.invariant(), invariant);
}

#[test]
fn nothing_is_found_about_models_that_are_loaded_in_turn() {
    for stages in 0..=2 {
        for as_measured in [false, true] {
            assert_eq!(found(stages, as_measured, |_| {}), []);
        }
    }
}

#[test]
fn a_stage_that_is_not_loaded_is_found() {
    let found = found(1, true, |action| {
        if let Action::Infer(infer) = action
            && infer.model == ModelId(0)
        {
            infer.stage = StageId(1);
        }
    });
    let which = |v: &Violation| matches!(v, Violation::NotLoaded { .. });
    assert_found(&found, which, Invariant::WellFormed);
}

#[test]
fn a_frame_that_is_prepared_though_its_network_is_not_loaded_is_found() {
    let found = found(0, true, |action| {
        if let Action::Reply(reply) = action
            && reply.verdict == Verdict::Rejected(Rejection::NotReady)
        {
            *action = Action::Prepare {
                request: RequestId {
                    buffer: 11,
                    generation: 1,
                },
                task: reply.task,
                ticket: reply.ticket,
            };
        }
    });
    let which = |v: &Violation| {
        matches!(
            v,
            Violation::PreparedUnready {
                task: TaskId(0 | 1)
            }
        )
    };
    assert_found(&found, which, Invariant::WellFormed);
}

#[test]
fn a_frame_that_is_rejected_as_not_ready_though_its_network_is_loaded_is_found() {
    let found = found(1, true, |action| {
        if let Action::Reply(reply) = action {
            reply.verdict = Verdict::Rejected(Rejection::NotReady);
            reply.answer = None;
        }
    });
    let which = |v: &Violation| matches!(v, Violation::WrongVerdict { .. });
    assert_found(&found, which, Invariant::WellFormed);
}

#[test]
fn a_batch_of_a_model_that_does_not_run_as_measured_is_found() {
    let found = found(2, false, |action| {
        if let Action::Infer(infer) = action
            && infer.model == ModelId(0)
        {
            infer.batch = 2;
        }
    });
    let which = |v: &Violation| matches!(v, Violation::UnmeasuredTogether { .. });
    assert_found(&found, which, Invariant::Promises);
}

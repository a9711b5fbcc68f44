//! Faults of a policy that promises nothing, which the auditor must name all the same.

use super::conformance::{far, lone_task};
use punctual_baselines::SeqConfig;
use punctual_core::{Action, Instant, Verdict};
use punctual_simulator::audit::Violation;

fn found(tamper: fn(&mut Vec<Action>)) -> Violation {
    // A seed whose network takes batches of two.
    let mut world = lone_task(&SeqConfig::default(), 1);
    world.tamper = Some(tamper);
    for at in 0..4 {
        world.frame(0, Instant::from_nanos(at));
    }
    let run = world.run_until(far()).and_then(|()| world.drain());
    run.expect_err("a violation")
}

fn first_infer(actions: &mut [Action]) -> Option<&mut punctual_core::Infer> {
    actions.iter_mut().find_map(|action| match action {
        Action::Infer(infer) => Some(infer),
        _ => None,
    })
}

#[test]
fn an_arrival_without_an_answer() {
    let found = found(Vec::clear);
    assert!(matches!(found, Violation::Undecided { .. }), "{found}");
}

#[test]
fn a_verdict_that_never_comes() {
    let tamper = |actions: &mut Vec<Action>| {
        actions.retain(|a| !matches!(a, Action::Reply(r) if r.answer.is_some()));
    };
    let found = found(tamper);
    assert!(matches!(found, Violation::Lost { .. }), "{found}");
}

#[test]
fn two_verdicts() {
    let tamper = |actions: &mut Vec<Action>| {
        let reply = actions.iter().find(|a| matches!(a, Action::Reply(_)));
        actions.extend(reply.cloned());
    };
    let found = found(tamper);
    assert!(
        matches!(found, Violation::VerdictWithoutSubmission { .. }),
        "{found}"
    );
}

#[test]
fn a_stage_ordered_twice() {
    let tamper = |actions: &mut Vec<Action>| {
        let infer = actions.iter().find(|a| matches!(a, Action::Infer(_)));
        actions.extend(infer.cloned());
    };
    let found = found(tamper);
    assert!(matches!(found, Violation::UnknownPlace { .. }), "{found}");
}

#[test]
fn a_member_that_is_in_the_batch_twice() {
    let tamper = |actions: &mut Vec<Action>| {
        if let Some(infer) = first_infer(actions) {
            infer.members.push(infer.members[0]).expect("room");
            infer.batch = 2;
        }
    };
    let found = found(tamper);
    assert!(matches!(found, Violation::MemberNotReady { .. }), "{found}");
}

#[test]
fn a_batch_larger_than_its_members_need() {
    let tamper = |actions: &mut Vec<Action>| {
        if let Some(infer) = first_infer(actions) {
            infer.batch = 8;
        }
    };
    let found = found(tamper);
    assert!(matches!(found, Violation::WrongBatch { .. }), "{found}");
}

#[test]
fn a_stage_out_of_turn() {
    let tamper = |actions: &mut Vec<Action>| {
        if let Some(infer) = first_infer(actions) {
            infer.criticality = punctual_core::Criticality::BestEffort;
        }
    };
    let found = found(tamper);
    assert!(matches!(found, Violation::WrongMember { .. }), "{found}");
}

#[test]
fn a_window_that_ends_before_it_begins() {
    let tamper = |actions: &mut Vec<Action>| {
        if let Some(infer) = first_infer(actions) {
            infer.window.latest = Instant::ZERO;
        }
    };
    let found = found(tamper);
    assert!(matches!(found, Violation::WrongWindow { .. }), "{found}");
}

#[test]
fn an_answer_on_time_that_was_late() {
    let tamper = |actions: &mut Vec<Action>| {
        for action in actions {
            if let Action::Reply(reply) = action {
                reply.verdict = Verdict::Late;
            }
        }
    };
    let found = found(tamper);
    assert!(matches!(found, Violation::WrongVerdict { .. }), "{found}");
}

//! Faults of a policy that the books must find; without these tests they could be blank.

use super::conformance::{far, lone_task};
use punctual_baselines::SeqConfig;
use punctual_core::{Action, Instant, Verdict};
use punctual_policy_testing::books::Breach;

fn breach(tamper: fn(&mut Vec<Action>)) -> Breach {
    // A seed whose network takes batches of two.
    let mut world = lone_task(&SeqConfig::default(), 1);
    world.tamper = tamper;
    for at in 0..4 {
        world.frame(0, Instant::from_nanos(at));
    }
    let run = world.run_until(far()).and_then(|()| world.drain());
    run.expect_err("a breach")
}

fn first_infer(actions: &mut [Action]) -> Option<&mut punctual_core::Infer> {
    actions.iter_mut().find_map(|action| match action {
        Action::Infer(infer) => Some(infer),
        _ => None,
    })
}

#[test]
fn an_arrival_without_an_answer() {
    assert_eq!(breach(Vec::clear), Breach::Arrival);
}

#[test]
fn a_verdict_that_never_comes() {
    let tamper = |actions: &mut Vec<Action>| {
        actions.retain(|a| !matches!(a, Action::Reply(r) if r.answer.is_some()));
    };
    assert_eq!(breach(tamper), Breach::Lost);
}

#[test]
fn two_verdicts() {
    let tamper = |actions: &mut Vec<Action>| {
        let reply = actions.iter().find(|a| matches!(a, Action::Reply(_)));
        actions.extend(reply.cloned());
    };
    assert_eq!(breach(tamper), Breach::Reply);
}

#[test]
fn a_stage_ordered_twice() {
    let tamper = |actions: &mut Vec<Action>| {
        let infer = actions.iter().find(|a| matches!(a, Action::Infer(_)));
        actions.extend(infer.cloned());
    };
    assert_eq!(breach(tamper), Breach::Partition);
}

#[test]
fn a_member_that_is_in_the_batch_twice() {
    let tamper = |actions: &mut Vec<Action>| {
        if let Some(infer) = first_infer(actions) {
            infer.members.push(infer.members[0]).expect("room");
            infer.batch = 2;
        }
    };
    assert_eq!(breach(tamper), Breach::Member);
}

#[test]
fn a_batch_larger_than_its_members_need() {
    let tamper = |actions: &mut Vec<Action>| {
        if let Some(infer) = first_infer(actions) {
            infer.batch = 8;
        }
    };
    assert_eq!(breach(tamper), Breach::Batch);
}

#[test]
fn a_stage_out_of_turn() {
    let tamper = |actions: &mut Vec<Action>| {
        if let Some(infer) = first_infer(actions) {
            infer.criticality = punctual_core::Criticality::BestEffort;
        }
    };
    assert_eq!(breach(tamper), Breach::Stage);
}

#[test]
fn a_window_that_ends_before_it_begins() {
    let tamper = |actions: &mut Vec<Action>| {
        if let Some(infer) = first_infer(actions) {
            infer.window.latest = Instant::ZERO;
        }
    };
    assert_eq!(breach(tamper), Breach::Window);
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
    assert_eq!(breach(tamper), Breach::Verdict);
}

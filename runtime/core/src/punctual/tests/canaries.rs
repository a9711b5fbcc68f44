//! Faults planted into the decisions, each of which the checker must name: a checker that finds
//! nothing proves nothing.

use std::vec;
use std::vec::Vec;

use super::checker::Violation;
use super::plans::{at, best_effort, model, ms, plan, task};
use super::world::{Exact, Nature, World};
use crate::{Action, Confidence, Config, Instant, Nanos, PunctualConfig, StageId, Verdict};

/// Two reserved tasks and a best-effort one, two stages each, batches of up to 2.
fn config() -> Config {
    let stages = vec![vec![(1, ms(2)), (2, ms(3))]; 2];
    let tasks = vec![
        task(0, ms(12), ms(12)),
        task(1, ms(20), ms(20)),
        best_effort(2),
    ];
    let models = vec![model(&stages, 1), model(&stages, 1), model(&stages, 1)];
    plan(tasks, models, ms(1))
}

/// Idle while promised is a fault only of a policy that does not wait.
fn world<N: Nature>(nature: N) -> World<N> {
    let parameters = PunctualConfig {
        waiting: false,
        ..PunctualConfig::default()
    };
    World::with(config(), parameters, nature)
}

/// What the checker finds if every step's decisions are tampered with.
fn found(tamper: fn(&mut Vec<Action>)) -> Result<(), Violation> {
    let mut world = world(Exact);
    world.tamper = tamper;
    world.frame(2, at(0));
    for n in 0..4 {
        world.frame(0, at(1 + 12 * n));
        world.frame(1, at(1 + 20 * n));
    }
    world.run_until(at(100))?;
    world.step(&crate::Event::Drain)?;
    world.run_until(Instant::FAR_FUTURE)?;
    world.checker.finish()
}

fn infers(actions: &mut [Action], with: impl Fn(&mut crate::Infer)) {
    for action in actions {
        if let Action::Infer(infer) = action {
            with(infer);
        }
    }
}

fn replies(actions: &mut [Action], with: impl Fn(&mut crate::Reply)) {
    for action in actions {
        if let Action::Reply(reply) = action {
            with(reply);
        }
    }
}

#[test]
fn without_a_fault_nothing_is_found() {
    assert_eq!(found(|_| {}), Ok(()));
}

#[test]
fn a_verdict_that_is_lost_is_found() {
    let lose = |actions: &mut Vec<Action>| actions.retain(|a| !matches!(a, Action::Reply(_)));
    assert_eq!(found(lose), Err(Violation::Lost));
}

#[test]
fn a_second_verdict_is_found() {
    let twice = |actions: &mut Vec<Action>| {
        let again = actions
            .iter()
            .find(|a| matches!(a, Action::Reply(_)))
            .cloned();
        actions.extend(again);
    };
    assert_eq!(found(twice), Err(Violation::UnknownSubmission));
}

#[test]
fn a_preparation_that_is_forgotten_is_found() {
    let forget =
        |actions: &mut Vec<Action>| actions.retain(|a| !matches!(a, Action::Prepare { .. }));
    assert_eq!(found(forget), Err(Violation::Lost));
}

#[test]
fn a_buffer_in_two_hands_is_found() {
    let same = |actions: &mut Vec<Action>| {
        for action in actions {
            if let Action::Prepare { request, .. } = action {
                request.buffer = 5;
            }
        }
    };
    assert_eq!(found(same), Err(Violation::BufferInUse));
}

#[test]
fn work_that_is_not_ordered_is_found() {
    let idle = |actions: &mut Vec<Action>| {
        let best_effort = |a: &Action| matches!(a, Action::Infer(i) if i.model.0 == 2);
        actions.retain(|a| !matches!(a, Action::Infer(_)) || best_effort(a));
    };
    assert_eq!(found(idle), Err(Violation::IdleWhilePromised));
}

#[test]
fn best_effort_work_that_is_not_told_to_stop_is_found() {
    let keep = |actions: &mut Vec<Action>| actions.retain(|a| !matches!(a, Action::Preempt { .. }));
    assert_eq!(found(keep), Err(Violation::BestEffortInTheWay));
}

#[test]
fn a_stage_out_of_turn_is_found() {
    assert_eq!(
        found(|a| infers(a, |i| i.stage = StageId(1))),
        Err(Violation::WrongStage)
    );
}

#[test]
fn a_batch_larger_than_its_members_need_is_found() {
    assert_eq!(
        found(|a| infers(a, |i| i.batch = 2)),
        Err(Violation::WrongBatch)
    );
}

#[test]
fn a_window_that_is_over_is_found() {
    let over = |a: &mut Vec<Action>| infers(a, |i| i.window.latest = Instant::ZERO);
    assert_eq!(found(over), Err(Violation::WrongWindow));
}

#[test]
fn a_partition_with_two_actions_is_found() {
    let twice = |actions: &mut Vec<Action>| {
        let again = actions
            .iter()
            .find(|a| matches!(a, Action::Infer(_)))
            .cloned();
        actions.extend(again);
    };
    assert_eq!(found(twice), Err(Violation::PartitionBusy));
}

#[test]
fn an_answer_of_another_request_is_found() {
    let other = |a: &mut Vec<Action>| {
        replies(a, |r| {
            if let Some((_, answer)) = &mut r.answer {
                answer.confidence = Confidence(1);
            }
        });
    };
    assert_eq!(found(other), Err(Violation::WrongAnswer));
}

#[test]
fn an_on_time_answer_called_late_is_found() {
    assert_eq!(
        found(|a| replies(a, |r| r.verdict = Verdict::Late)),
        Err(Violation::WrongVerdict)
    );
}

#[test]
fn a_miss_is_found() {
    /// Takes six times its budget.
    #[derive(Clone, Debug)]
    struct Slow;
    impl super::world::Nature for Slow {
        fn duration(&mut self, _: &crate::Infer, time: crate::StageTime) -> Nanos {
            time.budget.saturating_mul(6)
        }
        fn preparation(&mut self, _: crate::TaskId) -> Nanos {
            Nanos::ZERO
        }
        fn confidence(&mut self, _: &crate::Infer) -> Confidence {
            super::plans::UNSURE
        }
    }
    let mut world = world(Slow);
    world.frame(0, at(0));
    world.frame(1, at(0));
    assert_eq!(world.run_until(at(100)), Err(Violation::Missed));
}

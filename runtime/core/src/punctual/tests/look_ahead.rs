//! Look-ahead: the policy hands the next action over before the running one has ended.

use std::vec;
use std::vec::Vec;

use super::plans::{at, model_alone, ms, plan, task};
use super::world::{Exact, World};
use crate::punctual::ablation::Ablation;
use crate::{Action, Config, Instant, PunctualConfig, TaskConfig, Verdict};

fn with_lead(config: Config, lead: u64) -> World<Exact> {
    let parameters = PunctualConfig {
        launch_lead: ms(lead),
        ..PunctualConfig::default()
    };
    World::with(config, parameters, Exact)
}

/// The times at which the actions of two tasks are handed over. Each has one stage of 4; both frames arrive at 0.
fn handed_over(lead: u64, deadline: u64) -> Vec<u64> {
    let tasks = vec![task(0, ms(50), ms(100)), task(1, ms(deadline), ms(100))];
    let models = vec![model_alone(&[ms(4)]), model_alone(&[ms(4)])];
    let mut world = with_lead(plan(tasks, models, ms(1)), lead);
    let frames = [world.frame(0, at(0)), world.frame(1, at(0))];
    world.run_until(at(50));
    for frame in frames {
        let (_, reply) = world.reply(frame).expect("answered");
        assert_eq!(reply.verdict, Verdict::OnTime);
    }
    let infers = world.log.iter();
    let infers = infers.filter(|(_, action)| matches!(action, Action::Infer(_)));
    infers.map(|(at, _)| at.as_nanos() / 1_000_000).collect()
}

#[test]
fn the_next_action_is_handed_over_by_its_lead_before_the_end() {
    assert_eq!(handed_over(1, 60), [0, 3]);
    assert_eq!(handed_over(10, 60), [0, 0]);
}

#[test]
fn without_a_lead_it_is_handed_over_at_the_end() {
    assert_eq!(handed_over(0, 60), [0, 4]);
}

/// The time and the verdict of a third frame that arrives while two others run one after the other. It has 7 to its
/// deadline and 2 of work, so one stage of 4 may block it, but not two.
fn third(ablation: Option<Ablation>) -> (Instant, Verdict) {
    let tasks = vec![
        TaskConfig {
            batch_max: 1,
            ..task(0, ms(50), ms(100))
        },
        task(0, ms(60), ms(100)),
        task(1, ms(7), ms(100)),
    ];
    let models = vec![model_alone(&[ms(4)]), model_alone(&[ms(2)])];
    let mut world = with_lead(plan(tasks, models, ms(1)), 10);
    world.scheduler.ablations.cut = ablation;
    world.frame(0, at(0));
    world.frame(1, at(0));
    let hasty = world.frame(2, at(1));
    world.run_until(at(90));
    let (when, reply) = world.reply(hasty).expect("answered");
    (when, reply.verdict)
}

#[test]
fn nothing_is_handed_over_where_two_stages_would_block_a_reserved_request() {
    assert_eq!(third(None), (at(6), Verdict::OnTime));
}

#[test]
fn handing_over_without_a_test_makes_misses() {
    let (when, verdict) = third(Some(Ablation::UncheckedLookAhead));
    assert!(when > at(8) && verdict == Verdict::Late);
}

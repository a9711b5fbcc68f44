//! Each switch of the policy does what it says, and none of them is needed for safety (which
//! `guarantee` tests with all of them drawn at random).

use super::plans::{at, model, model_alone, ms, plan, task};
use punctual_core::{Config, Criticality, PunctualConfig, StageId, TaskConfig};
use punctual_policy_testing::world::{Exact, World};

/// (stage, members) of each action, the frames being submitted at times in ms, each with a deadline of its own.
fn orders(config: Config, parameters: PunctualConfig, frames: &[(u64, u64)]) -> Vec<(u8, usize)> {
    let mut world = World::with(config, parameters, Exact);
    for &(submitted, deadline) in frames {
        world.frame_captured(0, at(submitted), at(submitted), Some(at(deadline)));
    }
    world.run_until(at(200)).expect("no violation");
    world.drain().expect("nothing lost");
    let orders = world.orders_of(Criticality::RealTime);
    orders.iter().map(|order| (order.1, order.2)).collect()
}

fn unreserved(mandatory: u8) -> TaskConfig {
    TaskConfig {
        reserved: false,
        mandatory_exit: StageId(mandatory),
        ..task(0, ms(50), ms(100))
    }
}

#[test]
fn without_batching_each_request_runs_alone() {
    let stages = [vec![(1, ms(2)), (4, ms(3))], vec![(1, ms(2)), (4, ms(3))]];
    let config = plan(vec![unreserved(0)], vec![model(&stages, 1)], ms(1));
    let frames = [(0, 40), (1, 40), (1, 40), (1, 40)];
    let on = PunctualConfig::default();
    let off = PunctualConfig {
        batching: false,
        ..on
    };
    assert!(orders(config.clone(), on, &frames).contains(&(0, 3)));
    let alone = orders(config, off, &frames);
    assert_eq!(alone.len(), 8);
    assert!(alone.iter().all(|&(_, members)| members == 1));
}

#[test]
fn without_rebatching_a_batch_shrinks_but_never_grows() {
    // A batch of two, and two that are more urgent and so go first through the first stage.
    let first = vec![(1, ms(4)), (2, ms(5))];
    let second = vec![(1, ms(4)), (2, ms(5)), (4, ms(6))];
    let config = plan(vec![unreserved(1)], vec![model(&[first, second], 1)], ms(1));
    let frames = [(0, 50), (1, 48), (1, 48), (5, 40)];
    let on = PunctualConfig::default();
    let off = PunctualConfig {
        rebatching: false,
        ..on
    };
    let merged = orders(config.clone(), on, &frames);
    assert_eq!(merged, [(0, 1), (0, 2), (0, 1), (1, 4)]);
    let apart = orders(config, off, &frames);
    assert_eq!(apart, [(0, 1), (0, 2), (0, 1), (1, 1), (1, 2), (1, 1)]);
}

#[test]
fn without_mandatory_first_a_request_goes_as_deep_as_it_wants_before_the_next() {
    let config = plan(
        vec![unreserved(0)],
        vec![model_alone(&[ms(2), ms(2)])],
        ms(1),
    );
    let frames = [(0, 50), (1, 51)];
    let on = PunctualConfig::default();
    let off = PunctualConfig {
        mandatory_first: false,
        ..on
    };
    let stages = |orders: Vec<(u8, usize)>| -> Vec<u8> { orders.iter().map(|o| o.0).collect() };
    let first_answers_first = stages(orders(config.clone(), on, &frames));
    assert_eq!(first_answers_first, [0, 0, 1, 1]);
    assert_eq!(stages(orders(config, off, &frames)), [0, 1, 0, 1]);
}

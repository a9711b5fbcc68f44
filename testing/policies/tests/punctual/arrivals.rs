//! Waiting for a frame that is expected, where one batch ends sooner than two.

use super::plans::{at, best_effort, model, model_alone, ms, plan, task};
use punctual_core::{Config, Criticality, PunctualConfig, TaskConfig};
use punctual_policy_testing::world::{Exact, World};

/// Two cameras of one model, each 100; a stage takes 6 alone and 7 for both.
fn two_cameras(deadline: u64) -> Config {
    let camera = TaskConfig {
        reserved: false,
        ..task(0, ms(deadline), ms(100))
    };
    let sizes = vec![(1, ms(6)), (2, ms(7))];
    plan(
        vec![camera.clone(), camera],
        vec![model(&[sizes], 1)],
        ms(1),
    )
}

/// (time in ms, members) of the actions of the last period, the second camera being `behind` ms later.
fn last_orders(config: Config, behind: u64) -> Vec<(u64, usize)> {
    orders_of(World::new(config, Exact), behind)
}

fn orders_of(mut world: World<Exact>, behind: u64) -> Vec<(u64, usize)> {
    for n in 0..10 {
        world.frame(0, at(100 * n));
        world.frame(1, at(100 * n + behind));
    }
    world.run_until(at(1_000)).expect("no violation");
    let orders = world.orders_of(Criticality::RealTime);
    let last = orders.iter().filter(|order| order.3 >= at(900));
    last.map(|order| (order.3.as_nanos() / 1_000_000 - 900, order.2))
        .collect()
}

#[test]
fn promised_work_waits_for_a_frame_that_is_expected_soon() {
    assert_eq!(last_orders(two_cameras(40), 3), [(3, 2)]);
}

#[test]
fn it_does_not_wait_where_two_batches_end_as_soon() {
    // 5 + 7 is no sooner than 6 + 6.
    assert_eq!(last_orders(two_cameras(40), 5), [(0, 1), (6, 1)]);
}

#[test]
fn it_does_not_wait_beyond_the_slack() {
    // 6 of 8 leaves 2.
    assert_eq!(last_orders(two_cameras(8), 3), [(0, 1)]);
}

#[test]
fn it_does_not_wait_while_best_effort_work_could_use_the_time() {
    let mut config = two_cameras(40);
    config.tasks.push(best_effort(1));
    config.models.push(model_alone(&[ms(500)]));
    let mut world = World::new(config, Exact);
    for n in 0..10 {
        world.frame(0, at(100 * n));
        world.frame(1, at(100 * n + 3));
    }
    world.frame(2, at(850));
    world.run_until(at(1_000)).expect("no violation");
    let orders = world.orders_of(Criticality::RealTime);
    let last: Vec<_> = orders.iter().filter(|order| order.3 >= at(900)).collect();
    assert_eq!((last[0].2, last[0].3), (1, at(901)));
}

#[test]
fn without_the_switch_it_never_waits() {
    let never = PunctualConfig {
        waiting: false,
        ..PunctualConfig::default()
    };
    let world = World::with(two_cameras(40), never, Exact);
    assert_eq!(orders_of(world, 3), [(0, 1), (6, 1)]);
}

#[test]
fn it_does_not_wait_for_frames_that_come_at_random() {
    let mut world = World::new(two_cameras(40), Exact);
    let gaps = [97, 61, 113, 80, 140, 71, 99, 128];
    let mut now = 0;
    for gap in gaps {
        now += gap;
        world.frame(0, at(now));
        world.frame(1, at(now + 3));
    }
    world.run_until(at(2_000)).expect("no violation");
    let orders = world.orders_of(Criticality::RealTime);
    assert!(orders.iter().all(|order| order.2 == 1));
}

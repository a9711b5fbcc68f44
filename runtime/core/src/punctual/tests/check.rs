//! The check after each step finds a fault planted in each state that it recounts.

use std::vec;

use super::plans::{at, best_effort, model_alone, ms, plan, task};
use super::world::{Exact, World};
use crate::policy::Policy as _;
use crate::punctual::lifecycle::{ledger, queues, requests, weights};
use crate::punctual::{Punctual, partition, slot};
use crate::{Config, TaskConfig, Weights};

/// A scheduler in the middle of its work: one mandatory job runs, two wait, and a best-effort job waits. One
/// model is paged, and its weights are resident.
fn busy() -> Punctual {
    let unreserved = TaskConfig {
        reserved: false,
        ..task(1, ms(100), ms(100))
    };
    let tasks = vec![task(0, ms(20), ms(20)), unreserved, best_effort(0)];
    let mut models = vec![model_alone(&[ms(3)]); 2];
    models[1].weights = Some(Weights {
        pages: 1,
        load: ms(8),
    });
    let config = Config {
        pages: 1,
        ..plan(tasks, models, ms(1))
    };
    let mut world = World::new(config, Exact);
    world.frame(1, at(0));
    for (frame, when) in [(0, 40), (1, 41), (1, 41), (2, 41)] {
        world.frame(frame, at(when));
    }
    world.run_until(at(42));
    assert_eq!(world.scheduler.check(), Ok(()));
    world.scheduler
}

#[test]
fn the_check_after_each_step_finds_every_planted_fault() {
    let sound = busy();
    let found = |plant: &dyn Fn(&mut Punctual), expected: &str| {
        let mut scheduler = sound.clone();
        plant(&mut scheduler);
        assert_eq!(scheduler.check(), Err(expected));
    };
    for (expected, plant) in crate::punctual::FAULTS {
        found(plant, expected);
    }
    for (expected, plant) in requests::FAULTS {
        found(&|s| plant(&mut s.life.requests), expected);
    }
    for (expected, plant) in ledger::FAULTS {
        found(&|s| plant(&mut s.life.ledger), expected);
    }
    for (expected, plant) in queues::FAULTS {
        found(&|s| plant(&mut s.life.queues[0]), expected);
    }
    for (expected, plant) in slot::FAULTS {
        found(&|s| plant(s.partitions[0].slot_mut()), expected);
    }
    for (expected, plant) in partition::FAULTS {
        found(&|s| plant(&mut s.partitions[0]), expected);
    }
    for (expected, plant) in weights::FAULTS {
        found(&|s| plant(&mut s.life.weights), expected);
    }
}

//! Joint promises: requests whose first stage runs in one batch.

use std::vec;
use std::vec::Vec;

use super::plans::{at, model, model_alone, ms, plan, task};
use super::world::{Ending, Exact, Nature, World};
use crate::policy::Policy;
use crate::punctual::ablation::Ablation;
use crate::{ClientId, Config, Criticality, Event, TaskConfig, TaskId, Verdict};

/// A stage that takes 5 alone, 6 for two and 8 for four; frames with 12 to their deadline.
fn burst() -> Config {
    let tasks = vec![TaskConfig {
        reserved: false,
        ..task(0, ms(12), ms(100))
    }];
    let sizes = vec![(1, ms(5)), (2, ms(6)), (4, ms(8))];
    plan(tasks, vec![model(&[sizes], 1)], ms(1))
}

fn verdicts<N: Nature>(world: &World<N>, frames: &[u64]) -> Vec<Verdict> {
    let verdict = |&frame: &u64| world.reply(frame).expect("it has one").1.verdict;
    frames.iter().map(verdict).collect()
}

fn on_time(verdicts: &[Verdict]) -> usize {
    verdicts.iter().filter(|v| **v == Verdict::OnTime).count()
}

#[test]
fn a_burst_that_does_not_fit_one_by_one_is_accepted_as_a_batch_and_runs_as_one() {
    // The first frame keeps the partition busy from 0 to 5. Four more arrive, due at 14: one by one, only one of
    // them would fit.
    let mut world = World::new(burst(), Exact);
    let mut frames = vec![world.frame(0, at(0))];
    frames.extend((0..4).map(|_| world.frame(0, at(2))));
    world.run_until(at(50));
    assert_eq!(on_time(&verdicts(&world, &frames)), 5);
    let orders: Vec<_> = world.orders_of(Criticality::RealTime);
    let orders: Vec<_> = orders.iter().map(|o| (o.2, o.3)).collect();
    assert_eq!(orders, [(1, at(0)), (4, at(5))]);
}

#[test]
fn a_request_that_fits_no_batch_is_rejected() {
    let mut world = World::new(burst(), Exact);
    let frames: Vec<u64> = (0..9).map(|_| world.frame(0, at(0))).collect();
    world.run_until(at(50));
    // The first takes 5. Four more would take 8 and end at 13, after the deadline; two more end at 11.
    assert_eq!(on_time(&verdicts(&world, &frames)), 3);
}

/// A burst together with a reserved task that leaves 8 - 2 = 6 for blocking, while a batch of four takes 8. The reserved
/// frame arrives when the batch has just started. Returns the verdicts of the burst and of the reserved frame.
fn burst_beside_reserved(ablation: Option<Ablation>) -> (Vec<Verdict>, Verdict) {
    let mut config = burst();
    config.tasks[0].deadline = Some(ms(14));
    config.tasks.push(task(1, ms(8), ms(50)));
    config.models.push(model_alone(&[ms(2)]));
    let mut world = World::new(config, Exact);
    world.scheduler.ablations.cut = ablation;
    let mut frames = vec![world.frame(0, at(0))];
    frames.extend((0..4).map(|_| world.frame(0, at(2))));
    let reserved = world.frame(1, at(6));
    world.run_until(at(50));
    let of_reserved = verdicts(&world, &[reserved])[0];
    (verdicts(&world, &frames), of_reserved)
}

#[test]
fn a_batch_that_would_block_a_reserved_task_for_too_long_is_not_promised() {
    let (burst, reserved) = burst_beside_reserved(None);
    assert!(on_time(&burst) < 5);
    assert_eq!(reserved, Verdict::OnTime);
}

#[test]
fn joint_batches_longer_than_the_offline_test_has_room_for_make_misses() {
    let (burst, reserved) = burst_beside_reserved(Some(Ablation::UnboundedJoint));
    assert_eq!(on_time(&burst), 5);
    assert_ne!(reserved, Verdict::OnTime);
}

#[test]
fn the_remaining_members_of_a_joint_promise_are_on_time() {
    let mut config = burst();
    config.tasks.push(config.tasks[0].clone());
    let mut world = World::new(config, Exact);
    let first = world.frame(0, at(0));
    let (staying, leaving) = (world.frame(0, at(2)), world.frame(1, at(2)));
    let other = world.frame(0, at(2));
    let client = ClientId(1);
    world.schedule(at(3), Event::ClientGone { client });
    world.run_until(at(50));
    assert_eq!(on_time(&verdicts(&world, &[first, staying, other])), 3);
    assert_eq!(on_time(&verdicts(&world, &[leaving])), 0);
    world.drain();
}

/// Every stage takes its budget; the second action does not start.
#[derive(Clone, Debug)]
struct SecondDoesNotStart(u32);

impl Nature for SecondDoesNotStart {
    fn ending(&mut self) -> Ending {
        self.0 += 1;
        if self.0 == 2 {
            Ending::NotRun
        } else {
            Ending::Finished
        }
    }
}

#[test]
fn a_joint_batch_that_did_not_start_is_ordered_again_whole() {
    let mut world = World::new(burst(), SecondDoesNotStart(0));
    let mut frames = vec![world.frame(0, at(0))];
    frames.extend((0..4).map(|_| world.frame(0, at(2))));
    world.run_until(at(50));
    assert_eq!(world.scheduler.counters(TaskId(0)).not_run, 4);
    let members: Vec<_> = world.orders_of(Criticality::RealTime);
    let members: Vec<_> = members.iter().map(|o| o.2).collect();
    assert_eq!(members, [1, 4, 4]);
    assert_eq!(on_time(&verdicts(&world, &frames)), 5);
}

//! Best-effort work given up on demand.

use super::SURE;
use super::plans::{at, best_effort, model_alone, ms, plan, task};
use punctual_core::{Confidence, Config, Event, Infer, Rejection, TaskId, Verdict};
use punctual_policy_testing::world::{Exact, Nature, World};

const SHED: Verdict = Verdict::Rejected(Rejection::Shedding);

/// A real-time task (2 each 10), and best-effort work of two stages of 4.
fn mixed() -> Config {
    let tasks = vec![task(0, ms(10), ms(10)), best_effort(1)];
    let models = vec![model_alone(&[ms(2)]), model_alone(&[ms(4), ms(4)])];
    plan(tasks, models, ms(1))
}

fn verdict<N: Nature>(world: &World<N>, frame: u64) -> (punctual_core::Instant, Verdict) {
    let (when, reply) = world.reply(frame).expect("it has a verdict");
    (when, reply.verdict)
}

#[test]
fn what_runs_is_stopped_what_waits_and_what_comes_is_refused() {
    let mut world = World::new(mixed(), Exact);
    let running = world.frame(1, at(0));
    let waiting = world.frame(1, at(1));
    world.schedule(at(2), Event::Shed { hold: true });
    let coming = world.frame(1, at(3));
    world.run_until(at(20)).expect("no violation");
    assert_eq!(verdict(&world, waiting), (at(2), SHED));
    // Told at 2, gone at 3.
    assert_eq!(verdict(&world, running), (at(3), SHED));
    assert_eq!(verdict(&world, coming), (at(3), SHED));
    assert_eq!(world.scheduler.counters(TaskId(1)).rejected_shedding, 3);
}

#[test]
fn real_time_work_goes_on_and_best_effort_work_comes_back_when_the_hold_is_lifted() {
    let mut world = World::new(mixed(), Exact);
    world.schedule(at(0), Event::Shed { hold: true });
    let frame = world.frame(0, at(1));
    let refused = world.frame(1, at(1));
    world.schedule(at(5), Event::Shed { hold: false });
    let taken = world.frame(1, at(6));
    world.run_until(at(50)).expect("no violation");
    assert_eq!(verdict(&world, frame), (at(3), Verdict::OnTime));
    assert_eq!(verdict(&world, refused), (at(1), SHED));
    assert_eq!(verdict(&world, taken), (at(14), Verdict::OnTime));
}

/// The first exit is not sure enough.
#[derive(Clone, Debug)]
struct SureLater;

impl Nature for SureLater {
    fn confidence(&mut self, infer: &Infer) -> Confidence {
        if infer.stage.0 == 0 {
            Confidence(1)
        } else {
            SURE
        }
    }
}

#[test]
fn who_holds_an_answer_that_counts_gets_it() {
    let mut world = World::new(mixed(), SureLater);
    let frame = world.frame(1, at(0));
    world.schedule(at(6), Event::Shed { hold: true });
    world.run_until(at(20)).expect("no violation");
    assert_eq!(verdict(&world, frame), (at(7), Verdict::OnTime));
    let exits = world.scheduler.counters(TaskId(1)).exits;
    assert_eq!(exits[..2], [1, 0]);
}

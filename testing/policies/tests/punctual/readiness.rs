//! Models that are loaded in turn: what is there answers, the rest is refused or left out, and promises begin with budgets that
//! hold.

use punctual_core::{
    Action, Config, Criticality, Event, Infer, Instant, ModelId, Nanos, Readiness, Rejection,
    Reply, Scheduler, StageId, StageTime, TaskConfig, TaskId, Verdict,
};
use punctual_policy_seeb::SeebConfig;
use punctual_policy_testing::world::{Exact, Nature, World};
use punctual_types::Random;

use super::plans::{at, best_effort, model, model_alone, ms, plan, task};
use super::random_plans::{random_places, random_plan};
use super::workload::{WithinBounds, plans, random_delivery, random_parameters, submit};

const NOT_READY: Verdict = Verdict::Rejected(Rejection::NotReady);

fn ready(model: u16, stages: u8, as_measured: bool) -> Event {
    Event::Readiness(Readiness {
        model: ModelId(model),
        stages,
        as_measured,
        stays_general: false,
    })
}

/// The general solutions of a network stay for good.
fn general(model: u16, stages: u8) -> Event {
    let Event::Readiness(said) = ready(model, stages, false) else {
        unreachable!("it is about readiness");
    };
    Event::Readiness(Readiness {
        stays_general: true,
        ..said
    })
}

/// Two tasks with networks of their own, of three stages of 2, and best-effort work with the second network.
fn two() -> Config {
    let three = || model_alone(&[ms(2), ms(2), ms(2)]);
    let tasks = vec![
        task(0, ms(20), ms(20)),
        task(1, ms(20), ms(20)),
        best_effort(1),
    ];
    plan(tasks, vec![three(), three()], ms(1))
}

fn reply<N: Nature>(world: &World<N>, frame: u64) -> (Instant, Reply) {
    world.reply(frame).expect("it has a verdict")
}

fn verdict<N: Nature>(world: &World<N>, frame: u64) -> (Instant, Verdict) {
    let (when, reply) = reply(world, frame);
    (when, reply.verdict)
}

#[test]
fn a_frame_of_a_network_that_is_not_loaded_is_rejected_at_arrival_and_others_are_answered() {
    let mut world = World::new(two(), Exact);
    world.schedule(at(0), ready(1, 0, true));
    let (other, refused, gap) = (
        world.frame(0, at(1)),
        world.frame(1, at(1)),
        world.frame(2, at(1)),
    );
    world.schedule(at(10), ready(1, 3, true));
    let later = [world.frame(1, at(20)), world.frame(2, at(20))];
    world.run_until(at(60)).expect("no violation");
    assert_eq!(reply(&world, other).1.verdict, Verdict::OnTime);
    for frame in [refused, gap] {
        assert_eq!(verdict(&world, frame), (at(1), NOT_READY));
        assert_eq!(reply(&world, frame).1.request, None, "it takes no buffer");
    }
    for frame in later {
        assert_eq!(reply(&world, frame).1.verdict, Verdict::OnTime);
    }
    assert_eq!(world.scheduler.counters(TaskId(1)).rejected_not_ready, 1);
    assert_eq!(world.scheduler.counters(TaskId(1)).conforming, 1);
}

#[test]
fn the_deepest_exit_that_can_run_is_answered_at_once_as_if_it_were_the_last() {
    let mut world = World::new(two(), Exact);
    world.schedule(at(0), ready(0, 1, true));
    let shallow = world.frame(0, at(1));
    world.schedule(at(10), ready(0, 2, true));
    let deeper = world.frame(0, at(20));
    // What comes while a frame runs counts for it.
    let deepest = world.frame(0, at(40));
    world.schedule(at(43), ready(0, 3, true));
    world.run_until(at(80)).expect("no violation");
    let answers = [shallow, deeper, deepest].map(|frame| {
        let (when, reply) = reply(&world, frame);
        (when, reply.answer.map(|(exit, _)| exit))
    });
    assert_eq!(
        answers,
        [
            (at(3), Some(StageId(0))),
            (at(24), Some(StageId(1))),
            (at(46), Some(StageId(2)))
        ]
    );
}

#[test]
fn a_stage_that_leads_to_no_exit_that_can_run_is_not_begun() {
    let mut config = two();
    config.models[0].stages[1].answers = false;
    let mut world = World::new(config, Exact);
    world.schedule(at(0), ready(0, 2, true));
    let frame = world.frame(0, at(1));
    world.run_until(at(20)).expect("no violation");
    let (when, reply) = reply(&world, frame);
    assert_eq!((when, reply.answer.map(|a| a.0)), (at(3), Some(StageId(0))));
    assert_eq!(world.orders_of(Criticality::RealTime).len(), 1);
}

#[test]
fn a_task_with_a_deeper_mandatory_exit_waits_for_that() {
    let mut config = two();
    config.tasks[1].mandatory_exit = StageId(1);
    let mut world = World::new(config, Exact);
    world.schedule(at(0), ready(1, 1, true));
    let refused = world.frame(1, at(1));
    let gap = world.frame(2, at(1));
    world.schedule(at(10), ready(1, 2, true));
    let taken = world.frame(1, at(20));
    world.run_until(at(60)).expect("no violation");
    assert_eq!(verdict(&world, refused), (at(1), NOT_READY));
    assert_eq!(reply(&world, gap).1.verdict, Verdict::OnTime);
    assert_eq!(reply(&world, taken).1.verdict, Verdict::OnTime);
}

#[test]
fn a_common_beginning_is_ready_with_the_network_that_runs_it() {
    let stage = || vec![(1, ms(2)), (2, ms(3))];
    let one = model(&[stage(), stage()], 1);
    let mut other = one.clone();
    other.stages[0].runs_as = Some(ModelId(0));
    let unreserved = |model| TaskConfig {
        reserved: false,
        ..task(model, ms(50), ms(50))
    };
    let config = plan(vec![unreserved(0), unreserved(1)], vec![one, other], ms(1));
    let concerned = config.tasks_by_model();
    assert_eq!(concerned[0][..], [0, 1].map(TaskId));
    assert_eq!(concerned[1][..], [TaskId(1)]);
    let mut world = World::new(config, Exact);
    world.schedule(at(0), ready(0, 0, true));
    let refused = world.frame(1, at(1));
    world.schedule(at(2), ready(0, 1, true));
    world.schedule(at(2), ready(1, 0, true));
    let taken = world.frame(1, at(3));
    world.run_until(at(60)).expect("no violation");
    assert_eq!(verdict(&world, refused), (at(1), NOT_READY));
    // Its first stage runs as the other network's; its second is its own, and not there.
    let (_, reply) = reply(&world, taken);
    assert_eq!(reply.answer.map(|a| a.0), Some(StageId(0)));
}

/// The first network takes three times its budgets until a moment.
#[derive(Clone, Debug)]
struct Slow {
    until: Instant,
}

impl Nature for Slow {
    fn duration(&mut self, infer: &Infer, time: StageTime) -> Nanos {
        let slow = infer.model.0 == 0 && infer.window.earliest < self.until;
        Nanos::new(time.budget.as_nanos() * if slow { 3 } else { 1 })
    }
}

#[test]
fn a_network_that_does_not_run_as_measured_is_answered_in_the_slack_and_promised_as_soon_as_it_does()
 {
    let mut world = World::new(two(), Slow { until: at(100) });
    world.schedule(at(0), ready(0, 3, false));
    world.schedule(at(100), ready(0, 3, true));
    for n in 0..10 {
        world.frame(0, at(20 * n + 1));
        world.frame(1, at(20 * n + 1));
    }
    world.run_until(at(300)).expect("no violation");
    world.drain().expect("nothing is lost");
    let first = world.scheduler.counters(TaskId(0));
    assert_eq!((first.on_time, first.conforming), (10, 5));
    // General solutions that take their time say nothing of the profile.
    assert_eq!(
        (first.overruns, first.overrun_worst, first.demotions),
        (0, 0, 0)
    );
    let other = world.scheduler.counters(TaskId(1));
    assert_eq!((other.on_time, other.conforming), (10, 10));
    assert_eq!(world.auditor.gaps(), []);
    // Without a promise it goes no deeper than its mandatory exit.
    let depths = world.replies().filter(|(_, reply)| reply.task == TaskId(0));
    let depths: Vec<u8> = depths.map(|(_, r)| r.answer.map_or(9, |a| a.0.0)).collect();
    assert_eq!(depths[..5], [0; 5]);
    assert_eq!(depths[5..], [2; 5]);
}

#[test]
fn further_stages_that_do_not_run_as_measured_are_left_out_and_take_no_promise_away() {
    let mut world = World::new(two(), Exact);
    world.schedule(at(0), ready(0, 0, true));
    world.schedule(at(1), ready(0, 1, true));
    let [running, first] = [2, 22].map(|time| world.frame(0, at(time)));
    world.schedule(at(3), ready(0, 3, false));
    world.schedule(at(30), ready(0, 3, true));
    let whole = world.frame(0, at(42));
    world.run_until(at(80)).expect("no violation");
    let depths = [running, first, whole].map(|frame| reply(&world, frame).1.answer.map(|a| a.0.0));
    assert_eq!(depths, [Some(0), Some(0), Some(2)]);
    let counters = world.scheduler.counters(TaskId(0));
    assert_eq!((counters.on_time, counters.conforming), (3, 3));
}

#[test]
fn best_effort_work_that_does_not_run_as_measured_runs_to_its_end_in_the_slack() {
    let mut config = two();
    config.tasks[2].deadline = Some(ms(40));
    let mut world = World::new(config, Exact);
    world.schedule(at(0), ready(1, 3, false));
    let gap = world.frame(2, at(1));
    world.run_until(at(18)).expect("no violation");
    assert_eq!(verdict(&world, gap), (at(3), Verdict::OnTime));
    assert_eq!(world.orders_of(Criticality::BestEffort).len(), 0);
}

#[test]
fn a_frame_without_a_deadline_does_not_wait_for_slack_that_may_never_come() {
    let mut world = World::new(two(), Exact);
    world.schedule(at(0), ready(1, 3, false));
    let refused = world.frame(2, at(1));
    world.schedule(at(10), ready(1, 3, true));
    let taken = world.frame(2, at(20));
    world.run_until(at(60)).expect("no violation");
    assert_eq!(verdict(&world, refused), (at(1), NOT_READY));
    assert_eq!(reply(&world, taken).1.verdict, Verdict::OnTime);
}

/// General solutions of best-effort work take four budgets, and stop as late as they may.
#[derive(Clone, Debug)]
struct General;

impl Nature for General {
    fn duration(&mut self, infer: &Infer, time: StageTime) -> Nanos {
        let slow = infer.criticality == Criticality::BestEffort;
        Nanos::new(time.budget.as_nanos() * if slow { 4 } else { 1 })
    }

    fn stopping(&mut self, bound: Nanos) -> Nanos {
        bound.saturating_mul(4)
    }
}

/// A reserved task, and best-effort work without a deadline whose stages are longer than any slack.
fn beside_long_stages() -> Config {
    let long = || model_alone(&[ms(30)]);
    let short = || model_alone(&[ms(2)]);
    let tasks = vec![task(0, ms(20), ms(20)), best_effort(1)];
    plan(tasks, vec![short(), long()], ms(1))
}

#[test]
fn a_frame_without_a_deadline_is_served_in_the_gaps_if_general_solutions_stay() {
    let mut world = World::new(beside_long_stages(), General);
    world.schedule(at(0), general(1, 1));
    let gap = world.frame(1, at(1));
    // No slack is as long as its stage, and these preempt it.
    let promised: Vec<u64> = (0..4).map(|n| world.frame(0, at(20 * n + 5))).collect();
    world.run_until(at(400)).expect("no violation");
    for frame in promised {
        assert_eq!(reply(&world, frame).1.verdict, Verdict::OnTime);
    }
    assert_eq!(reply(&world, gap).1.verdict, Verdict::OnTime);
    assert!(world.orders_of(Criticality::BestEffort).len() > 1);
    assert_eq!(world.auditor.gaps(), []);
}

#[test]
fn where_promises_have_no_room_for_a_late_stop_general_solutions_serve_no_frame_without_a_deadline()
{
    let mut config = beside_long_stages();
    config.partitions[0].preemption_bound = ms(6);
    let mut world = World::new(config, Exact);
    world.schedule(at(0), general(1, 1));
    let refused = world.frame(1, at(1));
    world.run_until(at(20)).expect("no violation");
    assert_eq!(verdict(&world, refused), (at(1), NOT_READY));
}

#[test]
fn what_is_open_ends_when_a_device_says_that_it_can_run_less() {
    let mut world = World::new(two(), Exact);
    // One runs and holds nothing, one waits.
    let (running, waiting) = (world.frame(0, at(1)), world.frame(1, at(1)));
    let gap = world.frame(2, at(1));
    world.schedule(at(2), ready(0, 0, true));
    world.schedule(at(2), ready(1, 0, true));
    world.run_until(at(40)).expect("no violation");
    assert_eq!(verdict(&world, waiting), (at(2), NOT_READY));
    assert_eq!(verdict(&world, gap), (at(2), NOT_READY));
    // Its stage goes on, and is the mandatory one.
    assert_eq!(verdict(&world, running), (at(3), Verdict::OnTime));
}

#[test]
fn a_policy_that_runs_networks_whole_waits_for_all_of_a_network() {
    let mut world = World::under(two(), &SeebConfig::default(), Exact);
    world.schedule(at(0), ready(0, 2, true));
    let refused = world.frame(0, at(1));
    world.schedule(at(10), ready(0, 3, false));
    let taken = world.frame(0, at(20));
    world.run_until(at(60)).expect("no violation");
    assert_eq!(verdict(&world, refused), (at(1), NOT_READY));
    assert_eq!(reply(&world, taken).1.verdict, Verdict::OnTime);
}

/// Each network is loaded step by step, and takes up to four budgets until it is as measured; some not until the end.
fn load_in_turn(world: &mut World<WithinBounds>, random: &mut Random) {
    let models = world.config.models.clone();
    for (model, config) in (0..).zip(&models) {
        let count = config.stages.len() as u64;
        let mut when = 0;
        let mut stages = random.below(count + 1);
        let mut as_measured = random.one_in(3);
        loop {
            let now = Instant::from_nanos(when);
            if !as_measured {
                world.nature.unmeasured_until[model as usize] = Instant::FAR_FUTURE;
            } else if world.nature.unmeasured_until[model as usize] == Instant::FAR_FUTURE {
                world.nature.unmeasured_until[model as usize] = now;
            }
            let stays = !as_measured && model % 2 == 1;
            let said = if stays {
                general(model, stages as u8)
            } else {
                ready(model, stages as u8, as_measured)
            };
            if now == Instant::ZERO {
                // Before any frame of that time.
                world.step(&said).expect("no violation");
            } else {
                world.schedule(now, said);
            }
            if stages == count && as_measured || random.one_in(8) {
                break;
            }
            when += random.within(1, 200_000);
            stages = random.within(stages, count);
            as_measured |= random.one_in(2);
        }
    }
}

/// How many requests were promised, and how many refused as not ready, in the plan of a seed.
fn promised(seed: u64, draw: fn(&mut Random) -> Config) -> Option<(u64, u64)> {
    let mut random = Random::new(seed);
    let mut config = draw(&mut random);
    let parameters = random_parameters(seed);
    random_delivery(seed, &mut config);
    Scheduler::new(&config, &parameters).ok()?;
    let nature = WithinBounds::new(&config, random.clone());
    let mut world = World::with(config, parameters, nature);
    load_in_turn(&mut world, &mut Random::new(seed.rotate_left(17)));
    submit(&mut world, &mut random);
    let outcome = world
        .run_until(Instant::from_nanos(1_000_000_000))
        .and_then(|()| world.drain());
    assert_eq!(outcome, Ok(()), "seed {seed}");
    assert_eq!(world.auditor.gaps(), [], "seed {seed}");
    let tasks = 0..world.config.tasks.len() as u16;
    let refused = tasks.map(|task| world.scheduler.counters(TaskId(task)).rejected_not_ready);
    Some((world.auditor.promised(), refused.sum()))
}

#[test]
fn no_promise_is_broken_while_networks_are_loaded_in_random_plans() {
    for draw in [random_plan, random_places] {
        let courses = (0..plans()).filter_map(|seed| promised(seed, draw));
        let (passed, promised, refused) = courses
            .fold((0, 0, 0), |(passed, promised, refused), (p, r)| {
                (passed + 1, promised + p, refused + r)
            });
        println!("{passed} plans, {promised} promised, {refused} not ready");
        assert!(
            promised > 30 * passed && refused > passed,
            "too few to mean anything"
        );
    }
}

#[test]
fn a_stage_that_is_not_loaded_is_a_violation() {
    let mut world = World::new(two(), Exact);
    world.tamper = Some(|actions| {
        for action in actions {
            if let Action::Infer(infer) = action {
                infer.model = ModelId(1);
            }
        }
    });
    world.schedule(at(0), ready(1, 0, true));
    world.frame(0, at(1));
    assert!(world.run_until(at(20)).is_err());
}

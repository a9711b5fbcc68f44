//! Networks that begin alike: their requests share batches as long as they are alike.

use super::plans::{at, model, ms, plan, task};
use punctual_core::{
    Action, Config, ConfigError, Criticality, ModelId, Nanos, PunctualConfig, Scheduler, StageId,
    TaskConfig, Verdict, Weights,
};
use punctual_policy_testing::world::{Exact, UNSURE, World};

/// Two networks of two stages that begin alike, compiled for 1, 2 and 4, and a task of each. The
/// common beginning takes 4, 5 and 6 ms, what follows 2 an image.
fn config() -> Config {
    let first = vec![(1, ms(4)), (2, ms(5)), (4, ms(6))];
    let second = vec![(1, ms(2)), (2, ms(4)), (4, ms(8))];
    let one = model(&[first, second], 1);
    let mut other = one.clone();
    other.stages[0].runs_as = Some(ModelId(0));
    let unreserved = |model| TaskConfig {
        reserved: false,
        mandatory_exit: StageId(1),
        ..task(model, ms(100), ms(100))
    };
    plan(vec![unreserved(0), unreserved(1)], vec![one, other], ms(1))
}

/// The same, but the common beginning ends in no exit.
fn without_an_exit() -> Config {
    let mut config = config();
    for model in &mut config.models {
        model.stages[0].answers = false;
    }
    config
}

/// (model, stage, members) of each action.
fn orders(world: &World<Exact>) -> Vec<(u16, u8, usize)> {
    let log = world.log.iter().filter_map(|(_, action)| match action {
        Action::Infer(infer) => Some(infer),
        _ => None,
    });
    log.map(|infer| (infer.model.0, infer.stage.0, infer.members.len()))
        .collect()
}

#[test]
fn a_common_beginning_runs_in_one_batch_and_what_differs_apart() {
    for config in [config(), without_an_exit()] {
        let mut world = World::new(config, Exact);
        // One runs when the others come.
        let frames = [(0, 0), (1, 1), (0, 2), (1, 3)];
        let asked = frames.map(|(task, time)| world.frame(task, at(time)));
        world.run_until(at(90)).expect("no violation");
        let orders = orders(&world);
        assert_eq!(orders[0], (0, 0, 1));
        assert!(orders.contains(&(0, 0, 3)), "{orders:?}");
        let second = |model| {
            let of = orders.iter().filter(move |o| (o.0, o.1) == (model, 1));
            of.map(|o| o.2).sum::<usize>()
        };
        assert_eq!((second(0), second(1)), (2, 2), "each in its own network");
        for sequence in asked {
            let (_, reply) = world.reply(sequence).expect("a verdict");
            assert_eq!(reply.verdict, Verdict::OnTime);
        }
    }
}

#[test]
fn networks_that_are_not_said_to_be_alike_share_nothing() {
    let mut config = config();
    config.models[1].stages[0].runs_as = None;
    let mut world = World::new(config, Exact);
    for (task, time) in [(0, 0), (1, 1), (0, 2), (1, 3)] {
        world.frame(task, at(time));
    }
    world.run_until(at(90)).expect("no violation");
    assert!(orders(&world).contains(&(1, 0, 2)));
}

#[test]
fn a_full_batch_of_the_beginning_goes_before_a_lone_request_of_what_follows_if_there_is_time() {
    // One runs when the others come. Then a full batch of the beginning takes 6 ms, and what the first needs besides 2.
    let orders_by = |deadline| {
        let mut world = World::new(config(), Exact);
        let asked = [(0, 0), (1, 1), (0, 1), (1, 1), (0, 1)]
            .map(|(task, time)| world.frame_captured(task, at(time), at(time), Some(at(deadline))));
        world.run_until(at(90)).expect("no violation");
        for sequence in asked {
            let (_, reply) = world.reply(sequence).expect("a verdict");
            assert_eq!(reply.verdict, Verdict::OnTime);
        }
        orders(&world)
    };
    assert_eq!(orders_by(90)[..2], [(0, 0, 1), (0, 0, 4)]);
    // In time it ends at 20: 4, 6, and 2 for each of the five.
    assert_eq!(orders_by(20)[..2], [(0, 0, 1), (0, 0, 4)]);
}

#[test]
fn promises_to_a_common_beginning_are_made_jointly() {
    // Alone 6 ms each: the third does not fit into 17. Together the beginning takes 6.
    let mut world = World::new(config(), Exact);
    let asked = [0, 1, 0].map(|task| world.frame_captured(task, at(0), at(0), Some(at(17))));
    world.run_until(at(60)).expect("no violation");
    for sequence in asked {
        let (_, reply) = world.reply(sequence).expect("a verdict");
        assert_eq!(reply.verdict, Verdict::OnTime, "{:?}", orders(&world));
    }
}

#[test]
fn a_stage_without_an_exit_leaves_the_answer_that_a_request_has() {
    // Exit, no exit, exit; the middle one says something that must not be heard.
    let alone = |time| vec![(1, ms(time))];
    let mut one = model(&[alone(2), alone(3), alone(4)], 1);
    one.stages[1].answers = false;
    let tasks = vec![TaskConfig {
        reserved: false,
        ..task(0, ms(100), ms(100))
    }];
    let config = plan(tasks, vec![one], ms(1));
    let mut world = World::new(config.clone(), Exact);
    let deep = world.frame_captured(0, at(0), at(0), Some(at(9)));
    world.run_until(at(60)).expect("no violation");
    let (when, reply) = world.reply(deep).expect("a verdict");
    let exit = reply.answer.map(|(exit, answer)| (exit, answer.confidence));
    assert_eq!((when, exit), (at(9), Some((StageId(2), UNSURE))));
    // There is time for the second stage, but not for the third: neither is begun.
    let mut world = World::new(config, Exact);
    let shallow = world.frame_captured(0, at(0), at(0), Some(at(8)));
    world.run_until(at(60)).expect("no violation");
    let (when, reply) = world.reply(shallow).expect("a verdict");
    assert_eq!(when, at(2));
    assert_eq!(reply.answer.map(|(exit, _)| exit), Some(StageId(0)));
    assert_eq!(world.orders_of(Criticality::RealTime).len(), 1);
}

#[test]
fn a_plan_that_asks_an_answer_where_there_is_none_is_refused() {
    let mut config = without_an_exit();
    config.tasks[0].mandatory_exit = StageId(0);
    let refused = Scheduler::new(&config, &PunctualConfig::default()).expect_err("no exit there");
    assert!(matches!(
        refused,
        ConfigError::NoExit {
            stage: StageId(0),
            ..
        }
    ));
    let mut config = without_an_exit();
    config.models[0].stages[1].answers = false;
    let refused = Scheduler::new(&config, &PunctualConfig::default()).expect_err("no exit at all");
    assert!(matches!(
        refused,
        ConfigError::NoExit {
            stage: StageId(1),
            ..
        }
    ));
}

#[test]
fn stages_that_are_not_the_same_are_not_shared() {
    let reason = |change: &dyn Fn(&mut Config)| {
        let mut config = config();
        change(&mut config);
        match Scheduler::new(&config, &PunctualConfig::default()).expect_err("not shared") {
            ConfigError::NotShared { reason, .. } => reason,
            other => panic!("{other}"),
        }
    };
    let slower = |config: &mut Config| {
        config.models[1].stages[0].times[0].on[0].budget = Nanos::from_micros(3_999);
    };
    let times = "the times of the two stages differ; give both the same";
    assert_eq!(reason(&slower), times);
    let later = |config: &mut Config| {
        config.models[0].stages[0].runs_as = Some(ModelId(1));
    };
    let order = "runs_as must name a model with a lower number; swap the two";
    assert_eq!(reason(&later), order);
    let nobody = |config: &mut Config| {
        config.models[1].stages[0].runs_as = Some(ModelId(7));
    };
    let missing = "there is no such stage; name a model that has one";
    assert_eq!(reason(&nobody), missing);
    let paged = |config: &mut Config| {
        config.pages = 4;
        config.models[1].weights = Some(Weights {
            pages: 1,
            load: ms(1),
        });
    };
    let resident = "the weights of one of the two models are paged; only models with resident weights share stages";
    assert_eq!(reason(&paged), resident);
}

//! What every policy owes the world, whatever it decides: one verdict a submission, the device's
//! rules, nothing lost, the same decisions for the same events. Each policy of `all` is tried on
//! random small plans in calm and in foul weather, and so are the variants of [`variants`].

use punctual_baselines::{
    BatchConfig, BranchynetConfig, DeeprtConfig, GsliceConfig, NexusConfig, NexusDrop,
};
use punctual_core::{
    ActionId, Answers, ClientId, Confidence, Config, Event, Failure, Finished, Instant, Nanos,
    PolicySpec, RequestId, Scheduler, StageId, Verdict,
};
use punctual_plan::PolicyChoice;
use punctual_policy_seeb::{SeebBatch, SeebConfig};
use punctual_policy_testing::plans::random_plan;
use punctual_policy_testing::weather::Weather;
use punctual_policy_testing::world;
use punctual_types::Random;
use std::sync::Arc;

/// Random plans that each policy is tried on, in each weather.
const PLANS: u64 = 150;

/// Parameters other than the defaults that lead to decisions of another kind.
fn variants() -> Vec<Arc<dyn PolicySpec>> {
    let spread_out = BatchConfig {
        preferred: vec![2, 4],
        max_queue_delay: Nanos::from_millis(3),
    };
    let full_or_late = BatchConfig {
        preferred: Vec::new(),
        max_queue_delay: Nanos::from_millis(1),
    };
    let as_begun = BranchynetConfig {
        compact: false,
        ..BranchynetConfig::default()
    };
    let unsure = BranchynetConfig {
        threshold: Some(Confidence(30_000)),
        batch: Some(2),
        compact: true,
    };
    let lazy = NexusConfig {
        drop: NexusDrop::Lazy,
        targets: vec![3],
    };
    let streams = SeebConfig {
        tpc_masks: false,
        fixed_batch: Some(2),
        interval: Nanos::from_millis(2),
        ..SeebConfig::default()
    };
    let restless = SeebConfig {
        interval: Nanos::from_millis(1),
        fixed_threshold: Some(Confidence(40_000)),
        batch: SeebBatch::Largest,
        ..SeebConfig::default()
    };
    let everyone = DeeprtConfig {
        admission: false,
        windows: vec![Nanos::from_millis(2)],
        ..DeeprtConfig::default()
    };
    let nervous = GsliceConfig {
        epoch: Nanos::from_millis(3),
        ..GsliceConfig::default()
    };
    vec![
        Arc::new(streams),
        Arc::new(restless),
        Arc::new(everyone),
        Arc::new(nervous),
        Arc::new(spread_out),
        Arc::new(full_or_late),
        Arc::new(as_begun),
        Arc::new(unsure),
        Arc::new(lazy),
    ]
}

pub type World = world::World<Weather>;

fn subjects() -> Vec<Arc<dyn PolicySpec>> {
    let all = punctual_baselines::all();
    let defaults = all.iter().map(PolicyChoice::shared);
    defaults.chain(variants()).collect()
}

/// A world with a few hundred milliseconds of frames, vanishing clients and stale names ahead.
fn busy_world(policy: &dyn PolicySpec, foul: bool, seed: u64) -> World {
    let mut random = Random::new(seed);
    let config = random_plan(policy, &mut random);
    let tasks = config.tasks.len() as u64;
    let weather = if foul {
        Weather::foul(&config, random.clone())
    } else {
        Weather::calm(&config)
    };
    let mut world = World::under(config, policy, weather);
    let mut at = Instant::ZERO;
    for _ in 0..random.within(20, 80) {
        // Bursts, and pauses.
        at = if random.one_in(3) {
            at + Nanos::from_micros(random.within(0, 15_000))
        } else {
            at + Nanos::from_micros(random.within(0, 400))
        };
        let task = random.within(0, tasks - 1) as u16;
        match random.within(0, 40) {
            0 if foul => vanish(&mut world, ClientId(task), at),
            1 if foul => name_nothing(&mut world, at),
            2 => world.schedule(at, Event::Tick),
            _ => drop(world.frame(task, at)),
        }
    }
    world
}

fn vanish(world: &mut World, client: ClientId, at: Instant) {
    world.schedule(at, Event::ClientGone { client });
}

/// Events that name what is not there.
fn name_nothing(world: &mut World, at: Instant) {
    let action = ActionId(u64::MAX);
    let request = RequestId {
        buffer: u16::MAX,
        generation: 0,
    };
    let measured = Nanos::ZERO;
    let finished = Finished {
        action,
        started: at,
        measured,
        members: heapless::Vec::new(),
    };
    for event in [
        Event::Prepared {
            request,
            measured,
            ready: Ok(()),
        },
        Event::Finished(finished),
        Event::NotRun { action },
        Event::Failed { action },
        Event::Preempted { action },
        Event::Loaded { action, measured },
    ] {
        world.schedule(at, event);
    }
}

pub fn far() -> Instant {
    Instant::from_nanos(u64::MAX / 4)
}

#[test]
fn every_policy_keeps_the_rules_in_calm_and_in_foul_weather() {
    for policy in subjects() {
        let policy = &*policy;
        for foul in [false, true] {
            for seed in 0..PLANS {
                let mut world = busy_world(policy, foul, seed);
                let half = Instant::from_nanos(100_000_000);
                let run = world.run_until(half).and_then(|()| world.drain());
                assert_eq!(run, Ok(()), "{policy:?}, foul: {foul}, seed {seed}");
            }
        }
    }
}

#[test]
fn every_policy_decides_the_same_for_the_same_events() {
    for policy in subjects() {
        let policy = &*policy;
        for seed in 0..20 {
            let log = || {
                let mut world = busy_world(policy, true, seed);
                world.run_until(far()).expect("no violation");
                world.log.clone()
            };
            assert_eq!(log(), log(), "{policy:?}, seed {seed}");
        }
    }
}

/// A calm world of one task whose deadline is far away.
pub fn lone_task(policy: &dyn PolicySpec, seed: u64) -> World {
    let config = lone_plan(policy, seed);
    let calm = Weather::calm(&config);
    World::under(config, policy, calm)
}

fn lone_plan(policy: &dyn PolicySpec, seed: u64) -> Config {
    let mut config = random_plan(policy, &mut Random::new(seed));
    config.tasks.truncate(1);
    let task = &mut config.tasks[0];
    task.criticality = punctual_core::Criticality::RealTime;
    task.deadline = Some(Nanos::from_millis(1_000));
    task.answers = Answers::Final;
    task.queue_max = 4;
    if policy.contract().partitioning == punctual_core::Partitioning::PerTask {
        config.partitions.truncate(1);
        for time in config.models.iter_mut().flat_map(|m| &mut m.stages) {
            time.times.iter_mut().for_each(|t| t.on.truncate(1));
        }
    }
    config
}

#[test]
fn a_lone_frame_with_time_to_spare_is_answered_on_time_at_the_last_exit() {
    for policy in subjects() {
        let policy = &*policy;
        for seed in 0..20 {
            let mut world = lone_task(policy, seed);
            let frame = world.frame(0, Instant::ZERO);
            assert_eq!(world.run_until(far()), Ok(()), "{policy:?}, seed {seed}");
            let (_, reply) = world.reply(frame).expect("a verdict");
            assert_eq!(reply.verdict, Verdict::OnTime, "{policy:?}, seed {seed}");
            let model = &world.config.models[world.config.tasks[0].model.index()];
            let last = StageId(model.stages.len() as u8 - 1);
            let (exit, _) = reply.answer.expect("an answer");
            assert_eq!(exit, last, "{policy:?}, seed {seed}");
        }
    }
}

/// Runs until the first stage is ordered and returns its name.
fn first_order(world: &mut World) -> ActionId {
    let mut until = Instant::ZERO;
    loop {
        world.run_until(until).expect("no violation");
        if let Some((_, infer)) = world.orders().next() {
            return infer.id;
        }
        until = until + Nanos::from_micros(10);
        assert!(until < far(), "nothing is ever ordered");
    }
}

#[test]
fn a_device_s_failure_fails_the_members_of_that_action_and_nothing_else() {
    for policy in subjects() {
        let policy = &*policy;
        let mut world = lone_task(policy, 1);
        let failed = world.frame(0, Instant::ZERO);
        let action = first_order(&mut world);
        world.step(&Event::Failed { action }).expect("no violation");
        let (_, reply) = world.reply(failed).expect("a verdict");
        let expected = Verdict::Failed(Failure::Device);
        assert_eq!(reply.verdict, expected, "{policy:?}");
    }
}

#[test]
fn an_action_that_was_not_run_is_made_up_for() {
    for policy in subjects() {
        let policy = &*policy;
        let mut world = lone_task(policy, 2);
        let frame = world.frame(0, Instant::ZERO);
        let action = first_order(&mut world);
        let now = world.now + Nanos::new(1);
        world.forget(|event| matches!(event, Event::Finished(end) if end.action == action));
        world.schedule(now, Event::NotRun { action });
        assert_eq!(world.run_until(far()), Ok(()), "{policy:?}");
        let (_, reply) = world.reply(frame).expect("a verdict");
        assert_eq!(reply.verdict, Verdict::OnTime, "{policy:?}");
    }
}

#[test]
fn a_client_that_vanishes_gets_its_verdict_when_the_device_lets_go() {
    for policy in subjects() {
        let policy = &*policy;
        let mut world = lone_task(policy, 3);
        let frame = world.frame(0, Instant::ZERO);
        first_order(&mut world);
        let client = ClientId(0);
        world
            .step(&Event::ClientGone { client })
            .expect("no violation");
        assert_eq!(world.reply(frame), None, "{policy:?}: its stage runs");
        world.run_until(far()).expect("no violation");
        let (_, reply) = world.reply(frame).expect("a verdict");
        let expected = Verdict::Failed(Failure::ClientGone);
        assert_eq!(reply.verdict, expected, "{policy:?}");
    }
}

#[test]
fn draining_answers_what_was_taken_in_and_rejects_what_comes() {
    for policy in subjects() {
        let policy = &*policy;
        let mut world = lone_task(policy, 4);
        let before = world.frame(0, Instant::ZERO);
        first_order(&mut world);
        let now = world.now;
        let after = world.frame(0, now + Nanos::new(1));
        assert_eq!(world.drain(), Ok(()), "{policy:?}");
        let verdict = |frame| world.reply(frame).expect("a verdict").1.verdict;
        assert_eq!(verdict(before), Verdict::OnTime, "{policy:?}");
        let draining = Verdict::Rejected(punctual_core::Rejection::Draining);
        assert_eq!(verdict(after), draining, "{policy:?}");
    }
}

#[test]
fn a_scheduler_is_drained_only_after_it_was_told_to() {
    for policy in subjects() {
        let policy = &*policy;
        let scheduler = Scheduler::new(&lone_plan(policy, 5), policy).expect("the plan is valid");
        assert!(!scheduler.drained(), "{policy:?}");
    }
}

//! One worked example a policy, computed by hand from its source's rules. Times in milliseconds;
//! requests are named by the order in which the test submits them, from 1.

mod batch;
mod branchynet;
mod clipper;
mod nexus;
mod streams_and_seq;

use punctual_core::{
    ACCURACY_BINS, Answers, BatchTime, Confidence, Config, Criticality, Delivery, Instant,
    ModelConfig, ModelId, Nanos, PartitionConfig, PartitionId, Partitioning, PolicySpec,
    StageConfig, StageId, StageTime, TaskConfig, Units, Verdict,
};
use punctual_policy_testing::weather::Weather;

use super::conformance::World;

/// Batch sizes of a stage with their times in milliseconds.
type Sizes<'a> = &'a [(u8, u64)];

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn model(stages: &[Sizes], partitions: usize) -> ModelConfig {
    let accuracy = [50_000; ACCURACY_BINS];
    let time = |&(batch, ms): &(u8, u64)| {
        let budget = Nanos::from_millis(ms);
        let on = StageTime {
            budget,
            max_seen: budget,
        };
        BatchTime {
            batch,
            on: vec![on; partitions],
        }
    };
    let stage = |(index, sizes): (usize, &Sizes)| StageConfig {
        times: sizes.iter().map(time).collect(),
        accuracy,
        deeper: vec![accuracy; stages.len() - 1 - index],
        follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
        answers: true,
        runs_as: None,
    };
    ModelConfig {
        stages: stages.iter().enumerate().map(stage).collect(),
        weights: None,
        places: Vec::new(),
    }
}

/// A real-time task of a model with a deadline in milliseconds.
fn task(model: u16, deadline: u64) -> TaskConfig {
    TaskConfig {
        model: ModelId(model),
        partition: PartitionId(0),
        criticality: Criticality::RealTime,
        deadline: Some(Nanos::from_millis(deadline)),
        period: Nanos::from_millis(1),
        burst: 1,
        jitter: Nanos::ZERO,
        prepare: Nanos::ZERO,
        mandatory_exit: StageId(0),
        threshold: Confidence::ONE,
        threshold_min: Confidence::ONE,
        batch_max: 32,
        queue_max: 64,
        reserved: false,
        answers: Answers::Final,
        weight: 1,
        offload_to: None,
        delivery: Delivery::EveryFrame,
    }
}

/// A calm world with a plan of one device, on which nothing but stages takes time.
fn world(policy: &dyn PolicySpec, models: &[&[Sizes]], mut tasks: Vec<TaskConfig>) -> World {
    let alone = policy.contract().partitioning != Partitioning::PerTask;
    let partitions = if alone { 1 } else { tasks.len() };
    for (index, task) in tasks.iter_mut().enumerate().filter(|_| !alone) {
        task.partition = PartitionId(index as u16);
    }
    let whole = PartitionConfig {
        units: Units { first: 0, count: 1 },
        preemption_bound: Nanos::ZERO,
        share_max: 1000,
    };
    let config = Config {
        tasks,
        models: models
            .iter()
            .map(|stages| model(stages, partitions))
            .collect(),
        partitions: vec![whole; partitions],
        request_buffers: 64,
        pages: 0,
        dispatch_cost: Nanos::ZERO,
        egress_bound: Nanos::ZERO,
    };
    let calm = Weather::calm(&config);
    World::under(config, policy, calm)
}

/// Submits `count` frames of a task at the same time.
fn frames(world: &mut World, count: usize, task: u16, ms: u64) {
    for _ in 0..count {
        world.frame(task, at(ms));
    }
}

/// Runs to the end and returns what was ordered: when, the batch size, who.
fn orders(world: &mut World) -> Vec<(u64, u8, Vec<u64>)> {
    world.run_until(at(1_000)).expect("no violation");
    world.drain().expect("no violation");
    let order = |(at, infer): (Instant, &punctual_core::Infer)| {
        let members = infer.members.iter().map(|id| world.sequence(*id));
        (at.as_nanos() / 1_000_000, infer.batch, members.collect())
    };
    world.orders().map(order).collect()
}

/// Who got this verdict, in order of submission.
fn with_verdict(world: &World, verdict: Verdict) -> Vec<u64> {
    let is = |&sequence: &u64| {
        world
            .reply(sequence)
            .is_some_and(|(_, r)| r.verdict == verdict)
    };
    (1..=64).filter(is).collect()
}

fn dropped(world: &World) -> Vec<u64> {
    with_verdict(world, Verdict::Rejected(punctual_core::Rejection::NoSlack))
}

fn range(first: u64, last: u64) -> Vec<u64> {
    (first..=last).collect()
}

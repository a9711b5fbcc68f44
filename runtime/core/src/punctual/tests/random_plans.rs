//! Plans drawn from a seed; about half pass the offline test.

use std::vec::Vec;

use punctual_types::Random;

use super::plans::{best_effort, model, plan, task};
use crate::{
    Answers, Confidence, Config, Criticality, Delivery, ModelConfig, ModelId, Nanos,
    PartitionConfig, PartitionId, StageId, TaskConfig, TaskId, Units, Weights,
};

/// Times are small multiples of this, so that ties and tight fits are common.
pub const UNIT: u64 = 1_000;

pub fn units(n: u64) -> Nanos {
    Nanos::new(n * UNIT)
}

/// A plan with reserved tasks that share models, one unreserved task, and best-effort work, on one or two partitions.
pub fn random_plan(random: &mut Random) -> Config {
    let partitions = random.within(1, 2) as u8;
    let models = random.within(1, 3);
    let mut models: Vec<_> = (0..models)
        .map(|_| {
            let stages = random.within(1, 3);
            let stages: Vec<_> = (0..stages).map(|_| random_sizes(random)).collect();
            model(&stages, usize::from(partitions))
        })
        .collect();
    if random.one_in(2) {
        share(&mut models, random);
    }
    let count = random.within(2, 5);
    let mut tasks: Vec<TaskConfig> = (0..count)
        .map(|_| random_task(random, &models, true))
        .collect();
    tasks.push(random_task(random, &models, false));
    for _ in 0..random.within(0, 2) {
        let model = random.within(0, models.len() as u64 - 1) as u16;
        tasks.push(TaskConfig {
            batch_max: 4,
            deadline: random.one_in(3).then(|| units(random.within(5, 200))),
            mandatory_exit: first_exit(&models[usize::from(model)]),
            ..best_effort(model)
        });
    }
    if random.one_in(2) {
        offload(&mut tasks, &mut models, random);
    }
    // Depth of every second task gives way to first answers of best-effort work.
    for task in tasks.iter_mut().step_by(2) {
        task.threshold_min = Confidence(0);
    }
    for task in &mut tasks {
        task.partition = PartitionId(random.within(0, u64::from(partitions) - 1) as u16);
    }
    // Offloaded frames go to the other partition, if there is one.
    for own in 0..tasks.len() {
        if let Some(taker) = tasks[own].offload_to {
            let other = u16::from(partitions) - 1 - tasks[own].partition.0;
            tasks[taker.index()].partition = PartitionId(other);
        }
    }
    let preemption = units(random.within(0, 4));
    let mut whole = plan(tasks, models, preemption);
    if random.one_in(2) {
        page(&mut whole, random);
    }
    let partition = |first| PartitionConfig {
        units: Units { first, count: 1 },
        share_max: if random.one_in(2) { 1000 } else { 900 },
        ..whole.partitions[0].clone()
    };
    Config {
        partitions: (0..u16::from(partitions)).map(partition).collect(),
        dispatch_cost: units(random.within(0, 1)),
        egress_bound: units(random.within(0, 2)),
        ..whole
    }
}

/// Gives a real-time task another to offload to: the same network, taking half to four times the time.
fn offload(tasks: &mut Vec<TaskConfig>, models: &mut Vec<ModelConfig>, random: &mut Random) {
    let real_time = |task: &TaskConfig| task.criticality == Criticality::RealTime;
    let name = TaskId(tasks.len() as u16);
    let count = tasks.iter().filter(|t| real_time(t)).count();
    // The last has no reservation, so its frames are rejected most often.
    let own = if random.one_in(2) {
        count - 1
    } else {
        random.within(0, count as u64 - 1) as usize
    };
    let mut all = tasks.iter_mut().filter(|t| real_time(t));
    let own = all.nth(own).expect("there are that many");
    let mut model = models[own.model.index()].clone();
    let halves = random.within(1, 8);
    for stage in &mut model.stages {
        stage.runs_as = None;
        for time in stage.times.iter_mut().flat_map(|time| &mut time.on) {
            time.budget = Nanos::new(time.budget.as_nanos() * halves / 2);
            time.max_seen = time.budget;
        }
    }
    let last = StageId(model.stages.len() as u8 - 1);
    let taker = TaskConfig {
        model: ModelId(models.len() as u16),
        reserved: false,
        mandatory_exit: if random.one_in(4) {
            last
        } else {
            own.mandatory_exit
        },
        jitter: Nanos::ZERO,
        queue_max: random.within(1, 20) as u16,
        batch_max: [1, 2, 4, 8][random.within(0, 3) as usize],
        ..own.clone()
    };
    own.offload_to = Some(name);
    models.push(model);
    tasks.push(taker);
}

/// Adds a model with the same first stages as the first; the common part may have no exit.
fn share(models: &mut Vec<ModelConfig>, random: &mut Random) {
    let stages = models[0].stages.len();
    models[0].stages[0].answers = stages == 1 || random.one_in(2);
    let mut like = models[0].clone();
    for stage in &mut like.stages[..random.within(1, stages as u64) as usize] {
        stage.runs_as = Some(ModelId(0));
    }
    models.push(like);
}

fn first_exit(model: &ModelConfig) -> StageId {
    let first = model.stages.iter().position(|stage| stage.answers);
    StageId(first.expect("the last stage ends in one") as u8)
}

/// Pages the weights of all models of tasks without a reservation, and adds a task with a paged copy of the first
/// model.
fn page(config: &mut Config, random: &mut Random) {
    let mut stages = config.models.iter().flat_map(|model| &model.stages);
    let lends = stages.any(|stage| stage.runs_as.is_some());
    let mut copy = config.models[0].clone();
    for stage in &mut copy.stages {
        stage.runs_as = None;
    }
    config.models.push(copy);
    let copy = config.models.len() as u16 - 1;
    let last = config.tasks.last().expect("there is one").clone();
    config.tasks.push(TaskConfig {
        mandatory_exit: first_exit(&config.models[0]),
        partition: PartitionId(0),
        model: ModelId(copy),
        offload_to: None,
        delivery: Delivery::EveryFrame,
        ..last
    });
    config.pages = random.within(1, 4) as u32;
    for (index, model) in config.models.iter_mut().enumerate() {
        let mut tasks = config.tasks.iter();
        let shares = model.stages[0].runs_as.is_some() || lends && index == 0;
        if !shares && !tasks.any(|task| task.reserved && task.model.index() == index) {
            model.weights = Some(Weights {
                pages: random.within(1, u64::from(config.pages)) as u32,
                load: units(random.within(1, 30)),
            });
        }
    }
}

/// A plan with homes of one to three units, and places in addition: cells of one unit, the ranges of the homes, the
/// whole device and any other range. Some models may use some of them.
pub fn random_places(random: &mut Random) -> Config {
    let mut config = random_plan(random);
    let mut first = 0;
    for home in &mut config.partitions {
        let count = random.within(1, 3) as u16;
        home.units = Units { first, count };
        first += count;
    }
    let (homes, all) = (config.partitions.len(), first);
    let mut ranges: Vec<Units> = (0..all).map(|first| Units { first, count: 1 }).collect();
    ranges.extend(config.partitions.iter().map(|home| home.units));
    ranges.push(Units {
        first: 0,
        count: all,
    });
    for _ in 0..random.within(0, 3) {
        let first = random.within(0, u64::from(all) - 1) as u16;
        let count = random.within(1, u64::from(all - first)) as u16;
        ranges.push(Units { first, count });
    }
    let like = config.partitions[0].clone();
    let places = ranges.iter().map(|&units| PartitionConfig {
        units,
        ..like.clone()
    });
    config.partitions.extend(places);
    // By place, not by model: stages that several models share take equal times everywhere.
    let halves: Vec<u64> = ranges.iter().map(|_| random.within(1, 6)).collect();
    for model in &mut config.models {
        let unplaced = random.one_in(4);
        for (place, &halves) in (homes..).zip(&halves) {
            for time in model.stages.iter_mut().flat_map(|s| &mut s.times) {
                let home = time.on[0].budget.as_nanos();
                let budget = Nanos::new((home * halves / 2).max(1));
                let max_seen = budget;
                time.on.push(crate::StageTime { budget, max_seen });
            }
            if !unplaced && !random.one_in(4) {
                model.places.push(PartitionId(place as u16));
            }
        }
    }
    config
}

/// Compiled sizes 1, 2, 4, 8 whose time per image may fall or rise.
fn random_sizes(random: &mut Random) -> Vec<(u8, Nanos)> {
    let one = random.within(1, 12);
    let two = one + random.within(0, one);
    let four = two + random.within(0, two);
    let eight = four + random.within(0, four);
    [(1, one), (2, two), (4, four), (8, eight)]
        .map(|(batch, cost)| (batch, units(cost)))
        .to_vec()
}

fn random_task(random: &mut Random, models: &[crate::ModelConfig], reserved: bool) -> TaskConfig {
    let model = random.within(0, models.len() as u64 - 1) as u16;
    let stages = models[usize::from(model)].stages.len() as u64;
    let period = random.within(10, 120);
    let deadline = period / 2 + random.within(0, period);
    TaskConfig {
        jitter: units(random.within(0, deadline / 3)),
        mandatory_exit: StageId(random.within(0, stages - 1) as u8)
            .max(first_exit(&models[usize::from(model)])),
        batch_max: [1, 2, 4, 8][random.within(0, 3) as usize],
        queue_max: 20,
        burst: if random.one_in(4) {
            random.within(2, 3) as u8
        } else {
            1
        },
        reserved,
        answers: [Answers::Final, Answers::Early, Answers::EachExit][random.below(3) as usize],
        weight: random.within(1, 3) as u16,
        ..task(model, units(deadline.max(2)), units(period))
    }
}

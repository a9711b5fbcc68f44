//! What a case's networks and tasks have to do with each other: common beginnings, weights that come
//! and go, frames that another task takes on, places that other tasks lend.

use punctual_core::{
    Criticality, Delivery, ModelId, Nanos, StageId, TaskConfig, TaskId, Units, Weights,
};
use punctual_types::Random;

use super::draw::units;
use crate::arrivals::Pattern;
use crate::scenario::{Lending, Scenario, Task};

/// In a third of the cases a model that begins like the first, which some of its tasks ask instead; in
/// some of these their common beginning has no exit.
pub(super) fn share(random: &mut Random, scenario: &mut Scenario) {
    let first = &mut scenario.models[0];
    if !random.one_in(3) || first.weights.is_some() {
        return;
    }
    let shared = random.within(1, first.stages.len() as u64) as usize;
    first.stages[0].headless = first.stages.len() > 1 && random.one_in(2);
    let mut copy = first.clone();
    for stage in &mut copy.stages[..shared] {
        stage.runs_as = Some(0);
    }
    let least = StageId(u8::from(first.stages[0].headless));
    let like = ModelId(scenario.models.len() as u16);
    scenario.models.push(copy);
    for task in &mut scenario.tasks {
        let config = &mut task.config;
        if config.model == ModelId(0) {
            config.mandatory_exit = config.mandatory_exit.max(least);
            if random.one_in(2) {
                config.model = like;
            }
        }
    }
}

/// In half of the cases some tasks want the latest frame only.
pub(super) fn deliver(random: &mut Random, scenario: &mut Scenario) {
    let some = random.one_in(2);
    for task in &mut scenario.tasks {
        if some && random.one_in(2) {
            task.config.delivery = Delivery::LatestFrame;
        }
    }
}

/// In a third of the cases a task to which a real-time one may offload frames: the same network, up to four
/// times as slow or half as slow, paged if that is.
pub(super) fn offload(random: &mut Random, scenario: &mut Scenario) {
    let real_time = |task: &&mut Task| task.config.criticality == Criticality::RealTime;
    let count = scenario.tasks.iter_mut().filter(real_time).count() as u64;
    if count == 0 || !random.one_in(3) {
        return;
    }
    let index = scenario.tasks.len();
    let which = random.below(count) as usize;
    let own = scenario.tasks.iter_mut().filter(real_time).nth(which);
    let own = own.expect("there are that many");
    let mut taker = own.clone();
    own.config.offload_to = Some(TaskId(index as u16));
    let mut model = scenario.models[own.config.model.index()].clone();
    let halves = random.within(1, 8);
    for stage in &mut model.stages {
        stage.runs_as = None;
        for time in stage.times.iter_mut().map(|measured| &mut measured.time) {
            for span in [&mut time.budget, &mut time.max_seen] {
                *span = Nanos::new(span.as_nanos() * halves / 2);
            }
        }
    }
    if random.one_in(4) {
        taker.config.mandatory_exit = StageId(model.stages.len() as u8 - 1);
    }
    taker.name = format!("task-{index}");
    taker.config.model = ModelId(scenario.models.len() as u16);
    taker.config.reserved = false;
    taker.config.batch_max = [1, 2, 4, 8][random.below(4) as usize];
    // It may have frames of its own, which may not wait for other tasks' answers.
    taker.pattern = Pattern::Poisson {
        rate_hz: 1e9 / taker.config.period.as_nanos() as f64 * random.unit(),
    };
    taker.clients = 1;
    let part = random.below(scenario.planned.len() as u64) as usize;
    scenario.planned[part].1.push(index);
    scenario.models.push(model);
    scenario.tasks.push(taker);
}

/// In half of the cases places: cells of one size, the ranges of the partitions and the whole device, or any ranges.
pub(super) fn lend(random: &mut Random, scenario: &mut Scenario) {
    if random.one_in(2) {
        return;
    }
    let all = scenario.board.units;
    let range = |first, count| Units { first, count };
    let mut places: Vec<Units> = if random.one_in(2) {
        let size = random.within(1, u64::from(all)) as u16;
        let cells = (0..all / size).map(|cell| range(cell * size, size));
        let homes = scenario.planned.iter().map(|(units, _)| *units);
        cells.chain(homes).chain([range(0, all)]).collect()
    } else {
        let any = |_| {
            let first = random.below(u64::from(all)) as u16;
            range(first, random.within(1, u64::from(all - first)) as u16)
        };
        (0..4).map(any).collect()
    };
    places.sort_unstable_by_key(|units| (units.first, units.count));
    places.dedup();
    scenario.lending = Some(Lending {
        homes: Vec::new(),
        places,
        corun: [1.0, 1.0, 1.25, 0.75][random.below(4) as usize],
    });
}

/// Pages the weights of models that no reservation asks. Half of the unreserved tasks get a model of
/// their own, so that there are some.
pub(super) fn page(random: &mut Random, scenario: &mut Scenario) {
    scenario.board.pages = random.within(1, 6) as u32;
    for task in &mut scenario.tasks {
        if !task.config.reserved && random.one_in(2) {
            let copy = scenario.models[task.config.model.index()].clone();
            task.config.model = ModelId(scenario.models.len() as u16);
            scenario.models.push(copy);
        }
    }
    for (index, model) in scenario.models.iter_mut().enumerate() {
        let mut tasks = scenario.tasks.iter().map(|task| &task.config);
        if !tasks.any(|task| task.reserved && task.model.index() == index) {
            model.weights = Some(Weights {
                pages: random.within(1, u64::from(scenario.board.pages)) as u32,
                load: units(random.within(1, 30)),
            });
        }
    }
}

/// Queues and buffers from as few as a plan may have upwards.
pub(super) fn fit_buffers(random: &mut Random, scenario: &mut Scenario) {
    let mut kept_of_all = 0;
    for task in &mut scenario.tasks {
        let kept = kept(&task.config);
        task.config.queue_max = (kept.max(1) + random.below(12)) as u16;
        kept_of_all += kept;
    }
    scenario.board.request_buffers = (kept_of_all + random.within(1, 24)) as u16;
}

/// `ceil((D + J) / T) + 1` bursts for what is reserved (docs/proof.md).
fn kept(task: &TaskConfig) -> u64 {
    match task.deadline.filter(|_| task.reserved) {
        Some(deadline) => {
            let span = (deadline + task.jitter).as_nanos();
            let bursts = span.div_ceil(task.period.as_nanos()) + 1;
            bursts * u64::from(task.burst)
        }
        None => 0,
    }
}

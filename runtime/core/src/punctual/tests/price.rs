//! The price of depth: which requests go deeper at which load.

use std::vec;
use std::vec::Vec;

use super::plans::{at, model_alone, ms, plan, task};
use super::world::{Nature, World};
use crate::punctual::price::Prices;
use crate::punctual::tables::Tables;
use crate::{
    ACCURACY_BINS, Confidence, Config, Infer, PunctualConfig, StageId, TaskConfig, TaskId,
};

/// In the first bin, where a deeper answer gains most here.
const DOUBTFUL: Confidence = Confidence(1_000);
/// In the last bin, where a deeper answer gains a tenth of that.
const FAIR: Confidence = Confidence(58_000);

/// Two stages of 10 every 40: half of the first answers are doubtful, half fair.
fn halves() -> Config {
    let mut model = model_alone(&[ms(10), ms(10)]);
    let mut split = [0; ACCURACY_BINS];
    (split[0], split[ACCURACY_BINS - 1]) = (32_768, 32_767);
    for stage in &mut model.stages {
        stage.follows = [split; ACCURACY_BINS];
    }
    model.stages[0].accuracy = [30_000; ACCURACY_BINS];
    model.stages[0].deeper = vec![[31_000; ACCURACY_BINS]];
    model.stages[0].deeper[0][0] = 40_000;
    let task = TaskConfig {
        threshold: Confidence::ONE,
        threshold_min: Confidence(0),
        ..task(0, ms(40), ms(40))
    };
    plan(vec![task], vec![model], ms(1))
}

fn prices(config: &Config) -> Prices {
    Prices::new(config, Tables::new(config, true).tasks(), 50)
}

/// The least load, in 32nds, at which answers of this confidence do not go on.
fn stops_at(prices: &Prices, confidence: Confidence) -> Option<usize> {
    let goes_on = |load: &usize| prices.goes_on(*load, TaskId(0), StageId(0), confidence);
    let stops = (0..49).find(|load| !goes_on(load));
    assert!(stops.is_none_or(|load| (load..49).all(|load| !goes_on(&load))));
    stops
}

#[test]
fn the_smallest_gain_for_the_time_gives_way_first() {
    // The margin leaves 0.95. With mandatory work m, all requests go deeper while 2 m fits, the doubtful half while
    // 1.5 m fits: up to 15/32 = 0.469 and 20/32 = 0.625.
    let prices = prices(&halves());
    assert_eq!(stops_at(&prices, FAIR), Some(16));
    assert_eq!(stops_at(&prices, DOUBTFUL), Some(21));
}

#[test]
fn a_cheaper_batch_lowers_the_price() {
    let mut config = halves();
    for stage in &mut config.models[0].stages {
        let mut pair = stage.times[0].clone();
        pair.batch = 2;
        pair.on[0].budget = ms(11);
        stage.times.push(pair);
    }
    // At a load of 1/2 a frame arrives every 20 and may wait for 75: batches of two, 5.5 for each member.
    config.tasks[0].deadline = Some(ms(160));
    let prices = prices(&config);
    assert_eq!(stops_at(&prices, FAIR), Some(28));
}

#[test]
fn a_weightier_task_goes_deeper_at_a_higher_load() {
    let mut config = halves();
    config.tasks.push(TaskConfig {
        weight: 20,
        ..config.tasks[0].clone()
    });
    let prices = prices(&config);
    let fair = |task, load| prices.goes_on(load, TaskId(task), StageId(0), FAIR);
    // Together they have the load of the single task. Fair answers of the task with weight 20 are worth more than
    // doubtful ones of the other.
    assert!(fair(1, 18) && !fair(0, 18));
    let doubtful = |task, load| prices.goes_on(load, TaskId(task), StageId(0), DOUBTFUL);
    assert!(!doubtful(0, 21) && fair(1, 20));
}

#[test]
fn a_stage_that_gains_nothing_is_not_worth_even_free_time() {
    let mut config = halves();
    config.models[0].stages[0].deeper[0][ACCURACY_BINS - 1] = 30_000;
    assert_eq!(stops_at(&prices(&config), FAIR), Some(0));
    assert_eq!(stops_at(&prices(&config), DOUBTFUL), Some(21));
}

#[test]
fn without_calibration_of_confidence_every_gain_is_worth_its_time() {
    let mut config = halves();
    for stage in &mut config.models[0].stages {
        stage.follows = [[0; ACCURACY_BINS]; ACCURACY_BINS];
    }
    assert_eq!(stops_at(&prices(&config), FAIR), None);
}

/// Every stage takes its budget; every answer is fair.
#[derive(Clone, Debug)]
struct Fair;

impl Nature for Fair {
    fn confidence(&mut self, _: &Infer) -> Confidence {
        FAIR
    }
}

/// The exits of frames of [`halves`], in order, one frame every 15 ms: a load of 2/3.
fn exits(parameters: PunctualConfig, threshold_min: Confidence) -> Vec<u8> {
    let mut config = halves();
    config.tasks[0].threshold_min = threshold_min;
    config.tasks[0].deadline = Some(ms(60));
    let mut world = World::with(config, parameters, Fair);
    let frames: Vec<u64> = (0..200).map(|n| world.frame(0, at(15 * n))).collect();
    world.run_until(at(10_000));
    let exit = |&frame| world.reply(frame).expect("answered").1.answer;
    let answers = frames.iter().filter_map(exit);
    answers.map(|(exit, _)| exit.0).collect()
}

#[test]
fn a_request_gets_the_answer_it_has_when_a_deeper_one_is_not_worth_the_price() {
    let off = PunctualConfig::default();
    let on = PunctualConfig { price: true, ..off };
    let deep = |exits: Vec<u8>| exits.iter().skip(80).filter(|&&exit| exit == 1).count();
    assert_eq!(deep(exits(on, Confidence(0))), 0);
    // Below the least threshold there is no price.
    assert!(deep(exits(on, Confidence(59_000))) > 20);
    assert!(deep(exits(off, Confidence(0))) > 20);
}

#[test]
fn the_price_falls_with_the_load() {
    let mut config = halves();
    let priced = PunctualConfig {
        price: true,
        ..PunctualConfig::default()
    };
    config.tasks[0].deadline = Some(ms(60));
    let mut world = World::with(config, priced, Fair);
    for n in 0..200 {
        world.frame(0, at(15 * n));
    }
    world.run_until(at(3_900));
    let later = world.frame(0, at(4_200));
    world.run_until(at(5_000));
    let (_, reply) = world.reply(later).expect("answered");
    assert_eq!(reply.answer.expect("on time").0, StageId(1));
}

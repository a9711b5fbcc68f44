//! A change between layouts endangers no promise, and the policy chooses the layout that the load needs.

use std::vec;
use std::vec::Vec;

use punctual_types::Random;

use super::guarantee::run_plan;
use super::plans::{at, model, ms, plan, task};
use super::random_plans::random_layouts;
use super::workload::plans;
use super::world::{Exact, World};
use crate::punctual::Punctual;
use crate::punctual::ablation::Ablation;
use crate::{
    Action, Config, ConfigError, Layout, LoadRange, ModelId, PartitionConfig, PartitionId,
    PunctualConfig, Units, Verdict,
};

/// In these a batch of two was measured shorter than one request alone, and an accepted request was late
/// once its companion had been superseded: the rest of their joint promise cost more than the whole.
const CHEAPER_BATCHES: [u64; 2] = [2_052, 4_292];

fn courses(ablation: Option<Ablation>) -> Vec<super::guarantee::Course> {
    let course = |seed| {
        let mut random = Random::new(seed);
        let config = random_layouts(&mut random);
        run_plan(seed, config, random, ablation)
    };
    (0..plans())
        .chain(CHEAPER_BATCHES)
        .filter_map(course)
        .collect()
}

#[test]
fn no_promised_request_misses_whenever_the_layout_changes() {
    let courses = courses(None);
    let promised: u64 = courses.iter().map(|c| c.promised).sum();
    let moved = courses.iter().filter(|c| c.moved > 0).count();
    std::println!(
        "{} plans, {moved} with changes, {promised} promised requests, 0 misses",
        courses.len()
    );
    assert!(courses.iter().all(|c| c.misses == 0));
    assert!(moved * 2 > courses.len() && courses.len() as u64 * 10 > plans());
}

#[test]
fn a_change_because_both_layouts_are_schedulable_makes_misses() {
    let courses = courses(Some(Ablation::UncheckedChange));
    let plans = courses.iter().filter(|c| c.misses > 0).count();
    std::println!(
        "UncheckedChange: {plans} of {} plans with misses",
        courses.len()
    );
    assert!(plans > 0);
}

/// The whole device, where a stage takes 4, or its halves, where it takes 6; two tasks. At first both run on the
/// whole device.
fn two_layouts() -> Config {
    let mut model = model(&[vec![(1, ms(4))]], 3);
    for half in &mut model.stages[0].times[0].on[1..] {
        half.budget = ms(6);
        half.max_seen = ms(6);
    }
    let tasks = vec![task(0, ms(20), ms(20)), task(0, ms(20), ms(20))];
    let config = plan(tasks, vec![model], ms(1));
    let partition = |first, count| PartitionConfig {
        units: Units { first, count },
        ..config.partitions[0].clone()
    };
    Config {
        partitions: vec![partition(0, 2), partition(0, 1), partition(1, 1)],
        layouts: vec![Layout {
            partitions: vec![PartitionId(1), PartitionId(2)],
            load: None,
        }],
        switch_cost: ms(2),
        ..config
    }
}

/// The partition and the time, in ms, of each action's start.
fn starts(world: &World<Exact>) -> Vec<(u16, u64)> {
    let infers = world.log.iter().filter_map(|(at, action)| match action {
        Action::Infer(infer) => Some((infer.partition.0, at.as_nanos() / 1_000_000)),
        _ => None,
    });
    infers.collect()
}

#[test]
fn after_a_change_nothing_starts_before_all_actions_have_ended_and_the_switch_cost_has_passed() {
    let mut world = World::new(two_layouts(), Exact);
    world.frame(0, at(0));
    world.frame(1, at(0));
    world.run_until(at(0));
    world.scheduler.layouts.want(1);
    world.frame(0, at(30));
    world.run_until(at(3));
    // The next boundary is the end of the first stage, at 4: both halves open at 6.
    world.run_until(at(60));
    assert_eq!(starts(&world), [(0, 0), (2, 6), (1, 30)]);
}

#[test]
fn a_change_into_which_the_promises_do_not_fit_is_deferred() {
    // An extra with a deadline of 9: on the whole device it ends at 8, on its half at 4 + 2 + 6 = 12 at the
    // earliest.
    let mut world = World::new(two_layouts(), Exact);
    world.frame(1, at(0));
    let hasty = world.frame_captured(0, at(0), at(0), Some(at(9)));
    world.run_until(at(0));
    world.scheduler.layouts.want(1);
    world.run_until(at(40));
    let (when, reply) = world.reply(hasty).expect("answered");
    assert!(when <= at(8) && reply.verdict == Verdict::OnTime);
    assert_eq!(world.scheduler.tables.layout(), 1);
    assert_eq!(starts(&world), [(0, 0), (0, 4)]);
}

#[test]
fn while_a_model_is_demoted_the_partitions_of_its_tasks_do_not_change() {
    let mut world = World::new(two_layouts(), Exact);
    let now = world.scheduler.now;
    let demote = |world: &mut World<Exact>, demoted| {
        let monitor = &mut world.scheduler.partitions[0].profiles;
        monitor.set_demoted(ModelId(0), demoted, now);
    };
    demote(&mut world, true);
    world.scheduler.layouts.want(1);
    world.frame(0, at(0));
    world.frame(1, at(30));
    world.run_until(at(60));
    assert_eq!(starts(&world), [(0, 0), (0, 30)]);
    demote(&mut world, false);
    world.frame(0, at(90));
    world.run_until(at(120));
    assert_eq!(world.scheduler.tables.layout(), 1);
    assert_eq!(starts(&world).last(), Some(&(1, 92)));
}

#[test]
fn an_answer_is_given_at_the_end_of_its_stage_although_its_task_has_moved_meanwhile() {
    let mut config = two_layouts();
    config.models = vec![model(&[vec![(1, ms(6))], vec![(1, ms(30))]], 3)];
    for (task, partition) in config.tasks.iter_mut().zip([1, 2]) {
        task.partition = PartitionId(partition);
    }
    config.layouts[0].partitions = vec![PartitionId(2), PartitionId(1)];
    let mut world = World::new(config, Exact);
    let frame = world.frame(0, at(0));
    world.run_until(at(0));
    world.scheduler.layouts.want(1);
    world.frame(1, at(3));
    world.run_until(at(40));
    assert_eq!(world.scheduler.tables.layout(), 1);
    // The second stage would end after the deadline.
    assert_eq!(world.reply(frame).expect("answered").0, at(6));
}

#[test]
fn the_layout_follows_demand_within_a_tenth_of_a_second_and_stays() {
    let mut config = two_layouts();
    // Stages take as long on the whole device as on a half, so a split doubles the capacity.
    for on in &mut config.models[0].stages[0].times[0].on {
        on.budget = ms(6);
        on.max_seen = ms(6);
    }
    let mut world = World::new(config, Exact);
    for n in 0..50 {
        world.frame(0, at(20 * n));
        world.frame(1, at(20 * n));
    }
    world.run_until(at(2_000));
    let starts = starts(&world);
    let first = starts.iter().position(|(partition, _)| *partition != 0);
    let first = first.expect("the layout changed");
    assert!(starts[first].1 <= 120, "{:?}", starts[first]);
    assert!(starts[first..].iter().all(|(partition, _)| *partition != 0));
}

/// Halves that are meant for a load of the whole device from 0.3 to 0.6, and as good as the whole.
fn meant_for_some_load() -> Config {
    let mut config = two_layouts();
    config.layouts[0].load = Some(LoadRange {
        least: 300,
        most: 600,
    });
    config
}

#[test]
fn a_range_without_an_upper_end_holds_any_load_above_the_lower() {
    let (least, most) = (300, u32::MAX);
    let range = LoadRange { least, most };
    assert!(range.holds(u64::MAX) && range.nearly_holds(u64::MAX));
    assert!(!range.holds(299) && range.nearly_holds(225) && !range.nearly_holds(224));
}

/// The layout after two seconds with a frame of the first task every `every` ms.
fn layout_after(world: &mut World<Exact>, from: u64, every: u64) -> usize {
    for n in 0..2_000 / every {
        world.frame(0, at(from + every * n));
    }
    world.run_until(at(from + 2_000));
    world.scheduler.tables.layout()
}

#[test]
fn a_layout_is_entered_when_the_load_is_in_its_range_and_left_a_quarter_outside() {
    let mut world = World::new(meant_for_some_load(), Exact);
    let cost = world.scheduler.tables.tasks()[0].work();
    let full = |every: u64| cost.as_nanos() / 1_000 / every;
    let [below, nearly, within] = [20, 14, 10];
    assert!(full(below) < 225, "less than 0.3 by more than a quarter");
    // The oldest eighth of the second is forgotten at once.
    let counted = |every: u64| full(every) * 7 / 8..=full(every);
    assert!(*counted(nearly).start() >= 225 && *counted(nearly).end() < 300);
    assert!(*counted(within).start() >= 300 && *counted(within).end() <= 600);
    assert_eq!(layout_after(&mut world, 0, below), 0);
    assert_eq!(
        layout_after(&mut world, 2_000, nearly),
        0,
        "not entered yet"
    );
    assert_eq!(layout_after(&mut world, 4_000, within), 1);
    assert_eq!(layout_after(&mut world, 6_000, nearly), 1, "not left yet");
    assert_eq!(layout_after(&mut world, 8_000, below), 0);
    assert_eq!(world.misses, 0);
}

#[test]
fn a_range_of_loads_that_ends_before_it_begins_is_refused() {
    let mut config = meant_for_some_load();
    config.layouts[0].load = Some(LoadRange {
        least: 600,
        most: 300,
    });
    let error = Punctual::new(&config, PunctualConfig::default()).expect_err("no range");
    assert!(
        matches!(error, ConfigError::LoadRange { layout: 1, .. }),
        "{error}"
    );
}

#[test]
fn a_layout_of_overlapping_partitions_or_of_too_few_tasks_is_refused() {
    let mut config = two_layouts();
    config.layouts[0].partitions = vec![PartitionId(0), PartitionId(1)];
    let error = Punctual::new(&config, PunctualConfig::default()).expect_err("they share unit 0");
    assert!(
        matches!(error, ConfigError::Overlap { layout: 1, .. }),
        "{error}"
    );
    config.layouts[0].partitions.pop();
    let error = Punctual::new(&config, PunctualConfig::default()).expect_err("one is missing");
    assert!(
        matches!(error, ConfigError::Layout { layout: 1, .. }),
        "{error}"
    );
}

#[test]
fn a_layout_that_cannot_keep_its_promises_is_refused() {
    let mut config = two_layouts();
    for half in &mut config.models[0].stages[0].times[0].on[1..] {
        half.budget = ms(21);
    }
    let error = Punctual::new(&config, PunctualConfig::default()).expect_err("21 in 20");
    let rejected = matches!(error, ConfigError::Infeasible { layout: 1, .. });
    assert!(rejected, "{error}");
}

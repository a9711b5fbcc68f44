//! Which partitions a scenario's plan has.

use punctual_core::{
    ModelId, Nanos, PartitionId, Partitioning, PolicySpec, PunctualConfig, Scheduler, Units,
    offline,
};
use punctual_evaluation::profiles::{robot, signs};
use punctual_evaluation::workloads;
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::layout::{TASKS_MAX, alternatives, choose};
use punctual_simulator::scenario::{Board, Scenario, Task};

const fn units(first: u16, count: u16) -> Units {
    Units { first, count }
}

#[test]
fn further_layouts_use_the_partitions_that_there_are_and_add_those_that_are_not() {
    let mut scenario = workloads::by_name("robot").expect("a workload");
    scenario.planned = vec![(units(0, 1), vec![0]), (units(1, 1), vec![1, 2])];
    scenario.alternatives = vec![
        vec![(units(0, 1), vec![1]), (units(1, 1), vec![0, 2])],
        vec![(units(0, 2), vec![0, 1, 2])],
    ];
    let config = scenario.config(&PunctualConfig::default());
    let ranges: Vec<Units> = config.partitions.iter().map(|p| p.units).collect();
    assert_eq!(ranges, [units(0, 1), units(1, 1), units(0, 2)]);
    let of = |layout: usize| config.layouts[layout].partitions.iter().map(|p| p.0);
    assert!(of(0).eq([1, 0, 1]));
    assert!(of(1).eq([2, 2, 2]));
}

#[test]
fn only_the_policy_that_plans_gets_further_layouts_and_none_unless_asked_for() {
    let plain = workloads::by_name("seeb-poisson").expect("a workload");
    let several = plain.clone().with_alternatives(4.0);
    for policy in punctual_baselines::all().iter() {
        assert!(plain.config(policy).layouts.is_empty(), "{}", policy.name());
        let config = several.config(policy);
        let plans = policy.contract().partitioning == Partitioning::Planned;
        assert_eq!(config.layouts.is_empty(), !plans, "{}", policy.name());
        Scheduler::new(&config, policy).expect("the scheduler takes every layout");
    }
}

/// Tasks on the detection network (8 ms an exit on one core, 1.8 times faster on two), each
/// with a deadline, a rate, and whether it is promised.
fn scenario(count: u16, tasks: &[(u64, f64, bool)]) -> Scenario {
    let task = |&(deadline_ms, rate_hz, reserved): &(u64, f64, bool)| {
        let deadline = Nanos::from_millis(deadline_ms);
        let pattern = Pattern::Poisson { rate_hz };
        let task = Task::real_time("task", ModelId(0), deadline, pattern);
        let period = task.config.period;
        if reserved {
            task.reserved(period)
        } else {
            task
        }
    };
    let tasks = tasks.iter().map(task).collect();
    let models = vec![robot::detection(), signs::model()];
    Scenario::new(models, tasks, Board::of(count), Nanos::from_millis(1_000))
}

fn covered(layout: &[(Units, Vec<usize>)], tasks: usize, count: u16) {
    let mut seen: Vec<usize> = layout.iter().flat_map(|(_, tasks)| tasks.clone()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..tasks).collect::<Vec<_>>());
    for pair in layout.windows(2) {
        assert_eq!(pair[1].0.first, pair[0].0.end());
    }
    assert!(layout.iter().all(|(range, _)| range.end() <= count));
}

#[test]
fn two_busy_tasks_get_a_core_each_rather_than_share_two() {
    // Two cores are less than twice as fast as one.
    let layout = choose(&scenario(2, &[(60, 35.0, false), (60, 35.0, false)]));
    covered(&layout, 2, 2);
    assert_eq!(layout.len(), 2, "{layout:?}");
}

#[test]
fn a_deadline_that_needs_both_cores_gets_them() {
    // 8 ms on one core, 4.4 ms on two.
    let layout = choose(&scenario(2, &[(6, 10.0, true), (200, 1.0, false)]));
    covered(&layout, 2, 2);
    let (range, _) = layout
        .iter()
        .find(|(_, tasks)| tasks.contains(&0))
        .expect("placed");
    assert_eq!(range.count, 2, "{layout:?}");
}

#[test]
fn a_long_stage_is_kept_from_a_promise_that_it_would_break() {
    let mut scenario = scenario(2, &[(8, 20.0, true), (200, 10.0, false)]);
    // Signs within 8 ms; detection alone blocks a core for 8.
    scenario.tasks[0].config.model = ModelId(1);
    let layout = choose(&scenario);
    covered(&layout, 2, 2);
    scenario.planned = layout;
    let config = scenario.config(&PunctualConfig::default());
    for partition in 0..config.partitions.len() {
        let report = offline::test_partition(&config, PartitionId(partition as u16));
        assert!(report.outcome.is_ok(), "{:?}", scenario.planned);
    }
}

#[test]
fn what_no_layout_can_promise_and_many_tasks_share_the_whole_device() {
    let impossible = choose(&scenario(2, &[(4, 10.0, true)]));
    assert_eq!(impossible, [(units(0, 2), vec![0])]);
    let many = vec![(60, 1.0, false); TASKS_MAX + 1];
    assert_eq!(choose(&scenario(2, &many)).len(), 1);
    assert_eq!(choose(&scenario(2, &[])).len(), 1);
}

#[test]
fn what_is_best_in_a_tasks_turn_is_an_alternative_if_it_is_not_what_is_planned() {
    let planned = scenario(3, &[(60, 30.0, false), (60, 30.0, false)]).planned();
    let found = alternatives(&planned, 4.0);
    assert!(!found.is_empty() && !found.contains(&planned.planned));
    for layout in &found {
        covered(layout, 2, 3);
    }
    assert_eq!(alternatives(&planned, 1.0), Vec::<Vec<_>>::new());
    let impossible = scenario(2, &[(4, 10.0, true)]).planned();
    assert!(alternatives(&impossible, 4.0).is_empty());
}

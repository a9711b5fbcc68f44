//! Which partitions a scenario's plan has, and which tasks run on each.

use punctual_core::{ModelId, Nanos, PartitionId, PunctualConfig, Units, offline};
use punctual_evaluation::profiles::{robot, signs};
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::layout::{TASKS_MAX, choose};
use punctual_simulator::scenario::{Board, Scenario, Task};

const fn units(first: u16, count: u16) -> Units {
    Units { first, count }
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

//! The two analyses that promises depend on, slack and the offline test, against literal implementations of their
//! definitions.

use std::vec::Vec;

use proptest::prelude::*;
use punctual_types::Random;

use super::random_plans::{UNIT, random_plan, units};
use super::world::{Exact, World};
use crate::offline::{Demand, Infeasible, test};
use crate::punctual::Punctual;
use crate::{Instant, Nanos, PunctualConfig, TaskId};

/// F(y): work of conforming requests, not yet released, that may be due by `y`.
fn future_work(scheduler: &Punctual, index: usize, y: Instant) -> u64 {
    let tasks = (0..).map(TaskId).zip(scheduler.tables.tasks());
    tasks
        .filter(|(_, table)| table.guaranteed && table.partition.index() == index)
        .map(|(task, table)| {
            let allowance = scheduler.reservations.allowance(task);
            let deadline = table.own_due().expect("reserved tasks have one");
            let each = table.work().as_nanos();
            let rests = allowance.rests(table, scheduler.now);
            let rests = rests.filter(|rest| rest.captured + deadline <= y);
            let mut work: u64 = rests.map(|rest| u64::from(rest.requests) * each).sum();
            let mut due = allowance.next().max(scheduler.now - table.jitter) + deadline;
            while due <= y {
                work += u64::from(table.burst) * each;
                due = due + table.period;
            }
            work
        })
        .sum()
}

fn exact_slack(scheduler: &Punctual, index: usize, free: Instant, y: Instant) -> i64 {
    let pending = scheduler.life.queues[index].mandatory().iter();
    let pending: u64 = pending
        .filter(|p| p.due <= y)
        .map(|p| p.work.as_nanos())
        .sum();
    let demand = pending + future_work(scheduler, index, y);
    y.as_nanos() as i64 - free.as_nanos() as i64 - demand as i64
}

fn valid_plan() -> impl Strategy<Value = u64> {
    any::<u64>().prop_filter("plans that pass the offline test", |seed| {
        Punctual::new(
            &random_plan(&mut Random::new(*seed)),
            PunctualConfig::default(),
        )
        .is_ok()
    })
}

fn demand() -> impl Strategy<Value = Demand> {
    (
        1..6_u64,
        1..6_u64,
        2..40_u64,
        4..30_u64,
        0..6_u64,
        any::<bool>(),
    )
        .prop_map(
            |(longest, more, deadline, period, jitter, reserved)| Demand {
                task: TaskId(0),
                work: Nanos::new(longest + more - 1),
                longest_stage: Nanos::new(longest),
                deadline: Nanos::new(deadline),
                period: Nanos::new(period),
                jitter: Nanos::new(jitter.min(deadline - 1)),
                reserved,
            },
        )
}

/// The offline test by its definition, at every length up to one far beyond all horizons here.
fn fits_everywhere(tasks: &[Demand], preemption: Option<u64>) -> bool {
    (1..20_000).all(|length| {
        let stages = tasks
            .iter()
            .filter(|t| t.deadline.as_nanos() > length)
            .map(|t| t.longest_stage.as_nanos());
        let blocking = stages.chain(preemption).max().unwrap_or(0);
        let demand: u64 = tasks
            .iter()
            .filter(|t| t.reserved)
            .map(|t| {
                let first = t.deadline.as_nanos() - t.jitter.as_nanos();
                let jobs = length
                    .checked_sub(first)
                    .map_or(0, |l| l / t.period.as_nanos() + 1);
                jobs * t.work.as_nanos()
            })
            .sum();
        demand == 0 || demand + blocking <= length
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// At every point, the scan finds at most the true slack: too little rejects a request, too much breaks a promise.
    #[test]
    fn scan_never_overstates_the_slack(seed in valid_plan(), frames in 5..60_u64) {
        let mut random = Random::new(seed);
        let config = random_plan(&mut random);
        let partitions = config.partitions.len();
        let mut world = World::new(config, Exact);
        for _ in 0..frames {
            let task = random.within(0, world.config.tasks.len() as u64 - 1);
            let now = world.now;
            world.frame(task as u16, now);
            let at = world.now + units(random.within(0, 8));
            world.run_until(at);
        }
        let mut scheduler = world.scheduler.clone();
        scheduler.now = world.now;
        for index in 0..partitions {
            let free = scheduler.view(index).free_from();
            let (view, scan) = scheduler.look(index);
            view.scan(scan, free, None);
            let scan = scan.clone();
            for point in scan.points() {
                let exact = exact_slack(&scheduler, index, free, point.at);
                prop_assert!(point.slack <= exact, "{:?} {} {}", point.at, point.slack, exact);
            }
            for n in 0..400 {
                let y = scheduler.now + Nanos::new(n * UNIT * 5);
                let due = scan.points().iter().any(|p| p.at <= y);
                let exact = exact_slack(&scheduler, index, free, y);
                prop_assert!(!due || scan.least() <= exact, "{:?} {} {}", y, scan.least(), exact);
            }
        }
    }

    #[test]
    fn the_offline_test_agrees_with_its_definition(
        tasks in prop::collection::vec(demand(), 1..5),
        preemption in prop::option::of(0..5_u64),
    ) {
        let report = test(&tasks, preemption.map(Nanos::new));
        let overloaded = matches!(report.outcome, Err(Infeasible::Utilisation { .. }));
        // A set with too high a utilisation may fit at all lengths that `fits_everywhere` tests.
        if !overloaded {
            prop_assert_eq!(report.outcome.is_ok(), fits_everywhere(&tasks, preemption));
        }
    }
}

#[test]
fn scan_is_exact_before_its_lines_begin() {
    let mut random = Random::new(3);
    let config = loop {
        let config = random_plan(&mut random);
        if Punctual::new(&config, PunctualConfig::default()).is_ok() {
            break config;
        }
    };
    let mut scheduler = Punctual::new(&config, PunctualConfig::default()).expect("just tried");
    let now = scheduler.now;
    let (view, scan) = scheduler.look(0);
    view.scan(scan, now, None);
    let scan = scan.clone();
    let tables = scheduler.tables.tasks().iter();
    // The fewest exact steps are 4.
    let exact_until = tables
        .filter(|t| t.guaranteed && t.partition.index() == 0)
        .filter_map(|t| Some(now + t.own_due()? + t.period.saturating_mul(3)))
        .min()
        .expect("a reserved task");
    let early: Vec<_> = scan
        .points()
        .iter()
        .filter(|p| p.at <= exact_until)
        .collect();
    assert!(early.len() >= 4, "{early:?}");
    for point in early {
        assert_eq!(point.slack, exact_slack(&scheduler, 0, now, point.at));
    }
}

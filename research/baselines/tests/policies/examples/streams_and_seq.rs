//! REEF's two baselines on the same requests: a best-effort network of three stages of 10, and a real-time one of 4.

use super::*;
use punctual_baselines::{SeqConfig, StreamsConfig};

fn run(policy: &dyn PolicySpec) -> World {
    let best_effort = TaskConfig {
        criticality: Criticality::BestEffort,
        deadline: None,
        ..task(0, 1)
    };
    let (slow, fast): (Sizes, Sizes) = (&[(1, 10), (2, 15)], &[(1, 4), (2, 6)]);
    let tasks = vec![best_effort, task(1, 20)];
    let mut world = world(policy, &[&[slow; 3], &[fast]], tasks);
    // Best-effort 1 and 2 at 0, real-time 3 and 4 at 5.
    frames(&mut world, 2, 0, 0);
    frames(&mut world, 2, 1, 5);
    world
}

/// | time | what runs | why |
/// |---|---|---|
/// | 0, 10, 20 | 1, stage by stage | 3 and 4 come at 5 and wait to its end |
/// | 30 | 3, ends 34: late by 9 | real-time before 2, which came first |
/// | 34 | 4, ends 38: late | one at a time |
/// | 38, 48, 58 | 2 | |
#[test]
fn seq_lets_a_network_end_and_then_puts_real_time_first() {
    let mut world = run(&SeqConfig::default());
    let order = |(at, who): (u64, u64)| (at, 1, range(who, who));
    let expected = [
        (0, 1),
        (10, 1),
        (20, 1),
        (30, 3),
        (34, 4),
        (38, 2),
        (48, 2),
        (58, 2),
    ];
    assert_eq!(orders(&mut world), expected.map(order));
    assert_eq!(with_verdict(&world, Verdict::Late), range(3, 4));
}

/// | time | best-effort stream | real-time stream |
/// |---|---|---|
/// | 0 | 1 | |
/// | 5 | | 3, in parallel |
/// | 9 | | 4 |
/// | 10, 20 | 1 | |
/// | 30, 40, 50 | 2 | |
///
/// How much slower each gets by the other's company is the device's matter; this one has two of everything.
#[test]
fn streams_run_beside_each_other_and_each_is_in_order() {
    let mut world = run(&StreamsConfig::default());
    let order = |(at, who): (u64, u64)| (at, 1, range(who, who));
    let expected = [
        (0, 1),
        (5, 3),
        (9, 4),
        (10, 1),
        (20, 1),
        (30, 2),
        (40, 2),
        (50, 2),
    ];
    assert_eq!(orders(&mut world), expected.map(order));
    assert_eq!(with_verdict(&world, Verdict::OnTime), range(1, 4));
}

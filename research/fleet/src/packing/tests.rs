//! The paper's own examples, and random cases against what tries everything.

use proptest::prelude::*;
use punctual_core::Nanos;

use super::*;

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn times(points: &[(u32, u64)]) -> BatchTimes {
    BatchTimes::new(
        points
            .iter()
            .map(|&(size, time)| (size, ms(time)))
            .collect(),
    )
    .expect("times")
}

fn session(deadline: u64, hz: f64, times: BatchTimes, block: usize) -> Session {
    Session {
        deadline: ms(deadline),
        rate: Rate::from_hz(hz),
        times: vec![Some(times)],
        weights: vec![block],
    }
}

/// Table 2: the batching profiles of models A, B and C, with the deadlines of section 4.1.
fn table_2(rates: [f64; 3]) -> Vec<Session> {
    let profiles = [
        (200, [(4, 50), (8, 75), (16, 100)]),
        (250, [(4, 50), (8, 90), (16, 125)]),
        (250, [(4, 60), (8, 95), (16, 125)]),
    ];
    let each = profiles.into_iter().zip(rates).enumerate();
    each.map(|(block, ((deadline, points), hz))| session(deadline, hz, times(&points), block))
        .collect()
}

/// Boards of one partition each, with room for everything.
fn shelf(boards: usize, blocks: usize) -> Shelf {
    Shelf {
        bins: (0..boards).map(|board| Bin { kind: 0, board }).collect(),
        memory: vec![u64::MAX; boards],
        weights: vec![1; blocks],
    }
}

/// (session, batch) of each run of each node, with the length of the cycle in ms.
fn summary(packing: &Packing) -> Vec<(u64, Vec<(usize, u32)>)> {
    let node = |node: &Node| {
        let runs = node.cycle.runs.iter().map(|run| (run.session, run.batch));
        (node.cycle.length.as_nanos() / 1_000_000, runs.collect())
    };
    packing.nodes.iter().map(node).collect()
}

fn loads(sessions: &[Session]) -> Vec<Load> {
    let load = |(session, s): (usize, &Session)| Load {
        session,
        rate: s.rate,
    };
    sessions.iter().enumerate().map(load).collect()
}

#[test]
fn table_2_gives_the_published_throughputs() {
    let rounded = |times: &BatchTimes| -> Vec<f64> {
        let hz = times
            .points()
            .iter()
            .map(|&(size, time)| Rate::of(size, time).hz());
        hz.map(|hz| (hz * 10.0).round() / 10.0).collect()
    };
    let of: Vec<Vec<f64>> = table_2([1.0; 3])
        .iter()
        .map(|session| rounded(session.times[0].as_ref().expect("times")))
        .collect();
    assert_eq!(of[0], [80.0, 106.7, 160.0]);
    assert_eq!(of[1], [80.0, 88.9, 128.0]);
    assert_eq!(of[2], [66.7, 84.2, 128.0]);
}

#[test]
fn figure_2a_a_saturated_node_runs_batches_of_16_back_to_back() {
    // Enough for two nodes of A (160 a second each) and one each of B and C (128).
    let packing = pack(
        &table_2([320.0, 128.0, 128.0]),
        &shelf(9, 3),
        Merging::ShorterCycle,
    );
    let a = (100, vec![(0, 16)]);
    let expected = [a.clone(), a, (125, vec![(1, 16)]), (125, vec![(2, 16)])];
    assert_eq!(summary(&packing), expected);
    assert!(packing.unplaced.is_empty());
}

#[test]
fn figure_2b_a_and_b_share_a_cycle_of_125_ms_and_c_is_alone() {
    let sessions = table_2([64.0, 32.0, 32.0]);
    for merging in [Merging::ShorterCycle, Merging::AnyCycle] {
        let packing = pack(&sessions, &shelf(3, 3), merging);
        let expected = [(125, vec![(0, 8), (1, 4)]), (125, vec![(2, 4)])];
        assert_eq!(summary(&packing), expected);
        assert_eq!(packing.nodes[0].cycle.occupancy(), 1.0);
    }
    assert_eq!(fewest_nodes(&loads(&sessions), &sessions, 0), Some(2));
    let a_and_c = [loads(&sessions)[0], loads(&sessions)[2]];
    assert_eq!(fewest_nodes(&a_and_c, &sessions, 0), Some(2));
}

#[test]
fn a_session_too_slow_to_gather_two_requests_runs_each_alone() {
    let packing = pack(
        &table_2([0.1, 0.1, 0.1]),
        &shelf(3, 3),
        Merging::ShorterCycle,
    );
    // A's deadline of 200 ms less 50 ms for its batch; the others join.
    assert_eq!(summary(&packing).len(), 2);
    assert_eq!(packing.nodes[0].cycle.runs[0].batch, 1);
}

#[test]
fn what_no_free_partition_can_serve_is_said() {
    let packing = pack(
        &table_2([400.0, 0.0, 0.0]),
        &shelf(2, 3),
        Merging::ShorterCycle,
    );
    assert_eq!(packing.nodes.len(), 2);
    let rate = Rate::from_hz(80.0);
    assert_eq!(packing.unplaced, [Load { session: 0, rate }]);
    let impossible = [session(99, 1.0, times(&[(1, 50)]), 0)];
    assert_eq!(
        pack(&impossible, &shelf(2, 1), Merging::AnyCycle).unplaced,
        loads(&impossible)
    );
}

#[test]
fn weights_that_a_board_cannot_hold_go_to_another() {
    let sessions = table_2([8.0, 8.0, 8.0]);
    let mut small = shelf(3, 3);
    small.memory = vec![1; 3];
    assert_eq!(
        pack(&sessions, &small, Merging::ShorterCycle).nodes.len(),
        3
    );
    // Two partitions of one board share the weights.
    let mut shared = small.clone();
    shared.bins = (0..3).map(|_| Bin { kind: 0, board: 0 }).collect();
    let one_model: Vec<Session> = (0..3).map(|_| sessions[0].clone()).collect();
    assert!(
        pack(&one_model, &shared, Merging::ShorterCycle)
            .unplaced
            .is_empty()
    );
    assert_eq!(
        pack(&sessions, &shared, Merging::ShorterCycle)
            .unplaced
            .len(),
        2
    );
}

#[test]
fn a_load_too_large_for_what_is_left_fills_a_small_partition_and_goes_on() {
    // Kind 0 is twice as fast as kind 1; one of kind 0 and two of kind 1 are there.
    let fast = times(&[(1, 10)]);
    let slow = times(&[(1, 20)]);
    let sessions = [Session {
        deadline: ms(100),
        rate: Rate::from_hz(180.0),
        times: vec![Some(fast), Some(slow)],
        weights: vec![],
    }];
    let bin = |kind| Bin { kind, board: 0 };
    let shelf = Shelf {
        bins: vec![bin(0), bin(1), bin(1)],
        memory: vec![0],
        weights: vec![],
    };
    let packing = pack(&sessions, &shelf, Merging::ShorterCycle);
    let rates: Vec<f64> = packing
        .nodes
        .iter()
        .map(|n| n.cycle.runs[0].rate.hz())
        .collect();
    assert_eq!((rates, packing.unplaced), (vec![100.0, 50.0, 30.0], vec![]));
}

fn cost(stages: &[StageCost]) -> impl Fn(usize, Nanos) -> f64 {
    |stage, budget| stages[stage].devices(budget)
}

/// Figure 3 as (latency in ms, requests a second): models X and Y.
fn figure_3(fan_out: f64) -> [StageCost; 2] {
    let stage = |rate: f64, points: [(u64, f64); 3]| StageCost {
        rate: Rate::from_hz(rate),
        choices: points
            .map(|(latency, hz)| Choice {
                latency: ms(latency),
                work_ns: 1e9 / hz,
            })
            .to_vec(),
    };
    [
        stage(1000.0, [(40, 200.0), (50, 250.0), (60, 300.0)]),
        stage(1000.0 * fan_out, [(40, 300.0), (50, 400.0), (60, 500.0)]),
    ]
}

#[test]
fn figure_4_the_best_split_depends_on_the_fan_out() {
    let flow = Flow::of(&[vec![], vec![0]]).expect("a chain");
    // (fan-out, throughput for each device of the splits 40/60, 50/50 and 60/40 as published)
    let rows = [
        (0.1, [192.3, 235.3, 272.7]),
        (1.0, [142.9, 153.8, 150.0]),
        (10.0, [40.0, 34.5, 27.3]),
    ];
    for (fan_out, published) in rows {
        let stages = figure_3(fan_out);
        let devices = |latency: u64| -> f64 {
            let cost = |stage: &StageCost, latency| {
                let choice = stage.choices.iter().find(|c| c.latency == ms(latency));
                choice.expect("a row of figure 3").work_ns * stage.rate.hz() / 1e9
            };
            cost(&stages[0], latency) + cost(&stages[1], 100 - latency)
        };
        let computed = [40, 50, 60].map(|x| (10_000.0 / devices(x)).round() / 10.0);
        assert_eq!(computed, published, "fan-out {fan_out}");
        let best = published.into_iter().fold(0.0, f64::max);
        let split = split(&flow, cost(&stages), ms(100), 10).expect("a split");
        assert_eq!((10_000.0 / split.devices).round() / 10.0, best);
        let x = [40, 50, 60][published
            .iter()
            .position(|p| *p == best)
            .expect("one of them")];
        assert_eq!(split.budgets, [ms(x), ms(100 - x)]);
        assert_eq!(
            (10_000.0 / even_split(&flow, cost(&stages), ms(100)).devices).round() / 10.0,
            published[1]
        );
    }
}

#[test]
fn a_query_that_cannot_be_on_time_has_no_split() {
    let flow = Flow::of(&[vec![], vec![0]]).expect("a chain");
    assert_eq!(split(&flow, cost(&figure_3(1.0)), ms(79), 79), None);
    assert!(split(&flow, cost(&figure_3(1.0)), ms(80), 80).is_some());
}

fn some_times() -> impl Strategy<Value = BatchTimes> {
    (1..30_u64, 1..10_u64).prop_map(|(fixed, each)| {
        times(&[1, 2, 4, 8, 16].map(|size| (size, fixed + each * u64::from(size))))
    })
}

fn some_sessions(count: usize) -> impl Strategy<Value = Vec<Session>> {
    let one = (20..400_u64, 0.0..60.0_f64, some_times(), 0..4_usize);
    let one = one.prop_map(|(deadline, hz, times, block)| session(deadline, hz, times, block));
    prop::collection::vec(one, 1..=count)
}

/// Whether the packing keeps every promise, checked from the definitions.
fn check(sessions: &[Session], shelf: &Shelf, packing: &Packing) {
    let mut served = vec![Rate::ZERO; sessions.len()];
    for load in &packing.unplaced {
        served[load.session] = served[load.session] + load.rate;
    }
    let mut blocks = vec![std::collections::BTreeSet::<usize>::new(); shelf.memory.len()];
    for node in &packing.nodes {
        let (bin, length) = (shelf.bins[node.bin], node.cycle.length.as_nanos());
        let mut busy = 0;
        for run in &node.cycle.runs {
            let session = &sessions[run.session];
            let arrive = run.rate.hz() * length as f64 / 1e9;
            assert!(f64::from(run.batch) >= arrive - 1e-6, "{run:?} of {arrive}");
            let times = session.times[bin.kind].as_ref().expect("it can run there");
            assert_eq!(times.time(run.batch), Some(run.time));
            assert!(length + run.time.as_nanos() <= session.deadline.as_nanos());
            busy += run.time.as_nanos();
            served[run.session] = served[run.session] + run.rate;
            blocks[bin.board].extend(&session.weights);
        }
        assert!(busy <= length);
    }
    for (board, blocks) in blocks.iter().enumerate() {
        let bytes: u64 = blocks.iter().map(|block| shelf.weights[*block]).sum();
        assert!(bytes <= shelf.memory[board]);
    }
    let asked: Vec<Rate> = sessions.iter().map(|session| session.rate).collect();
    assert_eq!(served, asked);
    let bins: std::collections::BTreeSet<usize> = packing.nodes.iter().map(|n| n.bin).collect();
    assert_eq!(bins.len(), packing.nodes.len(), "a partition used twice");
}

proptest! {
    #[test]
    fn a_packing_keeps_every_promise(
        sessions in some_sessions(12), boards in 1..8_usize, memory in 0..5_u64, any: bool,
    ) {
        let shelf = Shelf {
            bins: (0..boards * 2).map(|bin| Bin { kind: 0, board: bin / 2 }).collect(),
            memory: vec![memory; boards],
            weights: vec![1; 4],
        };
        let merging = if any { Merging::AnyCycle } else { Merging::ShorterCycle };
        check(&sessions, &shelf, &pack(&sessions, &shelf, merging));
    }

    #[test]
    fn the_optimum_is_never_more_than_the_greedy_packing(sessions in some_sessions(7)) {
        let loads: Vec<Load> = loads(&sessions);
        let packing = pack(&sessions, &shelf(20, 4), Merging::ShorterCycle);
        let whole = packing.nodes.iter().map(|n| n.cycle.runs.len()).sum::<usize>() == loads.len();
        let fewest = fewest_nodes(&loads, &sessions, 0);
        if whole && packing.unplaced.is_empty() {
            prop_assert!(fewest.is_some_and(|fewest| fewest <= packing.nodes.len()));
        }
    }

    /// Every length in whole milliseconds is tried; the sessions' times and deadlines are whole.
    #[test]
    fn no_cycle_serves_what_the_search_for_one_gives_up(sessions in some_sessions(4)) {
        let loads = loads(&sessions);
        let on = super::cycle::On { sessions: &sessions, kind: 0 };
        let found = on.any(&loads).is_some();
        let by_trying = (1..400).any(|length| on.cycle(ms(length), loads.iter().copied()).is_some());
        prop_assert!(found || !by_trying);
    }

    #[test]
    fn the_split_is_the_best_of_all(
        rates in prop::collection::vec(1.0..50.0_f64, 4),
        costs in prop::collection::vec(prop::collection::vec((1..8_u64, 1.0..9.0_f64), 1..4), 4),
        shape in 0..4_usize,
    ) {
        let shapes: [&[&[usize]]; 4] = [
            &[&[], &[0], &[1], &[2]],
            &[&[], &[0], &[0], &[1]],
            &[&[], &[0], &[0], &[1, 2]],
            &[&[], &[], &[0, 1], &[0, 1]],
        ];
        let after: Vec<Vec<usize>> = shapes[shape].iter().map(|b| b.to_vec()).collect();
        let stages: Vec<StageCost> = rates.iter().zip(&costs).map(|(hz, costs)| StageCost {
            rate: Rate::from_hz(*hz),
            choices: costs.iter().map(|&(latency, work)| Choice {
                latency: ms(latency),
                work_ns: work * 1e6,
            }).collect(),
        }).collect();
        // Each stage with each of its choices; the longest way by relaxing along `after`.
        let mut best = f64::INFINITY;
        let combinations: usize = costs.iter().map(Vec::len).product();
        for mut number in 0..combinations {
            let mut devices = 0.0;
            let mut ends = [0; 4];
            for stage in 0..4 {
                let choice = stages[stage].choices[number % costs[stage].len()];
                number /= costs[stage].len();
                devices += choice.work_ns * stages[stage].rate.hz() / 1e9;
                let start = after[stage].iter().map(|b| ends[*b]).max().unwrap_or(0);
                ends[stage] = start + choice.latency.as_nanos();
            }
            if ends.iter().max() <= Some(&12_000_000) && devices < best {
                best = devices;
            }
        }
        let flow = Flow::of(&after).expect("all four are fork-join");
        let found = split(&flow, cost(&stages), ms(12), 12);
        prop_assert_eq!(found.is_some(), best.is_finite());
        if let Some(found) = found {
            prop_assert!((found.devices - best).abs() < 1e-9, "{} {}", found.devices, best);
            prop_assert!(even_split(&flow, cost(&stages), ms(12)).devices >= best - 1e-9);
        }
    }
}

//! The models of Nexus, Table 2. The paper gives no batch below four; here fewer cost as much as four.

use super::*;
use punctual_baselines::{NexusConfig, NexusDrop};

const A: Sizes = &[(1, 50), (4, 50), (8, 75), (16, 100)];
const B: Sizes = &[(1, 50), (4, 50), (8, 90), (16, 125)];
const C: Sizes = &[(1, 60), (4, 60), (8, 95), (16, 125)];

fn nexus(drop: NexusDrop, targets: &[u8]) -> NexusConfig {
    NexusConfig {
        drop,
        targets: targets.to_vec(),
    }
}

/// Section 4.1: deadlines of 200, 250 and 250 let each model, alone on its device, run batches of 16,
/// as two of them fit: 2 x 100, 2 x 125, 2 x 125. That makes 160, 128 and 128 requests a second.
#[test]
fn alone_each_model_of_table_2_runs_batches_of_16() {
    for (sizes, deadline, took) in [(A, 200, 100), (B, 250, 125), (C, 250, 125)] {
        let policy = nexus(NexusDrop::Early, &[]);
        let mut world = world(&policy, &[&[sizes]], vec![task(0, deadline)]);
        frames(&mut world, 32, 0, 0);
        let expected = [(0, 16, range(1, 16)), (took, 16, range(17, 32))];
        assert_eq!(orders(&mut world), expected);
        assert_eq!(with_verdict(&world, Verdict::OnTime), range(1, 32));
        // One millisecond less, and two batches of 16 do not fit any more.
        let policy = nexus(NexusDrop::Early, &[]);
        let mut world = super::world(&policy, &[&[sizes]], vec![task(0, deadline - 1)]);
        frames(&mut world, 32, 0, 0);
        assert_eq!(orders(&mut world)[0], (0, 8, range(1, 8)));
    }
}

/// All three on one device in turn, targets 8, 4 and 4; at 0 come 12 for A (1 to 12), 6 for B (13
/// to 18) and 5 for C (19 to 23). A is due at 200, B and C at 250.
///
/// | time | turn | window | end | |
/// |---|---|---|---|---|
/// | 0 | A | 1 to 8 | 75 | |
/// | 75 | B | 13 to 16 | 125 | |
/// | 125 | C | 19 to 22 | 185 | |
/// | 185 | A | 9 to 12, and all shorter ones | 235 > 200 | 9 to 12 dropped, the turn passes on |
/// | 185 | B | 17, 18 | 235 | |
/// | 235 | C | 23 | 295 > 250 | dropped |
#[test]
fn sessions_take_turns_and_what_cannot_be_on_time_is_dropped_early() {
    let tasks = vec![task(0, 200), task(1, 250), task(2, 250)];
    let policy = nexus(NexusDrop::Early, &[8, 4, 4]);
    let mut world = world(&policy, &[&[A], &[B], &[C]], tasks);
    for (count, task) in [(12, 0), (6, 1), (5, 2)] {
        frames(&mut world, count, task, 0);
    }
    let expected = [
        (0, 8, range(1, 8)),
        (75, 4, range(13, 16)),
        (125, 4, range(19, 22)),
        (185, 4, range(17, 18)),
    ];
    assert_eq!(orders(&mut world), expected);
    let given_up = [range(9, 12), range(23, 23)].concat();
    assert_eq!(dropped(&world), given_up);
    assert!(with_verdict(&world, Verdict::Late).is_empty());
}

/// Model A alone, target 16. At 0 comes 1, at 10 come 2 to 18 (due 210), at 100 come 19 to 33 (due 300).
///
/// | time | early drop | lazy drop |
/// |---|---|---|
/// | 0 | 1, ends 50 | 1, ends 50 |
/// | 50 | 2 to 17, end 150 | the same |
/// | 150 | a window of 16 from 18 would end at 250 > 210: 18 is dropped; the 15 after it end at 250 | 18 leaves 60: four, end 200 |
/// | 200 | | the other 12, end 300 |
///
/// Early drop gives up one request, and is free 50 earlier.
#[test]
fn early_drop_keeps_batches_large_and_lazy_drop_keeps_the_oldest() {
    let run = |drop| {
        let mut world = world(&nexus(drop, &[]), &[&[A]], vec![task(0, 200)]);
        for (count, ms) in [(1, 0), (17, 10), (15, 100)] {
            frames(&mut world, count, 0, ms);
        }
        (orders(&mut world), dropped(&world))
    };
    let same = [(0, 1, range(1, 1)), (50, 16, range(2, 17))];
    let early = [same.to_vec(), vec![(150, 16, range(19, 33))]].concat();
    assert_eq!(run(NexusDrop::Early), (early, range(18, 18)));
    let rest = vec![(150, 4, range(18, 21)), (200, 16, range(22, 33))];
    let lazy = [same.to_vec(), rest].concat();
    assert_eq!(run(NexusDrop::Lazy), (lazy, Vec::new()));
}

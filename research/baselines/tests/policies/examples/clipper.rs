use super::*;
use punctual_baselines::ClipperConfig;

/// L(b) = 6 + 4 b; the deadline is 20, so batches of three (18) are the largest in time.
///
/// | time | cap | batch | took | then |
/// |---|---|---|---|---|
/// | 0 | 1 | 1 of 1 to 6 | 10 | in time: cap 2 |
/// | 10 | 2 | 2, 3 | 14 | in time as a batch: cap 3. As requests they are late (24 after 0) |
/// | 24 | 3 | | | 4, 5, 6 are late by now: dropped |
/// | 30 | 3 | 7, 8, 9 | 18 | cap 4 |
/// | 60 | 4 | 10 to 13 | 22 | too long: cap 3.6, which means 3 |
/// | 100 | 3.6 | 14, 15, 16 of 14 to 17 | 18 | in time: 4.6, but no batch is larger than 4 |
/// | 118 | 4 | 17 | 10 | in time; below the cap, so it stays. Late by 8 |
/// | 140 | 4 | 18 to 21 | 22 | |
#[test]
fn the_cap_rises_by_one_and_falls_by_a_tenth_and_only_the_late_are_dropped() {
    let policy = ClipperConfig::default();
    let sizes: Sizes = &[(1, 10), (2, 14), (3, 18), (4, 22)];
    let mut world = world(&policy, &[&[sizes]], vec![task(0, 20)]);
    for (count, ms) in [(6, 0), (3, 30), (4, 60), (4, 100), (4, 140)] {
        frames(&mut world, count, 0, ms);
    }
    let expected = [
        (0, 1, range(1, 1)),
        (10, 2, range(2, 3)),
        (30, 3, range(7, 9)),
        (60, 4, range(10, 13)),
        (100, 3, range(14, 16)),
        (118, 1, range(17, 17)),
        (140, 4, range(18, 21)),
    ];
    assert_eq!(orders(&mut world), expected);
    assert_eq!(dropped(&world), range(4, 6));
    let late = [range(2, 3), range(10, 13), range(17, 21)].concat();
    assert_eq!(with_verdict(&world, Verdict::Late), late);
}

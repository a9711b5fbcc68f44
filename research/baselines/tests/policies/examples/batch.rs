use super::*;
use punctual_baselines::BatchConfig;

/// Four are preferred, eight the most; no request waits longer than 5.
///
/// | time | what | why |
/// |---|---|---|
/// | 0 | 1 comes | alone: waits for more, until 5 |
/// | 2 | 2 comes | two are not preferred: wait on |
/// | 5 | 1, 2 start, end 19 | 1 has waited 5 |
/// | 10 | 3 to 8 come | |
/// | 19 | 3, 4, 5, 6 start, end 37 | the largest preferred size that waits, not all six |
/// | 37 | 7, 8 start, end 51 | 7 has waited 27 |
/// | 60 | 9 to 12 come and start | four are preferred: at once |
#[test]
fn preferred_sizes_go_at_once_and_others_after_the_delay() {
    let policy = BatchConfig {
        preferred: vec![4],
        max_queue_delay: Nanos::from_millis(5),
    };
    let sizes: Sizes = &[(1, 12), (2, 14), (4, 18), (8, 26)];
    let mut world = world(&policy, &[&[sizes]], vec![task(0, 20)]);
    for (count, ms) in [(1, 0), (1, 2), (6, 10), (4, 60)] {
        frames(&mut world, count, 0, ms);
    }
    let expected = [
        (5, 2, range(1, 2)),
        (19, 4, range(3, 6)),
        (37, 2, range(7, 8)),
        (60, 4, range(9, 12)),
    ];
    assert_eq!(orders(&mut world), expected);
    // Deadlines of 20 are not looked at: 3 to 8, submitted at 10, are answered at 37 and 51.
    assert_eq!(with_verdict(&world, Verdict::Late), range(3, 8));
}

#[test]
fn without_a_delay_whatever_waits_is_sent_up_to_the_largest_batch() {
    let policy = BatchConfig::default();
    let sizes: Sizes = &[(1, 12), (2, 14), (4, 18)];
    let mut world = world(&policy, &[&[sizes]], vec![task(0, 100)]);
    frames(&mut world, 1, 0, 0);
    frames(&mut world, 7, 0, 1);
    // Three fill a batch of four with a place to spare.
    let expected = [
        (0, 1, range(1, 1)),
        (12, 4, range(2, 5)),
        (30, 4, range(6, 8)),
    ];
    assert_eq!(orders(&mut world), expected);
}

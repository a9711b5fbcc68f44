use super::*;
use punctual_baselines::BranchynetConfig;

/// Three exits; 1 is sure at the first, 2 at the second, 3 and 4 never.
fn confidence(sequence: u64, exit: StageId) -> Confidence {
    let sure = sequence <= 2 && u64::from(exit.0) + 1 >= sequence;
    Confidence(if sure { 40_000 } else { 39_999 })
}

fn world_of_four(compact: bool) -> World {
    let policy = BranchynetConfig {
        threshold: Some(Confidence(40_000)),
        compact,
        ..BranchynetConfig::default()
    };
    let sizes: Sizes = &[(1, 2), (2, 3), (4, 4)];
    let mut world = world(&policy, &[&[sizes; 3]], vec![task(0, 10)]);
    world.nature.confidence = confidence;
    frames(&mut world, 4, 0, 0);
    world
}

/// | time | stage | members | batch | who leaves |
/// |---|---|---|---|---|
/// | 0 | 0 | 1 2 3 4 | 4 | 1, at 4 |
/// | 4 | 1 | 2 3 4 | 4 | 2, at 8 |
/// | 8 | 2 | 3 4 | 2 | 3 and 4, at 11: late, which the policy ignores |
#[test]
fn members_leave_where_they_are_sure_and_make_room() {
    let mut world = world_of_four(true);
    let expected = [
        (0, 4, range(1, 4)),
        (4, 4, range(2, 4)),
        (8, 2, range(3, 4)),
    ];
    assert_eq!(orders(&mut world), expected);
    let exit = |sequence| {
        let (_, reply) = world.reply(sequence)?;
        reply.answer.map(|(exit, _)| exit.0)
    };
    let exits: Vec<Option<u8>> = (1..=4).map(exit).collect();
    assert_eq!(exits, [Some(0), Some(1), Some(2), Some(2)]);
    assert_eq!(with_verdict(&world, Verdict::Late), range(3, 4));
}

#[test]
fn a_batch_that_is_not_compacted_costs_to_its_end_what_it_began_with() {
    let mut world = world_of_four(false);
    let expected = [
        (0, 4, range(1, 4)),
        (4, 4, range(2, 4)),
        (8, 4, range(3, 4)),
    ];
    assert_eq!(orders(&mut world), expected);
    assert_eq!(world.reply(4).map(|(when, _)| when), Some(at(12)));
}

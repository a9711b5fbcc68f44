//! The auditor's reading of the definition against the scheduler's own test: written apart, they must agree.

use punctual_core::{Config, Criticality, Nanos, PartitionId, StageId, TaskConfig, offline};
use punctual_types::Random;

use super::bench::{model, plan, task};
use crate::audit::schedulability::is_schedulable;

fn units(n: u64) -> Nanos {
    Nanos::new(n * 1_000)
}

fn random_plan(random: &mut Random) -> Config {
    let mut config = plan();
    config.models = (0..3)
        .map(|_| {
            let one = 1 + random.below(12);
            model(units(one), units(one + random.below(12)))
        })
        .collect();
    config.tasks = (0..1 + random.below(6))
        .map(|_| random_task(random))
        .collect();
    config.partitions[0].preemption_bound = units(random.below(5));
    config.dispatch_cost = units(random.below(2));
    config.egress_bound = units(random.below(3));
    config
}

fn random_task(random: &mut Random) -> TaskConfig {
    let period = 10 + random.below(110);
    let deadline = period / 2 + random.below(period);
    let best_effort = random.below(5) == 0;
    TaskConfig {
        deadline: Some(units(deadline.max(4))),
        jitter: units(random.below(deadline / 3 + 1)),
        mandatory_exit: StageId(random.below(2) as u8),
        reserved: !best_effort && random.below(4) > 0,
        criticality: if best_effort {
            Criticality::BestEffort
        } else {
            Criticality::RealTime
        },
        ..task(random.below(3) as u16, units(period))
    }
}

#[test]
fn the_definition_and_the_schedulers_test_agree_on_random_plans() {
    let here = PartitionId(0);
    let (mut pass, mut fail) = (0, 0);
    for seed in 0..2_000 {
        let config = random_plan(&mut Random::new(seed));
        let report = offline::test_partition(&config, here);
        let own = is_schedulable(&config, here);
        assert_eq!(own, report.outcome.is_ok(), "seed {seed}: {report:?}");
        if own { pass += 1 } else { fail += 1 }
    }
    assert!(pass > 400 && fail > 400, "{pass} pass, {fail} fail");
}

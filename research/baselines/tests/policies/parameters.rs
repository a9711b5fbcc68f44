//! What of a policy is checked with the plan: its parameters, and partitions that may not overlap.

use punctual_baselines::{BatchConfig, BranchynetConfig, ClipperConfig, NexusConfig};
use punctual_core::{ConfigError, Nanos, PartitionId, Partitioning, PolicySpec, Scheduler};
use punctual_policy_testing::plans::random_plan;
use punctual_types::Random;

fn refused(policy: &dyn PolicySpec) -> ConfigError {
    let config = random_plan(policy, &mut Random::new(1));
    Scheduler::new(&config, policy).expect_err("a parameter is out of range")
}

#[test]
fn a_parameter_out_of_range_is_refused_with_its_policy_and_rule() {
    let batch = |size, delay_ms| -> Box<dyn PolicySpec> {
        Box::new(BatchConfig {
            preferred: vec![4, size],
            max_queue_delay: Nanos::from_millis(delay_ms),
        })
    };
    let branchynet: Box<dyn PolicySpec> = Box::new(BranchynetConfig {
        batch: Some(0),
        ..BranchynetConfig::default()
    });
    let clipper = |increase, decrease| -> Box<dyn PolicySpec> {
        Box::new(ClipperConfig { increase, decrease })
    };
    let nexus = |target, tasks| -> Box<dyn PolicySpec> {
        Box::new(NexusConfig {
            targets: vec![target; tasks],
            ..NexusConfig::default()
        })
    };
    for (policy, parameter) in [
        (batch(0, 1), "preferred"),
        (batch(33, 1), "preferred"),
        (batch(4, 3_600_001), "max-queue-delay"),
        (branchynet, "batch"),
        (clipper(0, 900), "increase"),
        (clipper(1, 0), "decrease"),
        (clipper(1, 1000), "decrease"),
        (nexus(33, 1), "targets"),
        (nexus(1, 100), "targets"),
    ] {
        let name = policy.name();
        match refused(&*policy) {
            ConfigError::Policy { policy, rule } => {
                assert_eq!(policy, name);
                assert!(rule.starts_with(parameter), "{name}: {rule}");
            }
            other => panic!("{policy:?}: {other}"),
        }
    }
}

#[test]
fn partitions_that_share_compute_units_are_refused_where_they_would_run_at_once() {
    for policy in punctual_baselines::all().iter() {
        let mut config = random_plan(policy, &mut Random::new(3));
        let (Partitioning::Planned | Partitioning::Whole) = policy.contract().partitioning else {
            continue;
        };
        config.partitions.push(config.partitions[0].clone());
        for stage in config.models.iter_mut().flat_map(|model| &mut model.stages) {
            stage
                .times
                .iter_mut()
                .for_each(|time| time.on.push(time.on[0]));
        }
        let unused = Scheduler::new(&config, policy);
        assert!(unused.is_ok(), "{}: nobody runs there", policy.name());
        config.tasks.push(config.tasks[0].clone());
        let last = config.partitions.len() as u16 - 1;
        config.tasks[0].partition = PartitionId(0);
        config.tasks[1].partition = PartitionId(last);
        let refused = Scheduler::new(&config, policy);
        assert!(
            matches!(refused, Err(ConfigError::Overlap { .. })),
            "{}",
            policy.name()
        );
    }
}

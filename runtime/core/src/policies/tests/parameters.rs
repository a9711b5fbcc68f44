//! Parameters out of range are refused when the plan is checked, by policy and rule.

use super::plans::random_plan;
use super::random::Random;
use crate::{
    BatchConfig, BranchynetConfig, ClipperConfig, ConfigError, Nanos, NexusConfig, PolicyConfig,
    Scheduler,
};

fn refused(policy: PolicyConfig) -> ConfigError {
    let config = random_plan(&policy, &mut Random::seeded(1));
    Scheduler::new(config).expect_err("a parameter is out of range")
}

#[test]
fn a_parameter_out_of_range_is_refused_with_its_policy_and_rule() {
    let batch = |size, delay_ms| {
        PolicyConfig::Batch(BatchConfig {
            preferred: std::vec![4, size],
            max_queue_delay: Nanos::from_millis(delay_ms),
        })
    };
    let branchynet = PolicyConfig::Branchynet(BranchynetConfig {
        batch: Some(0),
        ..BranchynetConfig::default()
    });
    let clipper = |increase, decrease| PolicyConfig::Clipper(ClipperConfig { increase, decrease });
    let nexus = |target, tasks| {
        PolicyConfig::Nexus(NexusConfig {
            targets: std::vec![target; tasks],
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
        match refused(policy.clone()) {
            ConfigError::Policy { policy, rule } => {
                assert_eq!(policy, name);
                assert!(rule.starts_with(parameter), "{name}: {rule}");
            }
            other => panic!("{policy:?}: {other}"),
        }
    }
}

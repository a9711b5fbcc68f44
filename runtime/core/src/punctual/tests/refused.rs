//! Plans that the scheduler does not take.

use std::vec;

use super::plans::{model, ms, plan, task};
use crate::punctual::Punctual;
use crate::{Config, ConfigError, PartitionConfig, PartitionId, PunctualConfig, Units};

/// Two tasks, each on a partition of its own, with a stage of 6 ms.
fn halves() -> Config {
    let models = vec![model(&[vec![(1, ms(6))]], 2)];
    let mut tasks = vec![task(0, ms(20), ms(20)); 2];
    tasks[1].partition = PartitionId(1);
    let config = plan(tasks, models, ms(1));
    let half = |first| PartitionConfig {
        units: Units { first, count: 1 },
        ..config.partitions[0].clone()
    };
    Config {
        partitions: vec![half(0), half(1)],
        ..config
    }
}

fn refusal(config: &Config) -> ConfigError {
    Punctual::new(config, PunctualConfig::default()).expect_err("it is refused")
}

#[test]
fn partitions_of_tasks_that_share_a_compute_unit_are_refused() {
    let mut config = halves();
    config.partitions[1].units.first = 0;
    let error = refusal(&config);
    assert!(matches!(error, ConfigError::Overlap { .. }), "{error}");
}

#[test]
fn a_partition_that_cannot_keep_its_promises_is_refused() {
    let mut config = halves();
    config.models[0].stages[0].times[0].on[1].budget = ms(21);
    let error = refusal(&config);
    let second = PartitionId(1);
    let here = matches!(error, ConfigError::Infeasible { partition, .. } if partition == second);
    assert!(here, "{error}");
}

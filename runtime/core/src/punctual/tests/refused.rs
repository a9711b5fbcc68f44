//! Plans that the scheduler does not take.

use std::vec;

use super::plans::{model, ms, plan, task};
use crate::error::COUNT_MAX;
use crate::punctual::Punctual;
use crate::{Config, ConfigError, Nanos, PartitionConfig, PartitionId, PunctualConfig, Units};

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

#[test]
fn more_tasks_than_there_are_ids_are_refused() {
    let mut config = halves();
    config.tasks = vec![config.tasks[0].clone(); COUNT_MAX + 1];
    let error = refusal(&config);
    let said =
        matches!(error, ConfigError::Count { what: "tasks", count } if count == COUNT_MAX + 1);
    assert!(said, "{error}");
}

#[test]
fn queues_that_no_memory_holds_are_refused_before_they_are_made() {
    let mut config = halves();
    config.partitions = vec![config.partitions[0].clone(); 300];
    config.request_buffers = u16::MAX;
    let error = refusal(&config);
    assert!(matches!(error, ConfigError::Queues { .. }), "{error}");
}

#[test]
fn a_period_of_a_nanosecond_next_to_a_deadline_of_an_hour_takes_no_hour_to_check() {
    let mut config = halves();
    config.dispatch_cost = Nanos::ZERO;
    config.tasks[1].partition = PartitionId(0);
    config.tasks[1].reserved = false;
    config.tasks[1].deadline = Some(ms(3_600_000));
    config.tasks[0].period = Nanos::new(1_000);
    config.tasks[0].deadline = Some(Nanos::new(50_000));
    config.tasks[0].jitter = Nanos::ZERO;
    for time in &mut config.models[0].stages[0].times[0].on {
        time.budget = Nanos::new(10);
        time.max_seen = Nanos::new(10);
    }
    let demands = crate::offline::demands(&config, PartitionId(0));
    assert_eq!(crate::offline::blocking_allowed(&demands), Nanos::ZERO);
}

//! Small plans. Times are in milliseconds of virtual time unless a name says otherwise.

use std::vec;
use std::vec::Vec;

use crate::{
    ACCURACY_BINS, Answers, BatchTime, Confidence, Config, Criticality, Delivery, Instant,
    ModelConfig, ModelId, Nanos, PartitionConfig, PartitionId, StageConfig, StageId, StageTime,
    TaskConfig, Units,
};

pub const fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

pub const fn at(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

/// A model of stages, each given by its compiled batch sizes and their times on every partition.
/// Each deeper exit is more accurate than the one before by the same amount.
pub fn model(stages: &[Vec<(u8, Nanos)>], partitions: usize) -> ModelConfig {
    let accuracy = |exit: usize| [30_000 + 1_000 * exit as u16; ACCURACY_BINS];
    let stage = |(index, sizes): (usize, &Vec<(u8, Nanos)>)| StageConfig {
        times: sizes
            .iter()
            .map(|&(batch, budget)| BatchTime {
                batch,
                on: vec![
                    StageTime {
                        budget,
                        max_seen: budget,
                    };
                    partitions
                ],
            })
            .collect(),
        accuracy: accuracy(index),
        deeper: (index + 1..stages.len()).map(accuracy).collect(),
        follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
        answers: true,
        runs_as: None,
    };
    ModelConfig {
        stages: stages.iter().enumerate().map(stage).collect(),
        weights: None,
        places: Vec::new(),
    }
}

/// A model that is compiled for batch size 1 only.
pub fn model_alone(stages: &[Nanos]) -> ModelConfig {
    let stages: Vec<Vec<(u8, Nanos)>> = stages.iter().map(|&c| vec![(1, c)]).collect();
    model(&stages, 1)
}

/// A reserved real-time task whose first exit is mandatory.
pub fn task(model: u16, deadline: Nanos, period: Nanos) -> TaskConfig {
    TaskConfig {
        model: ModelId(model),
        partition: PartitionId(0),
        criticality: Criticality::RealTime,
        deadline: Some(deadline),
        period,
        burst: 1,
        jitter: Nanos::ZERO,
        prepare: Nanos::ZERO,
        mandatory_exit: StageId(0),
        threshold: Confidence(60_000),
        threshold_min: Confidence(60_000),
        batch_max: 8,
        queue_max: 16,
        reserved: true,
        answers: Answers::Final,
        weight: 1,
        offload_to: None,
        delivery: Delivery::EveryFrame,
    }
}

/// A best-effort task without a deadline whose first exit is mandatory.
pub fn best_effort(model: u16) -> TaskConfig {
    TaskConfig {
        criticality: Criticality::BestEffort,
        deadline: None,
        reserved: false,
        threshold_min: Confidence(0),
        ..task(model, ms(1), ms(1))
    }
}

/// A plan for one partition, with a dispatch cost and an egress bound of zero.
pub fn plan(tasks: Vec<TaskConfig>, models: Vec<ModelConfig>, preemption: Nanos) -> Config {
    Config {
        pages: 0,
        tasks,
        models,
        partitions: vec![PartitionConfig {
            units: Units { first: 0, count: 1 },
            preemption_bound: preemption,
            share_max: 1000,
        }],
        request_buffers: 64,
        dispatch_cost: Nanos::ZERO,
        egress_bound: Nanos::ZERO,
    }
}

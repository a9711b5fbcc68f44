//! How long each stage ran, by partition and batch size.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use punctual_core::{Config, Infer, ModelConfig, ModelId, Nanos, PartitionId, StageId};

/// A stage at one batch size on one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageKey {
    pub model: ModelId,
    pub stage: StageId,
    pub batch: u8,
    pub partition: PartitionId,
}

impl StageKey {
    pub fn of(infer: &Infer) -> Self {
        Self {
            model: infer.model,
            stage: infer.stage,
            batch: infer.batch,
            partition: infer.partition,
        }
    }
}

/// All of a plan.
#[derive(Debug, Default)]
pub struct StageMetrics {
    /// Position of the first entry of each model's stages.
    first: Box<[Box<[usize]>]>,
    partitions: usize,
    /// By batch size, in the order of the stage's, then by partition.
    times: Box<[TimeMetrics]>,
    keys: Box<[StageKey]>,
}

#[derive(Debug, Default)]
struct TimeMetrics {
    // Relaxed everywhere: counts that order nothing else.
    count: AtomicU64,
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

/// What was measured of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTimes {
    pub count: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
}

impl StageMetrics {
    pub fn new(config: &Config) -> Self {
        Self::of(&config.models, config.partitions.len())
    }

    fn of(models: &[ModelConfig], partitions: usize) -> Self {
        let mut keys = Vec::new();
        let mut first = Vec::new();
        for (model, of_model) in (0..).map(ModelId).zip(models) {
            let mut firsts = Vec::new();
            for (stage, of_stage) in (0..).map(StageId).zip(&of_model.stages) {
                firsts.push(keys.len());
                for time in &of_stage.times {
                    let each = (0..partitions as u16).map(PartitionId);
                    keys.extend(each.map(|partition| StageKey {
                        model,
                        stage,
                        batch: time.batch,
                        partition,
                    }));
                }
            }
            first.push(firsts.into());
        }
        Self {
            first: first.into(),
            partitions,
            times: keys.iter().map(|_| TimeMetrics::default()).collect(),
            keys: keys.into(),
        }
    }

    /// A stage came to its end. Wait-free.
    pub fn finished(&self, key: &StageKey, took: Nanos) {
        let Some(times) = self.position(key).map(|at| &self.times[at]) else {
            return;
        };
        times.sum_ns.fetch_add(took.as_nanos(), Relaxed);
        times.max_ns.fetch_max(took.as_nanos(), Relaxed);
        times.count.fetch_add(1, Relaxed);
    }

    fn position(&self, key: &StageKey) -> Option<usize> {
        if key.partition.index() >= self.partitions {
            return None;
        }
        let first = *self.first.get(key.model.index())?.get(key.stage.index())?;
        let of_partition = self.keys.get(first + key.partition.index()..)?;
        let mut batches = of_partition.iter().step_by(self.partitions);
        let batch = batches.position(|at| at.batch == key.batch)?;
        let at = first + key.partition.index() + batch * self.partitions;
        (self.keys.get(at) == Some(key)).then_some(at)
    }

    /// Those that ran.
    pub fn iter(&self) -> impl Iterator<Item = (StageKey, StageTimes)> + '_ {
        let all = self.keys.iter().zip(&self.times);
        all.filter_map(|(key, times)| {
            let count = times.count.load(Relaxed);
            let times = StageTimes {
                count,
                sum_ns: times.sum_ns.load(Relaxed),
                max_ns: times.max_ns.load(Relaxed),
            };
            (count > 0).then_some((*key, times))
        })
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{ACCURACY_BINS, BatchTime, ModelConfig, StageConfig, StageTime};

    use super::*;

    const PARTITIONS: u16 = 3;

    fn stage(batches: &[u8]) -> StageConfig {
        let time = StageTime {
            budget: Nanos::new(1),
            max_seen: Nanos::new(1),
        };
        StageConfig {
            times: batches
                .iter()
                .map(|&batch| BatchTime {
                    batch,
                    on: vec![time; PARTITIONS.into()],
                })
                .collect(),
            accuracy: [0; ACCURACY_BINS],
            deeper: Vec::new(),
            follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
            answers: true,
            runs_as: None,
        }
    }

    #[test]
    fn each_stage_is_counted_by_batch_size_and_partition_and_what_the_plan_lacks_is_not() {
        let model = |stages| ModelConfig {
            stages,
            weights: None,
            places: Vec::new(),
        };
        let models = [
            model(vec![stage(&[1, 2, 4]), stage(&[1])]),
            model(vec![stage(&[1, 8])]),
        ];
        let metrics = StageMetrics::of(&models, PARTITIONS.into());
        let keys: Vec<StageKey> = metrics.keys.to_vec();
        assert_eq!(keys.len(), 6 * usize::from(PARTITIONS));
        for (ns, key) in (1..).zip(&keys) {
            metrics.finished(key, Nanos::new(ns));
            metrics.finished(key, Nanos::new(2 * ns));
        }
        for (ns, (found, key)) in (1..).zip(metrics.iter().zip(&keys)) {
            let times = StageTimes {
                count: 2,
                sum_ns: 3 * ns,
                max_ns: 2 * ns,
            };
            assert_eq!(found, (*key, times));
        }
        for odd in [
            StageKey {
                batch: 3,
                ..keys[0]
            },
            StageKey {
                model: ModelId(2),
                ..keys[0]
            },
            StageKey {
                stage: StageId(2),
                ..keys[0]
            },
            StageKey {
                partition: PartitionId(PARTITIONS),
                ..keys[0]
            },
        ] {
            assert_eq!(metrics.position(&odd), None, "{odd:?}");
        }
    }
}

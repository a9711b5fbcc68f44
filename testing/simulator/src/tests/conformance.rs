//! The conformance suite on the device in virtual time.

use std::sync::Arc;

use punctual_conformance::{Subject, Testable, conforms};
use punctual_core::{
    ACCURACY_BINS, Answer, BatchTime, Confidence, Instant, ModelConfig, ModelId, Nanos,
    PartitionConfig, RequestId, StageConfig, StageId, StageTime, Units, Weights,
};
use punctual_device::DeviceSpec;
use punctual_platform::Doorbell;

use crate::virtual_device::{Oracle, Timing, Uniform, Variation, VirtualDevice};

type Answers = fn(RequestId, ModelId, StageId) -> Answer;

struct Virtual;

fn oracle(request: RequestId, model: ModelId, stage: StageId) -> Answer {
    let mixed = request.buffer ^ (model.0 << 4) ^ (u16::from(stage.0) << 8);
    Answer {
        class: mixed % 7,
        confidence: Confidence(mixed),
    }
}

impl<T: Timing, O: Oracle> Testable for VirtualDevice<T, O> {
    fn now(&self) -> Instant {
        self.now()
    }

    fn wait(&mut self, _: &Doorbell, _: u32, limit: Instant) {
        let next = self.next_event().unwrap_or(limit).min(limit);
        self.advance_to(next.max(self.now()));
    }

    fn pass(&mut self, until: Instant) {
        self.advance_to(until);
    }

    fn write_input(&mut self, _: u16, _: ModelId, _: &[f32]) {}
}

impl Subject for Virtual {
    type Device = VirtualDevice<Uniform, Answers>;

    const COMPUTES: bool = false;

    fn start(&self, spec: &DeviceSpec<'_>, _: Arc<Doorbell>) -> Self::Device {
        let time = |&batch: &u8| BatchTime {
            batch,
            on: vec![
                StageTime {
                    budget: Nanos::from_micros(100 + 50 * u64::from(batch)),
                    max_seen: Nanos::from_micros(600),
                };
                spec.partitions.len()
            ],
        };
        let models = spec.models.iter().map(|model| ModelConfig {
            weights: model.paged.then_some(Weights {
                pages: 2,
                load: Nanos::from_micros(300),
            }),
            stages: (model.network.stages.iter())
                .map(|_| StageConfig {
                    times: model.batches.iter().map(time).collect(),
                    accuracy: [0; ACCURACY_BINS],
                    deeper: Vec::new(),
                    follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
                    answers: true,
                    runs_as: None,
                })
                .collect(),
            places: Vec::new(),
        });
        let partition = |first: usize| PartitionConfig {
            units: Units {
                first: first as u16,
                count: 1,
            },
            preemption_bound: Nanos::from_micros(40),
            share_max: 1000,
        };
        let partitions: Vec<_> = (0..spec.partitions.len()).map(partition).collect();
        let variation = Variation {
            least_permille: 500,
            most_permille: 1000,
        };
        let mut device = VirtualDevice::new(
            models.collect(),
            &partitions,
            spec.request_buffers,
            variation.seeded(1),
            oracle as Answers,
        )
        .with_cache(spec.cache.map_or(0, |cache| cache.pages));
        device.advance_to(Instant::from_nanos(1_000_000));
        device
    }
}

conforms!(Virtual =>
    answers_equal_the_reference,
    survivors_of_different_batches_run_together,
    request_buffers_are_used_again_by_other_models,
    windows_are_honoured,
    preempted_actions_can_be_run_again,
    actions_that_do_not_fit_are_refused,
    a_third_action_is_refused,
    partitions_do_not_disturb_each_other,
    requests_may_change_partition_between_stages,
    weights_come_and_go,
    loads_that_do_not_fit_are_refused,
    weights_in_use_stay,
);

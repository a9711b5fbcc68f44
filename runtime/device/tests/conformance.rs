//! The conformance suite on the devices of this crate.

use std::path::Path;
use std::sync::Arc;

use punctual_core::{
    ACCURACY_BINS, ActionId, Answer, BatchTime, Confidence, Event, Infer, Instant, ModelConfig,
    ModelId, Nanos, PartitionConfig, PartitionId, RequestId, StageConfig, StageId, StageTime,
    Units, Weights,
};
use punctual_device::conformance::{Subject, suite};
use punctual_device::virtual_time::{Uniform, Variation, VirtualDevice};
use punctual_device::{CpuDevice, Device, DeviceSpec, InputBuffers, Refusal};
use punctual_model::Package;
use punctual_platform::{Doorbell, clock};

struct Cpu {
    device: CpuDevice,
    inputs: InputBuffers,
    bell: Arc<Doorbell>,
    seen: u32,
}

impl Device for Cpu {
    fn submit(&mut self, infer: &Infer) -> Result<(), Refusal> {
        self.device.submit(infer)
    }

    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), Refusal> {
        self.device.load(action, model)
    }

    fn unload(&mut self, model: ModelId) -> Result<(), Refusal> {
        self.device.unload(model)
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        self.device.preempt(partition, action);
    }

    fn poll(&mut self) -> Option<Event> {
        // Read before looking: an event that comes afterwards ends the next wait.
        self.seen = self.bell.count();
        self.device.poll()
    }
}

impl Subject for Cpu {
    const COMPUTES: bool = true;

    fn start(spec: &DeviceSpec<'_>) -> Self {
        let bell = Arc::new(Doorbell::new());
        let device = CpuDevice::start(spec, bell.clone()).expect("starts");
        Self {
            inputs: device.input_buffers(),
            device,
            bell,
            seen: 0,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(clock::now_ns())
    }

    fn wait(&mut self, limit: Instant) {
        self.bell.wait(self.seen, Some(limit.as_nanos()));
    }

    fn write_input(&mut self, buffer: u16, model: ModelId, image: &[f32]) {
        let mut writer = self.inputs.claim(buffer, model).expect("a free buffer");
        writer.write_planar(image);
    }
}

type Oracle = fn(RequestId, ModelId, StageId) -> Answer;

struct Virtual(VirtualDevice<Uniform, Oracle>);

fn oracle(request: RequestId, model: ModelId, stage: StageId) -> Answer {
    let mixed = request.buffer ^ (model.0 << 4) ^ (u16::from(stage.0) << 8);
    Answer {
        class: mixed % 7,
        confidence: Confidence(mixed),
    }
}

impl Device for Virtual {
    fn submit(&mut self, infer: &Infer) -> Result<(), Refusal> {
        self.0.submit(infer)
    }

    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), Refusal> {
        self.0.load(action, model)
    }

    fn unload(&mut self, model: ModelId) -> Result<(), Refusal> {
        self.0.unload(model)
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        self.0.preempt(partition, action);
    }

    fn poll(&mut self) -> Option<Event> {
        self.0.poll()
    }
}

impl Subject for Virtual {
    const COMPUTES: bool = false;

    fn start(spec: &DeviceSpec<'_>) -> Self {
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
            oracle as Oracle,
        )
        .with_cache(spec.cache.map_or(0, |cache| cache.pages));
        device.advance_to(Instant::from_nanos(1_000_000));
        Self(device)
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wait(&mut self, limit: Instant) {
        let next = self.0.next_event().unwrap_or(limit).min(limit);
        self.0.advance_to(next.max(self.0.now()));
    }

    fn pass(&mut self, until: Instant) {
        self.0.advance_to(until);
    }

    fn write_input(&mut self, _buffer: u16, _model: ModelId, _image: &[f32]) {}
}

macro_rules! conforms {
    ($device:ident as $subject:ty: $($check:ident),* $(,)?) => {
        mod $device {
            use super::*;
            $(#[test] fn $check() { suite::$check::<$subject>(); })*
        }
    };
}

conforms!(cpu as Cpu:
    answers_equal_the_reference,
    survivors_of_different_batches_run_together,
    request_buffers_are_used_again_by_other_models,
    windows_are_honoured,
    preempted_actions_can_be_run_again,
    actions_that_do_not_fit_are_refused,
    a_third_action_is_refused,
    partitions_do_not_disturb_each_other,
    weights_come_and_go,
    loads_that_do_not_fit_are_refused,
    weights_in_use_stay,
);

conforms!(virtual_time as Virtual:
    answers_equal_the_reference,
    survivors_of_different_batches_run_together,
    request_buffers_are_used_again_by_other_models,
    windows_are_honoured,
    preempted_actions_can_be_run_again,
    actions_that_do_not_fit_are_refused,
    a_third_action_is_refused,
    partitions_do_not_disturb_each_other,
    weights_come_and_go,
    loads_that_do_not_fit_are_refused,
    weights_in_use_stay,
);

#[test]
fn survivors_of_different_batches_run_together_on_the_demonstration_network() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs");
    let package = Package::read(&folder.join("signs.punctual")).expect("the package in the tree");
    suite::survivors_run_together_on::<Cpu>(package.network());
}

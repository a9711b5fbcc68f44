//! The conformance suite on the devices of this crate.

use std::path::Path;
use std::sync::Arc;

use punctual_core::{
    ACCURACY_BINS, ActionId, Answer, BatchTime, Confidence, Event, Infer, Instant, ModelConfig,
    ModelId, Nanos, PartitionConfig, PartitionId, RequestId, StageConfig, StageId, StageTime,
    Units, Weights,
};
use punctual_device::conformance::{Subject, networks, suite};
use punctual_device::virtual_time::{Uniform, Variation, VirtualDevice};
use punctual_device::{
    CacheSpec, CpuDevice, Device, DeviceSpec, InputBuffers, ModelSpec, PartitionSpec, Refusal,
};
use punctual_model::{Network, Package, SolutionChoice, SolutionMemory};
use punctual_platform::{Doorbell, clock};

/// With a specialised solution for every convolution that has any, or with none.
struct Cpu<const SPECIALISED: bool> {
    device: CpuDevice,
    inputs: InputBuffers,
    bell: Arc<Doorbell>,
    seen: u32,
}

impl<const SPECIALISED: bool> Device for Cpu<SPECIALISED> {
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

/// Tiles of 4x4 and of 2x2 in turn, for every operator.
fn specialised(network: &Network) -> Vec<SolutionChoice> {
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let choice = |(operator, solution): (u32, &&str)| SolutionChoice {
        operator,
        batch: 1,
        units: 1,
        solution: (*solution).to_owned(),
    };
    let solutions = ["winograd-4x4", "winograd-2x2"];
    let solutions = solutions.iter().cycle().take(operators.count());
    (0..).zip(solutions).map(choice).collect()
}

impl<const SPECIALISED: bool> Subject for Cpu<SPECIALISED> {
    const COMPUTES: bool = true;

    fn start(spec: &DeviceSpec<'_>) -> Self {
        let bell = Arc::new(Doorbell::new());
        let choices = spec.models.iter().map(|model| match SPECIALISED {
            true => specialised(model.network),
            false => Vec::new(),
        });
        let choices: Vec<_> = choices.collect();
        let models = spec.models.iter().zip(&choices);
        let models: Vec<_> = models
            .map(|(model, solutions)| ModelSpec {
                solutions,
                ..*model
            })
            .collect();
        let spec = DeviceSpec {
            models: &models,
            ..*spec
        };
        let device = CpuDevice::start(&spec, bell.clone()).expect("starts");
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

conforms!(cpu as Cpu<false>:
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

conforms!(cpu_with_solutions as Cpu<true>:
    answers_equal_the_reference,
    survivors_of_different_batches_run_together,
    request_buffers_are_used_again_by_other_models,
    preempted_actions_can_be_run_again,
    partitions_do_not_disturb_each_other,
    weights_come_and_go,
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
    suite::survivors_run_together_on::<Cpu<false>>(package.network());
    suite::survivors_run_together_on::<Cpu<true>>(package.network());
}

#[test]
fn a_resident_model_has_its_solutions_and_a_paged_one_has_none() {
    let network = networks::residual(1);
    let resident = ModelSpec::resident(&network, &[1, 2]);
    let paged = ModelSpec {
        paged: true,
        ..resident
    };
    let partitions = [PartitionSpec {
        name: "main".to_owned(),
        cores: vec![0, 1],
        priority: None,
    }];
    let spec = DeviceSpec {
        models: &[resident, paged],
        partitions: &partitions,
        request_buffers: 1,
        cache: Some(CacheSpec {
            pages: 4,
            core: None,
            priority: None,
        }),
    };
    let direct = Cpu::<false>::start(&spec).device;
    let chosen = Cpu::<true>::start(&spec).device;
    let nothing = SolutionMemory::default();
    for model in [ModelId(0), ModelId(1), ModelId(2)] {
        assert_eq!(direct.solution_memory(model), nothing);
    }
    let memory = chosen.solution_memory(ModelId(0));
    assert!(memory.weight_bytes > 0 && memory.scratch_bytes > 0);
    assert_eq!(chosen.solution_memory(ModelId(1)), nothing);
    // Scratch memory is said for any batch, and taken for the largest that there is.
    let taken = chosen.workspace_bytes()[0] - direct.workspace_bytes()[0];
    assert!(taken > 0 && taken as u64 <= 2 * memory.scratch_bytes);
}

//! Two CPU devices as one.

use std::sync::Arc;

use punctual_conformance::networks;
use punctual_core::{
    ActionId, Answer, Criticality, Event, Infer, Instant, ModelId, PartitionId, RequestId, StageId,
    Window,
};
use punctual_device::{
    Device, DeviceSet, DeviceSpec, HostedDevice, ModelSpec, PartitionSpec, Start,
};
use punctual_device_cpu::CpuDevice;
use punctual_platform::Doorbell;

fn infer(id: u64, partition: u16, model: u16) -> Infer {
    Infer {
        id: ActionId(id),
        partition: PartitionId(partition),
        model: ModelId(model),
        stage: StageId(0),
        batch: 1,
        members: [RequestId {
            buffer: partition,
            generation: 0,
        }]
        .into_iter()
        .collect(),
        window: Window {
            earliest: Instant::ZERO,
            latest: Instant::FAR_FUTURE,
        },
        criticality: Criticality::BestEffort,
    }
}

#[test]
fn two_devices_behind_one_bell_answer_as_each_does_alone() {
    let networks = [networks::residual(1), networks::residual(2)];
    let bell = Arc::new(Doorbell::new());
    let start = |network| {
        let spec = DeviceSpec {
            models: &[ModelSpec::resident(network, &[1])],
            partitions: &[PartitionSpec::on_cores("main", vec![0], None)],
            request_buffers: 2,
            cache: None,
            start: Start::Whole,
        };
        CpuDevice::start(&spec, Arc::clone(&bell)).expect("starts")
    };
    let image = networks::image(&networks[0], 7);
    let alone: Vec<Answer> = networks
        .iter()
        .map(|network| {
            let device = start(network);
            let inputs = device.shell().input_buffers();
            inputs
                .claim(0, ModelId(0))
                .expect("free")
                .write_planar(&image);
            let mut device = DeviceSet::new(vec![Box::new(device)], &[0], &[Some(0)]);
            answers(&mut device, &bell, &[infer(1, 0, 0)])[0].1
        })
        .collect();
    let (first, second) = (start(&networks[0]), start(&networks[1]));
    for (buffer, inputs) in [
        (0, first.shell().input_buffers()),
        (1, second.shell().input_buffers()),
    ] {
        inputs
            .claim(buffer, ModelId(0))
            .expect("free")
            .write_planar(&image);
    }
    let both = vec![Box::new(first), Box::new(second)];
    let mut device = DeviceSet::new(both, &[0, 1], &[Some(0), Some(1)]);
    let mut together = answers(&mut device, &bell, &[infer(1, 0, 0), infer(2, 1, 1)]);
    together.sort_unstable_by_key(|(action, _)| *action);
    let together: Vec<Answer> = together.into_iter().map(|(_, answer)| answer).collect();
    assert_eq!(together, alone);
}

/// Submits all of them and waits for their answers.
fn answers(device: &mut impl Device, bell: &Doorbell, actions: &[Infer]) -> Vec<(u64, Answer)> {
    for infer in actions {
        device.submit(infer).expect("it fits");
    }
    let mut answers = Vec::new();
    while answers.len() < actions.len() {
        let seen = bell.count();
        match device.poll() {
            Some(Event::Finished(finished)) => {
                answers.push((finished.action.0, finished.members[0]));
            }
            Some(other) => panic!("{other:?}"),
            None => {
                bell.wait(seen, None);
            }
        }
    }
    answers
}

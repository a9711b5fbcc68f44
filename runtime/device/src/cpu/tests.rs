//! What only the CPU device can show: faults inside it.

use std::sync::Arc;

use heapless::Vec;
use punctual_core::{
    ActionId, Criticality, Event, Infer, Instant, ModelId, PartitionId, RequestId, StageId, Window,
};
use punctual_kernels::Isa;
use punctual_platform::{Doorbell, clock};

use super::executable::Kernel;
use super::{CpuDevice, lower};
use crate::conformance::networks;
use crate::device::Device;
use crate::spec::{DeviceSpec, ModelSpec, PartitionSpec};

/// Longer than any action here takes, even on a busy machine.
const LIMIT_NS: u64 = 30_000_000_000;

fn infer(id: u64, stage: u8, buffers: &[u16]) -> Infer {
    Infer {
        id: ActionId(id),
        partition: PartitionId(0),
        model: ModelId(0),
        stage: StageId(stage),
        batch: 2,
        members: buffers
            .iter()
            .map(|&buffer| RequestId {
                buffer,
                generation: 0,
            })
            .collect::<Vec<_, _>>(),
        window: Window {
            earliest: Instant::ZERO,
            latest: Instant::FAR_FUTURE,
        },
        criticality: Criticality::RealTime,
    }
}

fn answer_to(device: &mut CpuDevice, bell: &Doorbell, infer: &Infer) -> Event {
    let mut seen = bell.count();
    device.submit(infer).expect("a free partition");
    let limit = clock::now_ns() + LIMIT_NS;
    loop {
        if let Some(event) = device.poll() {
            return event;
        }
        assert!(clock::now_ns() < limit, "no event for {infer:?}");
        seen = bell.wait(seen, Some(limit));
    }
}

/// A device of two workers whose first operator of stage 1 panics.
fn with_a_fault(bell: &Arc<Doorbell>) -> CpuDevice {
    let network = networks::residual(3);
    let spec = DeviceSpec {
        models: &[ModelSpec {
            network: &network,
            batches: &[1, 2],
        }],
        partitions: &[PartitionSpec {
            name: "main".to_owned(),
            cores: vec![0, 1],
            priority: None,
        }],
        request_buffers: 3,
    };
    let isa = Isa::detect();
    let mut model = lower::lower(isa, &network).expect("lowers");
    model.stages[1].steps[0].kernel = Kernel::Test(|_, _| panic!("planted"));
    CpuDevice::start_loaded(isa, Arc::new([model]), &spec, bell.clone()).expect("starts")
}

#[test]
fn a_panic_in_a_worker_fails_its_action_and_the_partition_goes_on() {
    let bell = Arc::new(Doorbell::new());
    let mut device = with_a_fault(&bell);
    for id in 0..4 {
        let failed = answer_to(&mut device, &bell, &infer(2 * id, 1, &[0, 1]));
        assert_eq!(
            failed,
            Event::Failed {
                action: ActionId(2 * id)
            }
        );
        let fine = answer_to(&mut device, &bell, &infer(2 * id + 1, 0, &[2]));
        assert!(matches!(fine, Event::Finished(_)), "{fine:?}");
    }
}

#[test]
fn a_member_that_is_still_written_to_or_named_twice_fails_the_action() {
    let bell = Arc::new(Doorbell::new());
    let mut device = with_a_fault(&bell);
    let inputs = device.input_buffers();
    let failed = |id| Event::Failed {
        action: ActionId(id),
    };
    let writer = inputs.claim(1, ModelId(0)).expect("free");
    assert_eq!(
        answer_to(&mut device, &bell, &infer(0, 0, &[0, 1])),
        failed(0)
    );
    drop(writer);
    assert_eq!(
        answer_to(&mut device, &bell, &infer(1, 0, &[2, 2])),
        failed(1)
    );
    let fine = answer_to(&mut device, &bell, &infer(2, 0, &[0, 1]));
    assert!(matches!(fine, Event::Finished(_)), "{fine:?}");
}

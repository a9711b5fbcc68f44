//! Nothing is allocated or freed after the start: on the leader, on the loader, and on the thread that
//! submits, preempts and polls, which is marked as real-time here as in the daemon. What the emulated
//! driver allocates is its own affair: the library has its own allocator. The device is divided by masks of launches,
//! whose callback runs on the leader.

mod subject;

use std::sync::Arc;

use emulated_cuda::{Config, Emulator};
use punctual_conformance::networks;
use punctual_core::{
    ActionId, Criticality, Event, Infer, Instant, ModelId, PartitionId, RequestId, StageId, Window,
};
use punctual_device::{CacheSpec, Device, DeviceSpec, HostedDevice, ModelSpec, Start};
use punctual_device_cuda::partition::Mechanism;
use punctual_device_cuda::{CudaDevice, CudaSpec, Division};
use punctual_platform::thread::{ThreadSpec, spawn_realtime};
use punctual_platform::{Doorbell, SealedAllocator, allocator, clock};
use subject::{BATCHES, begin, cuda, gpu, offer, partitions};

#[global_allocator]
static ALLOCATOR: SealedAllocator = SealedAllocator;

const ROUNDS: u64 = 12;
const LIMIT_NS: u64 = 120_000_000_000;

fn event(device: &mut CudaDevice, bell: &Doorbell, limit: u64) -> Event {
    loop {
        let seen = bell.count();
        if let Some(event) = device.poll() {
            return event;
        }
        assert!(clock::now_ns() < limit, "stuck");
        bell.wait(seen, Some(limit));
    }
}

/// An action; every fourth round's is too late.
fn action(round: u64, criticality: Criticality) -> Infer {
    let member = |buffer| RequestId {
        buffer,
        generation: 0,
    };
    Infer {
        id: ActionId(round),
        partition: PartitionId(0),
        model: ModelId(0),
        stage: StageId((round % 2) as u8),
        batch: 4,
        members: (0..3).map(member).collect(),
        window: Window {
            earliest: Instant::ZERO,
            latest: if round % 4 == 3 {
                Instant::ZERO
            } else {
                Instant::FAR_FUTURE
            },
        },
        criticality,
    }
}

/// Real-time and best-effort stages, finished, preempted and too late; weights that come and go.
fn load(mut device: CudaDevice, bell: &Doorbell) -> CudaDevice {
    let (inputs, counters) = (device.shell().input_buffers(), device.counters());
    let limit = clock::now_ns() + LIMIT_NS;
    for round in 0..ROUNDS {
        device.load(ActionId(0), ModelId(1)).expect("fits");
        let loaded = event(&mut device, bell, limit);
        assert!(matches!(loaded, Event::Loaded { .. }), "{loaded:?}");
        device.unload(ModelId(1)).expect("it is not in use");
        for buffer in 0..4 {
            let mut writer = inputs.claim(buffer, ModelId(0)).expect("free");
            writer.pixels()[0] = round as f32;
        }
        for criticality in [Criticality::RealTime, Criticality::BestEffort] {
            let infer = action(round, criticality);
            let launches = counters.read().launches;
            device.submit(&infer).expect("fits");
            // Half of them are stopped before they begin, half while they run, if they are not too late.
            while round % 4 < 2 && counters.read().launches == launches {
                assert!(clock::now_ns() < limit, "stuck");
                std::hint::spin_loop();
            }
            device.preempt(PartitionId(0), infer.id);
            let event = event(&mut device, bell, limit);
            // A second stage may find that the first one never ran for its members.
            let first = infer.stage == StageId(0);
            assert!(
                !(first && matches!(event, Event::Failed { .. })),
                "{event:?}"
            );
        }
    }
    device
}

#[test]
fn nothing_is_allocated_after_the_start() {
    assert!(allocator::is_installed());
    let config = Config::default();
    let emulator = Emulator::start(&config).expect("the emulated driver");
    let offer = offer("no-allocation", &config, Mechanism::LaunchMask);
    let cuda = CudaSpec {
        division: Division::Tpcs {
            partitioner: Arc::new(offer.partitioner(gpu()).expect("it works here")),
            ranges: std::iter::once(2..8).collect(),
        },
        ..cuda()
    };
    let (network, other) = (networks::gathers(1), networks::residual(2));
    let spec = DeviceSpec {
        models: &[
            ModelSpec::resident(&network, &BATCHES),
            ModelSpec {
                paged: true,
                ..ModelSpec::resident(&other, &[1])
            },
        ],
        partitions: &partitions(1),
        request_buffers: 4,
        cache: Some(CacheSpec {
            pages: 4,
            core: None,
            priority: None,
        }),
        start: Start::Whole,
    };
    let bell = Arc::new(Doorbell::new());
    let device = begin(&spec, &cuda, bell.clone()).expect("starts");
    let go = Arc::new(Doorbell::new());
    let scheduler = {
        let go = go.clone();
        let spec = ThreadSpec::new("scheduler", None, None);
        let counted = move || {
            go.wait(0, None);
            let device = load(device, &bell);
            // Before the device is freed.
            (allocator::counts(), device)
        };
        spawn_realtime(spec, counted).expect("starts")
    };
    allocator::seal();
    go.ring();
    let (counts, device) = scheduler.join().expect("no panic");
    let evictions = device.counters().read().evictions;
    drop(device);
    let launches = emulator.launches();
    assert!(launches.iter().any(|launch| launch.sms.len() == 12));
    assert!(evictions > 0, "no stage was evicted");
    assert_eq!((counts.realtime, counts.realtime_frees), (0, 0));
}

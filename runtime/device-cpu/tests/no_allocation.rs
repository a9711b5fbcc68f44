//! Nothing is allocated or freed after the start: on the workers, on the loader, and on the thread
//! that submits and polls, which is marked as real-time here as in the daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_conformance::networks;
use punctual_core::{
    ActionId, Criticality, Event, Infer, Instant, ModelId, PartitionId, Readiness, RequestId,
    StageId, Window,
};
use punctual_device::{
    CacheSpec, Device, DeviceSpec, HostedDevice, ModelSpec, PartitionSpec, Start,
};
use punctual_device_cpu::CpuDevice;
use punctual_model::{OutputLayout, SolutionChoice};
use punctual_platform::areas::Area;
use punctual_platform::thread::{ThreadSpec, spawn_realtime};
use punctual_platform::{Doorbell, SealedAllocator, allocator, clock};

#[global_allocator]
static ALLOCATOR: SealedAllocator = SealedAllocator;

const ROUNDS: u64 = 300;
const LIMIT_NS: u64 = 60_000_000_000;

/// Loads the second model's weights and unloads them again.
fn page(device: &mut CpuDevice, bell: &Doorbell, limit: u64) {
    device.load(ActionId(0), ModelId(1)).expect("fits");
    let event = event(device, bell, limit);
    assert!(matches!(event, Event::Loaded { .. }), "{event:?}");
    device.unload(ModelId(1)).expect("it is not in use");
}

/// Until both stages of the first model run. Their solutions may be prepared while the test goes on.
fn wait_for_stages(device: &mut CpuDevice, bell: &Doorbell, limit: u64) {
    loop {
        let seen = bell.count();
        match device.poll() {
            Some(Event::Readiness(Readiness { stages: 2, .. })) => return,
            Some(event) => assert!(matches!(event, Event::Readiness(_)), "{event:?}"),
            None => {
                assert!(clock::now_ns() < limit, "stuck");
                bell.wait(seen, Some(limit));
            }
        }
    }
}

/// The next event that is not about the start.
fn event(device: &mut CpuDevice, bell: &Doorbell, limit: u64) -> Event {
    loop {
        let seen = bell.count();
        match device.poll() {
            Some(Event::Readiness(_)) => {}
            Some(event) => return event,
            None => {
                assert!(clock::now_ns() < limit, "stuck");
                bell.wait(seen, Some(limit));
            }
        }
    }
}

fn load(mut device: CpuDevice, bell: &Doorbell, done: &AtomicU64) -> CpuDevice {
    let inputs = device.shell().input_buffers();
    let limit = clock::now_ns() + LIMIT_NS;
    wait_for_stages(&mut device, bell, limit);
    for buffer in 0..8 {
        let mut claim = inputs.regions().claim(buffer).expect("free");
        claim.area().expect("it has one").as_mut_slice().fill(0);
    }
    for round in 0..ROUNDS {
        page(&mut device, bell, limit);
        for buffer in 0..8 {
            let mut writer = inputs.claim(buffer, ModelId(0)).expect("free");
            writer.pixels()[0] = round as f32;
        }
        for (part, criticality) in [Criticality::RealTime, Criticality::BestEffort]
            .into_iter()
            .enumerate()
        {
            let infer = Infer {
                id: ActionId(2 * round + part as u64),
                partition: PartitionId(0),
                model: ModelId(0),
                stage: StageId((round % 2) as u8),
                batch: 8,
                members: (0..8)
                    .map(|buffer| RequestId {
                        buffer,
                        generation: 0,
                    })
                    .collect(),
                window: Window {
                    earliest: Instant::ZERO,
                    // Every seventh is too late.
                    latest: if round % 7 == 6 {
                        Instant::ZERO
                    } else {
                        Instant::FAR_FUTURE
                    },
                },
                criticality,
            };
            device.submit(&infer).expect("fits");
            device.preempt(PartitionId(0), infer.id);
            let event = event(&mut device, bell, limit);
            assert!(!matches!(event, Event::Failed { .. }));
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
    for buffer in 0..8 {
        let mut claim = inputs.regions().claim(buffer).expect("free");
        let area = claim.area().expect("it has one").as_slice();
        assert!(area.iter().any(|&byte| byte != 0), "outputs were written");
    }
    device
}

#[test]
fn nothing_is_allocated_after_the_start() {
    assert!(allocator::is_installed());
    let (network, other) = (networks::residual(1), networks::residual(2));
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let solutions: Vec<_> = (0..operators.count() as u32)
        .map(|operator| SolutionChoice {
            operator,
            batch: 8,
            units: 1,
            solution: "winograd-4x4".to_owned(),
        })
        .collect();
    let bell = Arc::new(Doorbell::new());
    let outputs = OutputLayout::of(&network, |_| true);
    let spec = DeviceSpec {
        models: &[
            ModelSpec {
                solutions: &solutions,
                outputs: Some(&outputs),
                ..ModelSpec::resident(&network, &[1, 8])
            },
            ModelSpec {
                paged: true,
                ..ModelSpec::resident(&other, &[1])
            },
        ],
        partitions: &[PartitionSpec::on_cores("main", vec![0, 1], None)],
        request_buffers: 8,
        cache: Some(CacheSpec {
            pages: 4,
            core: None,
            priority: None,
        }),
        // The loader allocates where that is permitted, while stages run already.
        start: Start::in_turn(&[]),
    };
    let device = CpuDevice::start(&spec, bell.clone()).expect("starts");
    assert!(device.solution_memory(ModelId(0)).scratch_bytes > 0);
    for buffer in 0..8 {
        let inputs = device.shell().input_buffers();
        let mut claim = inputs.regions().claim(buffer).expect("free");
        claim.replace_area(Some(Area::private(outputs.area_bytes as usize)));
    }
    let done = Arc::new(AtomicU64::new(0));
    let go = Arc::new(Doorbell::new());
    let scheduler = {
        let (done, go) = (done.clone(), go.clone());
        let spec = ThreadSpec::new("scheduler", None, None);
        let counted = move || {
            go.wait(0, None);
            let device = load(device, &bell, &done);
            // Before the device is freed.
            (allocator::counts(), device)
        };
        spawn_realtime(spec, counted).expect("starts")
    };
    allocator::seal();
    go.ring();
    let (counts, device) = scheduler.join().expect("no panic");
    drop(device);
    assert_eq!(done.load(Ordering::Relaxed), 2 * ROUNDS);
    assert_eq!((counts.realtime, counts.realtime_frees), (0, 0));
}

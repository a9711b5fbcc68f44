//! What a start takes, what it leaves, and how it fails.

use std::sync::Arc;

use emulated_cuda::{Config, Emulator};
use punctual_conformance::networks;
use punctual_core::Event;
use punctual_device::{Device, DeviceSpec, ModelSpec, Start};
use punctual_device_cuda::driver::{Code, OpenError};
use punctual_device_cuda::partition::{Mechanism, SmSet};
use punctual_device_cuda::queue::{FlagPlace, QueueSpec};
use punctual_device_cuda::{CudaSpec, Division, StartError};

use crate::subject::{ASSERT, BATCHES, Cuda, begin, cuda, gpu, offer, partitions};

/// Calls by which a driver gives something away.
const TAKING: [&str; 8] = [
    "cuMemAlloc_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuStreamCreateWithPriority",
    "cuEventCreate",
    "cuDevicePrimaryCtxRetain",
];

#[test]
fn nothing_is_taken_from_the_driver_after_the_start_and_nothing_is_left_after_the_end() {
    let network = networks::gathers(7);
    let mut device = Cuda::with(&Config::default(), &network, &cuda(), 1);
    let taken = |device: &Cuda| TAKING.map(|call| device.emulator.calls(call));
    let at_start = taken(&device);
    for round in 0..3 {
        device.write(2, round);
        for stage in 0..2 {
            device.answers(stage, &[2, 5]);
        }
        let infer = {
            let mut infer = device.action(0, &[2, 5]);
            infer.criticality = punctual_core::Criticality::BestEffort;
            infer
        };
        device.submit(&infer).expect("room");
        device.preempt(infer.partition, infer.id);
        assert!(!matches!(device.event(), Event::Failed { .. }));
    }
    assert_eq!(taken(&device), at_start);
    let Cuda {
        device: inner,
        emulator,
        ..
    } = device;
    drop(inner);
    let memory = emulator.memory();
    let left = memory.device.bytes + memory.host.bytes + memory.registered.bytes;
    assert_eq!(left, 0, "{memory:?}");
    assert!(emulator.streams().is_empty());
}

#[test]
fn a_start_that_fails_at_any_call_says_which_and_leaves_nothing() {
    let network = networks::gathers(8);
    let models = [ModelSpec::resident(&network, &BATCHES)];
    let partitions = partitions(1);
    let spec = DeviceSpec {
        models: &models,
        partitions: &partitions,
        request_buffers: 4,
        cache: None,
        start: Start::Whole,
    };
    let calls: Vec<u64> = {
        let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
        drop(begin(&spec, &cuda(), Arc::default()).expect("starts"));
        TAKING.iter().map(|call| emulator.calls(call)).collect()
    };
    for (call, count) in TAKING.iter().zip(calls) {
        // The first one, one in the middle, the last one.
        let moments = [0, count / 2, count.saturating_sub(1)];
        for nth in moments.into_iter().filter(|_| count > 0) {
            let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
            emulator.fail_call(call, nth, Code::OUT_OF_MEMORY.0);
            let error = begin(&spec, &cuda(), Arc::default()).err();
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            let bare = call.trim_end_matches("_v2");
            assert!(
                text.contains(bare) && text.contains("(2)"),
                "{call}: {text}"
            );
            let memory = emulator.memory();
            assert_eq!(memory.device.bytes + memory.host.bytes, 0, "{call} {nth}");
        }
    }
}

#[test]
fn a_machine_without_a_gpu_is_told_so() {
    let config = Config {
        devices: 0,
        ..Config::default()
    };
    let _emulator = Emulator::start(&config).expect("the emulated driver");
    let network = networks::gathers(9);
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(&network, &BATCHES)],
        partitions: &partitions(1),
        request_buffers: 4,
        cache: None,
        start: Start::Whole,
    };
    let error = begin(&spec, &cuda(), Arc::default())
        .err()
        .expect("nothing to start on");
    let StartError::Open(OpenError::Call(error)) = error else {
        panic!("{error}");
    };
    assert_eq!(error.code, Code::NO_DEVICE);
}

#[test]
fn a_network_without_kernels_is_named() {
    let _emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    let network = crate::unlowered::network();
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(&network, &BATCHES)],
        partitions: &partitions(1),
        request_buffers: 4,
        cache: None,
        start: Start::Whole,
    };
    let error = begin(&spec, &cuda(), Arc::default())
        .err()
        .expect("its heads are wide");
    assert!(matches!(error, StartError::Lower(_)), "{error}");
    assert!(error.to_string().contains(&network.name), "{error}");
}

#[test]
fn inputs_are_copied_where_host_memory_cannot_be_registered() {
    let network = networks::gathers(7);
    let in_place = Cuda::with(&Config::default(), &network, &cuda(), 1).answers(0, &[6, 1]);
    let config = Config {
        host_register: false,
        integrated: false,
        ..Config::default()
    };
    let emulator = Emulator::start(&config).expect("the emulated driver");
    let queue = QueueSpec::fitting(gpu());
    let queue = queue.expect("a driver that answers");
    assert_eq!(queue.flag, FlagPlace::Device);
    let mut device = Cuda::of_network(emulator, &network, &CudaSpec { queue, ..cuda() }, 1);
    assert_eq!(device.answers(0, &[6, 1]), in_place);
    assert_eq!(device.emulator.calls("cuMemHostRegister_v2"), 0);
}

#[test]
fn partitions_of_tpcs_run_where_they_may() {
    let config = Config {
        spread: true,
        ..Config::default()
    };
    let emulator = Emulator::start(&config).expect("the emulated driver");
    let offer = offer("partitions-of-tpcs", &config, Mechanism::StreamMask);
    let partitioner = Arc::new(offer.partitioner(gpu()).expect("it works here"));
    let spec = CudaSpec {
        division: Division::Tpcs {
            partitioner: partitioner.clone(),
            ranges: vec![0..3, 3..8],
        },
        ..cuda()
    };
    let network = networks::gathers(7);
    let mut device = Cuda::of_network(emulator, &network, &spec, 2);
    let expected = device.answers(0, &[6, 1]);
    for restarted in [false, true] {
        if restarted {
            device.emulator.fail_launch(3, ASSERT.0);
            let infer = device.action(0, &[6, 1]);
            device.submit(&infer).expect("room");
            assert_eq!(device.event(), Event::Failed { action: infer.id });
            device.until_restarted(1);
        }
        for (partition, tpcs) in [(0, 0..3), (1, 3..8)] {
            let first = device.launched();
            let mut infer = device.action(0, &[6, 1]);
            infer.partition.0 = partition;
            device.submit(&infer).expect("room");
            let Event::Finished(finished) = device.event() else {
                panic!("partition {partition} did not finish");
            };
            assert_eq!(finished.members.len(), expected.len());
            let granted = partitioner.grant(tpcs).expect("whole units");
            for launch in device.emulator.launches_from(first) {
                let sms = SmSet::of(launch.sms).expect("multiprocessors");
                assert_eq!(sms, granted.sms, "{} of {partition}", launch.kernel);
            }
        }
    }
}

//! Faults of the device: failed actions, a restart, and everything as before.

use emulated_cuda::{After, Config};
use punctual_core::{Answer, Event};
use punctual_device::Device;
use punctual_device::conformance::networks;
use punctual_device_cuda::driver::Code;
use punctual_device_cuda::{CudaSpec, DeviceError, Watchdog};

use crate::subject::{Cuda, cuda};

const MEMBERS: [u16; 2] = [3, 1];

fn started(config: &Config, cuda: &CudaSpec, partitions: usize) -> (Cuda, Vec<Vec<Answer>>) {
    let mut device = Cuda::with(config, &networks::gathers(6), cuda, partitions);
    let expected = (0..2)
        .map(|stage| device.answers(stage, &MEMBERS))
        .collect();
    (device, expected)
}

/// Short enough for a test to wait for; far longer than a stage takes here.
fn impatient() -> CudaSpec {
    CudaSpec {
        watchdog: Watchdog {
            unknown_ns: 3_000_000_000,
            grace_ns: 100_000_000,
            ..Watchdog::default()
        },
        ..cuda()
    }
}

/// Runs a stage that must fail.
fn fails(device: &mut Cuda, stage: u8) {
    let infer = device.action(stage, &MEMBERS);
    device.submit(&infer).expect("room");
    assert_eq!(device.event(), Event::Failed { action: infer.id });
}

#[test]
fn a_fault_of_a_kernel_fails_its_action_and_the_device_comes_back() {
    let (mut device, expected) = started(&Config::default(), &cuda(), 1);
    let before = device.emulator.memory();
    device.emulator.fail_launch(5, Code::ILLEGAL_ADDRESS.0);
    fails(&mut device, 0);
    device.until_restarted(1);
    assert_eq!(device.emulator.memory(), before);
    // What the members carried was on the device.
    fails(&mut device, 1);
    for stage in 0..2 {
        assert_eq!(
            device.answers(stage, &MEMBERS),
            expected[usize::from(stage)]
        );
    }
    let counts = device.device.counters().read();
    assert_eq!((counts.faults, counts.restarts, counts.failed), (1, 1, 2));
    let faults = device.device.faults();
    let [DeviceError::Driver(error)] = faults[..] else {
        panic!("{faults:?}");
    };
    assert_eq!(error.code, Code::ILLEGAL_ADDRESS);
}

#[test]
fn a_hang_is_noticed_evicted_in_vain_and_ended_by_the_restart() {
    let (mut device, expected) = started(&Config::default(), &impatient(), 1);
    device.emulator.hang_launch(3);
    fails(&mut device, 0);
    device.until_restarted(1);
    assert_eq!(device.answers(0, &MEMBERS), expected[0]);
    let grace_ns = impatient().watchdog.grace_ns;
    assert_eq!(device.device.faults(), [DeviceError::Hang { grace_ns }]);
}

#[test]
fn a_stage_that_takes_too_long_and_obeys_fails_without_a_restart() {
    let spec = CudaSpec {
        watchdog: Watchdog {
            grace_ns: 20_000_000_000,
            ..impatient().watchdog
        },
        ..cuda()
    };
    let (mut device, expected) = started(&Config::default(), &spec, 1);
    let stream = device.stream();
    let evictions = device.device.counters().read().evictions;
    device.emulator.hold(stream, After::Blocks(20));
    let infer = device.action(0, &MEMBERS);
    device.submit(&infer).expect("room");
    while device.device.counters().read().evictions == evictions {
        std::thread::yield_now();
    }
    device.emulator.go_on(stream);
    assert_eq!(device.event(), Event::Failed { action: infer.id });
    assert_eq!(device.answers(0, &MEMBERS), expected[0]);
    let counts = device.device.counters().read();
    assert_eq!((counts.overdue, counts.faults), (1, 0));
}

#[test]
fn a_fault_of_one_partition_fails_what_runs_on_the_others_too() {
    let (mut device, expected) = started(&Config::default(), &cuda(), 2);
    let mut first = device.action(0, &MEMBERS);
    let mut other = device.action(0, &[0, 2]);
    (first.partition.0, other.partition.0) = (0, 1);
    device.emulator.hold_all(After::Now);
    device.submit(&first).expect("room");
    device.submit(&other).expect("room");
    device.until_launched(2);
    device.emulator.fail_launch(0, Code::LAUNCH_FAILED.0);
    device.emulator.go_on_all();
    let mut failed = 0;
    for _ in 0..2 {
        failed += u32::from(matches!(device.event(), Event::Failed { .. }));
    }
    assert!(failed >= 1);
    device.until_restarted(1);
    assert_eq!(device.answers(0, &MEMBERS), expected[0]);
}

#[test]
fn a_refused_launch_fails_its_action_only() {
    let (mut device, expected) = started(&Config::default(), &cuda(), 1);
    device.emulator.fail_call("cuLaunchKernel", 4, 701);
    fails(&mut device, 0);
    assert_eq!(device.answers(0, &MEMBERS), expected[0]);
    let counts = device.device.counters().read();
    assert_eq!((counts.failed, counts.faults, counts.restarts), (1, 0, 0));
}

#[test]
fn a_restart_that_fails_is_tried_again() {
    let (mut device, expected) = started(&Config::default(), &cuda(), 1);
    device
        .emulator
        .fail_call("cuMemAlloc_v2", 1, Code::OUT_OF_MEMORY.0);
    device.emulator.fail_launch(2, Code::LAUNCH_FAILED.0);
    fails(&mut device, 0);
    device.until_restarted(1);
    assert_eq!(device.answers(0, &MEMBERS), expected[0]);
    assert_eq!(device.device.counters().read().restarts_failed, 1);
}

#[test]
fn a_device_that_cannot_be_restarted_fails_actions_and_ends_when_it_is_dropped() {
    let config = Config {
        reset_recovers: false,
        ..Config::default()
    };
    let (mut device, _) = started(&config, &cuda(), 1);
    device.emulator.fail_launch(2, Code::LAUNCH_FAILED.0);
    fails(&mut device, 0);
    let counters = device.device.counters();
    while counters.read().restarts_failed == 0 {
        std::thread::yield_now();
    }
    fails(&mut device, 0);
    assert_eq!(counters.read().restarts, 0);
}

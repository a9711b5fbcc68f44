//! Faults of the device: failed actions, and a restart and everything as before; or the device is lost, and everything
//! fails at once until the process ends.

use emulated_cuda::{After, Config, HungReset};
use punctual_conformance::networks;
use punctual_core::{ActionId, Answer, Event, ModelId};
use punctual_device::{CacheSpec, Device, DeviceSpec, ModelSpec, Start};
use punctual_device_cuda::driver::Code;
use punctual_device_cuda::{CudaSpec, DeviceError, Loss, Watchdog};

use crate::subject::{ASSERT, BATCHES, Cuda, cuda, partitions};

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
    device.emulator.fail_launch(5, ASSERT.0);
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
    assert_eq!(error.code, ASSERT);
    assert_eq!(device.device.loss_watch().loss(), None);
}

/// A reset would take the context from them, though it would help us.
#[test]
fn where_others_use_the_context_the_first_fault_loses_the_device() {
    let shared = CudaSpec {
        shares_context: true,
        ..cuda()
    };
    let (mut device, _) = started(&Config::default(), &shared, 1);
    device.emulator.fail_launch(5, ASSERT.0);
    fails(&mut device, 0);
    let Loss::Fault(DeviceError::Driver(error)) = device.until_lost() else {
        panic!("another loss");
    };
    assert_eq!(error.code, ASSERT);
    let counts = device.device.counters().read();
    assert_eq!((counts.faults, counts.restarts), (1, 0));
}

#[test]
fn a_hang_is_noticed_evicted_in_vain_and_ended_by_the_restart_where_a_reset_can() {
    let config = Config {
        hung_reset: HungReset::Ends,
        ..Config::default()
    };
    let (mut device, expected) = started(&config, &impatient(), 1);
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
    device.emulator.fail_launch(0, ASSERT.0);
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
    device.emulator.fail_launch(2, ASSERT.0);
    fails(&mut device, 0);
    device.until_restarted(1);
    assert_eq!(device.answers(0, &MEMBERS), expected[0]);
    assert_eq!(device.device.counters().read().restarts_failed, 1);
}

const RESET: &str = "cuDevicePrimaryCtxReset_v2";

#[test]
fn after_an_error_that_asks_for_the_end_of_the_process_no_reset_is_tried() {
    for code in [Code::ILLEGAL_ADDRESS, Code::LAUNCH_FAILED, Code(721)] {
        let (mut device, _) = started(&Config::default(), &cuda(), 2);
        device.emulator.fail_launch(2, code.0);
        fails(&mut device, 0);
        let Loss::Fault(DeviceError::Driver(error)) = device.until_lost() else {
            panic!("{:?}", device.device.loss_watch().loss());
        };
        assert_eq!(error.code, code);
        // The same on every partition, at once and for good.
        for partition in [0, 1, 0] {
            let mut infer = device.action(0, &MEMBERS);
            infer.partition.0 = partition;
            device.submit(&infer).expect("room");
            assert_eq!(device.event(), Event::Failed { action: infer.id });
        }
        assert_eq!(device.emulator.calls(RESET), 0);
        let counts = device.device.counters().read();
        assert_eq!(
            (counts.faults, counts.restarts, counts.restarts_failed),
            (1, 0, 0)
        );
    }
}

#[test]
fn a_device_whose_reset_never_returns_is_lost_and_can_be_dropped() {
    let config = Config {
        hung_reset: HungReset::Blocks,
        ..Config::default()
    };
    let (mut device, _) = started(&config, &impatient(), 1);
    device.emulator.hang_launch(3);
    fails(&mut device, 0);
    // Before anybody knows.
    fails(&mut device, 0);
    assert_eq!(device.until_lost(), Loss::Blocked { limit_ms: 2_000 });
    fails(&mut device, 0);
    assert_eq!(device.emulator.calls(RESET), 1);
    drop(device);
}

#[test]
fn two_restarts_that_fail_lose_the_device() {
    let (mut device, _) = started(&Config::default(), &cuda(), 1);
    for nth in [0, 1] {
        device
            .emulator
            .fail_call("cuMemAlloc_v2", nth, Code::OUT_OF_MEMORY.0);
    }
    device.emulator.fail_launch(2, ASSERT.0);
    fails(&mut device, 0);
    assert_eq!(device.until_lost(), Loss::Restarts { times: 2 });
    fails(&mut device, 0);
    let counts = device.device.counters().read();
    assert_eq!((counts.restarts, counts.restarts_failed), (0, 2));
}

#[test]
fn restarts_after_which_no_stage_is_completed_have_failed() {
    let (mut device, expected) = started(&Config::default(), &cuda(), 1);
    device.emulator.fail_launch(0, ASSERT.0);
    fails(&mut device, 0);
    device.until_restarted(1);
    device.emulator.fail_launch(0, ASSERT.0);
    fails(&mut device, 0);
    device.until_restarted(2);
    // A stage that is completed begins the count anew.
    assert_eq!(device.answers(0, &MEMBERS), expected[0]);
    for restarts in [3, 4] {
        device.emulator.fail_launch(0, ASSERT.0);
        fails(&mut device, 0);
        device.until_restarted(restarts);
    }
    device.emulator.fail_launch(0, ASSERT.0);
    fails(&mut device, 0);
    assert_eq!(device.until_lost(), Loss::Restarts { times: 2 });
}

#[test]
fn a_fault_that_only_a_load_of_weights_meets_loses_the_device_too() {
    let (network, other) = (networks::gathers(6), networks::residual(2));
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
    let mut device = Cuda::on(&Config::default(), &spec, &cuda());
    let copy = "cuMemcpyHtoDAsync_v2";
    device.emulator.fail_call(copy, 0, Code::ILLEGAL_ADDRESS.0);
    let action = ActionId(1);
    device.load(action, ModelId(1)).expect("fits");
    assert_eq!(device.event(), Event::Failed { action });
    let Loss::Fault(DeviceError::Driver(error)) = device.until_lost() else {
        panic!("{:?}", device.device.loss_watch().loss());
    };
    assert_eq!(error.code, Code::ILLEGAL_ADDRESS);
}

#[test]
fn a_device_in_the_middle_of_a_restart_fails_actions_and_ends_when_it_is_dropped() {
    let (mut device, _) = started(&Config::default(), &cuda(), 1);
    device
        .emulator
        .fail_call("cuMemAlloc_v2", 0, Code::OUT_OF_MEMORY.0);
    device.emulator.fail_launch(2, ASSERT.0);
    fails(&mut device, 0);
    let counters = device.device.counters();
    while counters.read().restarts_failed == 0 {
        std::thread::yield_now();
    }
    drop(device);
}

use std::ptr::null_mut;
use std::thread::{Builder, JoinHandle};

use cudarc::driver::sys::{self, CUresult};
use emulated_cuda::{After, Config, HungReset, Outcome};

use crate::gpu::{Gpu, ok, parameters, start};

fn reset() {
    // SAFETY: nothing of the context is used afterwards.
    ok(unsafe { sys::cuDevicePrimaryCtxReset_v2(0) });
}

/// A launch that needs no memory that could be wrong.
fn launch(gpu: &Gpu, stream: sys::CUstream) -> CUresult {
    let (to, from) = (gpu.alloc(4), gpu.numbers(&[1]));
    let reverse = gpu.function("trial_reverse");
    gpu.try_launch(reverse, 1, 1, 4, stream, parameters![to, from])
}

#[test]
fn the_nth_call_fails_and_no_other() {
    let gpu = Gpu::new();
    gpu.emulator.fail_call("cuMemAlloc_v2", 2, 2);
    let mut address = 0;
    let codes: Vec<CUresult> = (0..4)
        // SAFETY: room for an address.
        .map(|_| unsafe { sys::cuMemAlloc_v2(&raw mut address, 16) })
        .collect();
    let mut expected = [CUresult::CUDA_SUCCESS; 4];
    expected[2] = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    assert_eq!(codes, expected);
    assert_eq!(gpu.emulator.memory().device.allocations, 3);
}

/// A launch that fails with `code`, and everything that is asked afterwards.
fn broken_by(code: u32) -> (Gpu, sys::CUstream) {
    let gpu = Gpu::new();
    gpu.emulator.fail_launch(1, code);
    let stream = gpu.stream();
    ok(launch(&gpu, stream));
    gpu.wait(stream);
    ok(launch(&gpu, stream));
    let mut address = 0;
    // SAFETY: a stream of this context, room for an address.
    let codes = unsafe {
        [
            sys::cuStreamSynchronize(stream),
            sys::cuMemAlloc_v2(&raw mut address, 16),
            sys::cuCtxSynchronize(),
        ]
    };
    assert_eq!(codes.map(|found| found as u32), [code; 3]);
    assert_eq!(gpu.emulator.launches()[1].outcome, Outcome::Failed);
    (gpu, stream)
}

#[test]
fn after_an_assertion_everything_fails_until_the_context_is_reset() {
    let (gpu, _) = broken_by(710);
    reset();
    assert_eq!(gpu.emulator.broken(), None);
    assert_eq!(gpu.emulator.memory().device.allocations, 0, "all is gone");
    let stream = gpu.stream();
    ok(launch(&gpu, stream));
    gpu.wait(stream);
}

#[test]
fn after_errors_that_ask_for_the_end_of_the_process_no_reset_helps() {
    let (mut context, mut version) = (null_mut(), 0);
    for code in [
        214, 220, 226, 700, 702, 714, 715, 716, 717, 718, 719, 721, 810, 911,
    ] {
        let (gpu, stream) = broken_by(code);
        // SAFETY: handles of this driver, room for the results.
        let codes = unsafe {
            [
                sys::cuDevicePrimaryCtxReset_v2(0),
                sys::cuDevicePrimaryCtxRelease_v2(0),
                sys::cuDevicePrimaryCtxRetain(&raw mut context, 0),
                sys::cuStreamDestroy_v2(stream),
                sys::cuInit(0),
                sys::cuCtxSynchronize(),
            ]
        };
        assert_eq!(codes.map(|found| found as u32), [code; 6]);
        // SAFETY: room for the result.
        ok(unsafe { sys::cuDriverGetVersion(&raw mut version) });
        drop(gpu);
    }
    // Another process.
    let gpu = Gpu::new();
    ok(launch(&gpu, gpu.stream()));
}

#[test]
fn a_launch_hangs_until_it_is_released() {
    let gpu = Gpu::new();
    gpu.emulator.hang_launch(0);
    let (hanging, other) = (gpu.stream(), gpu.stream());
    ok(launch(&gpu, hanging));
    ok(launch(&gpu, other));
    gpu.wait(other);
    // SAFETY: a stream of this context.
    let state = unsafe { sys::cuStreamQuery(hanging) };
    assert_eq!(state, CUresult::CUDA_ERROR_NOT_READY);
    gpu.emulator.release_hangs();
    gpu.wait(hanging);
    assert_eq!(gpu.emulator.launches()[0].outcome, Outcome::Done);
}

/// A thread that resets the context while a launch hangs, and whether it is over.
fn reset_while_hung(how: HungReset) -> (Gpu, JoinHandle<u32>) {
    let gpu = start(&Config {
        hung_reset: how,
        ..Config::default()
    });
    gpu.emulator.hang_launch(0);
    ok(launch(&gpu, gpu.stream()));
    while gpu.emulator.launches()[0].outcome != Outcome::Running {
        std::thread::yield_now();
    }
    // SAFETY: nothing of the context is used afterwards.
    let resetting = || unsafe { sys::cuDevicePrimaryCtxReset_v2(0) as u32 };
    let resetting = Builder::new().spawn(resetting).expect("a thread");
    while !gpu.emulator.reset_waits() {
        std::thread::yield_now();
    }
    (gpu, resetting)
}

#[test]
fn a_reset_waits_for_a_launch_that_hangs_until_it_is_released() {
    let (gpu, resetting) = reset_while_hung(HungReset::Waits);
    // Other calls are answered meanwhile.
    let stream = gpu.stream();
    // SAFETY: a stream of this context.
    ok(unsafe { sys::cuStreamQuery(stream) });
    assert_eq!(gpu.emulator.launches()[0].outcome, Outcome::Running);
    gpu.emulator.release_hangs();
    assert_eq!(resetting.join().expect("no panic"), 0);
    assert_eq!(gpu.emulator.streams(), []);
}

#[test]
fn a_reset_that_blocks_for_good_ends_with_the_machine() {
    let (gpu, resetting) = reset_while_hung(HungReset::Blocks);
    gpu.emulator.release_hangs();
    while gpu.emulator.launches()[0].outcome != Outcome::Done {
        std::thread::yield_now();
    }
    let stream = gpu.stream();
    ok(launch(&gpu, stream));
    gpu.wait(stream);
    assert!(!resetting.is_finished());
    drop(gpu);
    let destroyed = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED as u32;
    assert_eq!(resetting.join().expect("no panic"), destroyed);
}

#[test]
fn streams_of_one_hardware_queue_wait_for_each_other_and_others_do_not() {
    let gpu = start(&Config {
        connections: Some(2),
        ..Config::default()
    });
    gpu.emulator.hang_launch(0);
    let streams: Vec<_> = (0..3).map(|_| gpu.stream()).collect();
    let [hanging, apart, behind] = streams[..] else {
        unreachable!("three streams");
    };
    ok(launch(&gpu, hanging));
    // It has left the queue: what runs keeps nothing back.
    ok(launch(&gpu, behind));
    gpu.wait(behind);
    // The next of its stream cannot begin, and everything behind it waits.
    ok(launch(&gpu, hanging));
    ok(launch(&gpu, behind));
    ok(launch(&gpu, apart));
    gpu.wait(apart);
    let outcomes: Vec<_> = gpu.emulator.launches().iter().map(|l| l.outcome).collect();
    use Outcome::{Done, Running, Waiting};
    assert_eq!(outcomes, [Running, Done, Waiting, Waiting, Done]);
    gpu.emulator.release_hangs();
    for stream in [hanging, behind] {
        gpu.wait(stream);
    }
    assert!(gpu.emulator.launches().iter().all(|l| l.outcome == Done));
}

#[test]
fn a_kernel_that_is_loaded_lazily_waits_for_the_whole_context() {
    for lazy in [true, false] {
        let gpu = start(&Config {
            lazy: Some(lazy),
            ..Config::default()
        });
        let (known, stream) = (gpu.function("trial_reverse"), gpu.stream());
        let (to, from) = (gpu.alloc(4), gpu.numbers(&[1]));
        gpu.emulator.hold(stream as u64, After::Now);
        ok(gpu.try_launch(known, 1, 1, 4, stream, parameters![to, from]));
        let mut context = null_mut();
        // SAFETY: room for a handle.
        ok(unsafe { sys::cuCtxGetCurrent(&raw mut context) });
        let context = context as usize;
        std::thread::scope(|scope| {
            let asked = gpu.emulator.calls("cuModuleGetFunction");
            let gpu = &gpu;
            let loading = scope.spawn(move || {
                // SAFETY: a context of this driver.
                ok(unsafe { sys::cuCtxSetCurrent(context as _) });
                gpu.function("trial_where");
                gpu.emulator.launches()[0].outcome
            });
            while gpu.emulator.calls("cuModuleGetFunction") == asked {
                std::thread::yield_now();
            }
            if lazy {
                gpu.emulator.go_on(stream as u64);
            }
            let found = loading.join().expect("no panic");
            let expected = if lazy {
                Outcome::Done
            } else {
                Outcome::Waiting
            };
            assert_eq!(found, expected);
        });
    }
}

#[test]
fn a_reset_may_end_what_hangs_and_ends_what_waits_and_what_is_held() {
    let gpu = start(&Config {
        hung_reset: HungReset::Ends,
        ..Config::default()
    });
    gpu.emulator.hang_launch(0);
    let (hanging, held, running) = (gpu.stream(), gpu.stream(), gpu.stream());
    gpu.emulator.hold(held as u64, After::Now);
    ok(launch(&gpu, hanging));
    ok(launch(&gpu, hanging));
    ok(launch(&gpu, held));
    // Runs for ever, looking at its guard.
    let (stop, steps) = (gpu.numbers(&[0]), gpu.numbers(&[0]));
    let hold = gpu.function("trial_hold");
    ok(gpu.try_launch(hold, 1, 1, 0, running, parameters![stop, steps, u32::MAX]));
    reset();
    let outcomes: Vec<_> = gpu.emulator.launches().iter().map(|l| l.outcome).collect();
    assert_eq!(outcomes, [Outcome::Dropped; 4]);
    assert_eq!(gpu.emulator.streams(), []);
    // SAFETY: the handle is only asked about.
    let gone = unsafe { sys::cuStreamQuery(hanging) };
    assert_eq!(gone, CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn a_kernel_that_goes_wrong_says_where() {
    let gpu = Gpu::new();
    let illegal = gpu.function("trial_illegal");
    let stream = gpu.stream();
    let past_the_end = gpu.alloc(256) + 256;
    ok(gpu.try_launch(illegal, 3, 64, 0, stream, parameters![past_the_end]));
    // SAFETY: a stream of this context.
    let code = unsafe { sys::cuStreamSynchronize(stream) };
    assert_eq!(code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    let said = gpu.emulator.complaint();
    assert!(
        said.contains("trial_illegal, block (2, 0, 0), thread (63, 0, 0)"),
        "{said}"
    );
    drop(gpu);
    let gpu = Gpu::new();
    let disagree = gpu.function("trial_disagree");
    let stream = gpu.stream();
    ok(gpu.try_launch(disagree, 1, 64, 0, stream, parameters![]));
    // SAFETY: a stream of this context.
    let code = unsafe { sys::cuStreamSynchronize(stream) };
    assert_eq!(code, CUresult::CUDA_ERROR_LAUNCH_FAILED);
    assert!(gpu.emulator.complaint().contains("have ended"));
}

#[test]
fn faults_can_be_part_of_the_machine() {
    let config: Config = "fail=cuMemAlloc_v2:0:2 fail-launch=0:719 hang-launch=5"
        .parse()
        .expect("a configuration");
    let gpu = start(&config);
    let mut address = 0;
    // SAFETY: room for an address.
    let code = unsafe { sys::cuMemAlloc_v2(&raw mut address, 4) };
    assert_eq!(code, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let stream = gpu.stream();
    ok(launch(&gpu, stream));
    // SAFETY: a stream of this context.
    let code = unsafe { sys::cuStreamSynchronize(stream) };
    assert_eq!(code, CUresult::CUDA_ERROR_LAUNCH_FAILED);
}

#[test]
fn a_wait_ends_when_another_thread_resets_the_context() {
    let gpu = start(&Config {
        hung_reset: HungReset::Ends,
        ..Config::default()
    });
    gpu.emulator.hang_launch(0);
    let stream = gpu.stream();
    ok(launch(&gpu, stream));
    let mut context = null_mut();
    // SAFETY: room for a handle.
    ok(unsafe { sys::cuCtxGetCurrent(&raw mut context) });
    let (context, waited) = (context as usize, stream as usize);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            // SAFETY: handles of this driver.
            unsafe {
                ok(sys::cuCtxSetCurrent(context as _));
                sys::cuStreamSynchronize(waited as _)
            }
        });
        while gpu.emulator.calls("cuStreamSynchronize") == 0 {
            std::thread::yield_now();
        }
        reset();
        let code = waiting.join().expect("no panic");
        // It may have come too late to find the stream.
        let ended = [
            CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
            CUresult::CUDA_ERROR_INVALID_HANDLE,
        ];
        assert!(ended.contains(&code), "{code:?}");
    });
}

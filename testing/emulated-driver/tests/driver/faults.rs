use std::ptr::null_mut;

use cudarc::driver::sys::{self, CUresult};
use emulated_cuda::{After, Config, Outcome};

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

#[test]
fn a_launch_that_fails_breaks_everything_until_the_context_is_reset() {
    let gpu = Gpu::new();
    gpu.emulator.fail_launch(1, 719);
    let stream = gpu.stream();
    ok(launch(&gpu, stream));
    gpu.wait(stream);
    ok(launch(&gpu, stream));
    let broken = CUresult::CUDA_ERROR_LAUNCH_FAILED;
    let mut address = 0;
    // SAFETY: a stream of this context, room for an address.
    unsafe {
        assert_eq!(sys::cuStreamSynchronize(stream), broken);
        assert_eq!(sys::cuMemAlloc_v2(&raw mut address, 16), broken);
        assert_eq!(sys::cuCtxSynchronize(), broken);
    }
    let launches = gpu.emulator.launches();
    assert_eq!(launches[1].outcome, Outcome::Failed);
    reset();
    assert_eq!(gpu.emulator.broken(), None);
    assert_eq!(gpu.emulator.memory().device.allocations, 0, "all is gone");
    let stream = gpu.stream();
    ok(launch(&gpu, stream));
    gpu.wait(stream);
}

#[test]
fn some_gpus_do_not_recover() {
    let gpu = start(&Config {
        reset_recovers: false,
        ..Config::default()
    });
    gpu.emulator.fail_launch(0, 700);
    let stream = gpu.stream();
    ok(launch(&gpu, stream));
    let broken = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    // SAFETY: a stream of this context.
    assert_eq!(unsafe { sys::cuStreamSynchronize(stream) }, broken);
    reset();
    // SAFETY: no pointers.
    assert_eq!(unsafe { sys::cuCtxSynchronize() }, broken);
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

#[test]
fn a_reset_ends_what_hangs_what_waits_and_what_is_held() {
    let gpu = Gpu::new();
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
    reset();
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
    let gpu = Gpu::new();
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

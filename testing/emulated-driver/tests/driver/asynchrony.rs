use std::ptr::null_mut;

use cudarc::driver::sys::{self, CUevent, CUresult, CUstream};
use emulated_cuda::{After, Config, Outcome};

use crate::gpu::{Gpu, NON_BLOCKING, ok, parameters, start};

fn event() -> CUevent {
    let mut event = null_mut();
    // SAFETY: room for a handle.
    ok(unsafe { sys::cuEventCreate(&raw mut event, 0) });
    event
}

fn query(stream: CUstream) -> CUresult {
    // SAFETY: a stream of this context.
    unsafe { sys::cuStreamQuery(stream) }
}

/// A stream that counts how many blocks of `trial_where` have run.
struct Counter {
    stream: CUstream,
    count: sys::CUdeviceptr,
    function: sys::CUfunction,
    places: sys::CUdeviceptr,
}

impl Counter {
    fn new(gpu: &Gpu) -> Self {
        Self {
            stream: gpu.stream(),
            count: gpu.numbers(&[0]),
            function: gpu.function("trial_where"),
            places: gpu.alloc(4096),
        }
    }

    fn launch(&self, gpu: &Gpu, blocks: u32) {
        ok(gpu.try_launch(
            self.function,
            blocks,
            1,
            0,
            self.stream,
            parameters![self.places, self.count],
        ));
    }

    /// Read where it lies: asking the driver for a copy would be a command more.
    fn now(&self) -> u32 {
        // SAFETY: device memory is memory of this process, and this word is written atomically.
        unsafe { std::sync::atomic::AtomicU32::from_ptr(self.count as *mut u32) }
            .load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
fn a_launch_returns_before_it_runs() {
    let gpu = Gpu::new();
    let counter = Counter::new(&gpu);
    gpu.emulator.hold(counter.stream as u64, After::Now);
    counter.launch(&gpu, 4);
    assert_eq!(query(counter.stream), CUresult::CUDA_ERROR_NOT_READY);
    assert_eq!(gpu.emulator.launches()[0].outcome, Outcome::Waiting);
    assert_eq!(counter.now(), 0);
    gpu.emulator.go_on(counter.stream as u64);
    gpu.wait(counter.stream);
    ok(query(counter.stream));
    assert_eq!(counter.now(), 4);
}

#[test]
fn a_stream_stops_exactly_where_a_test_says() {
    let gpu = Gpu::new();
    let counter = Counter::new(&gpu);
    let stream = counter.stream as u64;
    gpu.emulator.hold(stream, After::Blocks(6));
    for _ in 0..3 {
        counter.launch(&gpu, 4);
    }
    gpu.emulator.wait_until_held(stream);
    assert_eq!(counter.now(), 6);
    let outcomes: Vec<_> = gpu
        .emulator
        .launches()
        .iter()
        .map(|launch| (launch.outcome, launch.blocks_run))
        .collect();
    assert_eq!(
        outcomes,
        [
            (Outcome::Done, 4),
            (Outcome::Running, 2),
            (Outcome::Waiting, 0)
        ]
    );

    // One checkpoint a block: the next block's is passed, that of the one after is not.
    gpu.emulator.hold(stream, After::Checkpoints(1));
    gpu.emulator.wait_until_held(stream);
    assert_eq!(counter.now(), 7);

    gpu.emulator.hold(stream, After::Commands(0));
    gpu.emulator.wait_until_held(stream);
    assert_eq!(counter.now(), 8, "the launch that runs is finished");

    gpu.emulator.go_on(stream);
    gpu.wait(counter.stream);
    assert_eq!(counter.now(), 12);
}

#[test]
fn streams_that_are_let_go_one_after_the_other_begin_in_that_order() {
    let gpu = Gpu::new();
    let counters = [(); 3].map(|()| Counter::new(&gpu));
    gpu.emulator.hold_all(After::Now);
    for counter in &counters {
        counter.launch(&gpu, 1);
    }
    for counter in counters.iter().rev() {
        gpu.emulator.go_on(counter.stream as u64);
        gpu.wait(counter.stream);
    }
    let launches = gpu.emulator.launches();
    let order: Vec<_> = launches.iter().map(|launch| launch.began).collect();
    assert_eq!(order, [Some(2), Some(1), Some(0)]);
}

#[test]
fn a_hold_of_all_counts_for_streams_that_are_made_later() {
    let gpu = Gpu::new();
    let count = gpu.numbers(&[0]);
    gpu.emulator.hold_all(After::Now);
    let counter = Counter {
        count,
        stream: gpu.stream(),
        function: gpu.function("trial_where"),
        places: count,
    };
    counter.launch(&gpu, 1);
    gpu.emulator.wait_until_held(counter.stream as u64);
    assert_eq!(counter.now(), 0);
    let state = gpu.emulator.streams().pop().expect("a stream");
    assert!(state.held && !state.idle && state.stream == counter.stream as u64);
    gpu.emulator.go_on_all();
    gpu.wait(counter.stream);
}

#[test]
fn a_full_queue_blocks_the_launch_until_there_is_room() {
    let gpu = start(&Config {
        queue: 2,
        ..Config::default()
    });
    let counter = Counter::new(&gpu);
    let stream = counter.stream as u64;
    gpu.emulator.hold(stream, After::Now);
    counter.launch(&gpu, 1);
    counter.launch(&gpu, 1);
    let mut context = null_mut();
    // SAFETY: room for a handle.
    ok(unsafe { sys::cuCtxGetCurrent(&raw mut context) });
    let (context, third) = (
        context as usize,
        (counter.function as usize, counter.stream as usize),
    );
    let (places, count) = (counter.places, counter.count);
    std::thread::scope(|scope| {
        let launches = &gpu;
        let blocked = scope.spawn(move || {
            // SAFETY: the context is there as long as the test.
            ok(unsafe { sys::cuCtxSetCurrent(context as _) });
            let (function, stream) = (third.0 as _, third.1 as _);
            launches.try_launch(function, 1, 1, 0, stream, parameters![places, count])
        });
        // Its call is counted when it begins; it cannot be submitted.
        while launches.emulator.calls("cuLaunchKernel") < 3 {
            std::thread::yield_now();
        }
        assert_eq!(gpu.emulator.launches().len(), 2);
        gpu.emulator.go_on(stream);
        ok(blocked.join().expect("no panic"));
    });
    gpu.wait(counter.stream);
    assert_eq!(counter.now(), 3);
}

#[test]
fn an_event_is_reached_in_its_stream_s_order_and_lets_others_wait() {
    let gpu = Gpu::new();
    let (first, second) = (Counter::new(&gpu), Counter::new(&gpu));
    let between = event();
    // SAFETY: handles of this context.
    unsafe {
        ok(sys::cuEventQuery(between));
        gpu.emulator.hold(first.stream as u64, After::Now);
        first.launch(&gpu, 2);
        ok(sys::cuEventRecord(between, first.stream));
        ok(sys::cuStreamWaitEvent(second.stream, between, 0));
        second.launch(&gpu, 3);
        assert_eq!(sys::cuEventQuery(between), CUresult::CUDA_ERROR_NOT_READY);
        assert_eq!(query(second.stream), CUresult::CUDA_ERROR_NOT_READY);
        gpu.emulator.go_on(first.stream as u64);
        ok(sys::cuEventSynchronize(between));
        assert_eq!(first.now(), 2);
        gpu.wait(second.stream);
        assert_eq!(second.now(), 3);
        let (mut took, after) = (-1.0, event());
        ok(sys::cuEventRecord(after, second.stream));
        ok(sys::cuEventSynchronize(after));
        ok(sys::cuEventElapsedTime(&raw mut took, between, after));
        assert!(took >= 0.0);
        ok(sys::cuEventDestroy_v2(between));
        assert_eq!(
            sys::cuEventQuery(between),
            CUresult::CUDA_ERROR_INVALID_HANDLE
        );
    }
}

#[test]
fn the_default_stream_keeps_order_with_blocking_streams_only() {
    let gpu = Gpu::new();
    let mut blocking = Counter::new(&gpu);
    blocking.stream = gpu.stream_of(0, 0);
    let apart = Counter::new(&gpu);
    let word = gpu.numbers(&[0]);
    gpu.emulator.hold(blocking.stream as u64, After::Now);
    gpu.emulator.hold(apart.stream as u64, After::Now);
    blocking.launch(&gpu, 1);
    apart.launch(&gpu, 1);
    // SAFETY: a word of device memory.
    ok(unsafe { sys::cuMemsetD32Async(word, 5, 1, null_mut()) });
    assert_eq!(query(null_mut()), CUresult::CUDA_ERROR_NOT_READY);
    gpu.emulator.go_on(blocking.stream as u64);
    gpu.wait(null_mut());
    assert_eq!((blocking.now(), apart.now()), (1, 0));
    gpu.emulator.go_on(apart.stream as u64);
    gpu.wait(apart.stream);
}

#[test]
fn a_destroyed_stream_finishes_its_work_first() {
    let gpu = Gpu::new();
    let counter = Counter::new(&gpu);
    gpu.emulator.hold(counter.stream as u64, After::Now);
    counter.launch(&gpu, 5);
    // SAFETY: a stream of this context.
    unsafe {
        ok(sys::cuStreamDestroy_v2(counter.stream));
        assert_eq!(query(counter.stream), CUresult::CUDA_ERROR_INVALID_HANDLE);
        ok(sys::cuCtxSynchronize());
    }
    assert_eq!(counter.now(), 5);
}

#[test]
fn priorities_are_kept_within_their_range() {
    let gpu = Gpu::new();
    let (mut least, mut greatest, mut given) = (9, 9, 9);
    // SAFETY: room for the results.
    unsafe {
        ok(sys::cuCtxGetStreamPriorityRange(
            &raw mut least,
            &raw mut greatest,
        ));
        assert!(greatest < least);
        let stream = gpu.stream_of(NON_BLOCKING, greatest - 10);
        ok(sys::cuStreamGetPriority(stream, &raw mut given));
    }
    assert_eq!(given, greatest);
}

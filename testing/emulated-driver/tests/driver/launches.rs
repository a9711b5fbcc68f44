use emulated_cuda::{Config, Outcome};

use crate::gpu::{Gpu, ok, parameters, start};

#[test]
fn a_kernel_of_a_module_runs_on_device_memory() {
    let gpu = Gpu::new();
    let input: Vec<u32> = (0..1000u16).map(|n| f32::from(n).to_bits()).collect();
    let (from, to) = (gpu.numbers(&input), gpu.alloc(4000));
    let scale = gpu.function("trial_scale");
    let stream = gpu.stream();
    ok(gpu.try_launch(
        scale,
        8,
        128,
        0,
        stream,
        parameters![to, from, 0.5f32, 1000u32],
    ));
    gpu.wait(stream);
    let expected: Vec<u32> = (0..1000u16)
        .map(|n| (f32::from(n) * 0.5).to_bits())
        .collect();
    assert_eq!(gpu.download(to, 1000), expected);

    let launches = gpu.emulator.launches();
    assert_eq!(launches.len(), 1);
    let launch = &launches[0];
    assert_eq!(
        (launch.kernel.as_str(), launch.outcome),
        ("trial_scale", Outcome::Done)
    );
    assert_eq!((launch.grid, launch.block), ([8, 1, 1], [128, 1, 1]));
    assert_eq!((launch.blocks_run, launch.stream), (8, stream as u64));
}

#[test]
fn parameters_are_copied_when_the_kernel_is_launched() {
    let gpu = Gpu::new();
    let (from, to) = (gpu.numbers(&[1f32.to_bits()]), gpu.alloc(4));
    let scale = gpu.function("trial_scale");
    let stream = gpu.stream();
    gpu.emulator.hold(stream as u64, emulated_cuda::After::Now);
    let mut factor = 2.0f32;
    ok(gpu.try_launch(scale, 1, 1, 0, stream, parameters![to, from, factor, 1u32]));
    factor *= 50.0;
    gpu.emulator.go_on(stream as u64);
    gpu.wait(stream);
    assert_eq!(gpu.download(to, 1), [2f32.to_bits()], "not {factor}");
}

#[test]
fn launches_of_a_stream_run_in_order() {
    let gpu = Gpu::new();
    let numbers: Vec<u32> = (0..256).collect();
    let (mut at, mut other) = (gpu.numbers(&numbers), gpu.alloc(1024));
    let reverse = gpu.function("trial_reverse");
    let stream = gpu.stream();
    for _ in 0..101 {
        let both = parameters![other, at];
        ok(gpu.try_launch(reverse, 1, 256, 1024, stream, both));
        (at, other) = (other, at);
    }
    gpu.wait(stream);
    let expected: Vec<u32> = numbers.into_iter().rev().collect();
    assert_eq!(gpu.download(at, 256), expected);
}

#[test]
fn what_a_device_cannot_launch_is_refused_and_breaks_nothing() {
    let gpu = Gpu::new();
    let (at, to) = (gpu.numbers(&[7; 32]), gpu.alloc(128));
    let reverse = gpu.function("trial_reverse");
    let stream = gpu.stream();
    let code = |blocks, threads, shared| {
        gpu.try_launch(
            reverse,
            blocks,
            threads,
            shared,
            stream,
            parameters![to, at],
        ) as u32
    };
    assert_eq!(code(0, 32, 0), 1, "no blocks");
    assert_eq!(code(1, 0, 0), 1, "no threads");
    assert_eq!(code(1, 1025, 0), 1, "too many threads");
    assert_eq!(
        code(1, 32, (48 << 10) + 1),
        1,
        "shared memory that was not asked for"
    );
    assert_eq!(code(1, 32, 48 << 10), 0);
    gpu.wait(stream);
    assert_eq!(gpu.emulator.launches().len(), 1);
}

#[test]
fn blocks_go_round_the_multiprocessors() {
    let gpu = start(&Config {
        tpcs: 3,
        ..Config::default()
    });
    let (sms, count) = (gpu.alloc(32), gpu.numbers(&[0]));
    let whereabouts = gpu.function("trial_where");
    let stream = gpu.stream();
    ok(gpu.try_launch(whereabouts, 8, 32, 0, stream, parameters![sms, count]));
    gpu.wait(stream);
    assert_eq!(gpu.download(sms, 8), [0, 1, 2, 3, 4, 5, 0, 1]);
    assert_eq!(gpu.download(count, 1), [8]);
    assert_eq!(gpu.emulator.launches()[0].sms, [0, 1, 2, 3, 4, 5]);
}

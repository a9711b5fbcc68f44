use punctual_device_cuda::PAGE_BYTES;
use punctual_device_cuda::lower::{Program, Target};

use super::*;
use crate::structures::Structure;

/// Round figures, so that examples can be computed by hand: a clock is a nanosecond.
fn device() -> Device {
    Device {
        name: "round figures".into(),
        compute_capability: (8, 7),
        multiprocessors: 16,
        tpcs: 8,
        integrated: true,
        clock_mhz: 1000.0,
        resident: Multiprocessor {
            threads: 1536,
            blocks: 16,
            registers: 65536,
            shared_bytes: 164 << 10,
            reserved_bytes: 1 << 10,
        },
        per_clock: PerClock {
            instructions: 4.0,
            tensor_products: 1024.0,
            float_products: 128.0,
            shared_bytes: 128.0,
            loaded_bytes: 64.0,
        },
        memory: Memory {
            gb_s: 200.0,
            share_reached: 0.5,
            host_gb_s: 100.0,
            cache_bytes: 4 << 20,
        },
        times: Times {
            memory: 600.0,
            cache: 200.0,
            look: 1000.0,
            hand_over: 1500.0,
            gap: 1000.0,
            stage: 10_000.0,
        },
    }
}

/// Only its resources count: nothing waits, nothing is looked at, nothing is between launches.
fn without_latency() -> Device {
    let times = Times {
        memory: 0.0,
        cache: 0.0,
        look: 0.0,
        hand_over: 0.0,
        gap: 0.0,
        stage: 0.0,
    };
    Device { times, ..device() }
}

const ALL: Partition = Partition {
    multiprocessors: 16,
    check_stride: 1,
};

fn lists(structure: Structure, batch: u8, multiprocessors: u32) -> Vec<LaunchList> {
    let target = Target {
        multiprocessors,
        compute_capability: (8, 7),
        page_bytes: PAGE_BYTES,
    };
    let program = Program::lower(&structure.outline(224), &[batch], &target, &[]);
    let stages = program.expect("it lowers").stages.into_iter();
    stages.flat_map(|stage| stage.lists.into_vec()).collect()
}

/// A block of `count` products of tensor cores, and of nothing else.
fn products(count: f64) -> Work {
    Work {
        products: count,
        on_tensor_cores: true,
        warps: 4.0,
        rounds: 1.0,
        ..Work::default()
    }
}

fn spread(blocks: u32) -> Spread {
    Spread {
        blocks,
        resident: 3,
        multiprocessors: 16,
    }
}

#[test]
fn blocks_that_only_multiply_take_their_products_over_the_rate() {
    // 1,024,000 products a block, 1024 a nanosecond, three blocks on each multiprocessor.
    let (ns, limit) =
        without_latency().time(&products(1_024_000.0), Moved::default(), spread(48), 1);
    assert_eq!((ns, limit), (3000.0, Limit::TensorCores));
    let lower = without_latency().products_ns(&products(1_024_000.0), spread(48));
    assert_eq!(lower, 3000.0);
}

#[test]
fn waves_are_rounded_up_and_one_block_more_begins_another() {
    let waves = |blocks| spread(blocks).waves();
    assert_eq!([1, 48, 49, 96, 97].map(waves), [1, 1, 2, 2, 3]);
    let time = |blocks| {
        let device = without_latency();
        device
            .time(&products(1_024_000.0), Moved::default(), spread(blocks), 1)
            .0
    };
    assert_eq!(time(48), 3000.0);
    // It runs alone: its round's barrier is hidden by nothing.
    assert_eq!(time(49), 4100.0);
    assert_eq!(time(64), 4100.0);
}

#[test]
fn a_launch_that_only_moves_takes_its_bytes_over_the_bandwidth_that_is_reached() {
    let moved = Moved {
        memory: 1_000_000,
        ..Moved::default()
    };
    let (ns, limit) = without_latency().time(&products(0.0), moved, spread(16), 1);
    assert_eq!((ns, limit), (10_000.0, Limit::Memory));
    let host = Moved {
        host: 1_000_000,
        ..Moved::default()
    };
    let (ns, limit) = without_latency().time(&products(0.0), host, spread(16), 1);
    assert_eq!((ns, limit), (10_000.0, Limit::Host));
}

#[test]
fn a_small_launch_takes_as_long_as_the_host_needs_for_it() {
    let mut device = without_latency();
    device.times.hand_over = 5000.0;
    let (ns, limit) = device.time(&products(1024.0), Moved::default(), spread(1), 1);
    assert_eq!((ns, limit), (5000.0, Limit::HandOver));
}

#[test]
fn looks_in_every_round_cost_what_the_round_does_not_hide() {
    let mut device = without_latency();
    device.times.look = 1000.0;
    let work = Work {
        rounds: 9.0,
        rounds_a_look: 1.0,
        // 300 clocks a round, in addition to 100 of its barrier.
        ..products(9.0 * 300.0 * 1024.0)
    };
    let time = |stride| device.time(&work, Moved::default(), spread(1), stride);
    // The first look, nine rounds, and eight looks that are 600 longer than their rounds.
    assert_eq!(time(1), (1000.0 + 9.0 * 400.0 + 8.0 * 600.0, Limit::Looks));
    assert_eq!(time(8).0, 1000.0 + 9.0 * 400.0 + 600.0);
    assert_eq!(time(0).0, 1000.0 + 9.0 * 400.0);
}

#[test]
fn more_multiprocessors_are_never_slower_for_the_same_launches() {
    for structure in [Structure::ResNet50, Structure::MobileNetV2] {
        for list in lists(structure, 8, 16) {
            let mut before = f64::INFINITY;
            for multiprocessors in 1..40 {
                let partition = Partition {
                    multiprocessors,
                    ..ALL
                };
                let ns = device().stage(&list, partition).expect("a time").ns;
                assert!(ns <= before, "{ns} after {before} on {multiprocessors}");
                before = ns;
            }
        }
    }
}

#[test]
fn fewer_bytes_and_better_figures_are_never_slower() {
    let lists = lists(Structure::ResNet50, 1, 16);
    let time = |device: &Device| {
        let times = lists.iter().map(|list| device.stage(list, ALL));
        times.map(|time| time.expect("a time").ns).sum::<f64>()
    };
    let usual = time(&device());
    let better = |change: fn(&mut Device)| {
        let mut device = device();
        change(&mut device);
        assert!(time(&device) <= usual);
    };
    better(|device| device.memory.gb_s *= 2.0);
    better(|device| device.memory.cache_bytes *= 4);
    better(|device| device.per_clock.tensor_products *= 2.0);
    better(|device| device.per_clock.instructions *= 2.0);
    better(|device| device.times.look /= 2.0);
    better(|device| device.times.memory /= 2.0);
    better(|device| device.clock_mhz *= 2.0);
    let moved = |memory| Moved {
        memory,
        ..Moved::default()
    };
    let of = |memory| {
        device()
            .time(&products(1e6), moved(memory), spread(20), 1)
            .0
    };
    let mut before = 0.0;
    for bytes in (0..10_000_000).step_by(10_000) {
        assert!(of(bytes) >= before);
        before = of(bytes);
    }
}

#[test]
fn no_launch_is_faster_than_its_bytes_or_its_products_allow() {
    for batch in [1, 8] {
        for structure in Structure::ALL {
            for list in lists(structure, batch, 16) {
                let time = device().stage(&list, ALL).expect("a time");
                assert!(time.ns > time.at_least_ns);
                let launches: f64 = time.launches.iter().map(|launch| launch.at_least_ns).sum();
                assert!(time.at_least_ns <= launches, "it assumes less of the cache");
                for launch in time.launches {
                    assert!(launch.ns >= launch.at_least_ns, "{launch:?}");
                    assert!(launch.resident > 0 && launch.waves > 0, "{launch:?}");
                }
            }
        }
    }
}

#[test]
fn products_are_those_of_the_network_and_padding() {
    // ResNet-50 has 4.1 * 10^9 products for an image of 224 x 224; its early exits have few more.
    let lists = lists(Structure::ResNet50, 8, 16);
    let launches = lists
        .iter()
        .map(|list| device().stage(list, ALL).expect("a time").launches);
    let products: f64 = launches.flatten().map(|launch| launch.products).sum();
    let of_image = products / 8.0 / 1e9;
    assert!((4.1..5.5).contains(&of_image), "{of_image}");
}

#[test]
fn weights_are_counted_once_each_and_come_from_memory_if_the_cache_is_small() {
    let lists = lists(Structure::ResNet50, 1, 16);
    let of = |capacity| {
        let moved = lists.iter().flat_map(|list| bytes::moved(list, capacity));
        moved.fold((0, 0), |sum, moved| {
            (sum.0 + moved.memory, sum.1 + moved.cached)
        })
    };
    let (memory, cached) = of(0);
    // 58 MiB of weights; some 11 million activations are written once, and read once or twice; what stages carry is
    // copied.
    assert!((58 << 20..150 << 20).contains(&memory), "{memory}");
    assert_eq!(cached, 0);
    let (memory, cached) = of(u64::MAX);
    assert_eq!(memory, 0, "all of it stays there from run to run");
    assert!(cached > 58 << 20);
}

#[test]
fn a_partition_of_nothing_has_no_time_and_code_of_the_driver_s_compiler_no_registers() {
    let list = &lists(Structure::MobileNetV2, 1, 16)[0];
    let nothing = Partition {
        multiprocessors: 0,
        ..ALL
    };
    let refused = device().stage(list, nothing);
    assert!(matches!(refused, Err(RooflineError::NoMultiprocessors)));
    let newer = Device {
        compute_capability: (13, 0),
        ..device()
    };
    let refused = newer.stage(list, ALL).expect_err("it is not compiled");
    assert!(refused.to_string().contains("13.0"), "{refused}");
}

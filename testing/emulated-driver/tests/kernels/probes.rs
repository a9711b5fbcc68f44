//! Measurements of the device.
use crate::buffer::Buffer;
use crate::launch::{INDEX, Queue};
use punctual_cuda_kernels::Arguments;
use punctual_cuda_kernels::params::{Hold, Whereabouts};

#[test]
fn blocks_say_where_they_are() {
    let mut places = Buffer::of_bytes(5 * 4);
    let arguments = Arguments::Whereabouts(Whereabouts {
        multiprocessors: places.address(),
        stay_ns: 10,
        gap: 0,
    });
    Queue::new()
        .launch("where_am_i", &arguments, Some([5, 1, 1]), u64::MAX)
        .expect("runs");
    assert_eq!(places.u32s()[..5], [0; 5], "the emulation's only one");
}

#[test]
fn blocks_that_take_time_look_at_their_guard_meanwhile() {
    let hold = |stay_ns, check_ns| Arguments::Hold(Hold { stay_ns, check_ns });
    let run = |arguments, evicted_at| {
        let queue = Queue::new();
        let checks = queue.launch("hold", &arguments, Some([2, 1, 1]), evicted_at);
        (checks.expect("runs").looks, queue.first_evicted() == INDEX)
    };
    // One look of each block, at its start.
    assert_eq!(run(hold(2_000, 0), u64::MAX), (2, false));
    // Far longer than a test may take: it is the eviction that ends it.
    assert_eq!(run(hold(u32::MAX, 1), 3), (5, true));
}

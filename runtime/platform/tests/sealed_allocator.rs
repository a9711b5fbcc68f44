//! The allocator, installed as a binary would. One test, since the counters are the process's.

use punctual_platform::allocator::{self, SealedAllocator};
use punctual_platform::thread::{ThreadSpec, spawn_ordinary, spawn_realtime};

#[global_allocator]
static ALLOCATOR: SealedAllocator = SealedAllocator;

#[test]
fn allocations_after_the_seal_are_counted_by_kind_of_thread() {
    assert!(allocator::is_installed());
    let before = allocator::counts();
    assert_eq!(
        (before.realtime, before.elsewhere),
        (0, 0),
        "not sealed yet"
    );

    let spec = ThreadSpec::new("guilty", None, None);
    let realtime = spawn_realtime(spec, || {
        allocator::seal();
        let start = allocator::counts();
        let mut block = std::hint::black_box(vec![1_u8; 100]);
        block.reserve_exact(10_000);
        drop(std::hint::black_box(block));
        let end = allocator::counts();
        (start, end)
    })
    .unwrap();
    let (start, end) = realtime.join().unwrap();
    assert_eq!(
        end.realtime - start.realtime,
        2,
        "one allocation, one reallocation"
    );
    assert_eq!(end.realtime_frees - start.realtime_frees, 1);

    let quiet = allocator::counts();
    let spec = ThreadSpec::new("innocent", None, None);
    spawn_realtime(spec, || std::hint::black_box(1 + 1))
        .unwrap()
        .join()
        .unwrap();
    let ordinary = spawn_ordinary("ordinary", || drop(std::hint::black_box(vec![0_u8; 10])));
    ordinary.unwrap().join().unwrap();
    let after = allocator::counts();
    assert_eq!(
        after.realtime, quiet.realtime,
        "start and end of a thread do not count"
    );
    assert!(after.elsewhere > quiet.elsewhere);
}

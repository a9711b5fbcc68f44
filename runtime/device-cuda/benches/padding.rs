//! What looking at the notice board and choosing best-effort launches costs. REEF takes less than a
//! microsecond for it (section 5.2).

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use punctual_core::{Instant, Nanos};
use punctual_device_cuda::padding::{CANDIDATES_MAX, Demand, NoticeBoard, TpcSet, choose};

/// A large device, half of it real-time: 66 TPCs, eight partitions of four, eight candidates.
fn worst(bench: &mut Criterion) {
    let now = Instant::from_nanos(1 << 30);
    let partitions: Vec<TpcSet> = (0..8).map(|p| 0xf << (4 * p)).collect();
    let board = NoticeBoard::new((1 << 66) - 1, &partitions);
    let demand = |blocks: u32, us: u64| Demand {
        blocks,
        occupancy: 4,
        wave: Nanos::from_micros(us),
    };
    for partition in 0..partitions.len() {
        board.post(partition, &demand(10, 100), now);
    }
    let candidates: [Demand; CANDIDATES_MAX] =
        std::array::from_fn(|n| demand(3 + 9 * n as u32, 10 + 20 * n as u64));
    bench.bench_function(
        "look and choose, 66 TPCs, 8 partitions, 8 candidates",
        |bench| {
            bench.iter(|| choose(&black_box(&board).left(), black_box(&candidates), now));
        },
    );
    bench.bench_function("post", |bench| {
        bench.iter(|| board.post(3, black_box(&candidates[2]), now));
    });
}

criterion_group!(benches, worst);
criterion_main!(benches);

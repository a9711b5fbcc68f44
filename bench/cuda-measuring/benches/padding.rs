//! What looking at the notice board and granting TPCs to a best-effort launch costs. REEF takes less than a
//! microsecond for it (section 5.2). `cargo bench -p punctual-cuda-measuring --bench padding`.

use std::hint::black_box;

use punctual_core::{Instant, Nanos};
use punctual_device_cuda::padding::{Demand, InDriver, LaunchBoard, TpcSet, grant};
use punctual_platform::clock;

/// Calls timed together, as one takes little more than reading the clock; and how often.
const CALLS: u64 = 1_000;
const ROUNDS: usize = 1_000;

/// A large device, half of it real-time: 66 TPCs, eight partitions of four.
fn main() {
    let now = Instant::from_nanos(1 << 30);
    let partitions: Vec<TpcSet> = (0..8).map(|p| 0xf << (4 * p)).collect();
    let board = LaunchBoard::new((1 << 66) - 1, &partitions);
    let demand = |enough: u32, us: u64| Demand {
        time: Nanos::from_micros(us),
        enough,
    };
    for partition in 0..partitions.len() {
        board.post(partition, &demand(3, 100), &InDriver::default(), now);
    }
    let launch = demand(5, 50);
    print("look and grant, 66 TPCs, 8 partitions", || {
        black_box(grant(&black_box(&board).left(), black_box(&launch), now));
    });
    print("post", || {
        let before = InDriver::default();
        black_box(board.post(3, black_box(&launch), &before, now));
    });
}

fn print(name: &str, mut call: impl FnMut()) {
    let mut round = || {
        let began = clock::now_ns();
        (0..CALLS).for_each(|_| call());
        (clock::now_ns() - began) as f64 / CALLS as f64
    };
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_by(f64::total_cmp);
    let at = |share: f64| rounds[(share * (ROUNDS - 1) as f64) as usize];
    println!(
        "{name}: p50 {:.1} ns, p99 {:.1} ns, max {:.1} ns",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

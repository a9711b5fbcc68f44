//! How many requests a second one core can decide: `cargo bench -p punctual-core --bench throughput`.
//!
//! `clockwork` with emulated workers (as in its paper's section 6.6) and `punctual` with full
//! queues. Workers and clients are in virtual time, which waits for the decision; what is measured,
//! on the real clock, is the decisions alone.

mod emulated;
mod load;

use std::time::Duration;

use emulated::{Emulated, Setting};
use hdrhistogram::Histogram;
use load::Load;
use punctual_platform::clock;

/// What the paper's controller reached, in requests a second (section 6.6).
const PAPERS: f64 = 103_387.0;

fn main() {
    // `cargo test --benches` runs benches with this: it proves that they run.
    let small = std::env::args().any(|argument| argument == "--test");
    let steps = if small { 20_000 } else { 2_000_000 };
    println!(
        "| policy | tasks | partitions | asked | on time | steps a request | p50 | p99 | requests/s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (workers, pages, rate) in [
        (1, 1_900, 150.0),
        (12, 0, 2_500.0),
        (110, 0, 40_000.0),
        (300, 0, PAPERS),
    ] {
        let setting = Setting {
            models: 4_026,
            workers,
            pages,
            rate,
        };
        clockwork(setting, steps);
    }
    for tasks in [4, 16, 64] {
        punctual(tasks, steps / 4);
    }
}

fn clockwork(setting: Setting, steps: u64) {
    let mut emulated = Emulated::new(setting);
    let mut decisions = Decisions::default();
    for step in 0..steps + steps / 10 {
        if step == steps / 10 {
            decisions = Decisions::starting_at(emulated.replies());
        }
        let event = emulated.next_event();
        let start = clock::now_ns();
        emulated.decide(&event);
        decisions.took(clock::now_ns() - start);
        emulated.carry_out();
    }
    let label = format!(
        "| clockwork | {} | {} | {:.0}/s ",
        setting.models, setting.workers, setting.rate
    );
    decisions.print(&label, emulated.replies());
}

fn punctual(tasks: usize, steps: u64) {
    let mut load = Load::new(tasks);
    let mut decisions = Decisions::default();
    for step in 0..steps + steps / 10 {
        if step == steps / 10 {
            decisions = Decisions::starting_at(load.replies());
        }
        let due = load.next_step();
        let start = clock::now_ns();
        load.decide(&due);
        decisions.took(clock::now_ns() - start);
        load.carry_out();
    }
    assert!(load.open() > 2 * tasks, "the queues are full");
    let label = format!("| punctual | {tasks} | 1 | full queues ");
    decisions.print(&label, load.replies());
}

/// The times of decisions.
struct Decisions {
    /// Verdicts, and those on time, before the first.
    before: (u64, u64),
    times: Histogram<u64>,
    total: Duration,
}

impl Default for Decisions {
    fn default() -> Self {
        Self::starting_at((0, 0))
    }
}

impl Decisions {
    fn starting_at(before: (u64, u64)) -> Self {
        Self {
            before,
            times: Histogram::new_with_bounds(1, 1_000_000_000, 3).expect("valid bounds"),
            total: Duration::ZERO,
        }
    }

    fn took(&mut self, ns: u64) {
        self.times.saturating_record(ns);
        self.total += Duration::from_nanos(ns);
    }

    fn print(&self, label: &str, after: (u64, u64)) {
        let requests = (after.0 - self.before.0) as f64;
        let on_time = (after.1 - self.before.1) as f64;
        println!(
            "{label}| {:.1}% | {:.2} | {} ns | {} ns | {:.0} |",
            100.0 * on_time / requests,
            self.times.len() as f64 / requests,
            self.times.value_at_quantile(0.5),
            self.times.value_at_quantile(0.99),
            requests / self.total.as_secs_f64()
        );
    }
}

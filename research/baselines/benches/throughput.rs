//! How many requests a second one core can decide: `cargo bench -p punctual-baselines --bench throughput`.
//!
//! `clockwork` with emulated workers (as in its paper's section 6.6) and `punctual` with full
//! queues. Workers and clients are in virtual time, which waits for the decision; what is measured,
//! on the real clock, is the decisions alone.

use std::time::Duration;

use hdrhistogram::Histogram;
use punctual_baselines::ClockworkConfig;
use punctual_platform::clock;
use punctual_policy_testing::emulated::{Emulated, Setting};
use punctual_policy_testing::load::Load;

/// What the paper's controller reached, in requests a second (section 6.6).
const PAPERS: f64 = 103_387.0;

/// The machine's own disturbances only add: the fastest run is the decisions'.
const RUNS: u64 = 10;

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
    let label = format!(
        "| clockwork | {} | {} | {:.0}/s ",
        setting.models, setting.workers, setting.rate
    );
    let mut emulated = Emulated::new(setting, &ClockworkConfig::default());
    measure(&label, steps, &mut emulated);
}

fn punctual(tasks: usize, steps: u64) {
    let mut load = Load::new(tasks);
    measure(
        &format!("| punctual | {tasks} | 1 | full queues "),
        steps,
        &mut load,
    );
    assert!(load.open() > 2 * tasks, "the queues are full");
}

/// A scheduler with a world around it.
trait Controlled {
    /// Takes a step; returns how long the decision took, in ns.
    fn step(&mut self) -> u64;
    /// Verdicts so far, and how many of them were on time.
    fn replies(&self) -> (u64, u64);
}

impl Controlled for Emulated {
    fn step(&mut self) -> u64 {
        let event = self.next_event();
        let start = clock::now_ns();
        self.decide(&event);
        let took = clock::now_ns() - start;
        self.carry_out();
        took
    }

    fn replies(&self) -> (u64, u64) {
        self.replies()
    }
}

impl Controlled for Load {
    fn step(&mut self) -> u64 {
        let due = self.next_step();
        let start = clock::now_ns();
        self.decide(&due);
        let took = clock::now_ns() - start;
        self.carry_out();
        took
    }

    fn replies(&self) -> (u64, u64) {
        self.replies()
    }
}

/// Prints the fastest of some runs, after one that fills the queues.
fn measure<C: Controlled>(label: &str, steps: u64, controlled: &mut C) {
    let mut run = || {
        let mut decisions = Decisions::starting_at(controlled.replies());
        for _ in 0..steps / RUNS {
            decisions.took(controlled.step());
        }
        decisions.end(controlled.replies());
        decisions
    };
    run();
    let runs = (0..RUNS).map(|_| run());
    let best = runs.min_by_key(|decisions| decisions.total);
    best.expect("there are runs").print(label);
}

/// The times of a run's decisions.
struct Decisions {
    /// Verdicts, and those on time: before the run, then of the run.
    replies: (u64, u64),
    times: Histogram<u64>,
    total: Duration,
}

impl Decisions {
    fn starting_at(replies: (u64, u64)) -> Self {
        Self {
            replies,
            times: Histogram::new_with_bounds(1, 1_000_000_000, 3).expect("valid bounds"),
            total: Duration::ZERO,
        }
    }

    fn took(&mut self, ns: u64) {
        self.times.saturating_record(ns);
        self.total += Duration::from_nanos(ns);
    }

    fn end(&mut self, replies: (u64, u64)) {
        self.replies = (replies.0 - self.replies.0, replies.1 - self.replies.1);
    }

    fn print(&self, label: &str) {
        let (requests, on_time) = (self.replies.0 as f64, self.replies.1 as f64);
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

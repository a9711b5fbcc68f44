//! How long one decision takes with all queues full: `cargo bench -p punctual-policy-testing`.
//!
//! Prints percentiles (`step` is timed once each, so p99 is of decisions, not of means of many).
//! `--steps N --tasks T` takes N steps and ends: what `instructions.sh` counts. With `--recorded`, each is written into the
//! recorder's ring, which costs the scheduler's thread that in addition.

use std::time::Duration;

use hdrhistogram::Histogram;
use punctual_core::{Nanos, PunctualConfig};
use punctual_platform::clock;
use punctual_policy_testing::load::{Due, Load};
use punctual_recording::ring::{self, StepSink};

const TASKS: [usize; 3] = [4, 16, 64];
/// Until the queues are full and the scheduler is in its stride.
const WARM_UP: u64 = 20_000;
const STEPS: u64 = 200_000;
/// The machine's own disturbances only add: the least p99 is the decision's.
const RUNS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let (Some(steps), Some(tasks)) =
        (number(&arguments, "--steps"), number(&arguments, "--tasks"))
    {
        let has = |name: &str| arguments.iter().any(|argument| argument == name);
        let mut load = if has("--places") {
            Load::on_places(tasks as usize)
        } else if has("--paged") {
            Load::of_paged(tasks as usize, &PunctualConfig::default())
        } else {
            Load::new(tasks as usize)
        };
        if arguments.iter().any(|argument| argument == "--recorded") {
            let ns = take_recorded(&mut load, steps);
            println!("{ns:.0} ns a record");
        } else {
            take(&mut load, steps);
        }
        println!("{steps} steps, {} requests inside at the end", load.open());
        return;
    }
    println!(
        "| tasks, places | requests inside | p50 | p99 (least of {RUNS}) | p99.9 | max of that run |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for tasks in TASKS {
        print_percentiles(&tasks.to_string(), || Load::new(tasks));
    }
    for tasks in [16, 64] {
        print_percentiles(&format!("{tasks}, 17 places"), || Load::on_places(tasks));
    }
    print_percentiles("1000, paged", || {
        Load::of_paged(1_000, &PunctualConfig::default())
    });
    print_recording();
}

fn number(arguments: &[String], name: &str) -> Option<u64> {
    let at = arguments.iter().position(|argument| argument == name)?;
    arguments.get(at + 1)?.parse().ok()
}

/// Takes steps; returns the time that the decisions alone took.
fn take(load: &mut Load, steps: u64) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..steps {
        total += one(load);
    }
    total
}

fn one(load: &mut Load) -> Duration {
    let due = load.next_step();
    let start = clock::now_ns();
    load.decide(&due);
    let took = Duration::from_nanos(clock::now_ns() - start);
    load.carry_out();
    took
}

/// Writes a step into the recorder's ring: this, and nothing else, is what recording costs the scheduler's thread.
#[inline(never)]
fn record_step(sink: &mut StepSink, due: &Due, load: &Load) {
    let (scheduler, actions) = load.decided();
    sink.write(due.now, Nanos::ZERO, &due.event, actions, scheduler);
}

/// Takes steps and records them; returns the least time that a record took in the mean, over a thousand steps.
fn take_recorded(load: &mut Load, steps: u64) -> f64 {
    const CELLS: usize = 1 << 14;
    const TOGETHER: u64 = 1_000;
    let (mut sink, mut source) = ring::steps(CELLS);
    let mut least = f64::MAX;
    for _ in 0..steps.div_ceil(TOGETHER) {
        let (mut took, mut records) = (Duration::ZERO, 0);
        for _ in 0..TOGETHER {
            let due = load.next_step();
            load.decide(&due);
            let start = clock::now_ns();
            record_step(&mut sink, &due, load);
            took += Duration::from_nanos(clock::now_ns() - start);
            records += 1 + load.decided().1.len();
            load.carry_out();
        }
        while source.take().is_some() {}
        least = least.min(took.as_nanos() as f64 / records as f64);
    }
    assert_eq!(source.lost(), 0);
    least
}

fn print_recording() {
    let mut load = Load::new(TASKS[0]);
    take(&mut load, WARM_UP);
    let ns = take_recorded(&mut load, STEPS);
    println!();
    println!("a record of a step or an action: {ns:.0} ns, of which the clock is a part");
}

fn print_percentiles(tasks: &str, load: impl Fn() -> Load) {
    let runs = (0..RUNS).map(|_| {
        let mut load = load();
        take(&mut load, WARM_UP);
        let mut histogram =
            Histogram::<u64>::new_with_bounds(1, 1_000_000_000, 3).expect("valid bounds");
        let mut open = 0;
        for _ in 0..STEPS {
            let took = one(&mut load);
            histogram.saturating_record(took.as_nanos() as u64);
            open += load.open() as u64;
        }
        (histogram, open / STEPS)
    });
    let (best, open) = runs
        .min_by_key(|(histogram, _)| histogram.value_at_quantile(0.99))
        .expect("there are runs");
    println!(
        "| {tasks} | {open} | {} ns | {} ns | {} ns | {} ns |",
        best.value_at_quantile(0.5),
        best.value_at_quantile(0.99),
        best.value_at_quantile(0.999),
        best.max()
    );
}

//! What a start takes from stages that run meanwhile, by the rate at which it writes: a network on one core, and on another
//! one pages that are copied and checked as a device's loader does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use hdrhistogram::Histogram;
use punctual_device_cpu::{Evaluator, StartError};
use punctual_kernels::Isa;
use punctual_model::{PAGE_BYTES, PAGE_FLOATS, PackageError, WeightImage};
use punctual_platform::affinity;
use punctual_platform::clock::{now_ns, sleep_until_ns};
use punctual_platform::termination::{Terminates, Termination};
use punctual_platform::thread::{self as realtime, ThreadError, current_tid};
use punctual_report::{Column, Table};
use serde::Serialize;

use super::workload::Kind;

#[derive(Debug, thiserror::Error)]
pub enum DisturbanceError {
    #[error("two cores are needed, this process may use {found}")]
    Cores { found: usize },
    #[error("a thread cannot be kept on core {0}")]
    Place(usize),
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Thread(#[from] ThreadError),
}

impl Terminates for DisturbanceError {
    fn termination(&self) -> Termination {
        Termination::Resources
    }
}

/// More than any cache holds.
const PAGES: usize = 256;
/// The priority of the worker and, so that other programs do not slow it down, of the thread that writes.
const PRIORITY: u8 = 10;
/// A rest after each run, as a part of it.
const REST: u64 = 8;
/// Of one rate before the next one's turn.
const WINDOW_NS: u64 = 500_000_000;

/// Runs of a network.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// What was asked for, and what was reached.
    mb_per_s: u64,
    reached_mb_per_s: f64,
    runs: u64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
}

struct Tally {
    times: Histogram<u64>,
    pages: u64,
    ns: u64,
}

/// Windows of each rate by turns.
pub fn measure(kind: Kind, rates: &[u64], windows: u32) -> Result<Vec<Beside>, DisturbanceError> {
    let cores = affinity::available_cores().unwrap_or_default();
    let [first, .., last] = cores[..] else {
        let found = cores.len();
        return Err(DisturbanceError::Cores { found });
    };
    let network = kind.network()?;
    let mut evaluator = Evaluator::new(Isa::detect(), &network, 1)?;
    let floats = vec![1.0; PAGES * PAGE_FLOATS];
    let image = WeightImage::new(punctual_device_cpu::lanes(), floats.into());
    place(last)?;
    let new = || Tally {
        times: Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("sound bounds"),
        pages: 0,
        ns: 0,
    };
    let mut tallies: Vec<Tally> = rates.iter().map(|_| new()).collect();
    for _ in 0..windows {
        for (rate, tally) in rates.iter().zip(&mut tallies) {
            window(*rate, &image, first, &mut evaluator, tally)?;
        }
    }
    let rows = rates.iter().zip(&tallies);
    Ok(rows.map(|(rate, tally)| tally.row(*rate)).collect())
}

/// Keeps the calling thread on a core, with a real-time priority if it may have one.
fn place(core: usize) -> Result<(), DisturbanceError> {
    let kept = affinity::keep_current_thread_to(&[core]);
    kept.map_err(|_| DisturbanceError::Place(core))?;
    let _ = realtime::set_realtime(current_tid(), PRIORITY);
    Ok(())
}

fn window(
    mb_per_s: u64,
    image: &WeightImage,
    core: usize,
    evaluator: &mut Evaluator,
    tally: &mut Tally,
) -> Result<(), DisturbanceError> {
    let (over, pages) = (&AtomicBool::new(false), &AtomicU64::new(0));
    thread::scope(|scope| {
        let (told, placed) = mpsc::channel();
        let writer = scope.spawn(move || {
            let placed = place(core);
            // Its reader may have gone.
            let _ = told.send(());
            placed.map(|()| write(mb_per_s, image, over, pages))
        });
        // A thread begins where its parent is: it must have left before that is busy.
        let _ = placed.recv();
        let end_ns = now_ns() + WINDOW_NS;
        while now_ns() < end_ns {
            let begun_ns = now_ns();
            evaluator.run_for_time(1);
            let ended_ns = now_ns();
            tally.times.saturating_record(ended_ns - begun_ns);
            // A share of rest, without which the kernel holds back real-time threads.
            sleep_until_ns(ended_ns + (ended_ns - begun_ns) / REST);
        }
        // Relaxed, as all here: figures, and an end that may come a little later.
        over.store(true, Ordering::Relaxed);
        writer.join().expect("no panic")
    })?;
    tally.pages += pages.load(Ordering::Relaxed);
    tally.ns += WINDOW_NS;
    Ok(())
}

/// Copies and checks page after page at a rate.
fn write(mb_per_s: u64, image: &WeightImage, over: &AtomicBool, pages: &AtomicU64) {
    let mut room = vec![0.0; PAGES * PAGE_FLOATS];
    let mut due_ns = now_ns();
    while !over.load(Ordering::Relaxed) {
        if mb_per_s == 0 {
            sleep_until_ns(now_ns() + 1_000_000);
            continue;
        }
        let page = pages.load(Ordering::Relaxed) as usize % PAGES;
        let copied = image.copy_page(page, &mut room[page * PAGE_FLOATS..]);
        copied.expect("nobody changes it");
        pages.fetch_add(1, Ordering::Relaxed);
        due_ns =
            due_ns.max(now_ns().saturating_sub(1_000_000)) + PAGE_BYTES as u64 * 1_000 / mb_per_s;
        sleep_until_ns(due_ns);
    }
}

impl Tally {
    fn row(&self, mb_per_s: u64) -> Beside {
        let us = |quantile| self.times.value_at_quantile(quantile) as f64 / 1e3;
        Beside {
            mb_per_s,
            reached_mb_per_s: (self.pages * PAGE_BYTES as u64) as f64 * 1e3 / self.ns as f64,
            runs: self.times.len(),
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: self.times.max() as f64 / 1e3,
        }
    }
}

/// A row for each rate.
pub fn markdown(rows: &[Beside]) -> String {
    let us = |heading: &str| Column::number(heading).unit("us");
    let mut table = Table::of([
        Column::number("written").unit("MB/s"),
        Column::number("reached").unit("MB/s"),
        Column::number("runs"),
        us("p50"),
        us("p99"),
        us("p99.9"),
        us("max"),
    ]);
    for row in rows {
        let one = |value: f64| format!("{value:.1}");
        table.row([
            row.mb_per_s.to_string(),
            one(row.reached_mb_per_s),
            row.runs.to_string(),
            one(row.p50_us),
            one(row.p99_us),
            one(row.p999_us),
            one(row.max_us),
        ]);
    }
    table.markdown()
}

//! Asks a daemon all the time how it is, and lets itself in as an honest client now and then: whether
//! others keep it from its housekeeping.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use punctual_client::{Lost, Options as Wanted, PixelFormat, now_ns};

use super::{AgentError, sample, say, signals, told_to_end};
use crate::records::{Latencies, Probe, SPANS_MAX};
use crate::target::child::pause;

/// How often the account is said, in ns.
const SAY_NS: u64 = 200_000_000;

/// An answer that takes longer is described by its span, in ns.
const SLOW_NS: u64 = 20_000_000;

/// From one visit to the next, in ms.
const VISIT_MS: u16 = 100;

/// How long a visitor waits to be admitted, in ns.
const VISIT_NS: u64 = 5_000_000_000;

/// The daemon to query.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Where its clients connect.
    #[arg(long)]
    socket: PathBuf,
    /// The task that honest clients connect to; absent: none connect.
    #[arg(long)]
    task: Option<String>,
    /// Time from an answer to the next query, in milliseconds.
    #[arg(long, default_value_t = 10)]
    every_ms: u16,
}

/// Asks until SIGTERM.
pub fn run(options: &Options) -> Result<(), AgentError> {
    let signals = signals(&[])?;
    let over = AtomicBool::new(false);
    let mut probe = thread::scope(|scope| {
        let over = &over;
        let visits = options
            .task
            .as_deref()
            .map(|task| scope.spawn(move || visit(&options.socket, task, over)));
        let mut answers = Times::default();
        let mut say_ns = 0;
        while !told_to_end(&signals) {
            answers.take(|| {
                let said = sample::metrics(&options.socket);
                // A closed connection is no answer.
                said.is_ok_and(|said| !said.trim().is_empty())
            });
            if now_ns() >= say_ns {
                say(&answers.probe());
                say_ns = now_ns() + SAY_NS;
            }
            pause(options.every_ms);
        }
        // Relaxed: the join synchronises; this only tells the thread to leave.
        over.store(true, Ordering::Relaxed);
        let mut probe = answers.probe();
        if let Some(visits) = visits.and_then(|visits| visits.join().ok()) {
            let visits = visits.probe();
            (probe.admitted, probe.refused_clients) =
                (visits.asked - visits.unanswered, visits.unanswered);
            probe.admission_us = visits.answer_us;
            probe.slow_visits_ns = visits.slow_ns;
        }
        probe
    });
    probe.finished = true;
    say(&probe);
    Ok(())
}

/// Visits until the time is over.
fn visit(socket: &Path, task: &str, over: &AtomicBool) -> Times {
    let mut times = Times::default();
    // Relaxed: see where it is set.
    while !over.load(Ordering::Relaxed) {
        times.take(|| {
            let wanted = Wanted::new(socket, task, PixelFormat::Rgb8);
            match wanted.open(Some(now_ns() + VISIT_NS)) {
                Ok(_client) => true,
                Err(Lost::NotInTime(_)) | Err(_) => false,
            }
        });
        pause(VISIT_MS);
    }
    times
}

/// How long something took, time after time.
struct Times {
    took_us: hdrhistogram::Histogram<u64>,
    asked: u64,
    failed: u64,
    slow_ns: Vec<[u64; 2]>,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            took_us: Latencies::histogram(),
            asked: 0,
            failed: 0,
            slow_ns: Vec::new(),
        }
    }
}

impl Times {
    fn take(&mut self, act: impl FnOnce() -> bool) {
        let began_ns = now_ns();
        let done = act();
        let ended_ns = now_ns();
        self.asked += 1;
        self.failed += u64::from(!done);
        self.took_us
            .saturating_record(((ended_ns - began_ns) / 1000).max(1));
        if ended_ns - began_ns > SLOW_NS && self.slow_ns.len() < SPANS_MAX {
            self.slow_ns.push([began_ns, ended_ns]);
        }
    }

    fn probe(&self) -> Probe {
        Probe {
            asked: self.asked,
            unanswered: self.failed,
            answer_us: Latencies::of(&self.took_us),
            slow_ns: self.slow_ns.clone(),
            ..Probe::default()
        }
    }
}

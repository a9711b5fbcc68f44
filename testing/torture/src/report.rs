//! What came out, and whether it is as it must be.

use std::collections::BTreeMap;
use std::fmt;

use hdrhistogram::Histogram;
use serde::Serialize;

/// A distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    pub count: u64,
    pub p50_us: f64,
    /// All but one in a hundred were as short.
    pub p99_us: f64,
    pub max_us: f64,
}

impl Times {
    /// Of a histogram of ns.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        Self {
            count: histogram.len(),
            p50_us: us(histogram.value_at_quantile(0.5)),
            p99_us: us(histogram.value_at_quantile(0.99)),
            max_us: us(histogram.max()),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    pub seed: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Submissions, by the daemon's side (against a running daemon: by the clients).
    pub submitted: u64,
    /// Verdicts that healthy clients read, each exactly once and checked.
    pub verdicts: u64,
    /// Answers before their verdicts that they read, each checked.
    pub early: u64,
    /// Of all of these, answers whose outputs were compared number by number.
    pub proved: u64,
    /// Submissions of clients that were dead before they could write down the verdict.
    pub gone: u64,
    /// Client processes that were started, of both kinds.
    pub processes: u64,
    pub hostile_connections: u64,
    /// Clients killed by SIGKILL.
    pub kills: u64,
    /// Of those, while they were stopped.
    pub kills_while_stopped: u64,
    /// Of those, before they were admitted.
    pub kills_while_connecting: u64,
    /// Clients stopped by SIGSTOP for a while.
    pub stops: u64,
    /// Verdicts that took longer than the bound, at healthy clients.
    pub late: u64,
    /// The longest that a healthy client waited for a verdict, in microseconds.
    pub round_trip_us_max: f64,
    /// From SIGKILL until all slots and the place were free.
    pub freed: Times,
    /// From a client's first attempt until it was admitted.
    pub entry: Times,
    /// Why connections of hostile clients ended, by the fault's name.
    pub hostile_faults: BTreeMap<&'static str, u64>,
    /// Whatever must not be: none, or the run has failed.
    pub findings: BTreeMap<&'static str, u64>,
}

impl Report {
    /// Counts what must not be.
    pub fn find(&mut self, what: &'static str, times: u64) {
        if times > 0 {
            *self.findings.entry(what).or_default() += times;
        }
    }

    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} submissions in {:.1} s (seed {}): {} verdicts, {} answers before them, {} answers compared number by number, {} gone with their clients",
            self.submitted,
            self.seconds,
            self.seed,
            self.verdicts,
            self.early,
            self.proved,
            self.gone
        )?;
        writeln!(
            f,
            "{} client processes, {} killed ({} while connecting, {} while stopped), {} stops, {} hostile connections",
            self.processes,
            self.kills,
            self.kills_while_connecting,
            self.kills_while_stopped,
            self.stops,
            self.hostile_connections
        )?;
        for (name, times) in [
            ("from kill to slots and place free", &self.freed),
            ("from connecting to being admitted", &self.entry),
        ] {
            writeln!(
                f,
                "{name}: p50 {:.0} us, p99 {:.0} us, max {:.0} us ({})",
                times.p50_us, times.p99_us, times.max_us, times.count
            )?;
        }
        writeln!(
            f,
            "healthy clients: longest wait for a verdict {:.0} us, {} beyond the bound",
            self.round_trip_us_max, self.late
        )?;
        for (name, count) in &self.hostile_faults {
            writeln!(f, "hostile clients: {count} x {name}")?;
        }
        for (what, count) in &self.findings {
            writeln!(f, "FOUND: {count} x {what}")?;
        }
        write!(
            f,
            "{}",
            if self.is_clean() {
                "nothing lost, nothing twice"
            } else {
                "FAILED"
            }
        )
    }
}

//! How late a thread wakes that slept until a given time: the floor under every latency, measured
//! as `cyclictest` does. Its priority is its caller's (`chrt -f 80`).

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use punctual_client::now_ns;

use super::{AgentError, say};
use crate::records::Latencies;

/// How long and how often.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Duration, in seconds.
    #[arg(long)]
    seconds: f64,
    /// Period of the wake-ups, in microseconds.
    #[arg(long, default_value_t = 1000)]
    period_us: u64,
}

pub fn run(options: &Options) -> Result<(), AgentError> {
    let mut late_us = Latencies::histogram();
    let period_ns = options.period_us.max(1) * 1000;
    let end_ns = now_ns() + (options.seconds * 1e9) as u64;
    let mut due_ns = now_ns() + period_ns;
    while due_ns < end_ns {
        sleep_until(due_ns)?;
        let woke_ns = now_ns();
        late_us.saturating_record((woke_ns.saturating_sub(due_ns) / 1000).max(1));
        // One wake-up that is very late counts once, not for every period that it slept through.
        while due_ns <= woke_ns {
            due_ns += period_ns;
        }
    }
    say(&Latencies::of(&late_us));
    Ok(())
}

fn sleep_until(due_ns: u64) -> Result<(), AgentError> {
    let due = TimeSpec::new(
        (due_ns / 1_000_000_000) as i64,
        (due_ns % 1_000_000_000) as i64,
    );
    loop {
        let flags = ClockNanosleepFlags::TIMER_ABSTIME;
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &due) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(AgentError::os("clock_nanosleep")(error)),
        }
    }
}

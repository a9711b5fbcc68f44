//! The GPU's tables in virtual time, by the daemon's own device code: leaders, executors, queues of launches, masks, kernel padding.
//!
//! The emulated driver's launches compute nothing there; they take the time that published figures give them, block by block, on the
//! multiprocessors that their masks leave. Scheduler, clients and workloads are the simulator's.
//!
//! ```text
//! cargo run --release -p punctual-virtual-gpu -- disb [WORKLOAD [SECONDS]]
//! cargo run --release -p punctual-virtual-gpu -- seeb [WORKLOAD [SECONDS]]
//! cargo run --release -p punctual-virtual-gpu -- isolation [POLICY [SECONDS]]
//! cargo run --release -p punctual-virtual-gpu -- prefix [FAMILY[-short] [SECONDS]]
//! cargo run --release -p punctual-virtual-gpu -- cold-start
//! ```
#![forbid(unsafe_code)]

mod clockwork;
mod cold_start;
mod costs;
mod disb;
mod gpu;
mod prefix;
mod seeb;
mod staged;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use punctual_core::{ConfigError, Nanos};
use punctual_simulator::arrivals::PatternError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Gpu(#[from] gpu::GpuError),
    #[error(transparent)]
    Costs(#[from] costs::CostError),
    #[error("the plan: {0}")]
    Plan(#[from] ConfigError),
    #[error("the arrivals: {0}")]
    Arrivals(#[from] PatternError),
    #[error("there is no {said:?} here; there are {known}")]
    Workload { said: String, known: String },
    #[error(
        "{said:?}: say `cold-start`, or `disb`, `seeb`, `isolation` or `prefix` and if you like one of its rows and a number of seconds"
    )]
    Arguments { said: String },
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("virtual-gpu: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The workloads of a table that were asked for: one of `known`, or all.
fn chosen(known: &[&'static str], one: Option<&str>) -> Result<Vec<&'static str>, Error> {
    let Some(one) = one else {
        return Ok(known.to_vec());
    };
    let found = known.iter().copied().find(|name| *name == one);
    let found = found.ok_or_else(|| Error::Workload {
        said: one.to_owned(),
        known: known.join(", "),
    })?;
    Ok(vec![found])
}

fn run(words: &[String]) -> Result<String, Error> {
    let wrong = || Error::Arguments {
        said: words.join(" "),
    };
    let (table, rest) = words.split_first().ok_or_else(wrong)?;
    let workload = rest.first().map(String::as_str);
    let seconds = rest.get(1).map(|word| word.parse::<u64>());
    let seconds = seconds.transpose().map_err(|_| wrong())?;
    let length = seconds.map(|seconds| Nanos::from_millis(1_000 * seconds));
    let progress = |workload: &str, row: &str| eprintln!("{workload}, {row}");
    match table.as_str() {
        "cold-start" if rest.is_empty() => cold_start::table(progress),
        "disb" if rest.len() <= 2 => disb::table(workload, length, progress),
        "seeb" if rest.len() <= 2 => seeb::table(workload, length, progress),
        "isolation" if rest.len() <= 2 => clockwork::table(workload, length, progress),
        "prefix" if rest.len() <= 2 => prefix::table(workload, length, progress),
        _ => Err(wrong()),
    }
}

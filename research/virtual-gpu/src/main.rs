//! The GPU's tables in virtual time, by the daemon's own device code: leaders, executors, queues of launches, masks, kernel padding.
//!
//! The emulated driver's launches compute nothing there; they take the time that published figures give them, block by block, on the
//! multiprocessors that their masks leave. Scheduler, clients and workloads are the simulator's.
//!
//! ```text
//! cargo run --release -p punctual-virtual-gpu -- disb [WORKLOAD] [SECONDS]
//! ```
#![forbid(unsafe_code)]

mod costs;
mod disb;
mod gpu;

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
    #[error("{said:?}: say `disb`, and if you like a workload of DISB and a number of seconds")]
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

fn run(words: &[String]) -> Result<String, Error> {
    let wrong = || Error::Arguments {
        said: words.join(" "),
    };
    let seconds = |word: &String| word.parse::<u64>().map_err(|_| wrong());
    let progress = |workload: &str, way: disb::Way| eprintln!("{workload}, {way:?}");
    match words {
        [table] if table == "disb" => disb::table(None, None, progress),
        [table, workload] if table == "disb" => disb::table(Some(workload), None, progress),
        [table, workload, length] if table == "disb" => {
            let length = Nanos::from_millis(1_000 * seconds(length)?);
            disb::table(Some(workload), Some(length), progress)
        }
        _ => Err(wrong()),
    }
}

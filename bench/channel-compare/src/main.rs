//! The channel compared with iceoryx2, a Unix socket and an eventfd: the same messages at the same times
//! between separate processes, in turns within one run.
//!
//! ```sh
//! cd bench/channel-compare && cargo run --release -- --json out.json --svg out.svg
//! ```
//!
//! Every latency counts from the moment at which the message should be sent. A server runs on the last
//! core, its clients on the first, both at FIFO 80 where that is granted. `--default-idle` leaves the
//! processor's idle states alone; otherwise `/dev/cpu_dma_latency` is held at 0.

mod child;
mod report;
mod run;
mod ways;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    child: Option<Child>,
    #[command(flatten)]
    run: run::Arguments,
}

#[derive(Subcommand)]
enum Child {
    /// A process that the program starts itself
    #[command(hide = true)]
    Child(child::Orders),
}

/// Any error ends the benchmark: there is no recovery.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.child {
        Some(Child::Child(orders)) => child::live(orders),
        None => run::run(&cli.run),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("punctual-ipc-compare: {error}");
            ExitCode::FAILURE
        }
    }
}

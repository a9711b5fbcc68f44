//! Draws networks, runs them on engines, and says which answers are wrong.
#![forbid(unsafe_code)]

mod campaign;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use punctual_networks::Engine;
use punctual_platform::output;

/// Draws networks from seeds, runs each on the engines that are named, and compares the answers with the reference
/// interpreter's. What fails is made smaller, and written as an ONNX file.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  punctual-networks --first 1 --count 1000                       on the usual engines
  punctual-networks --first 1 --count 1000 --engines onnxruntime is the compiler right?
  punctual-networks --first 4711 --count 1 --engines avx2        one network again
  punctual-networks --first 1 --seconds 600 --out found          ten minutes; what fails is written to `found`

Exit code 1: an answer was wrong, or something panicked.")]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many seeds, from the first on.
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// avx512, avx2, neon, scalar, cuda, onnxruntime; without it, the CPU device's that this processor has, and onnxruntime
    /// where ORT_DYLIB_PATH names it.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<Engine>,
    /// Ends after so many seconds, whatever the count.
    #[arg(long)]
    seconds: Option<u64>,
    /// How many networks at a time; without it, as many as there are processors.
    #[arg(long)]
    threads: Option<usize>,
    /// Where to write what fails, shrunk.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Writes the counts as JSON.
    #[arg(long)]
    json: bool,
}

/// Nothing was run, or the result could not be printed.
const NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    let mut arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(usage) => {
            let (printed, code) = (usage.print(), usage.exit_code());
            return output::usage_code(printed, code, "punctual-networks", NOT_RUN).into();
        }
    };
    if arguments.engines.is_empty() {
        arguments.engines = Engine::usual().collect();
    }
    let tally = match campaign::run(&arguments) {
        Ok(tally) => tally,
        Err(error) => {
            output::note(error);
            return NOT_RUN.into();
        }
    };
    let told = if arguments.json {
        output::line(report::json(&arguments, &tally))
    } else {
        output::text(report::text(&arguments, &tally))
    };
    match told {
        Ok(()) => u8::from(tally.failed > 0).into(),
        Err(error) => {
            output::note(error);
            NOT_RUN.into()
        }
    }
}

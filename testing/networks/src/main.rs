//! Draws networks, runs them on engines, and says which answers are wrong.
#![forbid(unsafe_code)]

mod campaign;
mod report;
mod seeds;
mod single;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use punctual_networks::Engine;
use punctual_platform::output;

use campaign::CampaignError;
use seeds::Seeds;
use single::SingleArguments;

/// Draws networks from seeds, runs each on the engines that are named, and compares the answers with the reference
/// interpreter's. What fails is made smaller, and written as an ONNX file.
#[derive(Parser)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  punctual-networks --first 1 --count 1000                       on the usual engines
  punctual-networks --first 1 --count 1000 --engines onnxruntime is the compiler right?
  punctual-networks --first 4711 --count 1 --engines avx2        one network again
  punctual-networks --first 1 --seconds 600 --out found          ten minutes; what fails is written to `found`
  punctual-networks operators --count 20000                      files of one operator against onnxruntime

Exit code 1: an answer was wrong, or something panicked."
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    seeds: Seeds,
    /// avx512, avx2, neon, scalar, cuda, onnxruntime; without it, the CPU device's that this processor has, and onnxruntime
    /// where ORT_DYLIB_PATH names it.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<Engine>,
}

#[derive(Subcommand)]
enum Command {
    /// Draws files of one operator each, alone or between others, in every operator set, and compares the reference
    /// interpreter with onnxruntime, exactly but for floats.
    Operators(SingleArguments),
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
    let told = match &arguments.command {
        Some(Command::Operators(arguments)) => single::run(arguments),
        None => networks(&mut arguments),
    };
    let (text, failed) = match told {
        Ok(told) => told,
        Err(error) => {
            output::note(error);
            return NOT_RUN.into();
        }
    };
    match output::text(text) {
        Ok(()) => u8::from(failed).into(),
        Err(error) => {
            output::note(error);
            NOT_RUN.into()
        }
    }
}

/// What there is to say of drawn networks, and whether any failed.
fn networks(arguments: &mut Arguments) -> Result<(String, bool), CampaignError> {
    if arguments.engines.is_empty() {
        arguments.engines = Engine::usual().collect();
    }
    let tally = campaign::run(arguments)?;
    let text = if arguments.seeds.json {
        format!("{}\n", report::json(arguments, &tally))
    } else {
        report::text(arguments, &tally)
    };
    Ok((text, tally.failed > 0))
}

//! How many of the networks of a range of seeds `punctual profile` would find to be wrong on this processor:
//! `cargo run --release -p punctual-networks --example verified -- --first 1 --count 400`. For planted faults.

use std::process::ExitCode;

use clap::Parser;
use punctual_core::Nanos;
use punctual_device::profile::Subject;
use punctual_device::verify::{Request, verify};
use punctual_device_cpu::CpuProvider;
use punctual_networks::{Drawn, compiled};
use punctual_platform::affinity;

#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 1)]
    first: u64,
    #[arg(long, default_value_t = 400)]
    count: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let provider = CpuProvider {
        cores: affinity::available_cores().unwrap_or_default(),
    };
    let request = Request {
        batches: vec![1, 3],
        units: vec![1],
        budget: Nanos::ZERO,
        seed: 1,
    };
    let seeds = arguments.first..arguments.first + arguments.count;
    let wrong = seeds.filter(|seed| is_wrong(*seed, &provider, &request));
    let wrong = wrong.count();
    println!("{} networks, failed {wrong}", arguments.count);
    ExitCode::from(u8::from(wrong > 0))
}

/// Whether the network compiles, and then does not run or answers something else.
fn is_wrong(seed: u64, provider: &CpuProvider, request: &Request) -> bool {
    let Ok(compiled) = compiled(&Drawn::of(seed)) else {
        return false;
    };
    let subject = Subject {
        package: &compiled.package,
        solutions: &[],
    };
    let found = match verify(provider, subject, request, &mut |_| ()) {
        Ok(verified) => verified.failure.map(|failure| failure.to_string()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(found) = &found {
        eprintln!("{seed}: {found}");
    }
    found.is_some()
}

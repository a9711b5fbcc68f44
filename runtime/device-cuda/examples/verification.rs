//! How long verification of a network takes on this processor, and how much memory, as a row of a table:
//! `cargo run --release -p punctual-device-cuda --example verification -- NETWORK [SECONDS]`.
//!
//! `NETWORK` is a package, or the name of a structure such as `resnet50` or `vit_b_16`, made for images of 224 rows and columns
//! with drawn weights. `SECONDS` are the reference's budget (60).

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use punctual_core::Nanos;
use punctual_device::profile::{Phase, Subject};
use punctual_device::verify::{Request, verify};
use punctual_device_cpu::CpuProvider;
use punctual_device_cuda::structures::Structure;
use punctual_model::{Calibration, Package};
use punctual_platform::{affinity, clock};

const SIDE: u32 = 224;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("verification: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Box<dyn Error>> {
    let usage = "usage: verification PACKAGE|STRUCTURE [SECONDS]";
    let network = std::env::args().nth(1).ok_or(usage)?;
    let seconds = std::env::args()
        .nth(2)
        .map_or(Ok(60), |s| s.parse::<u64>())?;
    let package = package(&network)?;
    let provider = CpuProvider {
        cores: affinity::available_cores().unwrap_or_default(),
    };
    let subject = Subject {
        package: &package,
        solutions: &[],
    };
    let request = Request {
        batches: vec![1, 8],
        units: vec![1],
        budget: Nanos::from_millis(1_000 * seconds),
        seed: 1,
    };
    let before = peak_mib()?;
    let mut reference_ends = clock::now_ns();
    let begun = reference_ends;
    let verified = verify(&provider, subject, &request, &mut |progress| {
        if let Phase::Compared { .. } = progress.what {
            reference_ends = clock::now_ns();
        }
    })?;
    println!(
        "| {} | {} | {:.1} | {:.1} | {} | {} | {:.1}% | {before} | {} | {} |",
        package.network().name,
        verified.inputs,
        (reference_ends - begun) as f64 / 1e9,
        verified.took_ms as f64 / 1e3,
        verified.values,
        verified.undecided,
        f64::from(verified.worst_permille) / 10.0,
        peak_mib()?,
        verified
            .failure
            .map_or("right".to_owned(), |failure| failure.to_string()),
    );
    Ok(())
}

fn package(name: &str) -> Result<Package, Box<dyn Error>> {
    let mut structures = Structure::ALL.into_iter().chain(Structure::ZOO);
    match structures.find(|structure| structure.name() == name) {
        Some(structure) => Ok(Package::new(
            structure.network(SIDE, 1),
            Calibration::default(),
        )?),
        None => Ok(Package::read(Path::new(name))?),
    }
}

/// The most memory that this process has had so far.
fn peak_mib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line
        .ok_or("the kernel does not tell")?
        .trim()
        .trim_end_matches(" kB");
    Ok(kib.trim().parse::<u64>()? / 1024)
}

//! Verifies networks on this machine's GPU as `punctual profile` does, whatever becomes of each: packages, ONNX files, and
//! networks drawn from a range of seeds until the time is over.
//! `cargo run --release -p punctual-networks --example silicon -- --seconds 60 models/zoo/recorded/*.onnx`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use punctual_compile::{Overrides, compile_with};
use punctual_core::Nanos;
use punctual_device::pool::Wait;
use punctual_device::profile::Subject;
use punctual_device::verify::{Request, verify};
use punctual_device_cuda::driver::Driver;
use punctual_device_cuda::kernel_padding::KernelPaddingSpec;
use punctual_device_cuda::partition::Mechanism;
use punctual_device_cuda::partition::offer::{How, look};
use punctual_device_cuda::{CudaProvider, Watchdog};
use punctual_model::{AnswerKind, Package};
use punctual_networks::{Drawn, compiled};
use punctual_platform::clock;

#[derive(Parser)]
struct Arguments {
    /// Packages and ONNX files.
    files: Vec<PathBuf>,
    /// The first drawn network's seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Drawn networks follow for so long.
    #[arg(long, default_value_t = 0)]
    seconds: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut bench = Bench::open();
    for file in &arguments.files {
        let name = file.display().to_string();
        match package(file) {
            Ok(package) => bench.verify(&name, &package),
            Err(error) => println!("{name}: not compiled: {error}"),
        }
    }
    let until_ns = clock::now_ns() + arguments.seconds * 1_000_000_000;
    for seed in arguments.first.. {
        if clock::now_ns() >= until_ns {
            break;
        }
        if let Ok(compiled) = compiled(&Drawn::of(seed)) {
            bench.verify(&format!("seed {seed}"), &compiled.package);
        }
    }
    println!(
        "{} agree, {} do not, {} do not run",
        bench.agree, bench.wrong, bench.failed
    );
    ExitCode::from(u8::from(bench.wrong + bench.failed > 0))
}

fn package(file: &Path) -> Result<Package, Box<dyn std::error::Error>> {
    if file.extension().is_none_or(|extension| extension != "onnx") {
        return Ok(Package::read(file)?);
    }
    let plain = Overrides {
        answer: Some(AnswerKind::None),
        ..Overrides::imagenet()
    };
    let prepared = Overrides::of_tensors();
    let recorded = file.with_extension("inputs.f32").is_file();
    let compiled = compile_with(file, if recorded { &prepared } else { &plain })?;
    Ok(compiled.package)
}

struct Bench {
    provider: CudaProvider,
    request: Request,
    agree: u32,
    wrong: u32,
    failed: u32,
}

impl Bench {
    /// The whole GPU: no mechanism is tried.
    fn open() -> Self {
        let driver = Driver::open().expect("a CUDA driver");
        let how = How {
            order: vec![Mechanism::Priority],
            ..How::usual(None, None).expect("the usual mechanisms have names")
        };
        let gpu = driver.device(0).expect("a GPU");
        let offer = look(gpu, 0, &how).expect("the GPU describes itself");
        println!("{}", offer.machine());
        let units = offer.tpcs().try_into().unwrap_or(u8::MAX);
        Self {
            provider: CudaProvider {
                driver,
                ordinal: 0,
                offer,
                leaders: vec![1, 2],
                watchdog: Watchdog {
                    unknown_ns: 20_000_000_000,
                    ..Watchdog::default()
                },
                kernel_padding: KernelPaddingSpec::default(),
                wait: Wait::Spin,
                look_stride: None,
                shares_context: false,
            },
            request: Request {
                batches: vec![1, 3],
                units: vec![units],
                budget: Nanos::ZERO,
                seed: 1,
            },
            agree: 0,
            wrong: 0,
            failed: 0,
        }
    }

    fn verify(&mut self, name: &str, package: &Package) {
        let subject = Subject {
            package,
            solutions: &[],
        };
        match verify(&self.provider, subject, &self.request, &mut |_| ()) {
            Ok(verified) => match verified.failure {
                None => {
                    self.agree += 1;
                    let (values, worst) = (verified.values, verified.worst_permille);
                    println!(
                        "{name}: {values} values, {worst} permille of the tolerance, {} ms",
                        verified.took_ms
                    );
                }
                Some(failure) => {
                    self.wrong += 1;
                    println!("{name}: WRONG: {failure:?}");
                }
            },
            Err(error) => {
                self.failed += 1;
                println!("{name}: DOES NOT RUN: {error}");
            }
        }
    }
}

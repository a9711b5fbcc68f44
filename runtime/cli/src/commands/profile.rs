//! `punctual profile`: how long every stage takes on this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use punctual_daemon::gpu::{Gpu, GpuError};
use punctual_device::profile::{Effort, MeasureError, Request};
use punctual_device_cpu::CpuProvider;
use punctual_model::{Package, PackageError, Profile, ProfileError, SolutionChoice};
use punctual_plan::{Diagnostics, Needs, Policies};
use punctual_platform::output::{self, OutputError};
use punctual_platform::{affinity, read};
use punctual_report::{Column, Table};

use crate::measure::{self, PackageNeeds};
use punctual_platform::termination::{Terminates, Termination};

/// What to measure, and where to put it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual profile manifest.toml
  punctual profile manifest.toml --every --quick
  punctual profile manifest.toml --into-packages

Measures the models that the manifest names: first which solution of each convolution is the fastest,
then with those each stage at each batch size and partition size, and the preparation of each frame
format. The profile lies beside the package
(signs.punctual -> signs.profile.json), where `punctual check` and `punctual daemon` look for it, or in
it: a package may carry the profiles of many boards. Its hash stays. Stages on partitions of the GPU are
measured there, by TPCs, and have a profile of their own (signs.gpu.profile.json).
Measure on a quiet machine, in the power mode it will run in.

TERMINATION CODES: 0 done; 3 the manifest or a package is invalid; 4 a file is missing or cannot
be written; 5 the measuring threads, or the GPU, could not be had.")]
pub struct Options {
    /// The manifest (TOML).
    manifest: PathBuf,
    /// Every batch size and partition size of this machine, not just those the manifest needs.
    #[arg(long)]
    every: bool,
    /// Fewer samples: seconds instead of minutes, with a less certain tail.
    #[arg(long)]
    quick: bool,
    /// Compute every convolution directly. Otherwise the fastest way to compute each is measured first
    /// and kept in the profile, the daemon computes them so, and has the memory for it.
    #[arg(long)]
    direct: bool,
    /// Keep each profile in its package rather than beside it. Done without being asked for where
    /// the package has one of this machine.
    #[arg(long)]
    into_packages: bool,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The manifest could not be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{0}")]
    Manifest(#[from] Diagnostics),
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error(transparent)]
    Measure(#[from] MeasureError<punctual_device_cpu::StartError>),
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error(transparent)]
    MeasureGpu(#[from] MeasureError<punctual_device_cuda::StartError>),
    /// The profile could not be written.
    #[error(transparent)]
    Write(#[from] ProfileError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Read { .. } | Self::Write(_) => Termination::File,
            Self::Package(PackageError::File { .. }) => Termination::File,
            Self::Manifest(_) | Self::Package(_) => Termination::BadInput,
            Self::Measure(_) | Self::MeasureGpu(_) | Self::Gpu(_) => Termination::Resources,
        }
    }
}

/// Measures each model of the manifest and writes its profile.
pub fn run(options: &Options, policies: &Policies) -> Result<(), Error> {
    let path = &options.manifest;
    let text = read::text(path, read::TEXT_BYTES_MAX).map_err(|source| Error::Read {
        path: path.clone(),
        source,
    })?;
    let needs = Needs::of_manifest(&text, path, policies)?;
    let mut packages = measure::by_package(&needs.models);
    if options.every {
        let cores = affinity::available_cores()
            .map_or(1, |cores| cores.len())
            .min(255) as u8;
        for package in &mut packages {
            package.cpu.every(1..=cores);
        }
    }
    let effort = if options.quick {
        Effort::Quick
    } else {
        Effort::Thorough
    };
    // Before minutes are spent on the cores.
    let on_gpu = |package: &PackageNeeds| !package.gpu.units.is_empty();
    let gpu = packages.iter().any(on_gpu).then(Gpu::look).transpose()?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let cpu = CpuProvider {
        cores: affinity::available_cores().unwrap_or_default(),
    };
    for wanted in &packages {
        let package_file = folder.join(&wanted.package);
        let package = Package::read(&package_file)?;
        let direct = options.direct || wanted.paged;
        let request = Request {
            frames: measure::frames(wanted),
            ..measure::request(&needs, &wanted.cpu, effort, direct)
        };
        let profile = measure::measure(&cpu, &wanted.name, &package, &request)?;
        let shown = table(&wanted.name, &profile);
        let kept = keep(profile, &package_file, BESIDE, options.into_packages)?;
        output::text(format_args!("{shown}wrote {}\n", kept.display()))?;
        let Some(gpu) = gpu.as_ref().filter(|_| on_gpu(wanted)) else {
            continue;
        };
        let mut sizes = wanted.gpu.clone();
        if options.every {
            sizes.every(1..=gpu.offer.tpcs().min(255) as u8);
            let granularity = gpu.offer.granularity();
            sizes
                .units
                .retain(|units| u16::from(*units).is_multiple_of(granularity));
        }
        let request = measure::request(&needs, &sizes, effort, true);
        // Interrupts are mostly served by the first cores.
        let provider = gpu.provider(cpu.cores.last().copied().unwrap_or_default());
        let profile = measure::measure(&provider, &wanted.name, &package, &request)?;
        let shown = table(&wanted.name, &profile);
        let kept = keep(profile, &package_file, BESIDE_GPU, options.into_packages)?;
        output::text(format_args!("{shown}wrote {}\n", kept.display()))?;
    }
    Ok(())
}

/// What profiles beside a package end in: the processor's, the GPU's.
const BESIDE: &str = "profile.json";
const BESIDE_GPU: &str = "gpu.profile.json";

/// Writes a profile into its package, if it is to be there or has one of this machine, or beside it. Says which.
fn keep(
    profile: Profile,
    package_file: &Path,
    beside: &str,
    into_package: bool,
) -> Result<PathBuf, Error> {
    // Read again: it may have got another profile since.
    let package = Package::read(package_file)?;
    let known = package.profiles().iter().any(|old| old.key == profile.key);
    let output = if into_package || known {
        package.with_profile(profile)?.write(package_file)?;
        package_file.to_owned()
    } else {
        let beside = package_file.with_extension(beside);
        profile.write(&beside)?;
        beside
    };
    Ok(output)
}

fn table(name: &str, profile: &Profile) -> String {
    let times = [
        Column::words("what"),
        Column::number("samples"),
        Column::number("p50").unit("ms"),
        Column::number("p99").unit("ms"),
        Column::number("max").unit("ms"),
    ];
    let mut table = Table::of(times).inset();
    let mut row = |what: String, samples: u32, times: [u64; 3]| {
        let times = times.map(|ns| format!("{:.3}", ns as f64 / 1e6));
        table.row([what, samples.to_string()].into_iter().chain(times));
    };
    for entry in &profile.stages {
        let what = format!(
            "stage {}, batch {}, {} unit{}",
            entry.stage,
            entry.batch,
            entry.units,
            if entry.units == 1 { "" } else { "s" }
        );
        row(
            what,
            entry.samples,
            [entry.p50_ns, entry.p99_ns, entry.max_ns],
        );
    }
    for entry in &profile.prepare {
        let what = format!("prepare {} {}x{}", entry.format, entry.width, entry.height);
        row(
            what,
            entry.samples,
            [entry.p50_ns, entry.p99_ns, entry.max_ns],
        );
    }
    let width = output::width();
    let mut text = format!("{name} on {}\n{table:width$}", profile.key.machine);
    let special = |choice: &&SolutionChoice| choice.solution != "direct";
    let chosen = profile.solutions.iter().filter(special);
    let operators: BTreeSet<u32> = chosen.map(|choice| choice.operator).collect();
    if !operators.is_empty() {
        text.push_str(&format!(
            "  faster than computed directly: {} operators, with {:.1} MiB of weights of their own\n",
            operators.len(),
            profile.solution_memory.weight_bytes as f64 / f64::from(1 << 20)
        ));
    }
    text
}

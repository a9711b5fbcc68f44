//! `punctual profile`: how long every stage takes on this machine.

mod field;

use std::collections::BTreeSet;
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};

use punctual_daemon::gpu::{Gpu, GpuError, wait};
use punctual_daemon::host;
use punctual_daemon::lookup::{EngineError, Wanted, engine};
use punctual_device::Provider;
use punctual_device::profile::{Effort, MeasureError};
use punctual_device_cpu::{CpuProvider, ONE_CORE};
use punctual_device_cuda::CudaProvider;
use punctual_device_ort::gpu::EngineProvider;
use punctual_device_ort::{Library, LibraryError, OrtProvider};
use punctual_model::{Disagreement, Package, PackageError, Profile, ProfileError, StageProfile};
use punctual_plan::{Board, DeviceKind, Diagnostics, Files, Needs, Policies, newest};
use punctual_platform::output::{self, OutputError};
use punctual_platform::rivals::{self, Sighting};
use punctual_platform::{affinity, read};
use punctual_report::{Column, Table};

use crate::measure::{self, Job, PackageNeeds, Sizes};
use punctual_platform::termination::{Terminates, Termination};

/// What to measure, and where to put it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual profile manifest.toml
  punctual profile manifest.toml --every --quick
  punctual profile manifest.toml --beside
  punctual profile manifest.toml --into-packages
  punctual profile --from recording.mcap --output profiles

Measures the models that the manifest names: first which solution of each convolution is the fastest,
then, with those, each stage at each batch size and partition size, and the preparation of each frame
format. Before it is measured each network is verified: what its stages answer at these sizes, on drawn inputs and with memory
overwritten before each stage, is compared with the reference interpreter. The profile says what was compared; the daemon
serves no network that was wrong. Before each request the largest other network of the manifest runs: in the daemon, too, its
weights will have taken the caches. The profile is written beside the package
(signs.punctual -> signs.profile.json), where `punctual check` and `punctual daemon` look for it, or in
it: a package may carry the profiles of many boards. Its hash stays. A profile holds for other weights of the same network, too:
one that was trained or calibrated again need not be measured again. Stages on partitions of the GPU are
measured there, by TPCs, and have a profile of their own (signs.gpu.profile.json); so have stages that
ONNX Runtime runs (signs.ort.profile.json; on the GPU signs.ort-cuda.profile.json, signs.ort-tensorrt.profile.json). On the GPU it is measured first how often launches may look whether they are
preempted: the profile keeps it (look_stride), and the daemon runs with it.
With --beside, each stage is measured a second time while all other compute units of the manifest's
partitions are busy with stages of the largest other network; `factor` is how many times as long it takes
then (of the 99% quantiles, the median of all stages and batch sizes).
Measure on a quiet machine, in the power mode it will run in.
With --from, nothing is measured: a daemon's recording has how long stages took in the field, and the profiles that its plan
was made from. Figures of which it has 207 samples or more, as many as a plan takes a 99% quantile of, are replaced; the others
stay. No longest time becomes shorter. The new profiles name the recording, and lie in the folder --output.

TERMINATION CODES: 0 done; 1 a network answers wrongly on this machine, as its profile says; 3 the manifest or a package is invalid; 4 a file is missing or cannot
be written; 5 the measuring threads cannot be started, or the GPU is unavailable.")]
pub struct Options {
    /// The manifest (TOML).
    #[arg(required_unless_present = "from")]
    manifest: Option<PathBuf>,
    /// Make new profiles of this recording of a daemon, and measure nothing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["manifest", "every", "quick", "beside", "direct", "into_packages"])]
    from: Option<PathBuf>,
    /// The folder for profiles from a recording.
    #[arg(long, value_name = "FOLDER", requires = "from", default_value = ".")]
    output: PathBuf,
    /// Every batch size and partition size of this machine, not just those the manifest needs.
    #[arg(long)]
    every: bool,
    /// Fewer samples: seconds instead of minutes, with a less certain tail.
    #[arg(long)]
    quick: bool,
    /// Measure each stage also while all other compute units are busy. Takes twice as long.
    #[arg(long)]
    beside: bool,
    /// Use the general algorithm for every convolution. By default the fastest algorithm of each is measured first
    /// and recorded in the profile; the daemon uses it and budgets its memory.
    #[arg(long)]
    direct: bool,
    /// Write each profile into its package instead of a file beside it. This is the default where
    /// the package has a profile of this machine.
    #[arg(long)]
    into_packages: bool,
}

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
    #[error("the manifest has partitions with `device = \"ort\"`: {0}")]
    Ort(#[from] LibraryError),
    #[error("the manifest has partitions of the GPU that an engine runs: {0}")]
    Engine(#[from] EngineError),
    #[error(transparent)]
    MeasureOrt(#[from] MeasureError<punctual_device_ort::StartError>),
    /// Its profile was written, so that the daemon refuses it.
    #[error(
        "model {name} answers wrongly on this machine: {found}; the daemon does not serve it. Report this with the package"
    )]
    Wrong {
        name: String,
        found: Box<Disagreement>,
    },
    /// The profile could not be written.
    #[error(transparent)]
    Write(#[from] ProfileError),
    #[error(transparent)]
    Field(#[from] field::Error),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Field(error) => error.termination(),
            Self::Wrong { .. } => Termination::BadResult,
            Self::Read { .. } | Self::Write(_) => Termination::File,
            Self::Package(PackageError::File { .. }) => Termination::File,
            Self::Manifest(_) | Self::Package(_) => Termination::BadInput,
            Self::Measure(_)
            | Self::MeasureGpu(_)
            | Self::Gpu(_)
            | Self::Ort(_)
            | Self::Engine(_)
            | Self::MeasureOrt(_) => Termination::Resources,
        }
    }
}

/// Measures each model of the manifest and writes its profile.
pub fn run(options: &Options, policies: &Policies) -> Result<(), Error> {
    match (&options.from, &options.manifest) {
        (Some(recording), _) => Ok(field::run(recording, &options.output)?),
        (None, Some(manifest)) => measure_all(options, manifest, policies),
        // The command line asks for one of them.
        (None, None) => Ok(()),
    }
}

fn measure_all(options: &Options, path: &Path, policies: &Policies) -> Result<(), Error> {
    let text = read::text(path, read::TEXT_BYTES_MAX).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    let available = host::cores().unwrap_or_default();
    let mut needs = Needs::of_manifest(&text, path, policies, &available)?;
    needs.power_mode = needs.power_mode.or_else(|| {
        let files = Files::of(path.parent().unwrap_or(Path::new("")));
        let board = Board::named(&needs.board, &files)?;
        Some(board.default_power_mode().to_owned())
    });
    let packages = measure::by_package(&needs.models);
    let cores = affinity::available_cores().unwrap_or_default();
    let seen = rivals::here();
    warn_of(&seen, &cores);
    // Before minutes are spent on the cores.
    let is_on = |device| move |package: &PackageNeeds| package.sizes.contains_key(&device);
    let on_gpu = DeviceKind::ALL.into_iter();
    let mut on_gpu = on_gpu.filter(|device| !device.runs_on_cores());
    let gpu = on_gpu.any(|device| packages.iter().any(is_on(device)));
    let gpu = gpu.then(Gpu::look).transpose()?;
    let brought = needs.engines.as_ref();
    let brought = brought.map(|engines| path.parent().unwrap_or(Path::new("")).join(engines));
    let engines = match &gpu {
        Some(gpu) => engines(gpu, &needs, &packages, &cores, brought.as_deref())?,
        None => Vec::new(),
    };
    let ort = packages.iter().any(is_on(DeviceKind::Ort));
    let ort = ort.then(|| Library::load(None)).transpose()?;
    let ort = ort.map(|library| OrtProvider {
        library,
        cores: cores.clone(),
    });
    let run = Run {
        options,
        folder: path.parent().unwrap_or(Path::new("")),
        needs: &needs,
        packages: &packages,
    };
    run.measure_all(&cores, gpu.as_ref(), &engines, ort.as_ref())?;
    // Its times may have been another program's: of those that came since.
    let mut later = rivals::here().since(&seen);
    later.unseen = None;
    warn_of(&later, &cores);
    Ok(())
}

/// What measures on the GPU, with leaders as the manifest wants them.
fn on_gpu(gpu: &Gpu, needs: &Needs, cores: &[usize]) -> CudaProvider {
    // Interrupts are mostly served by the first cores.
    let leaders = cores.iter().rev().copied().collect();
    CudaProvider {
        wait: wait(needs.leader_wait),
        ..gpu.provider(leaders)
    }
}

/// The engines on the GPU that packages need.
fn engines(
    gpu: &Gpu,
    needs: &Needs,
    packages: &[PackageNeeds],
    cores: &[usize],
    brought: Option<&Path>,
) -> Result<Vec<(DeviceKind, EngineProvider)>, Error> {
    let mut engines = Vec::new();
    for device in DeviceKind::ENGINES {
        let mut packages = packages.iter();
        if packages.any(|package| package.sizes.contains_key(&device))
            && let Some(engine) = engine(Wanted { device, brought }, on_gpu(gpu, needs, cores))
        {
            engines.push((device, engine?));
        }
    }
    Ok(engines)
}

/// Says who may keep the cores that are measured from the stages there.
fn warn_of(seen: &Sighting, cores: &[usize]) {
    let cores: Vec<u16> = cores.iter().map(|core| *core as u16).collect();
    if let Some(named) = seen.named(&cores) {
        output::note(format_args!(
            "warning: threads of others may run on the cores that are measured, and the times be theirs: {named}"
        ));
    }
    if let Some(unseen) = seen.unseen {
        output::note(format_args!(
            "note: real-time threads of others may run on the cores that are measured: {unseen}"
        ));
    }
}

/// Whether stages are measured with busy neighbours, too: where work may run on idle compute units of others.
fn measures_beside(options: &Options, needs: &Needs, device: DeviceKind) -> bool {
    let mut models = needs.models.iter();
    options.beside || models.any(|model| model.device == device && model.beside)
}

fn has_units(sizes: &Sizes) -> bool {
    !sizes.units.is_empty()
}

struct Run<'r> {
    options: &'r Options,
    /// The manifest's.
    folder: &'r Path,
    needs: &'r Needs,
    packages: &'r [PackageNeeds],
}

impl Run<'_> {
    /// Measures on each device what the manifest needs of it.
    fn measure_all(
        &self,
        cores: &[usize],
        gpu: Option<&Gpu>,
        engines: &[(DeviceKind, EngineProvider)],
        ort: Option<&OrtProvider>,
    ) -> Result<(), Error> {
        let every = self.options.every;
        let units = 1..=cores.len().clamp(1, 255) as u8;
        let cpu = CpuProvider {
            cores: cores.to_vec(),
        };
        // The processor prepares the frames of all devices.
        self.measure(
            &cpu,
            DeviceKind::Cpu,
            |_| true,
            |sizes| {
                sizes.every_if(every, units.clone());
            },
        )?;
        if let Some(gpu) = gpu {
            let granularity = gpu.offer.granularity();
            let change = |sizes: &mut Sizes| {
                sizes.every_if(every, 1..=gpu.offer.tpcs().min(255) as u8);
                let granted = |units: &u8| u16::from(*units).is_multiple_of(granularity);
                sizes.units.retain(granted);
            };
            let mut provider = on_gpu(gpu, self.needs, cores);
            for (device, engine) in engines {
                self.measure(engine, *device, has_units, change)?;
            }
            provider.look_stride = self.look_stride(&provider, change)?;
            self.measure(&provider, DeviceKind::Cuda, has_units, change)?;
        }
        if let Some(ort) = ort {
            self.measure(ort, DeviceKind::Ort, has_units, |sizes| {
                sizes.every_if(every, units.clone());
            })?;
        }
        Ok(())
    }

    /// Measures the packages that `are_wanted` on a device, at the sizes that `change` makes of theirs, shows the profiles and
    /// keeps them.
    fn measure<P: Provider>(
        &self,
        provider: &P,
        device: DeviceKind,
        are_wanted: impl Fn(&Sizes) -> bool,
        change: impl Fn(&mut Sizes),
    ) -> Result<(), Error>
    where
        Error: From<MeasureError<P::Error>>,
    {
        let mut jobs: Vec<Job> = Vec::new();
        // Of a pattern's packages the first of each kind is measured: the others take the same time.
        let mut measured = BTreeSet::new();
        for wanted in self.packages {
            let mut sizes = wanted.on(device);
            if are_wanted(&sizes) {
                change(&mut sizes);
                let job = self.job(wanted, device, &sizes)?;
                let kind = (wanted.pattern.as_ref(), job.package.timing().to_string());
                if wanted.pattern.is_none() || measured.insert(kind) {
                    jobs.push(job);
                }
            }
        }
        let mut wrong = Ok(());
        measure::measure(
            provider,
            &jobs,
            |job, profile, spans| -> Result<(), Error> {
                let verified = profile.verified.as_ref();
                if let Some(found) = verified.and_then(|verified| verified.failure.clone()) {
                    let (name, found) = (job.name.clone(), Box::new(found));
                    wrong = Err(Error::Wrong { name, found });
                }
                let shown = table(&job.name, &profile);
                let kept = keep(
                    profile,
                    &job.file,
                    device.profile_file(),
                    self.options.into_packages,
                )?;
                output::text(format_args!(
                    "{shown}  took {spans}\nwrote {}\n",
                    kept.display()
                ))?;
                Ok(())
            },
        )?;
        wrong
    }

    /// At how many tiles launches on the GPU look once whether they are preempted: what every package of the manifest bears,
    /// as one device runs them all.
    fn look_stride(
        &self,
        provider: &CudaProvider,
        change: impl Fn(&mut Sizes),
    ) -> Result<Option<NonZeroU8>, Error> {
        let mut chosen = None;
        for wanted in self.packages {
            let mut sizes = wanted.on(DeviceKind::Cuda);
            change(&mut sizes);
            if has_units(&sizes) {
                let job = self.job(wanted, DeviceKind::Cuda, &sizes)?;
                chosen = chosen.max(Some(measure::look_stride(provider, &job)?));
            }
        }
        if let Some(tiles) = chosen {
            output::line(format_args!(
                "launches look whether they are preempted once in {tiles} tiles"
            ))?;
        }
        Ok(chosen)
    }

    fn job(&self, wanted: &PackageNeeds, device: DeviceKind, sizes: &Sizes) -> Result<Job, Error> {
        let effort = if self.options.quick {
            Effort::Quick
        } else {
            Effort::Thorough
        };
        let file = newest(self.folder.join(&wanted.package))?;
        let package = Package::read(&file)?;
        let direct = self.options.direct || wanted.paged;
        let mut request = measure::request(self.needs, sizes, effort, direct);
        if measures_beside(self.options, self.needs, device) {
            request.beside = measure::partitions_on(device, self.needs);
        }
        if device == DeviceKind::Cpu {
            request.frames = measure::frames(&wanted.frames, &package);
        }
        request.frames_on_device = measure::frames(&sizes.frames, &package);
        Ok(Job {
            name: wanted.name.clone(),
            file,
            package,
            request,
        })
    }
}

/// Writes a profile into its package, if that is wanted or it has one of this machine; otherwise next to it. Returns the file.
fn keep(
    profile: Profile,
    package_file: &Path,
    beside: &str,
    into_package: bool,
) -> Result<PathBuf, Error> {
    // Read again: it may have got another profile since.
    let package = Package::read(package_file)?;
    let known = package
        .profiles()
        .iter()
        .find(|old| old.key.holds_as(&profile.key));
    let output = if into_package || known.is_some() {
        let profile = match known {
            Some(known) => profile.or_stages_of(known),
            None => profile,
        };
        package.with_profile(profile)?.write(package_file)?;
        package_file.to_owned()
    } else {
        let beside = package_file.with_extension(beside);
        // One that cannot be read is written anew.
        let profile = match Profile::read(&beside) {
            Ok(known) => profile.or_stages_of(&known),
            Err(_) => profile,
        };
        profile.write(&beside)?;
        beside
    };
    Ok(output)
}

/// The times of a profile, in milliseconds.
pub(super) fn times(profile: &Profile) -> Table {
    let mut columns = vec![
        Column::words("what"),
        Column::number("samples"),
        Column::number("p50").unit("ms"),
        Column::number("p99").unit("ms"),
        Column::number("max").unit("ms"),
    ];
    let has_beside = !profile.beside.is_empty();
    if has_beside {
        columns.push(Column::number("p99 beside").unit("ms"));
    }
    let mut table = Table::of(columns).inset();
    let milliseconds = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
    let mut row = |what: String, samples: u32, times: [u64; 3], beside: Option<u64>| {
        let times = times.map(milliseconds).into_iter();
        let beside = has_beside.then(|| beside.map(milliseconds).unwrap_or_default());
        table.row(
            [what, samples.to_string()]
                .into_iter()
                .chain(times)
                .chain(beside),
        );
    };
    for entry in &profile.stages {
        let same = profile
            .same_as
            .iter()
            .filter(|&&same_as| same_as == entry.stage);
        let also = match same.count() {
            0 | 1 => String::new(),
            stages => format!(" and {} like it", stages - 1),
        };
        let what = format!(
            "stage {}{also}, batch {}, {} unit{}",
            entry.stage,
            entry.batch,
            entry.units,
            if entry.units == 1 { "" } else { "s" }
        );
        let key = |entry: &StageProfile| (entry.stage, entry.batch, entry.units);
        let beside = profile.beside.iter().find(|other| key(other) == key(entry));
        row(
            what,
            entry.samples,
            [entry.p50_ns, entry.p99_ns, entry.max_ns],
            beside.map(|beside| beside.p99_ns),
        );
    }
    let by_cores = profile.prepare.iter().map(|entry| (entry, None));
    let by_device = profile.prepare_on_device.iter().flat_map(|of| {
        let frames = of.frames.iter();
        frames.map(|entry| (entry, Some(of.units)))
    });
    for (entry, units) in by_cores.chain(by_device) {
        let mut what = format!("prepare {} {}x{}", entry.format, entry.width, entry.height);
        if entry.letterbox {
            what.push_str(" letterboxed");
        }
        if let Some(units) = units {
            what.push_str(&format!(
                ", {units} unit{}",
                if units == 1 { "" } else { "s" }
            ));
        }
        row(
            what,
            entry.samples,
            [entry.p50_ns, entry.p99_ns, entry.max_ns],
            None,
        );
    }
    table
}

/// For each partition size how many times as long stages take while all other compute units are busy.
pub(super) fn factors(profile: &Profile) -> String {
    let units: BTreeSet<u8> = profile.beside.iter().map(|entry| entry.units).collect();
    let line = |units: u8| {
        let factor = profile.beside_factor(units)?;
        let plural = if units == 1 { "" } else { "s" };
        Some(format!(
            "  with all other compute units busy, stages on {units} unit{plural} take {factor:.2} times as long (factor)\n"
        ))
    };
    units.into_iter().filter_map(line).collect()
}

/// Which figures are from recordings, in a line; nothing if none is.
pub(super) fn from_the_field(profile: &Profile) -> String {
    let field = profile.field.as_ref();
    field.map_or_else(String::new, |field| format!("  {field}\n"))
}

/// What came of verifying it, in a line; nothing of one that never was.
pub(super) fn verified(profile: &Profile) -> String {
    let verified = profile.verified.as_ref();
    verified.map_or_else(String::new, |verified| format!("  {verified}\n"))
}

fn table(name: &str, profile: &Profile) -> String {
    let width = output::width();
    let mut text = format!(
        "{name} on {}\n{:width$}",
        profile.key.machine,
        times(profile)
    );
    text.push_str(&factors(profile));
    text.push_str(&verified(profile));
    let chosen = |is_meant: fn(&str) -> bool| {
        let choices = profile.solutions.iter();
        let chosen = choices.filter(|choice| is_meant(&choice.solution));
        let operators: BTreeSet<u32> = chosen.map(|choice| choice.operator).collect();
        operators.len()
    };
    let operators = chosen(|solution| solution != "direct" && solution != ONE_CORE);
    if operators > 0 {
        text.push_str(&format!(
            "  faster than computed directly: {operators} operators, with {:.1} MiB of weights of their own\n",
            profile.solution_memory.weight_bytes as f64 / f64::from(1 << 20)
        ));
    }
    let stages = chosen(|solution| solution == ONE_CORE);
    if stages > 0 {
        text.push_str(&format!(
            "  faster on one core of several, at some batch size: {stages} stages\n"
        ));
    }
    text
}

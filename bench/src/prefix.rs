//! `punctual bench prefix`: networks that differ in their last layer alone, their common part in one batch for all, and apart.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use punctual_client::{Client, ConnectError, Crop, Lost, NoSuchTask, Options as Stream};
use punctual_client::{PixelFormat, SubmitError, now_ns};
use punctual_daemon::{Report as Served, ReportError};
use punctual_device_cpu::images::{self, ImageError};
use punctual_kernels::Isa;
use punctual_model::{Calibration, Package, PackageError, cut_where_they_part};
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_report::Table;
use punctual_roofline::structures::Structure;
use serde::Serialize;

use crate::programs::{self, Folder, ProgramError, Programs};

/// Which families, how many networks of each, how long.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench prefix
  punctual bench prefix --families resnet34 --networks 1,4 --seconds 1

For each family and number of networks that differ in their last layer alone: makes packages of the networks as they are, and of
the same cut where they part (as `punctual share` does), measures one of each, and starts punctuald with them in turns, apart
and together. One client keeps as many frames open as a batch has members, for each of the networks in turn. Apart, a batch holds
frames of one network; together, the common part runs in one batch for all. Reported are the answers a second, the median
of the turns, and what the daemon had in memory at most.

TERMINATION CODES: 0 done; 1 a daemon or its client failed; 4 a file cannot be written; 5 a program cannot be started.")]
pub struct Options {
    /// `resnet34`, `mobilenet_v2`, `vit_ti_16`.
    #[arg(long, value_delimiter = ',', default_values_t = FAMILIES.map(|it| it.name().to_owned()), value_parser = FAMILIES.map(Structure::name))]
    families: Vec<String>,
    /// How many networks of each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 6, 8, 10], value_parser = clap::value_parser!(u16).range(1..=64))]
    networks: Vec<u16>,
    /// Rows and columns of the images.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(32..=512))]
    side: u32,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Turns of each side.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// The folder of the programs punctual and punctuald [default: that of this one].
    #[arg(long, value_name = "FOLDER")]
    bin: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

const FAMILIES: [Structure; 3] = [
    Structure::ResNet34,
    Structure::MobileNetV2,
    Structure::VitTi16,
];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("{path}: {source}", path = path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the client: {0}")]
    Connect(#[from] ConnectError),
    #[error("the client: {0}")]
    Client(#[from] Lost),
    #[error("a frame: {0}")]
    Submit(#[from] SubmitError),
    #[error("a frame: {0}")]
    Task(#[from] NoSuchTask),
    #[error("the daemon gave no verdict for {} s", LAST_NS / 1_000_000_000)]
    Silent,
    #[error("the daemon's report: {0}")]
    Report(#[from] ReportError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Program(error) => error.termination(),
            Self::Package(PackageError::File { .. }) | Self::File { .. } => Termination::File,
            Self::Package(_) | Self::Image(_) => Termination::BadInput,
            Self::Connect(_)
            | Self::Client(_)
            | Self::Submit(_)
            | Self::Task(_)
            | Self::Silent
            | Self::Report(_) => Termination::BadResult,
        }
    }
}

/// Frames that are open at once, which is a batch.
const OPEN: u16 = 8;

/// Longer than any verdict takes.
const LAST_NS: u64 = 10_000_000_000;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Apart,
    Together,
}

impl Side {
    const ALL: [Self; 2] = [Self::Apart, Self::Together];

    const fn name(self) -> &'static str {
        match self {
            Self::Apart => "apart",
            Self::Together => "together",
        }
    }
}

/// Of one family and number of networks: each figure apart, and together.
#[derive(Clone, Debug, Serialize)]
struct Row {
    family: &'static str,
    networks: u16,
    answers_hz: [f64; 2],
    /// Frames a batch, in the mean over all stages.
    batch: [f64; 2],
    /// At most resident.
    memory_mb: [f64; 2],
}

pub fn run(options: &Options) -> Result<(), Error> {
    let programs = Programs::new(options.bin.as_deref());
    let mut rows = Vec::new();
    for name in &options.families {
        let family = FAMILIES.into_iter().find(|it| it.name() == name);
        let family = family.expect("the command line takes these only");
        let folder = Folder::new(&format!("prefix-{name}"))?;
        let most = options.networks.iter().copied().max().unwrap_or(1);
        write_packages(family, options.side, most.max(2), &folder)?;
        for side in Side::ALL {
            measure(side, &programs, &folder)?;
        }
        for &networks in &options.networks {
            rows.push(row(family, networks, options, &programs, &folder)?);
        }
    }
    if options.json {
        let json = serde_json::to_string_pretty(&rows).expect("numbers and names");
        output::line(json)?;
    } else {
        output::text(table(&rows).markdown())?;
    }
    Ok(())
}

fn package_name(number: u16) -> String {
    format!("net-{number:02}.punctual")
}

fn create(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|source| Error::File {
        path: folder.to_owned(),
        source,
    })
}

/// All networks, as they are and cut, in the folders `apart` and `together`.
fn write_packages(family: Structure, side: u32, count: u16, folder: &Folder) -> Result<(), Error> {
    let whole = family.specialised(side, 1, count);
    let cut = cut_where_they_part(&whole);
    let lanes = [Isa::detect().lanes() as u8];
    for (of, networks) in Side::ALL.into_iter().zip([whole, cut]) {
        create(&folder.path(of.name()))?;
        for (number, network) in (0..).zip(networks) {
            let package = Package::new(network, Calibration::default())?;
            let path = folder.path(of.name()).join(package_name(number));
            images::add(package, &lanes)?.write(&path)?;
        }
    }
    Ok(())
}

fn manifest(side: Side, packages: &str) -> String {
    format!(
        r#"[daemon]
share_stages = {}

[recorder]
mode = "off"

[[partition]]
name = "main"
units = 1

[[task]]
package = "{packages}/*.punctual"
criticality = "best-effort"
answers = "final"
batch_max = {OPEN}
slots = {}
"#,
        side == Side::Together,
        2 * OPEN
    )
}

/// Measures a network of a side; the others take the same time.
fn measure(side: Side, programs: &Programs, folder: &Folder) -> Result<(), Error> {
    let name = format!("{}.toml", side.name());
    folder.write(&name, manifest(side, side.name()).as_bytes())?;
    Ok(programs.profile(&folder.path(&name))?)
}

/// A folder with the first networks of a side and their profile, and a manifest for it.
fn prepare(side: Side, networks: u16, folder: &Folder) -> Result<PathBuf, Error> {
    let name = format!("{}-{networks}", side.name());
    create(&folder.path(&name))?;
    let packages = (0..networks).map(package_name);
    let profile = Path::new(&package_name(0)).with_extension("profile.json");
    for file in packages.chain([profile.to_string_lossy().into_owned()]) {
        let (from, to) = (
            folder.path(side.name()).join(&file),
            folder.path(&name).join(&file),
        );
        let linked = std::fs::hard_link(&from, &to);
        linked.map_err(|source| Error::File { path: to, source })?;
    }
    let path = format!("{name}.toml");
    folder.write(&path, manifest(side, &name).as_bytes())?;
    Ok(folder.path(&path))
}

fn row(
    family: Structure,
    networks: u16,
    options: &Options,
    programs: &Programs,
    folder: &Folder,
) -> Result<Row, Error> {
    let mut manifests = Vec::new();
    for side in Side::ALL {
        manifests.push(prepare(side, networks, folder)?);
    }
    let mut found: [Vec<Turn>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..options.turns {
        for (turns, path) in found.iter_mut().zip(&manifests) {
            turns.push(Turn::take(
                path,
                networks,
                options.seconds,
                programs,
                folder,
            )?);
        }
    }
    let median = |of: fn(&Turn) -> f64| {
        [0, 1].map(|side| {
            let mut all: Vec<f64> = found[side].iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        })
    };
    Ok(Row {
        family: family.name(),
        networks,
        answers_hz: median(|turn| turn.answers_hz),
        batch: median(|turn| turn.batch),
        memory_mb: median(|turn| turn.memory_mb),
    })
}

/// What one daemon did.
struct Turn {
    answers_hz: f64,
    batch: f64,
    memory_mb: f64,
}

impl Turn {
    fn take(
        manifest: &Path,
        networks: u16,
        seconds: f64,
        programs: &Programs,
        folder: &Folder,
    ) -> Result<Self, Error> {
        let (socket, written) = (folder.path("socket"), folder.path("report.json"));
        let further = ["--log", "error", "--report"].map(OsStr::new);
        let further = further.into_iter().chain([written.as_os_str()]);
        let daemon = programs.daemon(manifest, &socket, further)?;
        let first = package_name(0);
        let first = first.trim_end_matches(".punctual");
        let stream = Stream::new(&socket, first, PixelFormat::Rgb8).reconnect(false);
        let answers_hz = keep_busy(stream.connect()?, networks, seconds)?;
        programs::stop(daemon)?;
        let served = Served::read(&written)?;
        let sum = |of: fn(&punctual_daemon::PartitionReport) -> u64| -> u64 {
            served.partitions.iter().map(of).sum()
        };
        Ok(Self {
            answers_hz,
            batch: sum(|it| it.members) as f64 / sum(|it| it.actions).max(1) as f64,
            memory_mb: served.memory.peak_bytes as f64 / 1e6,
        })
    }
}

/// Keeps a batch of frames open, for each network in turn; how many were answered a second.
fn keep_busy(mut client: Client, networks: u16, seconds: f64) -> Result<f64, Error> {
    let several = client.description().tasks.is_some();
    let (mut submitted, mut answered) = (0, 0_u64);
    let (began, mut since) = (now_ns(), None);
    let end = began + (seconds * 1e9) as u64;
    while now_ns() < end {
        while client.unanswered() < u64::from(OPEN) {
            let Some(mut claim) = client.claim(Some(now_ns() + LAST_NS))? else {
                return Err(Error::Silent);
            };
            if several {
                claim.set_task_number(submitted % networks + 1)?;
            }
            claim.pixels().fill((submitted % 251) as u8);
            client.submit(claim, now_ns(), None, Crop::default())?;
            submitted = submitted.wrapping_add(1) % (networks * 251);
        }
        let Some(response) = client.verdict(Some(now_ns() + LAST_NS))? else {
            return Err(Error::Silent);
        };
        // The first answers are those of a machine that has just woken up.
        if now_ns() - began > 200_000_000 {
            let since = *since.get_or_insert_with(now_ns);
            answered += u64::from(response.answer.is_some() && response.finished_ns > since);
        }
    }
    let took = since.map_or(1, |since| now_ns() - since);
    Ok(answered as f64 * 1e9 / took as f64)
}

fn table(rows: &[Row]) -> Table {
    let headings = [
        "family",
        "networks",
        "apart, answers/s",
        "together",
        "gain",
        "frames a batch, apart",
        "together",
        "memory apart, MB",
        "together",
    ];
    let mut table = Table::new(&headings, 1);
    for row in rows {
        let [apart, together] = row.answers_hz;
        let [batch_apart, batch_together] = row.batch;
        let [memory_apart, memory_together] = row.memory_mb;
        table.row([
            row.family.to_owned(),
            row.networks.to_string(),
            format!("{apart:.1}"),
            format!("{together:.1}"),
            format!("{:.2}x", together / apart),
            format!("{batch_apart:.1}"),
            format!("{batch_together:.1}"),
            format!("{memory_apart:.0}"),
            format!("{memory_together:.0}"),
        ]);
    }
    table
}

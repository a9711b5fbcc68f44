//! `punctual bench prefix`: networks that differ in their last layer alone, their common part in one batch for all, and apart.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use punctual_client::now_ns;
use punctual_model::cut_where_they_part;
use punctual_platform::output;
use punctual_report::Table;
use punctual_roofline::structures::Structure;
use serde::Serialize;

use crate::programs::{Folder, Programs, Serves};
use crate::progress;
use crate::usage;
use crate::zoo::{self, Asker, Error};

/// Which families, how many networks of each, how long.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench prefix
  punctual bench prefix --families resnet34 --networks 1,4 --seconds 1

For each family and number of networks that differ in their last layer alone: makes packages of the networks as they are, and of
the same cut where they part (as `punctual share` does), measures one of each, and starts punctuald with them in turns, apart
and together. One client keeps as many frames open as a batch has members, for each of the networks in turn. Apart, a batch holds
frames of one network; together, the common part runs in one batch for all. Reported are the answers a second, the weights of
all networks, and the daemon's memory at the end of a turn: medians of the turns. Equal pages of weights are kept once on
both sides; what measured solutions derive from weights is kept by each network apart, and once together.

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
    /// Of all its networks, each by itself.
    weights_mb: f64,
    /// The daemon's, at the end of a turn.
    memory_mb: [f64; 2],
}

pub fn run(options: &Options) -> Result<(), Error> {
    let programs = Programs::new(options.bin.as_deref());
    let rows = options.families.len() * options.networks.len();
    let progress = progress::of_turns(rows as u64 * 2 * u64::from(options.turns));
    let mut rows = Vec::new();
    for name in &options.families {
        progress.set_message(format!("{name}: compiled and profiled"));
        let family = Family::make(name, options, &programs)?;
        for &networks in &options.networks {
            progress.set_message(format!("{name}, networks: {networks}"));
            rows.push(family.row(networks, options, &programs, &progress)?);
        }
    }
    progress.finish_and_clear();
    if options.json {
        let json = serde_json::to_string_pretty(&rows).expect("numbers and names");
        output::line(json)?;
    } else {
        output::text(table(&rows).markdown())?;
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

/// Networks of one family, as they are and cut, in the folders `apart` and `together`.
struct Family {
    structure: Structure,
    folder: Folder,
    /// Of one network.
    weight_bytes: usize,
}

impl Family {
    fn make(name: &str, options: &Options, programs: &Programs) -> Result<Self, Error> {
        let structure = FAMILIES.into_iter().find(|it| it.name() == name);
        let structure = structure.expect("the command line takes these only");
        let folder = Folder::new(&format!("prefix-{name}"))?;
        // A network alone parts from none.
        let most = options.networks.iter().copied().max().unwrap_or(1).max(2);
        let whole = structure.specialised(options.side, 1, most);
        let weight_bytes = size_of_val::<[f32]>(&whole[0].weights);
        let cut = cut_where_they_part(&whole);
        for (of, networks) in Side::ALL.into_iter().zip([whole, cut]) {
            let packages = folder.path(of.name());
            zoo::create(&packages)?;
            for (number, network) in (0..).zip(networks) {
                zoo::write(network, &zoo::package(&packages, number))?;
            }
        }
        let made = Self {
            structure,
            folder,
            weight_bytes,
        };
        for side in Side::ALL {
            made.measure(side, programs)?;
        }
        Ok(made)
    }

    /// Measures a network of a side; the others take the same time.
    fn measure(&self, side: Side, programs: &Programs) -> Result<(), Error> {
        let name = format!("{}.toml", side.name());
        let text = manifest(side, side.name());
        self.folder.write(&name, text.as_bytes())?;
        Ok(programs.profile(&self.folder.path(&name))?)
    }

    /// A folder with the first networks of a side and their profile, and a manifest for it.
    fn prepare(&self, side: Side, networks: u16) -> Result<PathBuf, Error> {
        let name = format!("{}-{networks}", side.name());
        let (all, own) = (self.folder.path(side.name()), self.folder.path(&name));
        zoo::create(&own)?;
        let link = |from: &Path, to: &Path| std::fs::hard_link(from, to).map_err(Error::file(to));
        link(&zoo::profile(&all, 0), &zoo::profile(&own, 0))?;
        for number in 0..networks {
            let [from, to] = [&all, &own].map(|folder| zoo::package(folder, number));
            link(&from, &to)?;
        }
        let path = format!("{name}.toml");
        self.folder.write(&path, manifest(side, &name).as_bytes())?;
        Ok(self.folder.path(&path))
    }

    fn row(
        &self,
        networks: u16,
        options: &Options,
        programs: &Programs,
        progress: &ProgressBar,
    ) -> Result<Row, Error> {
        let mut manifests = Vec::new();
        for side in Side::ALL {
            manifests.push(self.prepare(side, networks)?);
        }
        let mut found: [Vec<Turn>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..options.turns {
            for (turns, path) in found.iter_mut().zip(&manifests) {
                let seconds = options.seconds;
                turns.push(Turn::take(path, networks, seconds, programs, &self.folder)?);
                progress.inc(1);
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
            family: self.structure.name(),
            networks,
            answers_hz: median(|turn| turn.answers_hz),
            batch: median(|turn| turn.batch),
            weights_mb: self.weight_bytes as f64 * f64::from(networks) / 1e6,
            memory_mb: median(|turn| turn.memory_mb),
        })
    }
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
        let daemon = programs.reporting(Serves::Daemon, manifest, folder)?;
        let asker = Asker::connect(daemon.socket(), networks)?;
        let answers_hz = keep_busy(asker, networks, seconds)?;
        let memory = usage::memory_of_process(daemon.id())?;
        let served = daemon.stop()?;
        let sum = |of: fn(&punctual_daemon::PartitionReport) -> u64| -> u64 {
            served.partitions.iter().map(of).sum()
        };
        Ok(Self {
            answers_hz,
            batch: sum(|it| it.members) as f64 / sum(|it| it.actions).max(1) as f64,
            memory_mb: memory as f64 / 1e6,
        })
    }
}

/// Keeps a batch of frames open, for each network in turn; how many were answered a second.
fn keep_busy(mut asker: Asker, networks: u16, seconds: f64) -> Result<f64, Error> {
    let silent = || Error::Silent { after_ns: LAST_NS };
    let (mut next, mut answered) = (0, 0_u64);
    let (began, mut since) = (now_ns(), None);
    let end = began + (seconds * 1e9) as u64;
    while now_ns() < end {
        while asker.unanswered() < u64::from(OPEN) {
            if !asker.submit(next, now_ns(), now_ns() + LAST_NS)? {
                return Err(silent());
            }
            next = (next + 1) % networks;
        }
        let response = asker.verdict(now_ns() + LAST_NS)?.ok_or_else(silent)?;
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
        "weights, MB",
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
            format!("{:.0}", row.weights_mb),
            format!("{memory_apart:.0}"),
            format!("{memory_together:.0}"),
        ]);
    }
    table
}

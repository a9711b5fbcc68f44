//! `punctual board detect`: what this machine offers, as a table, as JSON, as a board file.

use std::path::{Path, PathBuf};

use punctual_plan::{Board, Diagnostics};
use punctual_platform::files::write_whole;
use punctual_platform::output;

use super::found::{Found, Look};
use super::{file, ours, table};
use punctual_platform::termination::{Terminates, Termination};

/// Where to look, and how to say it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual board detect
  punctual board detect --search
  punctual board detect --write boards/workbench.toml
  punctual board detect --json | jq .gpu.partitions
  punctual board detect --json | jq .ours          # what differs from the board file of Punctual
  PUNCTUAL_GPU_MECHANISMS=launch-mask,green-contexts punctual board detect

Asks the CUDA driver and the kernel what there is, and tries how the GPU can be divided between partitions:
  stream-mask     the mask of TPCs of each stream, written where this driver keeps it
  libsmctrl       the same by libsmctrl (LIBSMCTRL_PATH, or wherever the loader finds it)
  launch-mask     the mask of each launch, written when the driver calls back; only if PUNCTUAL_GPU_MECHANISMS names it
  green-contexts  the driver's own partitions, from CUDA 12.5 on
  priority        none: one partition of the whole GPU
PUNCTUAL_GPU_MECHANISMS names those that may be used, the best first, with commas between. All commands that use the GPU
and the daemon read it: it must be the same for all of them.
Each is tried in a process of its own that may die of it: one TPC at a time is switched off, a kernel says where it
ran, and a mechanism that does anything but what it should is refused. Outcomes are kept for this driver, GPU and power
mode, as the daemon starts by them; --again tries anew.

A board that Punctual has a file of is known by its device tree. What it has otherwise than that file says is shown: power
modes, and their cores, TPCs and clocks, as the table of nvpmodel has them (/etc/nvpmodel.conf). --write puts all of it into a
file of your own: beside the manifest as boards/NAME.toml, with the name that stands in it.

Where nobody knows the place at which this driver keeps masks, or a known one is refuted, --search looks for it: it tries
up to 128 places for up to five minutes, each in a process of its own, until one passes the same trial. Stop other
programs that use the GPU meanwhile. What is found is kept with the other outcomes, and used from then on.

TERMINATION CODES: 0 there is a GPU; 5 there is none that can be used, and what is shown or written is about
the rest of the machine; 4 the board file exists already or cannot be written.")]
pub struct Options {
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
    /// Write a board file, which must not exist yet.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Try mechanisms again, although there are outcomes.
    #[arg(long)]
    again: bool,
    /// Look for the place of masks where it is not known.
    #[arg(long)]
    search: bool,
    /// The GPU's number, as the driver counts.
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    /// Where outcomes are kept [default: punctual/gpu in the user's cache folder].
    #[arg(long, value_name = "FOLDER")]
    records: Option<PathBuf>,
}

/// Why there is no board file.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("{0} exists: name another file, or remove it first")]
    Exists(PathBuf),
    #[error("cannot write {path}: {source}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the detected values make no valid board file, a defect of Punctual: report it\n{0}")]
    Board(Diagnostics),
}

impl Terminates for WriteError {
    fn termination(&self) -> Termination {
        Termination::File
    }
}

pub fn run(options: &Options) -> Termination {
    let mut found = Found::now(&Look {
        device: options.device,
        records: options.records.as_deref(),
        again: options.again,
        search: options.search,
    });
    found.ours = ours::of(&found);
    let text = if options.json {
        let json = serde_json::to_string_pretty(&found).expect("plain data serialises");
        json + "\n"
    } else {
        format!("{:1$}", table::of(&found), output::width())
    };
    let written = options.write.as_ref().map(|path| write(&found, path));
    let written = Termination::of("board detect", written.unwrap_or(Ok(())));
    let printed = written.once_printed("board detect", output::text(text));
    match &found.no_gpu {
        Some(reason) if printed == Termination::Done => {
            output::note(format_args!("punctual board detect: no GPU: {reason}"));
            Termination::Resources
        }
        _ => printed,
    }
}

fn write(found: &Found, path: &Path) -> Result<(), WriteError> {
    if path.exists() {
        return Err(WriteError::Exists(path.to_owned()));
    }
    let text = file::of(found);
    Board::parse(&text, path).map_err(WriteError::Board)?;
    write_whole(path, text.as_bytes()).map_err(|source| WriteError::File {
        path: path.to_owned(),
        source,
    })
}

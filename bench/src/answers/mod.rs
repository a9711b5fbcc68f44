//! `punctual bench answers`: what answers of a megabyte cost, compared with a copy of as many bytes, and what they cost the
//! frames of another task.

mod channel;
mod forms;

use std::path::PathBuf;

use hdrhistogram::Histogram;
use punctual_platform::affinity;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_report::{Column, Table};
use serde::Serialize;

/// How long, and with which daemon.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench answers
  punctual bench answers --rounds 2000 --turns 10 --seconds 10 --json
  punctual bench answers --turns 0      # without a daemon

Runs networks whose answers have about a megabyte in usual forms, in turns as one whose outputs nobody wants, as one that
writes them to a client's area, and beside a copy of as many bytes from a buffer that was just written to such an area.
Then starts punctuald, once with a segmenter that gives outputs of a megabyte and once with one that gives none, in turns,
beside a classifier on another core, and measures the classifier's frames. It needs two cores for this.

TERMINATION CODES: 0 done; 4 a file cannot be written; 5 memory, threads or a daemon are unavailable.")]
pub struct Options {
    /// Rounds of each form.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Turns with outputs and as many without.
    #[arg(long, default_value_t = 5)]
    turns: u32,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Frames a second of each task.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
    rate: u32,
    /// The folder of the program punctuald [default: that of this one].
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{form}: {source}")]
    Form {
        form: &'static str,
        source: forms::FormError,
    },
    #[error(transparent)]
    Channel(#[from] channel::ChannelError),
    #[error(
        "two cores are needed, this process may use {found}: --turns 0 measures without a daemon"
    )]
    Cores { found: usize },
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Channel(channel::ChannelError::Program(error)) => error.termination(),
            Self::Form { .. } | Self::Channel(_) | Self::Cores { .. } => Termination::Resources,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: String,
    forms: Vec<Row>,
    channel: Vec<Row>,
}

/// Times in us.
#[derive(Clone, Debug, Serialize)]
struct Row {
    what: String,
    side: &'static str,
    bytes: usize,
    samples: u64,
    least_us: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    /// Of what writing adds to the stage at p50 to the copy's p50; none of other sides.
    ratio: Option<f64>,
}

impl Row {
    fn of(what: &str, side: &'static str, bytes: usize, times: &Histogram<u64>) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |quantile| us(times.value_at_quantile(quantile));
        Self {
            what: what.to_owned(),
            side,
            bytes,
            samples: times.len(),
            least_us: us(times.min()),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(times.max()),
            ratio: None,
        }
    }
}

/// Nanoseconds, up to a minute.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("sound bounds")
}

pub fn run(options: &Options) -> Result<(), Error> {
    let cores = affinity::available_cores().unwrap_or_default();
    let last = cores.last().copied().unwrap_or(0);
    // A thread of its own, which is bound to that core.
    let forms = std::thread::scope(|scope| {
        let measured = scope.spawn(|| measure_forms(last, options.rounds));
        measured.join().expect("no panic")
    })?;
    let channel = match (options.turns, cores.as_slice()) {
        (0, _) => Vec::new(),
        (_, [first, .., last]) => {
            let cores = [*first, *last];
            channel::measure(options, cores)?
        }
        (_, found) => {
            let found = found.len();
            return Err(Error::Cores { found });
        }
    };
    let report = Report {
        machine: punctual_device_cpu::machine(),
        forms,
        channel,
    };
    let text = if options.json {
        serde_json::to_string_pretty(&report).expect("numbers and names") + "\n"
    } else {
        report.text()
    };
    Ok(output::text(text)?)
}

fn measure_forms(core: usize, rounds: u32) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for form in &forms::FORMS {
        let times = forms::measure(form, core, rounds);
        let times = times.map_err(|source| Error::Form {
            form: form.name,
            source,
        })?;
        let row = |side, of| Row::of(form.name, side, times.bytes, of);
        let copy = row("copy", &times.copy);
        let without = row("stage without outputs", &times.without);
        let mut with = row("stage with outputs", &times.with);
        with.ratio = Some((with.p50_us - without.p50_us) / copy.p50_us);
        rows.extend([copy, without, with]);
    }
    Ok(rows)
}

impl Report {
    fn text(&self) -> String {
        let us = |heading| Column::number(heading).unit("us");
        let mut table = Table::of([
            Column::words("what"),
            Column::words("side"),
            Column::number("bytes"),
            Column::number("samples"),
            us("least"),
            us("p50"),
            us("p99"),
            us("p99.9"),
            us("max"),
            Column::number("added / copy"),
        ]);
        for row in self.forms.iter().chain(&self.channel) {
            let us = |value: f64| format!("{value:.1}");
            table.row([
                row.what.clone(),
                row.side.to_owned(),
                row.bytes.to_string(),
                row.samples.to_string(),
                us(row.least_us),
                us(row.p50_us),
                us(row.p99_us),
                us(row.p999_us),
                us(row.max_us),
                row.ratio
                    .map_or(String::new(), |ratio| format!("{ratio:.2}")),
            ]);
        }
        format!("{}\n\n{}", self.machine, table.markdown())
    }
}

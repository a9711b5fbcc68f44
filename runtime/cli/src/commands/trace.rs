//! `punctual trace`: a recording for viewers, and expected against measured times.

use std::io;
use std::path::{Path, PathBuf};

use punctual_core::Nanos;
use punctual_insight::{Expected, Part, TraceError, Traced, page, trace};
use punctual_platform::files::{write_whole, write_whole_with};
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_recording::frames::{Follower, Item};
use punctual_recording::{End, Entries, ReadError, Recording, Setting};

use crate::recorded::{Opened, RecordingError, RecordingFile, unreadable};

/// Of which recording, and what to make of it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual simulate robot --seconds 5 --record robot.mcap
  punctual trace robot.mcap --perfetto robot.pftrace
  punctual trace robot.mcap --html robot.html
  punctual trace robot.mcap --html second.html --from 1 --seconds 1
  punctual trace robot.mcap --profile
  punctual trace robot.mcap --profile --json

A trace in Perfetto's format has the whole recording: tracks for the scheduler, tasks, partitions, clients and threads, arrows
that join all that happened to a frame, and counters. Open it at https://ui.perfetto.dev, which shows it without sending it
anywhere. The page needs no viewer and no network, and shows a part: by default two seconds, with the first late frame in the
middle, or the last two if none was late.

TERMINATION CODES: 0 done; 3 the file is no recording, or damaged; 4 it cannot be read, or a file cannot be written.")]
#[command(group = clap::ArgGroup::new("made").required(true).multiple(true))]
pub struct Options {
    /// A recording: `punctual simulate --record` makes one.
    file: PathBuf,
    /// Write a trace for Perfetto there.
    #[arg(long, value_name = "OUT", group = "made")]
    perfetto: Option<PathBuf>,
    /// Write a page there that draws a part of the recording.
    #[arg(long, value_name = "OUT", group = "made")]
    html: Option<PathBuf>,
    /// From where on, in seconds after the recording's beginning.
    #[arg(long, value_name = "SECONDS", requires = "html", value_parser = span)]
    from: Option<Nanos>,
    /// How many seconds.
    #[arg(long, default_value = "2", requires = "html", value_parser = span)]
    seconds: Nanos,
    /// Compare how long stages were expected to take with how long they took.
    #[arg(long, group = "made")]
    profile: bool,
    /// Print the comparison as JSON.
    #[arg(long, requires = "profile")]
    json: bool,
}

/// A day: longer than any recording that fits.
const SECONDS_MAX: f64 = 86_400.0;

#[derive(Debug, thiserror::Error)]
#[error("`{found}` is no number of seconds from 0 to {SECONDS_MAX}")]
struct NoSpan {
    found: String,
}

fn span(text: &str) -> Result<Nanos, NoSpan> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    let seconds = seconds.ok_or_else(|| NoSpan {
        found: text.to_owned(),
    })?;
    Ok(Nanos::new((seconds * 1e9) as u64))
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("cannot write {path}: {source}", path = path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{path} is the recording itself: name another file", path = path.display())]
    OverItself { path: PathBuf },
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Recording(error) => error.termination(),
            Self::Write { .. } => Termination::File,
            Self::OverItself { .. } => Termination::BadInput,
        }
    }
}

/// A recording that was read, and what it was read from.
struct Source<'o> {
    path: &'o Path,
    recording: Recording<'o>,
    setting: Setting,
}

pub fn run(options: &Options) -> Result<(), Error> {
    let path = &options.file;
    for out in options.perfetto.iter().chain(&options.html) {
        let is_same = |a: &Path, b: &Path| Some(a.canonicalize().ok()? == b.canonicalize().ok()?);
        if is_same(path, out) == Some(true) {
            return Err(Error::OverItself { path: out.clone() });
        }
    }
    let file = RecordingFile::read(path)?;
    let Opened { recording, setting } = file.open()?;
    let source = Source {
        path,
        recording,
        setting,
    };
    if let Some(out) = &options.perfetto {
        source.perfetto(out)?;
    }
    if let Some(out) = &options.html {
        let (from, length) = (options.from, options.seconds);
        source.html(out, Part { from, length })?;
    }
    if options.profile {
        source.profile(options.json)?;
    }
    Ok(())
}

impl Source<'_> {
    fn unreadable(&self, source: ReadError) -> Error {
        unreadable(self.path, source).into()
    }

    fn perfetto(&self, out: &Path) -> Result<(), Error> {
        let mut entries = self.recording.entries();
        let ahead_ns = self.recording.ahead_ns().unwrap_or_default();
        let mut unread = None;
        let mut traced = Traced::default();
        let written = write_whole_with(out, |file| {
            match trace(entries.by_ref(), &self.setting, ahead_ns, file) {
                Ok(done) => traced = done,
                Err(TraceError::Write(source)) => return Err(source),
                Err(TraceError::Read(source)) => {
                    unread = Some(source);
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
            Ok(())
        });
        if let Some(source) = unread {
            return Err(self.unreadable(source));
        }
        written.map_err(|source| Error::Write {
            path: out.to_owned(),
            source,
        })?;
        output::text(format_args!(
            "wrote {}: {}",
            out.display(),
            summary(&traced)
        ))?;
        say_how_it_ends(&entries);
        Ok(())
    }

    fn html(&self, out: &Path, part: Part) -> Result<(), Error> {
        let title = format!("Recording {}", self.path.display());
        let page = page(&self.recording, &self.setting, &title, part);
        let page = page.map_err(|source| self.unreadable(source))?;
        write_whole(out, page.html().as_bytes()).map_err(|source| Error::Write {
            path: out.to_owned(),
            source,
        })?;
        Ok(output::line(format_args!("wrote {}", out.display()))?)
    }

    fn profile(&self, as_json: bool) -> Result<(), Error> {
        let mut expected = Expected::default();
        let mut follower = Follower::new(&self.setting.config);
        let mut entries = self.recording.entries();
        for entry in entries.by_ref() {
            let entry = entry.map_err(|source| self.unreadable(source))?;
            follower.entry(&entry, &mut |item| {
                if let Item::Run(run) = item {
                    expected.run(&run);
                }
            });
        }
        say_how_it_ends(&entries);
        let names = &self.setting.names;
        if as_json {
            let rows = expected.rows(names);
            let json = serde_json::to_string_pretty(&rows).expect("numbers and text");
            return Ok(output::line(json)?);
        }
        let (width, table) = (output::width(), expected.table(names));
        Ok(output::text(format_args!("{table:width$}"))?)
    }
}

fn summary(traced: &Traced) -> String {
    let Traced {
        steps,
        frames,
        open,
        runs,
        lost,
        left_out,
    } = traced;
    let mut text = format!("{frames} frames, {runs} runs of stages, {steps} steps\n");
    if *open > 0 {
        text += &format!("{open} frames have no verdict in the recording\n");
    }
    if *lost > 0 {
        text += &format!("{lost} steps are lost: frames of that time are not whole\n");
    }
    if *left_out > 0 {
        text += &format!("{left_out} spans are left out, as too many overlap\n");
    }
    text
}

fn say_how_it_ends(entries: &Entries<'_>) {
    if let Some(End::Cut { why }) = entries.end() {
        output::note(format_args!(
            "the file was cut off ({why}): what lies behind is lost"
        ));
    }
}

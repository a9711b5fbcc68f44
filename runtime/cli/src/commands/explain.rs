//! `punctual explain`: why was a frame late, or rejected?

use std::path::PathBuf;

use punctual_insight::explain::{Ask, Explained, FrameName, explain};
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_recording::{End, ReadError};

use crate::commands::record::{self, DumpError};
use crate::live::daemon::{Daemon, LiveError};
use crate::recorded::{Opened, RecordingError, RecordingFile, unreadable};

/// Which recording, and what of it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual simulate robot --load 6 --seconds 5 --record robot.mcap
  punctual explain robot.mcap
  punctual explain robot.mcap --late
  punctual explain robot.mcap --rejected
  punctual explain robot.mcap --slowest 5
  punctual explain robot.mcap --slowest 1 --json
  punctual explain --socket --late                        # of the daemon that runs now
  punctual explain --socket=/tmp/signs.sock signs/0/17

Without an option it counts. A frame, or the only one that is found, is told part by part, from its capture until its client
has the answer: how long each part took, and how long the plan lets it take. The first part that broke its bound is named;
where a frame waited, what ran meanwhile. Of a rejected frame it tells the arithmetic of its admission, and who holds what
was missing.

JSON: {summary, stories, omitted, open}. Times end in `_ns`; those of a story count from its capture, `captured_ns` by the
scheduler's clock. `broke`: the position of the first of `parts` that broke its bound.

TERMINATION CODES: 0 done; 1 the frame is not in the recording; 3 the file is no recording, or damaged; 4 it cannot be
read.")]
pub struct Options {
    /// A recording: of a daemon, or of `punctual simulate --record`.
    #[arg(required_unless_present = "socket")]
    file: Option<PathBuf>,
    /// The frame to tell: the task, the number of the client, the client's own number of the frame.
    #[arg(value_name = "TASK/CLIENT/SEQUENCE")]
    frame: Option<FrameName>,
    /// Have the daemon of this machine, or the one whose clients connect there, write its black box, as `punctual record dump` does, and look at that.
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    socket: Option<Option<PathBuf>>,
    /// List the frames that were late.
    #[arg(long, conflicts_with = "frame")]
    late: bool,
    /// List the frames that were rejected.
    #[arg(long, conflicts_with_all = ["frame", "late"])]
    rejected: bool,
    /// List the frames that were accepted and got no answer.
    #[arg(long, conflicts_with_all = ["frame", "late", "rejected"])]
    failed: bool,
    /// List the frames that took longest, this many.
    #[arg(long, value_name = "N", conflicts_with_all = ["frame", "late", "rejected", "failed"])]
    slowest: Option<usize>,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("{path}: it has no frame {frame}; `--slowest 5` lists some of those that it has", path = path.display())]
    NoFrame { path: PathBuf, frame: FrameName },
    #[error(
        "{name:?} is no frame: with --socket there is no file, and a frame is TASK/CLIENT/SEQUENCE"
    )]
    NoName { name: PathBuf },
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error(transparent)]
    Dump(#[from] DumpError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Recording(error) => error.termination(),
            Self::NoName { .. } => Termination::BadInput,
            Self::Live(error) => error.termination(),
            Self::Dump(error) => error.termination(),
            Self::NoFrame { .. } => Termination::BadResult,
        }
    }
}

impl Options {
    /// The frame that is named: where the file would be, if the file is a daemon's.
    fn frame(&self) -> Result<Option<FrameName>, Error> {
        let (Some(_), None, Some(name)) = (&self.socket, &self.frame, &self.file) else {
            return Ok(self.frame.clone());
        };
        let frame = name.to_str().and_then(|name| name.parse().ok());
        let no_name = || Error::NoName { name: name.clone() };
        frame.map(Some).ok_or_else(no_name)
    }

    fn file(&self) -> Result<PathBuf, Error> {
        if let Some(socket) = &self.socket {
            let daemon = Daemon::find(socket.as_deref())?;
            return Ok(record::dump(&daemon)?.last.unwrap_or_default());
        }
        Ok(self.file.clone().unwrap_or_default())
    }

    fn ask(&self, frame: Option<FrameName>) -> Ask {
        match (frame, self.slowest) {
            (Some(frame), _) => Ask::Frame(frame),
            (None, Some(count)) => Ask::Slowest(count),
            (None, None) if self.late => Ask::Late,
            (None, None) if self.rejected => Ask::Rejected,
            (None, None) if self.failed => Ask::Failed,
            (None, None) => Ask::Summary,
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    let ask = options.ask(options.frame()?);
    let path = &options.file()?;
    let file = RecordingFile::read(path)?;
    let found = explained(&file.open()?, &ask).map_err(|source| unreadable(path, source))?;
    if let Ask::Frame(frame) = &ask
        && found.stories.is_empty()
        && found.open.is_empty()
    {
        return Err(Error::NoFrame {
            path: path.clone(),
            frame: frame.clone(),
        });
    }
    if options.json {
        let json = serde_json::to_string_pretty(&found).expect("plain data always serialises");
        return Ok(output::line(json)?);
    }
    Ok(output::text(found.text(&ask, output::width()))?)
}

fn explained(opened: &Opened<'_>, ask: &Ask) -> Result<Explained, ReadError> {
    let mut entries = opened.recording.entries();
    let mut found = explain(entries.by_ref(), &opened.setting, ask)?;
    if let Some(End::Cut { why }) = entries.end() {
        found.summary.cut = Some(why.clone());
    }
    Ok(found)
}

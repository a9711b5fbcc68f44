//! `punctual ask`: pictures or arrays from files into a task of a daemon that serves, and its answers out.

use std::path::{Path, PathBuf};

use image::DynamicImage;
use punctual_client::{
    Client, Crop, Failure, Lost, Rejection, Response, SubmitError, VectorError, Verdict, now_ns,
};
use punctual_platform::clock::sleep_until_ns;
use punctual_platform::output::{self, OutputError};
use punctual_platform::read;
use punctual_platform::termination::{Terminates, Termination};
use punctual_report::printable;

use crate::ask::answer::{Answered, Names};
use crate::ask::daemon::{self, DaemonError};
use crate::ask::drawing;
use crate::ask::files::{self, FilesError};
use crate::ask::frame::{Fit, FrameError, Framed, Framing, Given};
use crate::ask::vectors::{self, VectorsError};
use crate::ask::written::{WriteError, Written};
use crate::interruption::{Interruption, InterruptionError};
use crate::live::daemon::{Daemon, LiveError};

/// How long a file is asked about again that the daemon has no time for.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Between such attempts.
const PAUSE_NS: u64 = 50_000_000;
/// The longest wait for a daemon that is there and gives no verdict.
const SILENCE_NS: u64 = 60_000_000_000;

/// What to ask, and what to do with the answers.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "punctual ask [OPTIONS] [TASK] FILE...",
    after_help = "\
EXAMPLES:
  punctual ask street.jpg                                     # the daemon of this machine, its only task
  punctual ask --socket /tmp/punctual.sock camera street.jpg
  punctual ask --socket /tmp/punctual.sock camera pictures --json
  punctual ask --socket /tmp/punctual.sock camera street.jpg --draw answer.png --npy tensors

TASK may be left out where the daemon serves one task. A folder stands for the pictures and arrays in it. An array is a file of
`numpy.save`: the tensor that a task takes which is given no pictures, or a picture of uint8. The network sees all of a picture,
with grey borders if it has other proportions; --fit stretches or cuts it. With --crop the picture fills the frame, and the network
sees the crop at that place, as it does of a camera's frame. Files are asked about one after the other, again for two seconds if
the daemon has no time.

TERMINATION CODES: 0 each file was answered, in time or late; 1 one was not, or the daemon ended; 2 wrong usage; 3 there is no such
task, it takes something else, or several daemons serve; 4 none does, or a drawing, a tensor or standard output cannot be
written; 5 no connection; 130 interrupted; 141 the reader of
standard output closed it."
)]
pub struct Options {
    /// The task, then pictures, arrays (`.npy`) and folders of them.
    #[arg(required = true, value_name = "TASK|FILE")]
    words: Vec<PathBuf>,
    /// Where the daemon listens; by default that of this machine.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// What becomes of pictures of other proportions than the network sees.
    #[arg(long, value_enum, default_value_t)]
    fit: Fit,
    /// Let the network see the crop whose upper left corner is there, in pixels of the frame.
    #[arg(long, value_name = "X,Y", value_parser = corner)]
    crop: Option<Crop>,
    /// Want answers within this time, if it is less than the task's own deadline.
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    deadline: Option<f64>,
    /// Numbers that the task takes with each frame: typed, or in an array's file.
    #[arg(long = "vector", value_name = "NAME=NUMBERS", value_parser = vectors::typed)]
    vectors: Vec<vectors::Given>,
    /// Names of classes, one a line, instead of the network's.
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// Leave out detections with a lower score.
    #[arg(long, default_value_t = 0.25)]
    score: f32,
    /// Draw boxes, classes of pixels, maps and classes: into this file (.png, .jpg), or for several files into this folder.
    #[arg(long, value_name = "PATH")]
    draw: Option<PathBuf>,
    /// Write each tensor of an answer into this folder, for `numpy.load`.
    #[arg(long, value_name = "FOLDER")]
    npy: Option<PathBuf>,
    /// Print one JSON object a line for each file.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error(transparent)]
    Vectors(#[from] VectorsError),
    #[error("a crop at {}, {}: at most {}, {} in this task's frames", crop.x, crop.y, max.x, max.y)]
    Crop { crop: Crop, max: Crop },
    #[error("the names {path}: {source}", path = path.display())]
    Names {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("{unanswered} of {files} files without an answer")]
    Unanswered { unanswered: usize, files: usize },
    #[error("the daemon ended: {asked} of {files} files were asked about")]
    Gone { asked: usize, files: usize },
    #[error("the daemon gave no verdict for {} s", SILENCE_NS / 1_000_000_000)]
    Silent,
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Vector(#[from] VectorError),
    #[error(transparent)]
    Interruption(#[from] InterruptionError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Live(error) => error.termination(),
            Self::Daemon(error) => error.termination(),
            Self::Output(error) => error.termination(),
            Self::Vectors(_) | Self::Crop { .. } | Self::Vector(_) => Termination::BadInput,
            Self::Interruption(_) => Termination::Resources,
            Self::Files(_) | Self::Names { .. } | Self::Write(_) => Termination::File,
            Self::Unanswered { .. }
            | Self::Gone { .. }
            | Self::Silent
            | Self::Lost(_)
            | Self::Submit(_) => Termination::BadResult,
        }
    }
}

/// Column and row.
fn corner(text: &str) -> Result<Crop, String> {
    let sides = text.split_once(',').and_then(|(x, y)| {
        let [x, y] = [x, y].map(|side| side.trim().parse().ok());
        Some(Crop { x: x?, y: y? })
    });
    sides.ok_or_else(|| "must be two numbers of pixels, such as 224,144".to_owned())
}

/// As deadlines in manifests.
fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=60_000.0).contains(&value) => Ok(value),
        _ => Err("must be a number from 0.1 to 60000".to_owned()),
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    let _interruption = Interruption::take_over("ask", None)?;
    let socket = Daemon::find(options.socket.as_deref())?.socket;
    let asked = daemon::asked(&socket, &options.words)?;
    let files = files::listed(asked.files)?;
    let written = Written::new(options.draw.as_deref(), options.npy.as_deref(), &files)?;
    let client = daemon::connect(&socket, &asked.task)?;
    let mut asking = Asking::new(client, options, written)?;
    let columns = |file: &PathBuf| printable(&file.display().to_string()).chars().count();
    let columns = files.iter().map(columns).max().unwrap_or(0);
    let mut unanswered = 0;
    for (at, file) in files.iter().enumerate() {
        match asking.ask(file)? {
            Outcome::Answered(answered) => {
                unanswered += usize::from(!answered.is_answered());
                if options.json {
                    output::line(serde_json::to_string(&answered).expect("plain data"))?;
                } else {
                    output::text(answered.text(columns))?;
                }
            }
            Outcome::Unasked(error) => {
                unanswered += 1;
                say_unasked(file, &error, options.json)?;
            }
            Outcome::Gone => {
                let files = files.len();
                return Err(Error::Gone { asked: at, files });
            }
        }
    }
    match unanswered {
        0 => Ok(()),
        unanswered => {
            let files = files.len();
            Err(Error::Unanswered { unanswered, files })
        }
    }
}

fn say_unasked(file: &Path, error: &FrameError, json: bool) -> Result<(), OutputError> {
    if json {
        let file = file.display().to_string();
        let line = serde_json::json!({ "file": file, "error": error.to_string() });
        return output::line(line);
    }
    let file = printable(&file.display().to_string());
    output::note(format_args!("punctual ask: {file}: {error}"));
    Ok(())
}

/// What came of a file.
enum Outcome {
    Answered(Answered),
    /// It could not be made into a frame.
    Unasked(FrameError),
    Gone,
}

/// A connection, and how each file is asked about.
struct Asking {
    client: Client,
    framing: Framing,
    vectors: Vec<vectors::Vector>,
    names: Names,
    deadline_ns: Option<u64>,
    score: f32,
    written: Written,
    /// The present frame, laid out as a slot.
    frame: Vec<u8>,
}

impl Asking {
    fn new(client: Client, options: &Options, written: Written) -> Result<Self, Error> {
        let max = client.terms().crop_max();
        if let Some(crop) = options.crop
            && (crop.x > max.x || crop.y > max.y)
        {
            return Err(Error::Crop { crop, max });
        }
        let names = options.names.as_deref().map(read_names).transpose()?;
        Ok(Self {
            framing: Framing::new(client.terms(), options.crop, options.fit),
            vectors: vectors::resolved(&options.vectors, client.description())?,
            names: Names::new(names, &client),
            deadline_ns: options.deadline.map(|ms| (ms * 1e6) as u64),
            score: options.score,
            written,
            frame: vec![0; client.frame().bytes() as usize],
            client,
        })
    }

    fn ask(&mut self, file: &Path) -> Result<Outcome, Error> {
        let given = Given::read(file);
        let framed = given.and_then(|given| self.framing.fill(given, &mut self.frame));
        let framed = match framed {
            Ok(framed) => framed,
            Err(error) => return Ok(Outcome::Unasked(error)),
        };
        let patience_ns = now_ns() + PATIENCE_NS;
        loop {
            let submitted_ns = match self.submit() {
                Err(Error::Lost(_)) => return Ok(Outcome::Gone),
                submitted => submitted?,
            };
            let response = self.client.verdict(Some(now_ns() + SILENCE_NS))?;
            let response = response.ok_or(Error::Silent)?;
            match response.verdict {
                Verdict::Failed(Failure::DaemonGone) => return Ok(Outcome::Gone),
                Verdict::Rejected(why) if may_pass(why) && now_ns() < patience_ns => {
                    sleep_until_ns(now_ns() + PAUSE_NS);
                }
                _ => return self.answered(file, &framed, &response, submitted_ns),
            }
        }
    }

    /// Submits the present frame; when that was.
    fn submit(&mut self) -> Result<u64, Error> {
        let slot = self.client.slot(Some(now_ns() + SILENCE_NS))?;
        let mut slot = slot.ok_or(Error::Silent)?;
        let pixels = slot.pixels();
        let bytes = pixels.len().min(self.frame.len());
        pixels[..bytes].copy_from_slice(&self.frame[..bytes]);
        for vector in &self.vectors {
            slot.set_vector(&vector.name, &vector.numbers)?;
        }
        let now = now_ns();
        let deadline_ns = self.deadline_ns.map(|after| now + after);
        slot.submit(now, deadline_ns, self.framing.crop())?;
        Ok(now)
    }

    fn answered(
        &mut self,
        file: &Path,
        framed: &Framed,
        response: &Response,
        submitted_ns: u64,
    ) -> Result<Outcome, Error> {
        let name = file.display().to_string();
        let answered = Answered::new(
            name,
            framed,
            response,
            submitted_ns,
            &self.client,
            &self.names,
            self.score,
        );
        let name = self.written.name(file);
        self.written.tensors(&name, response.outputs())?;
        if self.written.draws()
            && answered.is_answered()
            && let Framed::Picture { picture, placement } = framed
        {
            let picture: &DynamicImage = picture;
            let drawing = drawing::drawn(picture, placement, response, &self.names, &answered);
            self.written.drawing(&name, &drawing)?;
        }
        Ok(Outcome::Answered(answered))
    }
}

/// Whether the same frame may be admitted a moment later.
const fn may_pass(why: Rejection) -> bool {
    match why {
        Rejection::LateOnArrival
        | Rejection::NoSlack
        | Rejection::QueueFull
        | Rejection::Quota
        | Rejection::Superseded
        | Rejection::Shedding
        | Rejection::NoArea
        | Rejection::NotReady => true,
        Rejection::Draining | Rejection::CapturedInFuture => false,
    }
}

fn read_names(path: &Path) -> Result<Vec<String>, Error> {
    let text = read::text(path, read::TEXT_BYTES_MAX).map_err(|source| Error::Names {
        path: path.to_owned(),
        source,
    })?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_times_are_numbers_within_their_bounds() {
        assert_eq!(corner("224, 144"), Ok(Crop { x: 224, y: 144 }));
        for text in ["224", "-1,2", "1,2,3", "a,b", ""] {
            assert!(corner(text).is_err(), "{text}");
        }
        assert_eq!(milliseconds("33.5"), Ok(33.5));
        for text in ["0", "-1", "nan", "inf", "60001", "soon"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }
}

//! `punctual camera`: a camera process that shows frames of which it is known what they show.

pub(crate) mod boxes;
mod capture;
mod error;
mod tally;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use punctual_client::{ConnectError, Refusal};
use punctual_platform::output::{self, OutputError};
use punctual_platform::signals::TerminationSignals;
use punctual_platform::thread;
use punctual_signs::Camera;
use punctual_types::PixelFormat;

use crate::demo::table::{self, Row};
use crate::report::CameraReport;

use capture::{Pace, capture};
pub use error::Error;
use tally::Tally;

/// How many scenes of signs a camera draws at start, to show them in turn.
const SIGNS: u32 = 200;

/// How many streets, which take longer.
const STREETS: u32 = 40;

/// Priority of a camera that asks for one: the lowest, below every thread of the daemon.
const PRIORITY: u8 = 1;

/// What to show, where, and how fast.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual camera --socket /tmp/punctual.sock --task signs --fps 30
  punctual camera --socket /tmp/punctual.sock --task watch --seconds 5 --json
  punctual camera --socket /tmp/punctual.sock --task signs --fps 30 --reconnect
  punctual camera --socket /tmp/punctual.sock --task streets --scenes streets --format nv12 --fps 10

It shows rendered traffic signs, for the demonstration networks. For your own task: `punctual ask` takes pictures and arrays.

A frame is late when its first answer reached this process after its deadline, whatever the daemon's
own verdict was. Of several answers the deepest in time counts; where there are several, latencies of the
first ones are told, too (--json: first_us), unless the manifest wants one answer. A frame is
skipped when all slots are in flight at its time, or there is no daemon (--reconnect).

TERMINATION CODES: 0 every frame got its verdict; 1 the daemon went away or a verdict is missing;
3 the daemon's frames are not what this camera shows; 4 standard output cannot be written; 5 no connection; 141 the reader of standard output closed it.")]
pub struct Options {
    /// Where the daemon listens.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// The task to send frames to, as the daemon's manifest names it.
    #[arg(long)]
    task: String,
    /// What the frames show: one sign within a crop of 192x192, or a street with several signs.
    #[arg(long, value_enum, default_value = "signs")]
    scenes: Scenes,
    /// The pixel format of the frames.
    #[arg(long, value_parser = formats(), default_value = PixelFormat::Rgb8.name())]
    format: PixelFormat,
    /// Seed of the rendered scenes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of the capture, in seconds; absent: until a signal.
    #[arg(long, value_parser = positive)]
    seconds: Option<f64>,
    /// Frames a second; absent: the next one when the last is answered.
    #[arg(long, value_parser = positive)]
    fps: Option<f64>,
    /// When the daemon ends, wait and connect to the next one.
    #[arg(long)]
    reconnect: bool,
    /// Ask for the lowest real-time priority, as a camera's driver thread has.
    #[arg(long)]
    realtime: bool,
    /// Print one JSON object a line, five a second.
    #[arg(long)]
    json: bool,
    /// Report the last answers to the first scenes, this many, with the last counts (--json); with --seconds, of the
    /// first six tenths of them.
    #[arg(long, default_value_t = 0, value_name = "SCENES")]
    answers: u64,
    /// End when the process that started this one ends.
    #[arg(long, hide = true)]
    end_with_parent: bool,
}

/// Answers are shown of this share of the time: the demo's cameras begin as soon as they have drawn their scenes, so at the end some
/// are alone.
const SHOWN_SHARE: f64 = 0.6;

/// What a camera shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenes {
    Signs,
    Streets,
}

impl Scenes {
    pub(crate) fn camera(self, format: PixelFormat, seed: u64) -> Camera {
        match self {
            Self::Signs => Camera::signs(format, seed, SIGNS),
            Self::Streets => Camera::streets(format, seed, STREETS),
        }
    }
}

/// Those that the camera shows.
fn formats() -> impl TypedValueParser<Value = PixelFormat> {
    PossibleValuesParser::new([PixelFormat::Rgb8, PixelFormat::Nv12].map(PixelFormat::name))
        .try_map(|name| name.parse::<PixelFormat>())
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(value),
        _ => Err("must be a number above 0 and up to 1000000".to_owned()),
    }
}

/// Shows frames until the time is over or a signal comes, then waits for what is open.
pub fn run(options: &Options) -> Result<(), Error> {
    if options.end_with_parent {
        // Fails only for a signal that does not exist.
        let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM);
    }
    let signals = TerminationSignals::take_over()?;
    let camera = options.scenes.camera(options.format, options.seed);
    let format = options.format;
    let mut client = punctual_client::Options::new(&options.socket, &options.task, format)
        .reconnect(options.reconnect)
        .connect()
        .map_err(|source| match source {
            ConnectError::Refused(Refusal::Format { expected: wanted }) => Error::Format {
                shown: format,
                wanted,
            },
            source => Error::Connect {
                path: options.socket.clone(),
                source,
            },
        })?;
    let (frame, layout) = (*client.frame(), camera.layout());
    if (frame.width, frame.height, frame.row_stride)
        != (layout.width, layout.height, layout.row_stride)
    {
        return Err(Error::Frame {
            width: frame.width,
            height: frame.height,
        });
    }
    let (width, height) = (client.terms().crop_width, client.terms().crop_height);
    if options.scenes == Scenes::Streets && (width, height) != (layout.width, layout.height) {
        return Err(Error::Crop { width, height });
    }
    if options.realtime {
        // Without the privilege it stays an ordinary process, which the daemon has said already.
        let _ = thread::set_realtime(thread::current_tid(), PRIORITY);
    }
    let pace = Pace {
        seconds: options.seconds,
        fps: options.fps,
    };
    let report = CameraReport {
        task: options.task.clone(),
        ..CameraReport::default()
    };
    let shown_seconds = options.seconds.map_or(f64::INFINITY, |s| SHOWN_SHARE * s);
    let mut say_counts = |report: &CameraReport| {
        if options.json {
            say_json(report)
        } else {
            Ok(())
        }
    };
    let (report, end) = capture(
        &mut client,
        &camera,
        &signals,
        pace,
        Tally::new(&camera, report, options.answers, shown_seconds),
        &mut say_counts,
    );
    // What went wrong first is what there is to know.
    end.and(say_last(report, options.json).map_err(Error::from))
}

fn say_json(report: &CameraReport) -> Result<(), OutputError> {
    output::line(serde_json::to_string(report).expect("plain data serialises"))
}

fn say_last(report: CameraReport, json: bool) -> Result<(), OutputError> {
    if json {
        return say_json(&report);
    }
    let first = table::first_answers(&report);
    output::text(table::draw(&[Row::whole(report)], output::width()) + &first)
}

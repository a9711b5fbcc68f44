//! `punctual-v4l2`: a Video4Linux2 camera that feeds a task of `punctuald`. Not yet run on a camera: tested on a preloaded
//! library in the place of the device.
#![forbid(unsafe_code)]

mod fault;
mod feed;
mod jpeg;
mod pixels;
mod settings;
mod stamps;
mod tally;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use log::error;
use punctual_client::Crop;
use punctual_platform::logging::{self, ENVIRONMENT, Levels};
use punctual_platform::signals::TerminationSignals;
use punctual_platform::v4l2::Exposure;
use punctual_types::PixelFormat;
use stamps::Stamp;

/// For the fuzz target in `testing/fuzz`, not for users.
#[doc(hidden)]
pub mod fuzzed {
    pub use crate::jpeg::exercise as jpeg;
}

/// Feeds a task of punctuald with the frames of a V4L2 camera.
#[derive(Debug, Parser)]
#[command(
    name = "punctual-v4l2",
    version,
    after_help = "\
EXAMPLES:
  punctual-v4l2 --device /dev/video0 --task front
  punctual-v4l2 --device /dev/video0 --socket /tmp/punctual.sock --task camera --format yuyv --frames 300 --json
  punctual-v4l2 --task front --export --buffers 6
  punctual-v4l2 --task front --fps 30 --exposure 8000
  punctual-v4l2 --task front --mjpeg --fps 60
  punctual-v4l2 --task front --log debug

The frame's size is the manifest's, and the format, unless it is given; the driver must deliver exactly these, with any stride, in one piece of memory. A frame that
comes while every slot is in use, or while there is no daemon, is skipped; the program connects anew by itself.
SIGTERM and SIGINT end it, once all submitted frames have their verdicts.

A frame's capture time, from which its deadline counts, is the driver's time stamp. A stamp cannot be true if it is zero,
of another clock than CLOCK_MONOTONIC, ahead of it, older than 10 s, or not after the one before. Such a frame is not
submitted, as its age is not known; with --stamp receipt the driver's stamps are not looked at. Nor are frames submitted
that are damaged, empty, shorter than their format, longer than their buffer or behind a header, nor (with --mjpeg)
pictures that are cut, of another size, of more than four scans, or cannot be decoded. After EIO the camera is started anew.
Faults are counted by kind and the first of each kind is logged; so are verdicts without an answer, by reason. When
there was no usable frame for --silence-ms, the program ends.

TERMINATION CODES: 0 done; 1 a verdict is missing; 2 wrong usage; 3 the camera cannot give what the task or an
option wants, or the daemon refused; 4 the device cannot be opened, or standard output not be written; 5 the camera sent no usable frame in time, or the
system refused; 141 the reader of standard output closed it."
)]
pub struct Options {
    /// The capturing node of the camera.
    #[arg(long, value_name = "PATH", default_value = "/dev/video0")]
    device: PathBuf,
    /// Where the daemon listens.
    #[arg(long, value_name = "PATH", default_value = "/run/punctual/socket")]
    socket: PathBuf,
    /// The task to send frames to, as the daemon's manifest names it.
    #[arg(long)]
    task: String,
    /// Pixel format; an error if the task has another one in the manifest [default: the manifest's].
    #[arg(long, value_parser = formats())]
    format: Option<PixelFormat>,
    /// Upper left corner of the crop, if it is smaller than the frame, in pixels.
    #[arg(long, value_name = "X,Y", value_parser = corner, default_value = "0,0")]
    crop: (u32, u32),
    /// Stop after this many frames [default: run until a signal].
    #[arg(long)]
    frames: Option<u64>,
    /// Number of buffers to request from the driver.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=32))]
    buffers: u32,
    /// Ask the camera for MJPEG and decode it here: many USB cameras send nothing else at their full rate. The task takes rgb8, bgr8 or
    /// gray8.
    #[arg(long, conflicts_with = "export")]
    mjpeg: bool,
    /// Frames a second to ask the driver for; the nearest that it has, if it has a setting for that [default: the driver's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    fps: Option<u32>,
    /// Exposure to ask the driver for: `auto`, or a time in microseconds; the nearest that it has, if it has a setting for that
    /// [default: the driver's].
    #[arg(long, value_name = "auto|US", value_parser = settings::exposure)]
    exposure: Option<Exposure>,
    /// Give the driver's own buffers to the daemon, so that no frame is copied. The task needs `import_buffers = true`, and the
    /// driver must export DMA-BUFs; where that is not so, frames are copied, and the log says why.
    #[arg(long)]
    export: bool,
    /// Time without a usable frame after which the program ends with an error, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    silence_ms: u64,
    /// What a frame's capture time is.
    #[arg(long, value_enum, default_value = "capture")]
    stamp: Stamp,
    /// Log level, on standard error or in the journal: `error`, `warn`, `info`, `debug` or `trace`. A
    /// module may have its own: `info,punctual_camera::feed=debug`.
    #[arg(long, value_name = "LEVEL", env = ENVIRONMENT, hide_env_values = true, default_value = "info")]
    log: Levels,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Options {
    const fn crop(&self) -> Crop {
        let (x, y) = self.crop;
        Crop { x, y }
    }
}

fn formats() -> impl TypedValueParser<Value = PixelFormat> {
    let pictures = PixelFormat::ALL.into_iter();
    let pictures = pictures.filter(|format| *format != PixelFormat::Tensor);
    PossibleValuesParser::new(pictures.map(PixelFormat::name))
        .try_map(|name| name.parse::<PixelFormat>())
}

fn corner(text: &str) -> Result<(u32, u32), String> {
    let parsed = text
        .split_once(',')
        .and_then(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?)));
    parsed.ok_or_else(|| format!("{text} is not X,Y: two whole numbers of pixels"))
}

/// Feeds as the options say; the code is documented there.
#[must_use]
pub fn run(options: &Options) -> ExitCode {
    let _last_words = logging::start("punctual-v4l2", &[], &options.log);
    let fed = TerminationSignals::take_over()
        .map_err(feed::FeedError::from)
        .and_then(|signals| feed::feed(options, &signals));
    match fed {
        Ok(tally) => match tally.print(options.json) {
            Ok(()) => ExitCode::from(u8::from(tally.missing > 0)),
            Err(error) => ExitCode::from(error.end("punctual-v4l2", 4)),
        },
        Err(error) => {
            error!("{error}");
            ExitCode::from(error.code())
        }
    }
}

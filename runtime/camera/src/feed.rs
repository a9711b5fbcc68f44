//! From the camera to the daemon, frame by frame.

use std::os::fd::AsFd;

use log::debug;
use punctual_client::{
    Client, ConnectError, Crop, Lost, PixelFormat, Refusal, ResultRecord, SubmitError, now_ns,
};
use punctual_platform::OsError;
use punctual_platform::poll::Poller;
use punctual_platform::signals::TerminationSignals;
use punctual_platform::v4l2::{Capture, CaptureError};

use crate::Options;
use crate::pixels::{Copying, LayoutError, asked_for};
use crate::tally::Tally;

/// How long to wait for a daemon at the start, in ns.
const OPEN_NS: u64 = 10_000_000_000;

/// How long to wait for the last verdicts, in ns.
const LAST_NS: u64 = 2_000_000_000;

const CAMERA: u64 = 0;
const SIGNALS: u64 = 1;

/// Why the camera feeds no longer.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// What it gives is not what the task wants.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error("no frame for {ms} ms: check the camera's connection, or raise --silence-ms")]
    Silent { ms: u64 },
    /// The driver's frames are shorter than its format.
    #[error("the driver's frame has {bytes} bytes, too few for its own format")]
    Short { bytes: usize },
    /// The requested crop reaches beyond the frame.
    #[error("{0}: see --crop")]
    Crop(SubmitError),
    #[error(transparent)]
    Os(#[from] OsError),
}

impl FeedError {
    /// The code that the program ends with; `--help` documents them.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Layout(_) | Self::Lost(_) | Self::Short { .. } | Self::Crop(_) => 3,
            Self::Capture(CaptureError::Open { .. } | CaptureError::NoCapture { .. }) => 4,
            Self::Capture(_) | Self::Silent { .. } | Self::Os(_) => 5,
        }
    }
}

/// Feeds until the frames are done or a signal comes; then waits for the verdicts that are open.
pub fn feed(options: &Options, signals: &TerminationSignals) -> Result<Tally, FeedError> {
    // The device first: a camera that is not there should be said before a daemon is waited for.
    let mut capture = Capture::open(&options.device)?;
    let mut client = connected(options)?;
    let wanted = *client.frame();
    let given = capture.set_format(asked_for(&wanted)?)?;
    debug!(
        "task {:?} wants {wanted:?}, the camera gives {given:?}",
        options.task
    );
    let copying = Copying::new(&given, &wanted)?;
    capture.start(options.buffers)?;

    let mut poller = Poller::new(2)?;
    poller.add(capture.as_fd(), CAMERA)?;
    poller.add(signals.as_fd(), SIGNALS)?;
    let mut tally = Tally::default();
    let mut next_sequence = None;
    let mut connections = client.connections();
    while options.frames.is_none_or(|frames| tally.captured < frames) {
        let limit_ns = now_ns() + options.silence_ms * 1_000_000;
        let mut camera = false;
        let mut signal = false;
        for ready in poller.wait(Some(limit_ns)) {
            camera |= ready.token == CAMERA;
            signal |= ready.token == SIGNALS;
        }
        if signal {
            break;
        }
        if !camera && now_ns() >= limit_ns {
            let ms = options.silence_ms;
            return Err(FeedError::Silent { ms });
        }
        let crop = Crop {
            x: options.crop.0,
            y: options.crop.1,
        };
        take(
            &mut capture,
            &mut client,
            &copying,
            crop,
            &mut next_sequence,
            &mut tally,
        )?;
        while let Some(result) = client.try_verdict()? {
            tally.count(&result);
        }
        if client.connections() > connections {
            connections = client.connections();
            debug!("connected anew, the {connections}. time");
        }
    }
    drop(capture);
    tally.missing = last_verdicts(&mut client, |result| tally.count(result))?;
    Ok(tally)
}

/// A client for frames of the format that was asked for; if none was, of the manifest's, which the
/// daemon says when it refuses another.
fn connected(options: &Options) -> Result<Client, Lost> {
    let until_ns = now_ns() + OPEN_NS;
    let open = |format| {
        punctual_client::Options::new(&options.socket, &options.task, format).open(Some(until_ns))
    };
    if let Some(format) = options.format {
        return open(format);
    }
    match open(PixelFormat::Nv12) {
        Err(Lost::Refused(refused)) => match *refused {
            ConnectError::Refused(Refusal::Format { expected }) => open(expected),
            _ => Err(Lost::Refused(refused)),
        },
        other => other,
    }
}

/// Submits the frame that the driver has, if it has one, there is a slot, and it is whole.
fn take(
    capture: &mut Capture,
    client: &mut Client,
    copying: &Copying,
    crop: Crop,
    next_sequence: &mut Option<u32>,
    tally: &mut Tally,
) -> Result<(), FeedError> {
    let Some(frame) = capture.frame()? else {
        return Ok(());
    };
    tally.captured += 1;
    // The driver's count wraps around.
    let expected = next_sequence.replace(frame.sequence.wrapping_add(1));
    let gap = expected.map_or(0, |expected| frame.sequence.wrapping_sub(expected));
    tally.dropped_by_driver += u64::from(gap);
    if frame.damaged {
        tally.damaged += 1;
        return Ok(());
    }
    let captured_ns = frame.captured_ns.unwrap_or_else(now_ns);
    let Some(mut slot) = client.slot(Some(0))? else {
        tally.skipped += 1;
        return Ok(());
    };
    if !copying.copy(frame.bytes(), slot.pixels()) {
        let bytes = frame.bytes().len();
        return Err(FeedError::Short { bytes });
    }
    // The driver can have its buffer back before the frame is answered.
    drop(frame);
    match slot.submit(captured_ns, None, crop) {
        Ok(_) => tally.submitted += 1,
        Err(error @ SubmitError::Crop { .. }) => return Err(FeedError::Crop(error)),
        // The daemon went away since the slot was obtained, or verdicts must be read first.
        Err(_) => tally.skipped += 1,
    }
    Ok(())
}

/// Waits for what is open; returns how many verdicts did not come.
fn last_verdicts(client: &mut Client, mut count: impl FnMut(&ResultRecord)) -> Result<u64, Lost> {
    let limit_ns = now_ns() + LAST_NS;
    while client.unanswered() > 0 {
        let Some(result) = client.verdict(Some(limit_ns))? else {
            break;
        };
        count(&result);
    }
    Ok(client.unanswered())
}

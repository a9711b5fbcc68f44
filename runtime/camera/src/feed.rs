//! From the camera to the daemon, frame by frame.

use std::os::fd::AsFd;

use log::{debug, info, warn};
use punctual_client::{Client, ConnectError, Lost, Refusal, ResultRecord, SubmitError, now_ns};
use punctual_platform::OsError;
use punctual_platform::poll::{Poller, wait_readable};
use punctual_platform::signals::TerminationSignals;
use punctual_platform::v4l2::{Capture, CaptureError};

use crate::Options;
use crate::fault::Fault;
use crate::jpeg::Decoder;
use crate::pixels::{Copying, LayoutError, asked_for};
use crate::settings;
use crate::stamps::Stamps;
use crate::tally::Tally;

/// How long to wait for a daemon at the start, in ns.
const OPEN_NS: u64 = 10_000_000_000;

/// How long to wait for the last verdicts, in ns.
const LAST_NS: u64 = 2_000_000_000;

/// How long to leave a driver alone that failed, in ns. It may fail again at once, and would take a whole core.
const PAUSE_NS: u64 = 20_000_000;

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
    #[error("{source}; without {option} it keeps its own")]
    Setting {
        option: &'static str,
        source: CaptureError,
    },
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error("no frame for {ms} ms: check the camera's connection, or raise --silence-ms")]
    Silent { ms: u64 },
    #[error("no usable frame for {ms} ms, {faults} faults in a row, the last: {last}")]
    Faulty { ms: u64, faults: u64, last: Fault },
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
            Self::Layout(_) | Self::Setting { .. } | Self::Lost(_) | Self::Crop(_) => 3,
            Self::Capture(CaptureError::Open { .. } | CaptureError::NoCapture { .. }) => 4,
            Self::Capture(_) | Self::Silent { .. } | Self::Faulty { .. } | Self::Os(_) => 5,
        }
    }
}

/// Feeds until the frames are done or a signal comes; then waits for the verdicts that are open.
pub fn feed(options: &Options, signals: &TerminationSignals) -> Result<Tally, FeedError> {
    let mut feed = Feed::start(options, signals)?;
    let mut poller = Poller::new(2)?;
    poller.add(feed.capture.as_fd(), CAMERA)?;
    poller.add(signals.as_fd(), SIGNALS)?;
    let mut connections = feed.client.connections();
    let frames = options.frames.unwrap_or(u64::MAX);
    while feed.tally.captured < frames {
        let limit_ns = feed.limit_ns();
        let mut camera = false;
        let mut signal = false;
        for ready in poller.wait(Some(limit_ns)) {
            camera |= ready.token == CAMERA;
            signal |= ready.token == SIGNALS;
        }
        if signal {
            break;
        }
        if camera {
            match feed.take() {
                Err(FeedError::Capture(CaptureError::Interrupted(_))) => feed.restart()?,
                taken => taken?,
            }
        }
        // A device that is ready and has nothing is silent, too.
        if feed.limit_ns() == limit_ns && now_ns() >= limit_ns {
            let ms = options.silence_ms;
            return Err(FeedError::Silent { ms });
        }
        while let Some(result) = feed.client.try_verdict()? {
            // Nothing was kept of a frame that was copied.
            feed.capture.give_back(result.slot);
            count(&mut feed.tally, &result);
        }
        if feed.client.connections() > connections {
            connections = feed.client.connections();
            debug!("connected anew, the {connections}. time");
        }
    }
    feed.end()
}

/// Faults without a usable frame in between.
struct Faults {
    since_ns: u64,
    count: u64,
}

/// A camera and the daemon that it feeds.
struct Feed<'o> {
    options: &'o Options,
    signals: &'o TerminationSignals,
    capture: Capture,
    client: Client,
    /// Of MJPEG.
    decoder: Option<Decoder>,
    /// Of what the driver gives, or of what that is decoded to.
    copying: Copying,
    /// Whether the slots are the driver's buffers.
    exported: bool,
    stamps: Stamps,
    tally: Tally,
    /// What the driver's count of frames is next, if it drops none.
    next_sequence: Option<u32>,
    /// When the driver last gave a frame or an error.
    heard_ns: u64,
    faults: Option<Faults>,
}

impl<'o> Feed<'o> {
    fn start(options: &'o Options, signals: &'o TerminationSignals) -> Result<Self, FeedError> {
        // The device first: a camera that is not there should be said before a daemon is waited for.
        let mut capture = Capture::open(&options.device)?;
        let client = to_daemon(options).open(Some(now_ns() + OPEN_NS))?;
        let wanted = *client.frame();
        let decoder = options.mjpeg.then(|| Decoder::new(&wanted)).transpose()?;
        let asked = match &decoder {
            Some(_) => Decoder::asked_for(&wanted)?,
            None => asked_for(&wanted)?,
        };
        let given = capture.set_format(asked)?;
        debug!(
            "task {:?} wants {wanted:?}, the camera gives {given:?}",
            options.task
        );
        let to_copy = match &decoder {
            Some(_) => Decoder::decoded(&given, &wanted)?,
            None => given,
        };
        let copying = Copying::new(&to_copy, &wanted)?;
        settings::set(options, &mut capture)?;
        let slots = u32::from(client.terms().slots);
        // As many as the task has slots can be imported.
        let count = if options.export {
            options.buffers.min(slots.max(2))
        } else {
            options.buffers
        };
        capture.make_buffers(count)?;
        let (client, exported) = if options.export {
            import(options, &capture, &copying, client)?
        } else {
            (client, false)
        };
        capture.start()?;
        Ok(Self {
            exported,
            options,
            signals,
            capture,
            client,
            decoder,
            copying,
            stamps: Stamps::new(options.stamp),
            tally: Tally::default(),
            next_sequence: None,
            heard_ns: now_ns(),
            faults: None,
        })
    }

    fn silence_ns(&self) -> u64 {
        self.options.silence_ms * 1_000_000
    }

    /// When the driver was silent for too long.
    fn limit_ns(&self) -> u64 {
        self.heard_ns + self.silence_ns()
    }

    /// Submits the frame that the driver has, if it has one, there is a slot, and it is usable.
    fn take(&mut self) -> Result<(), FeedError> {
        let Some(frame) = self.capture.frame()? else {
            return Ok(());
        };
        self.heard_ns = frame.received_ns;
        self.tally.captured += 1;
        // The driver's count wraps around.
        let expected = (self.next_sequence).replace(frame.sequence.wrapping_add(1));
        let gap = expected.map_or(0, |expected| frame.sequence.wrapping_sub(expected));
        self.tally.dropped_by_driver += u64::from(gap);
        let content = match &mut self.decoder {
            // Of no length that could be known before.
            Some(decoder) => Fault::of_content(&frame, 1).and_then(|()| {
                let jpeg = &frame.bytes()[..frame.bytes_used];
                decoder.decode(jpeg).map_err(Fault::Jpeg)
            }),
            None => Fault::of_content(&frame, self.copying.bytes()),
        };
        let captured = content.and_then(|()| self.stamps.capture_ns(&frame).map_err(Fault::Stamp));
        let captured_ns = match captured {
            Ok(captured_ns) => captured_ns,
            Err(fault) => {
                drop(frame);
                return self.miss(fault);
            }
        };
        self.faults = None;
        if self.exported {
            // None while there is no daemon.
            let Some(claim) = self.client.claim_at(frame.buffer()) else {
                self.tally.skipped += 1;
                return Ok(());
            };
            let crop = self.options.crop();
            let submitted = self.client.submit(claim, captured_ns, None, crop);
            match submitted {
                Ok(_) => frame.keep(),
                Err(_) => drop(frame),
            }
            return self.count_submission(submitted.map(drop));
        }
        let Some(mut slot) = self.client.slot(Some(0))? else {
            self.tally.skipped += 1;
            return Ok(());
        };
        let pixels = self.decoder.as_ref().map(Decoder::pixels);
        let pixels = pixels.unwrap_or_else(|| frame.bytes());
        self.copying.copy(pixels, slot.pixels());
        // The driver can have its buffer back before the frame is answered.
        drop(frame);
        let submitted = slot.submit(captured_ns, None, self.options.crop());
        self.count_submission(submitted.map(drop))
    }

    fn count_submission(&mut self, submitted: Result<(), SubmitError>) -> Result<(), FeedError> {
        match submitted {
            Ok(()) => self.tally.submitted += 1,
            Err(error @ SubmitError::Crop { .. }) => return Err(FeedError::Crop(error)),
            // The daemon went away since the slot was obtained, or verdicts must be read first.
            Err(_) => self.tally.skipped += 1,
        }
        Ok(())
    }

    /// The driver failed. It is started anew until it does not fail at that; a signal ends this.
    fn restart(&mut self) -> Result<(), FeedError> {
        loop {
            self.heard_ns = now_ns();
            self.next_sequence = None;
            self.miss(Fault::Interrupted)?;
            if wait_readable(self.signals.as_fd(), Some(self.heard_ns + PAUSE_NS)) {
                return Ok(());
            }
            match self.capture.restart() {
                Err(CaptureError::Interrupted(_)) => {}
                done => {
                    self.heard_ns = now_ns();
                    return Ok(done?);
                }
            }
        }
    }

    /// Counts a frame that cannot be used. For the task a camera that gives no other is as good as silent, so its time is
    /// the same.
    fn miss(&mut self, fault: Fault) -> Result<(), FeedError> {
        if self.tally.count_fault(fault) {
            warn!("a frame is missed: {fault}; the next of this kind are only counted");
        }
        let since_ns = self.heard_ns;
        let faults = self.faults.get_or_insert(Faults { since_ns, count: 0 });
        faults.count += 1;
        let (since_ns, faults) = (faults.since_ns, faults.count);
        if self.heard_ns < since_ns + self.silence_ns() {
            return Ok(());
        }
        Err(FeedError::Faulty {
            ms: self.options.silence_ms,
            faults,
            last: fault,
        })
    }

    /// Waits for the verdicts that are open.
    fn end(self) -> Result<Tally, FeedError> {
        let Self {
            capture,
            mut client,
            mut tally,
            ..
        } = self;
        drop(capture);
        let limit_ns = now_ns() + LAST_NS;
        while client.unanswered() > 0 {
            let Some(result) = client.verdict(Some(limit_ns))? else {
                break;
            };
            count(&mut tally, &result);
        }
        tally.missing = client.unanswered();
        Ok(tally)
    }
}

fn to_daemon(options: &Options) -> punctual_client::Options {
    punctual_client::Options::new(&options.socket, &options.task, options.format)
}

/// Connects anew with the driver's buffers in the place of slots; with the daemon's slots again where the driver or the daemon does not want that.
/// Whether it did.
fn import(
    options: &Options,
    capture: &Capture,
    copying: &Copying,
    client: Client,
) -> Result<(Client, bool), FeedError> {
    let buffers = match capture.export() {
        Ok(buffers) => buffers,
        Err(error) => {
            warn!("the driver exports no DMA-BUFs ({error}): frames are copied");
            return Ok((client, false));
        }
    };
    // The task may have one place only.
    drop(client);
    let limit_ns = now_ns() + OPEN_NS;
    let lending = to_daemon(options).layout(copying.layout()).buffers(buffers);
    match lending.open(Some(limit_ns)) {
        Ok(client) => Ok((client, true)),
        Err(Lost::Refused(error)) if is_about_buffers(&error) => {
            warn!("{error}: frames are copied");
            Ok((to_daemon(options).open(Some(limit_ns))?, false))
        }
        Err(lost) => Err(lost.into()),
    }
}

fn is_about_buffers(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Refused(Refusal::Buffers(_)))
}

fn count(tally: &mut Tally, result: &ResultRecord) {
    if tally.count(result) {
        let age_ms = result.finished_ns.saturating_sub(result.captured_ns) as f64 / 1e6;
        let verdict = result.verdict;
        info!(
            "{verdict} ({age_ms:.1} ms after its capture); the next of this kind are only counted"
        );
    }
}

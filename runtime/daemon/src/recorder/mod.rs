//! The flight recorder: what the scheduler was told and decided, and how its records went to clients, in files.
//!
//! ```text
//!  scheduler ─steps──▶ collector ─segments─▶ disk ─▶ files
//!  ports ───sent─────▶   ▲   ▲
//!  housekeeping ─orders──┘   │
//!  intakes ─pictures─▶ jpeg ─┘
//! ```
//! Real-time threads write into rings, without waking another. The collector and the disk's thread are ordinary ones; a disk that is full
//! or slow costs parts of the file, which are counted.

mod about;
mod boxes;
mod collecting;
mod counts;
mod directory;
mod disk;
mod encoding;
mod pictures;
mod triggers;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, never};
use punctual_core::{ClientId, Instant};
use punctual_events::{DaemonEvent, say};
use punctual_kernels::preprocess::CropRows;
use punctual_plan::{
    BLACK_BOX_BYTES, PICTURE_BUFFERS, Payloads, Plan, RECORDER_CELL_BYTES, RECORDER_CELLS,
    RecorderMode, STACK_BYTES, WAITING_SECONDS,
};
use punctual_platform::clock;
use punctual_platform::thread::spawn_ordinary_with_stack;
use punctual_recording::ring::{self, CELL_BYTES, StepSink};
use punctual_recording::{BlackBox, Collector, Note};
use serde::{Deserialize, Serialize};

use crate::StartupError;
use crate::validate::Validated;
use about::About;
pub use boxes::BoxSink;
use boxes::{BoxSource, boxes};
use collecting::{Collecting, Kept, Order, Pace, Sources};
pub use collecting::{RecordSent, SentLog};
use counts::Counts;
use directory::Directory;
use disk::Disk;
use encoding::{Encoding, OnPicture, Share};
use pictures::{Gate, PictureSource, pool};
pub use pictures::{PictureSink, Subject};
pub use triggers::Trigger;
use triggers::Triggers;

// What the plan counts is what is taken.
const _: () = assert!(CELL_BYTES as u64 <= RECORDER_CELL_BYTES);

/// Segments of everything that wait for the disk: together less than a black box.
const SEGMENTS_MAX: usize = WAITING_SECONDS as usize;

/// Orders that wait for the collector's next look.
const ORDERS_MAX: usize = 4;

/// Lines of the log between two looks of the collector.
const NOTES_MAX: usize = 256;

/// Encoded pictures between two looks of the collector.
const PICTURES_MAX: usize = 256;

/// How long a daemon that ends waits for its last recording, in ns.
const END_NS: u64 = 2_000_000_000;

/// The service manager's word for where a service may keep what it makes, and the folder there.
const STATE_DIRECTORY: &str = "STATE_DIRECTORY";
const FOLDER: &str = "recordings";

/// The recorder of a daemon that records.
pub struct Recorder {
    /// None once it was told to end.
    orders: Option<Sender<Order>>,
    threads: Vec<JoinHandle<()>>,
    pictures: Option<Pictures>,
    counts: Arc<Counts>,
    mode: RecorderMode,
    directory: PathBuf,
}

/// The real-time threads' ends; none: nothing is recorded.
#[derive(Default)]
pub struct Sinks {
    pub steps: Option<StepSink>,
    pub sent: Option<Arc<SentLog>>,
    /// By client slot.
    pictures: Vec<Option<PictureSink>>,
    /// Of the scheduler's thread.
    pub boxes: Option<BoxSink>,
}

impl Sinks {
    /// Where the intake of a client records pictures; to be taken once.
    pub fn picture(&mut self, client: ClientId) -> Option<PictureSink> {
        self.pictures.get_mut(client.index())?.take()
    }
}

/// The thread that encodes pictures.
struct Pictures {
    thread: JoinHandle<()>,
    /// It ends when this is dropped.
    end: Sender<Infallible>,
    gate: Arc<Gate>,
}

/// The recorder's part of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderReport {
    /// As in the manifest; `off` also where no folder is known.
    pub mode: String,
    pub directory: PathBuf,
    /// Recordings that are complete.
    pub written: u64,
    /// The newest of them.
    pub last: Option<PathBuf>,
    /// Recordings that could not be written, or not to their end.
    pub failed: u64,
    pub steps: u64,
    /// Steps that found the ring full, as the recorder got no processor.
    pub steps_lost: u64,
    /// Records of ports that did.
    pub sent_lost: u64,
    /// Seconds of everything that the disk was too slow for.
    pub seconds_lost: u64,
    /// Steps that the recorder's own scheduler decided otherwise: a defect of Punctual, or of the machine.
    pub differing: u64,
    pub pictures: u64,
    /// Pictures that found no free buffer, or were more than their share of a recording.
    pub pictures_left_out: u64,
}

/// Where recordings go: where the manifest says, or where the service manager lets a service keep things.
fn folder(plan: &Plan) -> Option<PathBuf> {
    let named = plan.recorder.directory.clone();
    named.or_else(|| {
        let granted = std::env::var_os(STATE_DIRECTORY)?;
        // Several are separated by colons.
        let first = std::env::split_paths(&granted).next()?;
        first.is_absolute().then(|| first.join(FOLDER))
    })
}

/// What is said from now on. Where more is said than the collector takes, it is in the log alone.
fn notes() -> Receiver<Note> {
    let (said, notes) = bounded(NOTES_MAX);
    punctual_events::listen(move |note| {
        let _ = said.try_send(Note {
            at: Instant::from_nanos(note.at_ns),
            json: note.to_json(),
        });
    });
    notes
}

/// Waits for a thread that was told to end.
fn ends(thread: JoinHandle<()>, limit_ns: u64) {
    while !thread.is_finished() && clock::now_ns() < limit_ns {
        clock::sleep_until_ns(clock::now_ns() + 1_000_000);
    }
    if thread.is_finished() {
        // It has said why if it panicked.
        let _ = thread.join();
    }
}

/// Buffers for the pictures of each client slot, both ends; none for one whose pictures are not recorded.
fn pools(plan: &Plan, gate: &Arc<Gate>) -> (Vec<Option<PictureSink>>, Vec<PictureSource>) {
    let of_frames = plan.recorder.payloads == Payloads::Frames;
    let mut sources = Vec::new();
    let sinks = plan.client_slots.iter().map(|client| {
        let frame = &plan.task(client.task).frame;
        let size = plan.recorder.picture_of(frame)?;
        let bytes = CropRows::copy_len_max(&frame.layout(), size);
        let (sink, source) = pool(PICTURE_BUFFERS as usize, bytes, of_frames, gate);
        sources.push(source);
        Some(sink)
    });
    (sinks.collect(), sources)
}

impl Pictures {
    /// None without anything to encode; what it encodes goes to the collector.
    fn start(
        plan: &Plan,
        sources: Vec<PictureSource>,
        boxes: Option<BoxSource>,
        gate: Arc<Gate>,
    ) -> Result<Option<(Self, Receiver<OnPicture>)>, StartupError> {
        if sources.is_empty() {
            return Ok(None);
        }
        let (encoded, pictures) = bounded(PICTURES_MAX);
        let (end, ended) = bounded(0);
        let encoding = Encoding {
            sources,
            boxes,
            gate: Arc::clone(&gate),
            share: Share::of(plan.recorder.picture_bytes_a_second()),
            encoded,
            recorded: VecDeque::new(),
            rgb: Vec::new(),
        };
        let stack = STACK_BYTES as usize;
        let thread = spawn_ordinary_with_stack("recorder/jpeg", stack, move || {
            encoding.serve(&ended);
        })?;
        Ok(Some((Self { thread, end, gate }, pictures)))
    }
}

impl Recorder {
    /// Starts its threads, if the plan records and there is somewhere to record to.
    pub fn start(validated: &Validated) -> Result<(Option<Self>, Sinks), StartupError> {
        let plan = &validated.plan;
        let mode = plan.recorder.mode;
        if mode == RecorderMode::Off {
            return Ok((None, Sinks::default()));
        }
        let Some(path) = folder(plan) else {
            say(&DaemonEvent::RecorderOff);
            return Ok((None, Sinks::default()));
        };
        let counts = Arc::new(Counts::default());
        let (sink, source) = ring::steps(RECORDER_CELLS as usize);
        let sent = Arc::new(SentLog::new());
        let directory = Directory::new(path.clone(), plan.recorder.budget_bytes);
        let (box_sink, box_source) = boxes(validated).unzip();
        let about = About::of(validated, box_sink.as_ref());
        let disk = Disk::new(directory, about, Arc::clone(&counts));
        let (orders, ordered) = bounded(ORDERS_MAX);
        // Of a black box that waits for a disk, all is kept until it is written: one.
        let waiting = if mode == RecorderMode::All {
            SEGMENTS_MAX
        } else {
            1
        };
        let (work, to_write) = bounded(waiting);
        let gate = Arc::default();
        let (sinks, sources) = pools(plan, &gate);
        let (pictures, encoded) = Pictures::start(plan, sources, box_source, gate)?.unzip();
        let collecting = Collecting {
            sources: Sources {
                steps: source,
                sent: Arc::clone(&sent),
                notes: notes(),
                pictures: encoded.unwrap_or_else(never),
            },
            collector: Collector::new(&plan.scheduler, plan.policy.shared())?,
            triggers: Triggers::new(&plan.scheduler),
            kept: match mode {
                RecorderMode::All => Kept::All,
                _ => Kept::BlackBox(BlackBox::new(
                    plan.recorder.length,
                    BLACK_BOX_BYTES as usize,
                )),
            },
            disk: work,
            counts: Arc::clone(&counts),
            pace: Pace::default(),
        };
        let stack = STACK_BYTES as usize;
        let threads = vec![
            spawn_ordinary_with_stack("recorder", stack, move || collecting.serve(&ordered))?,
            spawn_ordinary_with_stack("recorder/disk", stack, move || disk.serve(to_write))?,
        ];
        let recorder = Self {
            orders: Some(orders),
            threads,
            pictures,
            counts,
            mode,
            directory: path,
        };
        let sinks = Sinks {
            steps: Some(sink),
            sent: Some(sent),
            pictures: sinks,
            boxes: box_sink,
        };
        Ok((Some(recorder), sinks))
    }

    /// Has the black box written; of everything, the file so far is completed. Never waits.
    pub fn dump(&self, trigger: Trigger) {
        if let Some(orders) = &self.orders {
            // One that finds no room is one of several that are the same.
            let _ = orders.try_send(Order::Dump(trigger, None));
        }
    }

    /// As [`dump`](Self::dump), and waits until it is on the disk, for a while.
    pub fn dump_and_wait(&self, trigger: Trigger) {
        let (done, written) = bounded(0);
        let ordered = Order::Dump(trigger, Some(done));
        let Some(orders) = &self.orders else {
            return;
        };
        if orders.try_send(ordered).is_ok() {
            let _ = written.recv_timeout(Duration::from_nanos(END_NS));
        }
    }

    /// Ends it: what is recorded is written. A disk that does not take it within a while is left alone.
    pub fn end(mut self) {
        let limit_ns = clock::now_ns() + END_NS;
        // Before the collector ends, which takes what it has encoded.
        if let Some(pictures) = self.pictures.take() {
            drop(pictures.end);
            ends(pictures.thread, limit_ns);
        }
        self.orders = None;
        for thread in self.threads.drain(..) {
            ends(thread, limit_ns);
        }
    }

    pub fn report(&self) -> RecorderReport {
        let counts = &self.counts;
        RecorderReport {
            mode: match self.mode {
                RecorderMode::BlackBox => "black-box",
                RecorderMode::All => "all",
                RecorderMode::Off => "off",
            }
            .to_owned(),
            directory: self.directory.clone(),
            written: counts.written(),
            last: counts.last(),
            failed: counts.failed.load(Relaxed),
            steps: counts.steps.load(Relaxed),
            steps_lost: counts.steps_lost.load(Relaxed),
            sent_lost: counts.sent_lost.load(Relaxed),
            seconds_lost: counts.unwritten.load(Relaxed),
            differing: counts.differing.load(Relaxed),
            pictures: counts.pictures.load(Relaxed),
            pictures_left_out: self
                .pictures
                .as_ref()
                .map_or(0, |pictures| pictures.gate.left_out()),
        }
    }
}

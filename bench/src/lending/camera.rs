//! The cameras: frames of which it is known what they show, at their times, and what became of them.

use std::path::Path;

use hdrhistogram::Histogram;
use punctual_client::{
    Client, Crop, Lost, Options as ClientOptions, Response, SubmitError, Verdict, now_ns,
};
use punctual_decode::{Detection, Detections, Rect, Rows};
use punctual_platform::thread;
use punctual_quality::{AveragePrecision, Matched, Object};
use punctual_signs::{Camera, Truth};
use punctual_types::PixelFormat;

/// Of all frames, as the manifest says.
const FORMAT: PixelFormat = PixelFormat::Nv12;

/// Priority of a camera: the lowest, below every thread of the daemon.
const PRIORITY: u8 = 1;

/// More than a client can have without verdicts.
const OPEN_MAX: usize = 1024;

/// How long to wait for a daemon that starts, and for verdicts after the last frame.
const CONNECT_NS: u64 = 20_000_000_000;
const LAST_VERDICTS_NS: u64 = 5_000_000_000;

#[derive(Debug, thiserror::Error)]
pub enum CameraError {
    #[error("task {task}: the daemon was lost: {source}")]
    Lost {
        task: &'static str,
        source: Box<Lost>,
    },
    #[error("task {task}: a frame could not be submitted: {source}")]
    Submit {
        task: &'static str,
        source: SubmitError,
    },
    #[error("task {task}: {missing} frames have no verdict five seconds after the last one")]
    Missing { task: &'static str, missing: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenes {
    Signs,
    Streets,
}

/// A camera: the task of the manifest that it feeds, and how.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    pub task: &'static str,
    pub scenes: Scenes,
    /// No set that trained or tuned the networks has it.
    seed: u64,
    /// Frames a second at load 1, as the manifest promises.
    pub rate: f64,
}

const fn role(task: &'static str, scenes: Scenes, seed: u64, rate: f64) -> Role {
    Role {
        task,
        scenes,
        seed,
        rate,
    }
}

/// In the manifest's order.
pub const ROLES: [Role; 4] = [
    role("streets", Scenes::Streets, 55, 30.0),
    role("signs-near", Scenes::Signs, 56, 40.0),
    role("signs-fast", Scenes::Signs, 57, 30.0),
    role("signs-far", Scenes::Signs, 58, 10.0),
];

impl Role {
    pub fn draw(&self, scenes: u32) -> Camera {
        match self.scenes {
            Scenes::Signs => Camera::signs(FORMAT, self.seed, scenes),
            Scenes::Streets => Camera::streets(FORMAT, self.seed, scenes),
        }
    }

    /// Waits for the daemon to start.
    pub fn connect(&self, socket: &Path) -> Result<Client, CameraError> {
        let options = ClientOptions::new(socket, self.task, FORMAT);
        let client = options.open(Some(now_ns() + CONNECT_NS));
        client.map_err(|source| self.lost(source))
    }

    fn lost(&self, source: Lost) -> CameraError {
        CameraError::Lost {
            task: self.task,
            source: Box::new(source),
        }
    }
}

/// When a camera's frames are due.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub start_ns: u64,
    pub period_ns: u64,
    pub frames: u64,
}

/// What became of a camera's frames.
#[derive(Clone, Debug)]
pub struct Tally {
    pub submitted: u64,
    pub on_time: u64,
    /// An answer that is read after its deadline is late for its reader.
    pub late: u64,
    /// Those of `late` that the daemon gave on time: the camera got no core in time to read them.
    pub read_late: u64,
    pub rejected: u64,
    pub failed: u64,
    /// Frames that the camera dropped, as all its slots were in work.
    pub skipped: u64,
    /// Answers by the exit they came from.
    pub exits: Vec<u64>,
    /// Answers on time whose class was the label.
    pub right: u64,
    /// Frames with boxes, compared with what they show; without an answer on time nothing was found.
    matched: Vec<Matched>,
    /// From the intended capture to the answer, in us.
    pub latency_us: Histogram<u64>,
}

impl Tally {
    pub fn new() -> Self {
        Self {
            submitted: 0,
            on_time: 0,
            late: 0,
            read_late: 0,
            rejected: 0,
            failed: 0,
            skipped: 0,
            exits: Vec::new(),
            right: 0,
            matched: Vec::new(),
            latency_us: Histogram::new_with_bounds(1, 60_000_000, 3).expect("sound bounds"),
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.submitted += other.submitted;
        self.on_time += other.on_time;
        self.late += other.late;
        self.read_late += other.read_late;
        self.rejected += other.rejected;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.right += other.right;
        let exits = self.exits.len().max(other.exits.len());
        self.exits.resize(exits, 0);
        for (own, others) in self.exits.iter_mut().zip(&other.exits) {
            *own += others;
        }
        self.matched.extend_from_slice(&other.matched);
        self.latency_us += &other.latency_us;
    }

    pub const fn frames(&self) -> u64 {
        self.submitted + self.skipped
    }

    /// Mean average precision at an overlap of 0.5 of all frames that were compared; none if none was.
    pub fn map50(&self) -> Option<f64> {
        AveragePrecision::of(&self.matched).map50
    }

    fn count(&mut self, response: &Response, truth: &Truth, received_ns: u64) {
        let in_time = match response.verdict {
            Verdict::OnTime | Verdict::Late => self.count_answer(response, received_ns),
            Verdict::Rejected(_) => {
                self.rejected += 1;
                false
            }
            Verdict::Failed(_) => {
                self.failed += 1;
                false
            }
        };
        match truth {
            Truth::Sign(label) => {
                let right = response.class().map(usize::from) == Some(*label);
                self.right += u64::from(in_time && right);
            }
            Truth::Objects(objects) => self.compare(objects, boxes(response).filter(|_| in_time)),
        }
    }

    /// True if it came in time.
    fn count_answer(&mut self, response: &Response, received_ns: u64) -> bool {
        let given_in_time = response.verdict == Verdict::OnTime;
        let in_time = given_in_time && received_ns <= response.deadline_ns;
        self.on_time += u64::from(in_time);
        self.read_late += u64::from(given_in_time && !in_time);
        self.late += u64::from(!in_time);
        let latency_us = received_ns.saturating_sub(response.captured_ns) / 1000;
        self.latency_us.saturating_record(latency_us.max(1));
        if let Some(answer) = response.answer {
            let exit = usize::from(answer.exit);
            let exits = self.exits.len().max(exit + 1);
            self.exits.resize(exits, 0);
            self.exits[exit] += 1;
        }
        in_time
    }

    fn compare(&mut self, objects: &[punctual_signs::Object], found: Option<Vec<Detection>>) {
        let truth: Vec<Object> = objects.iter().map(object).collect();
        let found = found.unwrap_or_default();
        self.matched.push(Matched::of(&truth, &found));
    }
}

/// What a frame shows, as it is compared.
fn object(object: &punctual_signs::Object) -> Object {
    Object {
        rect: Rect {
            left: object.left,
            top: object.top,
            right: object.right,
            bottom: object.bottom,
        },
        class: object.category as u16,
        crowd: false,
    }
}

/// The detections of an answer, in pixels of the frame; none if it has none.
fn boxes(response: &Response) -> Option<Vec<Detection>> {
    let outputs = response.outputs()?;
    let rows = outputs.get("detections")?.as_f32().ok()?;
    let count = *outputs.get("count")?.as_i32().ok()?.first()?;
    let mut found = Detections::default();
    let decoder = Rows { threshold: 0.0 };
    decoder.decode(rows, count, &mut found).ok()?;
    response.view()?.detections(&mut found);
    Some(found.to_vec())
}

/// A camera that is connected.
pub struct Feed<'c> {
    role: Role,
    camera: &'c Camera,
    client: Client,
    /// The number of the frame that submission `n` shows at `n % OPEN_MAX`.
    numbers: [u64; OPEN_MAX],
    tally: Tally,
}

impl<'c> Feed<'c> {
    pub fn new(role: Role, camera: &'c Camera, client: Client) -> Self {
        Self {
            role,
            camera,
            client,
            numbers: [0; OPEN_MAX],
            tally: Tally::new(),
        }
    }

    /// Shows the frames, each at its time, and waits for what is open.
    pub fn run(mut self, pace: Pace) -> Result<Tally, CameraError> {
        // Without the privilege it stays an ordinary thread; the daemon's report says that it is missing.
        let _ = thread::set_realtime(thread::current_tid(), PRIORITY);
        for frame in 0..pace.frames {
            // The intended time, whether or not the last frame took too long: delays do not add up.
            let captured_ns = pace.start_ns + frame * pace.period_ns;
            while let Some(response) = self.verdict(captured_ns)? {
                self.count(&response);
            }
            self.submit(captured_ns)?;
        }
        let until_ns = now_ns() + LAST_VERDICTS_NS;
        while self.client.unanswered() > 0 {
            let Some(response) = self.verdict(until_ns)? else {
                return Err(CameraError::Missing {
                    task: self.role.task,
                    missing: self.client.unanswered(),
                });
            };
            self.count(&response);
        }
        Ok(self.tally)
    }

    fn verdict(&mut self, until_ns: u64) -> Result<Option<Response>, CameraError> {
        let response = self.client.verdict(Some(until_ns));
        response.map_err(|source| self.role.lost(source))
    }

    fn count(&mut self, response: &Response) {
        let number = self.numbers[response.sequence as usize % OPEN_MAX];
        let shot = self.camera.shot(number);
        self.tally.count(response, shot.truth(), now_ns());
    }

    fn submit(&mut self, captured_ns: u64) -> Result<(), CameraError> {
        let Self { role, .. } = *self;
        let slot = self.client.slot(Some(captured_ns));
        let Some(mut slot) = slot.map_err(|source| role.lost(source))? else {
            self.tally.skipped += 1;
            return Ok(());
        };
        let number = self.tally.submitted;
        let shot = self.camera.shot(number);
        shot.write(slot.pixels());
        let (x, y) = shot.crop();
        // No deadline of its own: the task's.
        let submitted = slot.submit(captured_ns, None, Crop { x, y });
        let sequence = submitted.map_err(|source| CameraError::Submit {
            task: role.task,
            source,
        })?;
        self.tally.submitted += 1;
        self.numbers[sequence as usize % OPEN_MAX] = number;
        Ok(())
    }
}

//! One client that submits frames at given times, and counts what becomes of them.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use punctual_client::{Client, Lost, Response, SubmitError, Verdict, now_ns};
use punctual_platform::thread;

use super::frames::Frames;

/// The longest latency that is told apart: a minute, in microseconds.
const LATENCY_US_MAX: u64 = 60_000_000;

/// How long to wait for verdicts after the last frame, in ns.
const LAST_VERDICTS_NS: u64 = 2_000_000_000;

/// How long a client in a closed loop waits for a slot or a verdict before it looks at the time, in ns.
const LOOK_NS: u64 = 100_000_000;

/// As a camera's driver thread has: the lowest, below every thread of the daemon.
const PRIORITY: u8 = 1;

/// When a client submits.
pub enum Plan {
    /// At these times, in ns since the start. A frame for which no slot is free then is skipped, as by a camera.
    At(Box<dyn Iterator<Item = u64> + Send>),
    /// The next frame when the last has its verdict.
    Closed,
}

/// What became of the frames of one client, or of several.
#[derive(Debug)]
pub struct Tally {
    pub submitted: u64,
    pub skipped: u64,
    pub on_time: u64,
    pub late: u64,
    pub without_deadline: u64,
    /// By the verdict, in words.
    pub rejected: BTreeMap<String, u64>,
    pub failed: BTreeMap<String, u64>,
    /// Without a verdict.
    pub lost: u64,
    /// Answers by exit.
    pub exits: Vec<u64>,
    /// From the intended time of capture until the answer was read.
    pub latency_us: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        let latency_us = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3);
        Self {
            submitted: 0,
            skipped: 0,
            on_time: 0,
            late: 0,
            without_deadline: 0,
            rejected: BTreeMap::new(),
            failed: BTreeMap::new(),
            lost: 0,
            exits: Vec::new(),
            latency_us: latency_us.expect("the bounds are constants"),
        }
    }
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.submitted += other.submitted;
        self.skipped += other.skipped;
        self.on_time += other.on_time;
        self.late += other.late;
        self.without_deadline += other.without_deadline;
        self.lost += other.lost;
        for (all, more) in [
            (&mut self.rejected, &other.rejected),
            (&mut self.failed, &other.failed),
        ] {
            for (reason, count) in more {
                *all.entry(reason.clone()).or_default() += count;
            }
        }
        self.exits
            .resize(self.exits.len().max(other.exits.len()), 0);
        for (all, more) in self.exits.iter_mut().zip(&other.exits) {
            *all += more;
        }
        self.latency_us
            .add(&other.latency_us)
            .expect("the bounds are the same");
    }

    fn count(&mut self, response: &Response, read_ns: u64) {
        match response.verdict {
            Verdict::OnTime | Verdict::Late => {
                let latency_us = read_ns.saturating_sub(response.captured_ns) / 1_000;
                self.latency_us.saturating_record(latency_us.max(1));
                // An answer that is read after its deadline is late for its reader.
                match response.verdict {
                    _ if !response.has_deadline() => self.without_deadline += 1,
                    Verdict::OnTime if read_ns <= response.deadline_ns => self.on_time += 1,
                    _ => self.late += 1,
                }
                if let Some(answer) = response.answer {
                    let exit = usize::from(answer.exit);
                    self.exits.resize(self.exits.len().max(exit + 1), 0);
                    self.exits[exit] += 1;
                }
            }
            verdict @ Verdict::Rejected(_) => {
                *self.rejected.entry(verdict.to_string()).or_default() += 1;
            }
            verdict @ Verdict::Failed(_) => {
                *self.failed.entry(verdict.to_string()).or_default() += 1
            }
        }
    }
}

/// Why a client stopped before its time.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

/// A client with what it shows.
pub struct Feeder {
    client: Client,
    frames: Frames,
    /// Number of its next frame.
    next: usize,
    vectors: Vec<(String, Vec<f32>)>,
    tally: Tally,
}

impl Feeder {
    /// The client of this number of its task: each begins with another frame.
    pub fn new(client: Client, frames: Frames, number: usize) -> Self {
        let vectors = client.description().vectors.iter();
        let vectors = vectors.map(|vector| {
            let middle = vector.low / 2.0 + vector.high / 2.0;
            (vector.name.clone(), vec![middle; vector.length as usize])
        });
        Self {
            vectors: vectors.collect(),
            client,
            frames,
            next: number,
            tally: Tally::default(),
        }
    }

    /// Submits until `end_ns`, and waits for what is open.
    pub fn feed(&mut self, plan: Plan, start_ns: u64, end_ns: u64) -> Result<Tally, FeedError> {
        // Without the privilege it stays an ordinary thread.
        let _ = thread::set_realtime(thread::current_tid(), PRIORITY);
        match plan {
            Plan::At(times) => {
                for at_ns in times.map(|at| start_ns.saturating_add(at)) {
                    self.collect(at_ns.min(end_ns))?;
                    if at_ns >= end_ns {
                        break;
                    }
                    self.submit(at_ns, at_ns)?;
                }
                self.collect(end_ns)?;
            }
            Plan::Closed => {
                self.collect(start_ns)?;
                self.feed_closed(end_ns)?;
            }
        }
        let until_ns = now_ns() + LAST_VERDICTS_NS;
        while self.client.unanswered() > 0
            && let Some(response) = self.client.verdict(Some(until_ns))?
        {
            self.tally.count(&response, now_ns());
        }
        self.tally.lost = self.client.unanswered();
        Ok(std::mem::take(&mut self.tally))
    }

    /// The next frame when the last has its verdict.
    fn feed_closed(&mut self, end_ns: u64) -> Result<(), FeedError> {
        while now_ns() < end_ns {
            let captured_ns = now_ns();
            self.submit(captured_ns, captured_ns + LOOK_NS)?;
            while self.client.unanswered() > 0 && now_ns() < end_ns {
                if let Some(response) = self.client.verdict(Some(now_ns() + LOOK_NS))? {
                    self.tally.count(&response, now_ns());
                }
            }
        }
        Ok(())
    }

    fn collect(&mut self, until_ns: u64) -> Result<(), Lost> {
        while let Some(response) = self.client.verdict(Some(until_ns))? {
            self.tally.count(&response, now_ns());
        }
        Ok(())
    }

    /// A frame of this time of capture, if there is a slot until then.
    fn submit(&mut self, captured_ns: u64, until_ns: u64) -> Result<(), FeedError> {
        let Some(mut slot) = self.client.slot(Some(until_ns))? else {
            self.tally.skipped += 1;
            return Ok(());
        };
        let (pixels, frame) = (slot.pixels(), self.frames.at(self.next));
        let bytes = pixels.len().min(frame.len());
        pixels[..bytes].copy_from_slice(&frame[..bytes]);
        for (name, values) in &self.vectors {
            slot.set_vector(name, values)
                .expect("as the daemon describes it");
        }
        slot.submit(captured_ns, None, self.frames.crop())?;
        self.next += 1;
        self.tally.submitted += 1;
        Ok(())
    }
}

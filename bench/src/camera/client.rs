//! A daemon, as a camera sees it.

use std::collections::BTreeMap;
use std::path::Path;

use punctual_client::{Client, Crop, Lost, Options, Response, SubmitError, Verdict, now_ns};
use punctual_decode::{Detection, Detections, Rows};
use punctual_signs::Shot;
use punctual_types::PixelFormat;

use super::{Answer, CameraError, Outcome, Service};

/// How long to wait for a daemon that starts.
const CONNECT_NS: u64 = 20_000_000_000;

/// A camera's connection.
pub struct Connection {
    task: &'static str,
    client: Client,
    /// By frame: the last answer before the verdict.
    early: BTreeMap<u64, Answer>,
}

impl Connection {
    /// Waits for the daemon to start.
    pub fn open(
        socket: &Path,
        task: &'static str,
        format: PixelFormat,
    ) -> Result<Self, CameraError> {
        let client = Options::new(socket, task, format).open(Some(now_ns() + CONNECT_NS));
        let client = client.map_err(|source| lost(task, source))?;
        Ok(Self {
            task,
            client,
            early: BTreeMap::new(),
        })
    }
}

fn lost(task: &'static str, source: Lost) -> CameraError {
    CameraError::Lost {
        task,
        source: Box::new(source),
    }
}

impl Connection {
    /// What a frame has in the end: the answer that was read in time, of several the deepest.
    fn with_early(&mut self, sequence: u64, outcome: Outcome) -> Outcome {
        let (Some(early), Outcome::Answered(answer)) = (self.early.remove(&sequence), &outcome)
        else {
            return outcome;
        };
        let is_new = answer.exit != early.exit && (answer.is_in_time() || !early.is_in_time());
        let first_ns = early.first_ns;
        let kept = if is_new { answer.clone() } else { early };
        Outcome::Answered(Answer { first_ns, ..kept })
    }
}

impl Service for Connection {
    fn submit(
        &mut self,
        shot: Shot<'_>,
        captured_ns: u64,
        until_ns: u64,
    ) -> Result<Option<u64>, CameraError> {
        let task = self.task;
        let slot = self.client.slot(Some(until_ns));
        let Some(mut slot) = slot.map_err(|source| lost(task, source))? else {
            return Ok(None);
        };
        shot.write(slot.pixels());
        let (x, y) = shot.crop();
        // No deadline of its own: the task's.
        let sequence = slot.submit(captured_ns, None, Crop { x, y });
        let failed = |source: SubmitError| CameraError::Submit { task, source };
        Ok(Some(sequence.map_err(failed)?))
    }

    fn verdict(&mut self, until_ns: u64) -> Result<Option<(u64, Outcome)>, CameraError> {
        loop {
            let response = self.client.answer(Some(until_ns));
            let response = response.map_err(|source| lost(self.task, source))?;
            let Some(response) = response else {
                return Ok(None);
            };
            let sequence = response.sequence;
            let outcome = self.with_early(sequence, outcome(&response, now_ns()));
            if response.is_final {
                return Ok(Some((sequence, outcome)));
            }
            if let Outcome::Answered(answer) = outcome {
                self.early.insert(sequence, answer);
            }
        }
    }

    fn unanswered(&self) -> u64 {
        self.client.unanswered()
    }
}

fn outcome(response: &Response, received_ns: u64) -> Outcome {
    match response.verdict {
        Verdict::OnTime | Verdict::Late => Outcome::Answered(Answer {
            exit: response.answer.map(|answer| usize::from(answer.exit)),
            class: response.class().map(usize::from),
            boxes: boxes(response),
            captured_ns: response.captured_ns,
            deadline_ns: response.deadline_ns,
            given_in_time: response.verdict == Verdict::OnTime,
            received_ns,
            first_ns: received_ns,
        }),
        Verdict::Rejected(_) => Outcome::Rejected,
        Verdict::Failed(_) => Outcome::Failed,
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

//! A daemon, as a camera sees it.

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
        Ok(Self { task, client })
    }
}

fn lost(task: &'static str, source: Lost) -> CameraError {
    CameraError::Lost {
        task,
        source: Box::new(source),
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
        let response = self.client.verdict(Some(until_ns));
        let response = response.map_err(|source| lost(self.task, source))?;
        Ok(response.map(|response| (response.sequence, outcome(&response, now_ns()))))
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

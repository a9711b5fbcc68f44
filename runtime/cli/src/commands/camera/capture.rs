//! The camera's loop: a frame at each intended capture time, answers and verdicts in between.

use punctual_client::{Client, Crop, now_ns};
use punctual_platform::output::OutputError;
use punctual_platform::signals::TerminationSignals;
use punctual_signs::Camera;

use super::error::Error;
use super::tally::Tally;
use crate::report::CameraReport;

/// How often the counts are said, in nanoseconds.
const SAY_NS: u64 = 200_000_000;

/// How long to wait for verdicts after the last frame, in nanoseconds.
const LAST_VERDICTS_NS: u64 = 2_000_000_000;

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// None: until a signal.
    pub seconds: Option<f64>,
    /// None: closed loop.
    pub fps: Option<f64>,
}

pub type Say<'s> = &'s mut dyn FnMut(&CameraReport) -> Result<(), OutputError>;

/// Shows frames until the time is over or a signal comes, collects what is open, and says the
/// counts now and then. Returns the last counts, and how it ended.
pub fn capture(
    client: &mut Client,
    camera: &Camera,
    signals: &TerminationSignals,
    pace: Pace,
    mut tally: Tally<'_>,
    say: Say<'_>,
) -> (CameraReport, Result<(), Error>) {
    let result = show(client, camera, signals, pace, &mut tally, say);
    let missing = client.unanswered();
    let result = result.and(if missing > 0 {
        Err(Error::Missing { missing })
    } else {
        Ok(())
    });
    (tally.last(result.is_ok()), result)
}

fn show(
    client: &mut Client,
    camera: &Camera,
    signals: &TerminationSignals,
    pace: Pace,
    tally: &mut Tally<'_>,
    say: Say<'_>,
) -> Result<(), Error> {
    let start_ns = now_ns();
    let end_ns = pace
        .seconds
        .map(|seconds| start_ns + (seconds * 1e9) as u64);
    let mut say_ns = start_ns + SAY_NS;
    for number in 0.. {
        // The intended time, whether or not the last frame took too long: delays do not add up.
        let captured_ns = match pace.fps {
            Some(fps) => start_ns + (number as f64 * 1e9 / fps) as u64,
            None => now_ns(),
        };
        let until_ns = end_ns.map_or(captured_ns, |end| end.min(captured_ns));
        tally.reach(until_ns - start_ns);
        if end_ns.is_some_and(|end| captured_ns >= end) || signals.next(Some(0)).is_some() {
            break;
        }
        collect(client, tally, captured_ns)?;
        if pace.fps.is_some() || client.unanswered() == 0 {
            // A camera's next frame does not wait for a slot; a closed loop has nothing else to do.
            let wait_ns = if pace.fps.is_some() { 0 } else { SAY_NS };
            submit(client, camera, tally, captured_ns, wait_ns)?;
        }
        if pace.fps.is_none() {
            await_one(client, tally)?;
        }
        if now_ns() >= say_ns {
            say(&tally.now())?;
            say_ns += SAY_NS;
        }
    }
    let until_ns = now_ns() + LAST_VERDICTS_NS;
    while client.unanswered() > 0 {
        let Some(response) = client.answer(Some(until_ns))? else {
            break;
        };
        tally.count(&response, now_ns());
    }
    Ok(())
}

/// Counts answers and verdicts until `until_ns`.
fn collect(client: &mut Client, tally: &mut Tally<'_>, until_ns: u64) -> Result<(), Error> {
    while let Some(response) = client.answer(Some(until_ns))? {
        tally.count(&response, now_ns());
    }
    Ok(())
}

/// Closed loop: waits for an answer or a verdict, whatever it is; not so long that a signal is overlooked.
fn await_one(client: &mut Client, tally: &mut Tally<'_>) -> Result<(), Error> {
    if client.unanswered() > 0
        && let Some(response) = client.answer(Some(now_ns() + SAY_NS))?
    {
        tally.count(&response, now_ns());
    }
    Ok(())
}

fn submit(
    client: &mut Client,
    camera: &Camera,
    tally: &mut Tally<'_>,
    captured_ns: u64,
    wait_ns: u64,
) -> Result<(), Error> {
    let Some(mut slot) = client.slot(Some(captured_ns + wait_ns))? else {
        tally.skip();
        return Ok(());
    };
    let number = tally.submitted();
    let shot = camera.shot(number);
    shot.write(slot.pixels());
    let (x, y) = shot.crop();
    // No deadline of its own: the task's.
    let sequence = slot.submit(captured_ns, None, Crop { x, y })?;
    tally.submit(sequence, number);
    Ok(())
}

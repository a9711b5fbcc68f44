//! A case's run as a recording: what is read of the file decides the same, from its beginning and from its middle.

use std::io::Cursor;

use punctual_core::{Config, Nanos, PolicySpec};
use punctual_recording::replay::{Replayed, replay};
use punctual_recording::{Entry, Recording as File, Writer};

use super::Case;
use super::check::Failure;
use crate::recording::{Recording, setting};

/// Segments of a run; those behind its last submission come in addition.
const SEGMENTS: u64 = 6;

/// Begins the recording of a case.
pub(super) fn begin(case: &Case, config: &Config) -> Recording<Cursor<Vec<u8>>> {
    let parameters = serde_json::json!({ case.policy.name(): {} });
    let setting = setting(&case.scenario, config, parameters);
    let segment = Nanos::new(case.scenario.length.as_nanos() / SEGMENTS + 1);
    let out = Cursor::new(Vec::new());
    let writer = match case.seed % 2 {
        0 => Writer::bare(out, 0, &setting),
        _ => Writer::new(out, 0, &setting),
    };
    Recording::begin(writer.expect("memory"), segment).expect("memory")
}

/// Replays the recording of a case; returns how many steps were compared. `taken`: the steps of the run.
pub(super) fn differences(
    recording: Recording<Cursor<Vec<u8>>>,
    config: &Config,
    policy: &dyn PolicySpec,
    taken: u64,
) -> Result<u64, Failure> {
    let file = recording.finish().expect("memory").into_inner();
    let differs = |error: &dyn std::error::Error| Failure::Replay(error.to_string());
    let file = File::of(&file).map_err(|error| differs(&error))?;
    let setting = file.setting().map_err(|error| differs(&error))?;
    if setting.config != *config {
        return Err(Failure::Replay("the plan is another".to_owned()));
    }
    let whole = replay(file.entries(), &setting.config, policy).map_err(|error| differs(&error))?;
    if whole.steps != taken {
        let Replayed { steps, .. } = whole;
        return Err(Failure::Replay(format!("{steps} of {taken} steps")));
    }
    let middle = whole.segments / 2;
    let before = |entry: &Result<Entry, _>| !matches!(entry, Ok(Entry::Segment { number, .. }) if *number == middle);
    let rest = file.entries().skip_while(before);
    let rest = replay(rest, &setting.config, policy).map_err(|error| differs(&error))?;
    Ok(whole.steps + rest.steps)
}

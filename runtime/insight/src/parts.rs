//! Where the time of a frame went. It waits in between.

use punctual_core::Instant;
use punctual_recording::Names;
use punctual_recording::frames::Submission;

pub(crate) struct Spent {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    pub(crate) name: String,
}

/// In the order of time, until the verdict.
pub(crate) fn of(submission: &Submission, names: &Names) -> Vec<Spent> {
    let mut parts = Vec::new();
    let mut spent = |from, to, name: &str| {
        let name = name.to_owned();
        parts.push(Spent { from, to, name });
    };
    if let Some(arrived) = submission.arrived {
        spent(submission.captured, arrived, "channel");
    }
    if let Some(preparation) = &submission.preparation
        && let Some(end) = preparation.end
    {
        spent(preparation.ordered, end.learned, "prepare");
    }
    for share in &submission.runs {
        if let Some((started, ended)) = share.run.span() {
            let partition = names.partition(share.run.partition);
            let name = format!("stage {} on {partition}", share.run.stage.0);
            spent(started, ended, &name);
        }
    }
    parts
}

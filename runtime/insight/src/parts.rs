//! Where the time of a frame went. It waits in between.

use punctual_core::Instant;
use punctual_recording::Names;
use punctual_recording::frames::Submission;

pub(crate) struct Spent {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    /// The longest first: the last is without the partition.
    pub(crate) names: Vec<String>,
}

impl Spent {
    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }
}

/// In the order of time, until the verdict.
pub(crate) fn of(submission: &Submission, names: &Names) -> Vec<Spent> {
    let mut parts = Vec::new();
    let mut spent = |from, to, names| parts.push(Spent { from, to, names });
    if let Some(arrived) = submission.arrived {
        spent(submission.captured, arrived, vec!["channel".to_owned()]);
    }
    if let Some(preparation) = &submission.preparation
        && let Some(end) = preparation.end
    {
        let name = "prepare".to_owned();
        spent(preparation.ordered, end.learned, vec![name]);
    }
    for share in &submission.runs {
        if let Some((started, ended)) = share.run.span() {
            let partition = names.partition(share.run.partition);
            let stage = format!("stage {}", share.run.stage.0);
            spent(
                started,
                ended,
                vec![format!("{stage} on {partition}"), stage],
            );
        }
    }
    parts
}

//! What is asked of a recording.

use std::fmt;
use std::str::FromStr;

use punctual_core::{Reply, Verdict};
use punctual_recording::Names;
use punctual_recording::frames::FrameId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Only the summary.
    Summary,
    /// Every late frame.
    Late,
    /// Every rejected frame.
    Rejected,
    /// Every frame that was accepted and got no answer.
    Failed,
    /// The frames with the longest latencies, this many.
    Slowest(usize),
    Frame(FrameName),
}

/// `TASK/CLIENT/SEQUENCE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameName {
    pub task: String,
    pub client: u16,
    pub sequence: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` names no frame: TASK/CLIENT/SEQUENCE does, as `front/0/1234`")]
pub struct FrameNameError {
    found: String,
}

impl FromStr for FrameName {
    type Err = FrameNameError;

    fn from_str(text: &str) -> Result<Self, FrameNameError> {
        let parts = || {
            let (rest, sequence) = text.rsplit_once('/')?;
            let (task, client) = rest.rsplit_once('/')?;
            Some(Self {
                task: Some(task).filter(|task| !task.is_empty())?.to_owned(),
                client: client.parse().ok()?,
                sequence: sequence.parse().ok()?,
            })
        };
        parts().ok_or_else(|| FrameNameError {
            found: text.to_owned(),
        })
    }
}

impl fmt::Display for FrameName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.task, self.client, self.sequence)
    }
}

impl Ask {
    /// Whether it asks for this frame by its name.
    pub(super) fn names(&self, id: FrameId, names: &Names) -> bool {
        let Self::Frame(name) = self else {
            return false;
        };
        name.sequence == id.ticket.sequence
            && name.client == id.ticket.client.0
            && name.task == names.task(id.task)
    }

    /// Whether it asks for the frame of this verdict, if it is among the slowest.
    pub(super) fn asks_for(&self, reply: &Reply, names: &Names) -> bool {
        let id = FrameId {
            task: reply.task,
            ticket: reply.ticket,
        };
        match self {
            Self::Summary => false,
            Self::Late => reply.verdict == Verdict::Late,
            Self::Rejected => matches!(reply.verdict, Verdict::Rejected(_)),
            Self::Failed => matches!(reply.verdict, Verdict::Failed(_)),
            Self::Slowest(_) => matches!(reply.verdict, Verdict::OnTime | Verdict::Late),
            Self::Frame(_) => self.names(id, names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_named_by_task_client_and_sequence() {
        let name: FrameName = "front/3/1234".parse().expect("a name");
        assert_eq!(
            (&*name.task, name.client, name.sequence),
            ("front", 3, 1234)
        );
        assert_eq!(name.to_string(), "front/3/1234");
        let with_slash: FrameName = "a/b/0/7".parse().expect("a name");
        assert_eq!(with_slash.task, "a/b");
        for wrong in [
            "",
            "front",
            "front/1",
            "/1/2",
            "front/x/1",
            "front/1/-1",
            "front/99999/1",
        ] {
            let error = wrong.parse::<FrameName>().expect_err("no name");
            assert!(error.to_string().contains(&format!("`{wrong}`")), "{error}");
        }
    }
}

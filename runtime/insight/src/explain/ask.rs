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

/// `TASK/CLIENT/SEQUENCE`, with `.PART` for a crop of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameName {
    pub task: String,
    pub client: u16,
    pub sequence: u64,
    /// 0: the frame itself.
    pub part: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{found}` names no frame: TASK/CLIENT/SEQUENCE does, as `front/0/1234`, or `signs/0/1234.2` for a crop of one"
)]
pub struct FrameNameError {
    found: String,
}

impl FromStr for FrameName {
    type Err = FrameNameError;

    fn from_str(text: &str) -> Result<Self, FrameNameError> {
        let parts = || {
            let (rest, number) = text.rsplit_once('/')?;
            let (task, client) = rest.rsplit_once('/')?;
            let (sequence, part) = number.split_once('.').unwrap_or((number, "0"));
            Some(Self {
                task: Some(task).filter(|task| !task.is_empty())?.to_owned(),
                client: client.parse().ok()?,
                sequence: sequence.parse().ok()?,
                part: part.parse().ok()?,
            })
        };
        parts().ok_or_else(|| FrameNameError {
            found: text.to_owned(),
        })
    }
}

impl fmt::Display for FrameName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.task, self.client, self.sequence)?;
        match self.part {
            0 => Ok(()),
            part => write!(f, ".{part}"),
        }
    }
}

impl Ask {
    /// Whether it asks for this frame by its name.
    pub(super) fn names(&self, id: FrameId, names: &Names) -> bool {
        let Self::Frame(name) = self else {
            return false;
        };
        (name.sequence, name.part) == (id.ticket.sequence, id.ticket.part)
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
        assert_eq!(
            (name.to_string(), name.part),
            ("front/3/1234".to_owned(), 0)
        );
        let part: FrameName = "signs/0/12.3".parse().expect("a crop's");
        assert_eq!((part.sequence, part.part), (12, 3));
        assert_eq!(part.to_string(), "signs/0/12.3");
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
            "front/1/2.",
            "front/1/2.300",
        ] {
            let error = wrong.parse::<FrameName>().expect_err("no name");
            assert!(error.to_string().contains(&format!("`{wrong}`")), "{error}");
        }
    }
}

//! The daemon that is asked: its tasks, a connection to one of them, and what to do where there is none.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_client::{Client, ConnectError, Lost, Options, Refusal, now_ns};
use punctual_daemon::{Report, ReportError};
use punctual_platform::termination::{Terminates, Termination};

use crate::live::daemon;
use crate::live::denied::Denied;

/// How long a place is waited for.
const PATIENCE_NS: u64 = 2_000_000_000;

#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error(
        "no daemon listens at {socket}: {}start one by `punctual daemon MANIFEST --socket {socket}`",
        hint(others),
        socket = socket.display()
    )]
    None {
        socket: PathBuf,
        others: Vec<PathBuf>,
    },
    #[error(transparent)]
    Denied(Denied),
    #[error("there is neither a task nor a file {word:?}: the daemon serves {}", tasks.join(", "))]
    NoTask { word: String, tasks: Vec<String> },
    #[error(
        "the daemon serves no task {task:?}; `punctual check MANIFEST` lists those of a manifest"
    )]
    UnknownTask { task: String },
    #[error(
        "the daemon serves {} tasks: name one of them before the files: {}",
        tasks.len(),
        tasks.join(", ")
    )]
    Choose { tasks: Vec<String> },
    #[error("name the task before the files, as the daemon does not tell its tasks: {0}")]
    Tasks(ReportError),
    #[error("no files to ask about: name pictures, arrays (`.npy`) or folders of them")]
    NoFiles,
    #[error("no connection to {socket}: {source}", socket = socket.display())]
    Connect {
        socket: PathBuf,
        source: Arc<ConnectError>,
    },
    #[error(transparent)]
    Lost(Lost),
}

impl Terminates for DaemonError {
    fn termination(&self) -> Termination {
        match self {
            Self::None { .. } | Self::Denied(_) | Self::Connect { .. } | Self::Lost(_) => {
                Termination::Resources
            }
            Self::NoTask { .. }
            | Self::UnknownTask { .. }
            | Self::Choose { .. }
            | Self::Tasks(_)
            | Self::NoFiles => Termination::BadInput,
        }
    }
}

fn hint(others: &[PathBuf]) -> String {
    match others {
        [] => String::new(),
        others => {
            let listed: Vec<String> = others
                .iter()
                .map(|other| format!("--socket {}", other.display()))
                .collect();
            format!("there is one elsewhere ({}); or ", listed.join(", "))
        }
    }
}

/// Which task to ask about which files.
#[derive(Debug)]
pub struct Asked<'w> {
    pub task: String,
    pub files: &'w [PathBuf],
}

/// What the words of a command line mean: the first is a task if the daemon at this socket has one of that name, or there is no
/// such file.
pub fn asked<'w>(socket: &Path, words: &'w [PathBuf]) -> Result<Asked<'w>, DaemonError> {
    if let Err(error) = UnixStream::connect(socket)
        && let Some(unreachable) = unreachable(socket, error.kind())
    {
        return Err(unreachable);
    }
    let tasks = Report::live(socket).map(|report| {
        let tasks = report.tasks.into_iter();
        let tasks = tasks.filter(|task| task.after.is_none());
        tasks.map(|task| task.name).collect()
    });
    meant(tasks, words)
}

fn meant(
    tasks: Result<Vec<String>, ReportError>,
    words: &[PathBuf],
) -> Result<Asked<'_>, DaemonError> {
    let Some((first, rest)) = words.split_first() else {
        return Err(DaemonError::NoFiles);
    };
    let word = first.display().to_string();
    let is_file = first.symlink_metadata().is_ok();
    let (task, files) = match tasks {
        Ok(tasks) if tasks.contains(&word) => (word, rest),
        Ok(tasks) if !is_file && !word.contains(['/', '.']) => {
            return Err(DaemonError::NoTask { word, tasks });
        }
        Ok(tasks) => match <[String; 1]>::try_from(tasks) {
            Ok([only]) => (only, words),
            Err(tasks) => return Err(DaemonError::Choose { tasks }),
        },
        Err(_) if !is_file => (word, rest),
        Err(untold) => return Err(DaemonError::Tasks(untold)),
    };
    match files {
        [] => Err(DaemonError::NoFiles),
        files => Ok(Asked { task, files }),
    }
}

/// In the manifest's format. The place of a client that has just ended may not be free yet.
pub fn connect(socket: &Path, task: &str) -> Result<Client, DaemonError> {
    let options = Options::new(socket, task, None).reconnect(false);
    let opened = options.open(Some(now_ns() + PATIENCE_NS));
    opened.map_err(|lost| {
        let (Lost::Refused(source) | Lost::NotInTime(source)) = lost else {
            return DaemonError::Lost(lost);
        };
        let kind = match &*source {
            ConnectError::Connect(error) => error.source.kind(),
            ConnectError::Refused(Refusal::UnknownTask { task }) => {
                return DaemonError::UnknownTask { task: task.clone() };
            }
            _ => ErrorKind::Other,
        };
        let socket = socket.to_owned();
        unreachable(&socket, kind).unwrap_or(DaemonError::Connect { socket, source })
    })
}

/// What a failed connection means, where more can be said than that it failed.
fn unreachable(socket: &Path, kind: ErrorKind) -> Option<DaemonError> {
    match kind {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Some(DaemonError::None {
            socket: socket.to_owned(),
            others: daemon::listening(),
        }),
        ErrorKind::PermissionDenied => Denied::at(socket).map(DaemonError::Denied),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<PathBuf> {
        words.iter().map(PathBuf::from).collect()
    }

    fn tasks(tasks: &[&str]) -> Result<Vec<String>, ReportError> {
        Ok(tasks.iter().map(|task| (*task).to_owned()).collect())
    }

    fn untold() -> Result<Vec<String>, ReportError> {
        Err(ReportError::Format {
            path: "metrics".into(),
            found: 99,
        })
    }

    #[test]
    fn the_first_word_is_the_task_or_there_is_only_one() {
        let typed = words(&["front", "a.png"]);
        let asked = meant(tasks(&["front", "rear"]), &typed).expect("a task");
        assert_eq!((asked.task.as_str(), asked.files), ("front", &typed[1..]));
        let typed = words(&["a.png"]);
        let asked = meant(tasks(&["front"]), &typed).expect("the only one");
        assert_eq!((asked.task.as_str(), asked.files), ("front", &typed[..]));
        let typed = words(&["front", "a.png"]);
        assert_eq!(meant(untold(), &typed).expect("not a file").task, "front");
    }

    #[test]
    fn where_the_task_is_not_clear_the_message_lists_those_there_are() {
        let said = |tasks, typed: &[&str]| {
            let typed = words(typed);
            let refused = meant(tasks, &typed).map(|asked| asked.task);
            refused.expect_err("refused").to_string()
        };
        let two = || tasks(&["front", "rear"]);
        assert!(said(two(), &["fornt", "a.png"]).contains("front, rear"));
        assert!(said(two(), &["a.png"]).contains("front, rear"));
        assert!(said(two(), &["front"]).contains("no files"));
        assert!(said(two(), &[]).contains("no files"));
        assert!(said(untold(), &["Cargo.toml"]).contains("format 99"));
    }

    #[test]
    fn a_path_that_nobody_listens_at_is_said_to_be_one() {
        let nowhere = Path::new("/nobody/listens/here");
        let said = asked(nowhere, &words(&["a.png"])).expect_err("no daemon");
        let said = said.to_string();
        assert!(
            said.contains("no daemon listens at /nobody/listens/here"),
            "{said}"
        );
        assert!(said.contains("punctual daemon MANIFEST --socket"), "{said}");
    }
}

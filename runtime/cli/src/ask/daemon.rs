//! The daemon that is asked: its tasks, a connection to one of them, and what to do where there is none.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::{Gid, Group, Uid, User};
use punctual_client::{Client, ConnectError, Lost, Options, Refusal, now_ns};
use punctual_daemon::{Report, ReportError, metrics_socket};
use punctual_plan::METRICS_SUFFIX;
use punctual_platform::termination::{Terminates, Termination};

/// Of daemons elsewhere that a message names.
const OTHERS_MAX: usize = 5;
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
    #[error(
        "this user may not connect to {socket}, which is of user {user} and group {group} with mode {mode:o}: {}",
        remedy(user, group, *mode),
        socket = socket.display()
    )]
    Denied {
        socket: PathBuf,
        user: String,
        group: String,
        mode: u32,
    },
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
            Self::None { .. } | Self::Denied { .. } | Self::Connect { .. } | Self::Lost(_) => {
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

/// Write permission of its group is what a connection to a socket takes.
fn remedy(user: &str, group: &str, mode: u32) -> String {
    if mode & 0o020 == 0 || group == "root" {
        return format!("ask as user {user}");
    }
    format!("`sudo usermod -aG {group} $USER` and log in again, or ask as user {user}")
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
            others: others(socket),
        }),
        ErrorKind::PermissionDenied => {
            // Of the folder, if even the socket cannot be seen.
            let mut seen = socket.ancestors();
            let (path, found) = seen.find_map(|path| Some((path, fs::metadata(path).ok()?)))?;
            let user = User::from_uid(Uid::from_raw(found.uid())).ok().flatten();
            let group = Group::from_gid(Gid::from_raw(found.gid())).ok().flatten();
            Some(DaemonError::Denied {
                socket: path.to_owned(),
                user: user.map_or_else(|| found.uid().to_string(), |user| user.name),
                group: group.map_or_else(|| found.gid().to_string(), |group| group.name),
                mode: found.mode() & 0o7777,
            })
        }
        _ => None,
    }
}

/// Sockets of daemons that serve, where daemons usually have theirs.
fn others(than: &Path) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/run/punctual"), std::env::temp_dir()];
    folders.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    let entries = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok());
    let sockets = entries.flatten().flatten().filter_map(|entry| {
        let is_socket = entry.file_type().is_ok_and(|found| found.is_socket());
        let path = entry.path().into_os_string().into_string().ok()?;
        let path = PathBuf::from(path.strip_suffix(METRICS_SUFFIX)?);
        let serves = is_socket && UnixStream::connect(metrics_socket(&path)).is_ok();
        (serves && path != than).then_some(path)
    });
    let mut sockets: Vec<PathBuf> = sockets.take(OTHERS_MAX).collect();
    sockets.sort();
    sockets
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
    fn a_group_is_joined_only_if_that_helps() {
        assert!(remedy("root", "punctual-clients", 0o660).contains("usermod -aG punctual-clients"));
        assert_eq!(remedy("robot", "robot", 0o700), "ask as user robot");
        assert_eq!(remedy("root", "root", 0o775), "ask as user root");
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

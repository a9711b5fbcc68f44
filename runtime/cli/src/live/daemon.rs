//! Finds a daemon that runs, and asks it for its report.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use punctual_daemon::{Report, ReportError, metrics_socket};
use punctual_plan::METRICS_SUFFIX;
use punctual_platform::termination::{Terminates, Termination};

use crate::live::denied::Denied;

/// As manifests have it by default.
pub const DEFAULT_SOCKET: &str = "/run/punctual/socket";

#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error(
        "no daemon serves here: nothing listens at {DEFAULT_SOCKET} or elsewhere; `punctual daemon MANIFEST` starts one, and \
         `--socket PATH` says where it is"
    )]
    None,
    #[error("several daemons serve here: choose one with --socket, of {sockets}")]
    Several { sockets: String },
    #[error("no daemon listens at {socket}: {source}; {others}", socket = socket.display())]
    NotThere {
        socket: PathBuf,
        source: std::io::Error,
        others: String,
    },
    #[error(transparent)]
    Denied(Denied),
    #[error(
        "the daemon at {socket} tells this user nothing: `[daemon] allow` in its manifest says who may read, besides root and \
         the daemon's own user",
        socket = socket.display()
    )]
    NotAllowed { socket: PathBuf },
    #[error(transparent)]
    Report(ReportError),
}

impl Terminates for LiveError {
    fn termination(&self) -> Termination {
        match self {
            Self::Several { .. } => Termination::BadInput,
            Self::None | Self::NotThere { .. } => Termination::File,
            Self::Denied(_) | Self::NotAllowed { .. } => Termination::Resources,
            Self::Report(_) => Termination::BadResult,
        }
    }
}

/// A daemon's socket for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    pub socket: PathBuf,
}

impl Daemon {
    /// The one that is named, or the one that there is.
    pub fn find(named: Option<&Path>) -> Result<Self, LiveError> {
        if let Some(socket) = named {
            return Ok(Self {
                socket: socket.to_owned(),
            });
        }
        let sockets = listening();
        match &sockets[..] {
            [] => Err(LiveError::None),
            [socket] => Ok(Self {
                socket: socket.clone(),
            }),
            several => Err(LiveError::Several {
                sockets: list(several),
            }),
        }
    }

    pub fn report(&self) -> Result<Report, LiveError> {
        Report::live(&self.socket).map_err(|error| self.failure(error))
    }

    fn failure(&self, error: ReportError) -> LiveError {
        let socket = self.socket.clone();
        match error {
            ReportError::Io { path, source } if source.kind() == ErrorKind::PermissionDenied => {
                match Denied::at(&path) {
                    Some(denied) => LiveError::Denied(denied),
                    None => LiveError::Report(ReportError::Io { path, source }),
                }
            }
            ReportError::Io { source, .. } => {
                let others = match &listening()[..] {
                    [] => "`punctual daemon MANIFEST --socket PATH` starts one".to_owned(),
                    others => format!("one listens at {}", list(others)),
                };
                LiveError::NotThere {
                    socket,
                    source,
                    others,
                }
            }
            // It closes the connections of others without a word.
            ReportError::Json { source, .. } if source.is_eof() => LiveError::NotAllowed { socket },
            other => LiveError::Report(other),
        }
    }
}

/// The sockets of the daemons that listen on this machine, as far as this process can see them.
pub fn listening() -> Vec<PathBuf> {
    let unix = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut sockets = of_table(&unix);
    // Of another namespace, whose table this is not.
    let usual = Path::new(DEFAULT_SOCKET);
    if sockets.is_empty() && metrics_socket(usual).exists() {
        sockets.push(usual.to_owned());
    }
    sockets
}

/// By the kernel's table of Unix sockets, proc(5): those for metrics that listen.
fn of_table(table: &str) -> Vec<PathBuf> {
    /// `__SO_ACCEPTCON`: it listens.
    const LISTENS: &str = "00010000";
    let socket = |line: &str| {
        let mut words = line.splitn(8, ' ').filter(|word| !word.is_empty());
        let is_listening = words.nth(3)? == LISTENS;
        let path = line.split(' ').next_back()?.strip_suffix(METRICS_SUFFIX)?;
        (is_listening && path.starts_with('/')).then(|| PathBuf::from(path))
    };
    let mut sockets: Vec<PathBuf> = table.lines().filter_map(socket).collect();
    sockets.sort();
    sockets.dedup();
    sockets
}

fn list(sockets: &[PathBuf]) -> String {
    let sockets = sockets.iter().map(|socket| socket.display().to_string());
    sockets.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_are_those_that_listen_for_readers_of_metrics() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 35712 /run/punctual/socket.metrics\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 35713 /tmp/gone.metrics\n\
            0000000000000000: 00000002 00000000 00010000 0005 01 35714 /run/punctual/socket\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 35715 /tmp/b.metrics\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 35716\n";
        let expected = ["/run/punctual/socket", "/tmp/b"].map(PathBuf::from);
        assert_eq!(of_table(table), expected);
        assert_eq!(of_table("no table"), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_daemon_that_is_not_there_is_said_with_its_path() {
        let daemon = Daemon::find(Some(Path::new("/nowhere/socket"))).expect("it is named");
        let error = daemon.report().expect_err("nobody is there").to_string();
        assert!(
            error.contains("no daemon listens at /nowhere/socket: No such file"),
            "{error}"
        );
    }
}

//! The command line, shared by `punctuald` and `punctual daemon`.

use std::os::fd::RawFd;
use std::path::PathBuf;

/// What to serve and where to say how it went.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// The manifest (TOML): tasks, models, partitions.
    pub manifest: PathBuf,

    /// A profile made by `punctual profile`; once for each model. Without it, the profile beside
    /// each model's package is used (`signs.punctual` -> `signs.profile.json`).
    #[arg(long = "profile", value_name = "FILE")]
    pub profiles: Vec<PathBuf>,

    /// Where clients connect; overrides the manifest. The metrics are served beside it, at the
    /// same path with `.metrics` appended.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Write the report (JSON) here at termination.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Write one line to this inherited file descriptor when ready, then close it.
    #[arg(long, value_name = "FD")]
    pub ready_fd: Option<RawFd>,

    /// Drain and terminate when the process that started this one ends.
    #[arg(long)]
    pub end_with_parent: bool,
}

/// Printed below the options by `--help`.
pub const AFTER_HELP: &str = "\
EXAMPLES:
  Serve a manifest, clients connecting at the manifest's socket:
      punctuald /etc/punctual/signs.toml
  As an ordinary user, with a report at the end:
      punctuald signs.toml --socket /tmp/signs.sock --report report.json
  Look at the metrics of a daemon that is running (one JSON object a connection):
      socat -u UNIX-CONNECT:/tmp/signs.sock.metrics -

SIGNALS:
  SIGTERM, SIGINT   stop accepting, answer what was accepted, terminate; a second one
                    terminates at once.

TERMINATION CODES:
  0   clean: everything accepted was answered
  2   wrong usage of the command line
  3   the manifest or the plan made from it is invalid; nothing was started
  4   a file is missing, unreadable or damaged: manifest, package or profile
  5   resources could not be had: memory, threads, socket
  6   the drain's bound was exceeded; what was open then is counted as lost
  7   a second signal ended the drain; what was open then is counted as lost
  8   a real-time thread was stuck for [daemon] watchdog_ms: start the daemon again
  70  an internal error; please report it";

//! The command line, shared by `punctuald` and `punctual daemon`.

use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use punctual_plan::Files;
use punctual_platform::logging::{ENVIRONMENT, Levels};

/// Where a board keeps its manifest, and what a manifest that is a credential is relative to.
pub const CONFIGURATION: &str = "/etc/punctual";

/// The manifest's name, there and among the credentials.
const MANIFEST: &str = "manifest.toml";

/// What to serve and where to say how it went.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// The manifest (TOML): tasks, models, partitions. Absent: the credential `manifest.toml` that
    /// the service manager passed, else `/etc/punctual/manifest.toml`.
    pub manifest: Option<PathBuf>,

    /// A profile made by `punctual profile`; once for each model. Without it, the profile beside
    /// each model's package is used (`signs.punctual` -> `signs.profile.json`).
    #[arg(long = "profile", value_name = "FILE")]
    pub profiles: Vec<PathBuf>,

    /// Where clients connect; overrides the manifest, and gives way to a socket that the service
    /// manager passed. The metrics are served beside it, at the same path with `.metrics` appended.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Write the report (JSON) here at termination, and at SIGUSR1. A pipe or a device is written into,
    /// never replaced.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// If the manifest, or what it names, cannot be served: serve the copy of the last one that could,
    /// which `--keep` made here, and say so.
    #[arg(long, value_name = "FOLDER")]
    pub last_good: Option<PathBuf>,

    /// Log level, on standard error or in the journal: `error`, `warn`, `info`, `debug` or `trace`. A
    /// module may have its own: `info,punctual_daemon::scheduler=debug`.
    #[arg(long, value_name = "LEVEL", env = ENVIRONMENT, hide_env_values = true, default_value = "info")]
    pub log: Levels,

    /// Write `ready` to this inherited file descriptor when the first task is ready, and `over` when nothing more will be loaded;
    /// then close it.
    #[arg(long, value_name = "FD")]
    pub ready_fd: Option<RawFd>,

    /// Drain and terminate when the process that started this one ends.
    #[arg(long)]
    pub end_with_parent: bool,
}

/// A manifest, and where the files are that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestSource {
    pub path: PathBuf,
    pub files: Files,
    /// Whether it is a credential: the copy that the service manager made when it started us.
    pub is_credential: bool,
    /// Whether the command line names it.
    pub is_named: bool,
}

/// None was named, and there is none at the usual place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no manifest was named, the service manager passed none, and there is none at {usual}: name one (MANIFEST.toml), or write \
     one there; `punctual init PACKAGE` writes a first one",
    usual = usual.display()
)]
pub struct NoManifest {
    usual: PathBuf,
}

impl ManifestSource {
    /// That there is none, if it is not named.
    pub(crate) fn check(&self) -> Result<(), NoManifest> {
        let usual = self.path.clone();
        if self.is_named || usual.exists() {
            return Ok(());
        }
        Err(NoManifest { usual })
    }
}

impl Options {
    /// Where the manifest is.
    #[must_use]
    pub fn manifest(&self) -> ManifestSource {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        self.manifest_among(credentials.as_deref())
    }

    /// The same, if there is one; what is wrong with one that was named is for its reader to say.
    pub fn manifest_that_is_there(&self) -> Result<ManifestSource, NoManifest> {
        let source = self.manifest();
        source.check().map(|()| source)
    }

    fn manifest_among(&self, credentials: Option<&Path>) -> ManifestSource {
        let configuration = Path::new(CONFIGURATION);
        if let Some(path) = &self.manifest {
            return ManifestSource {
                path: path.clone(),
                files: Files::of(path.parent().unwrap_or(Path::new(""))),
                is_credential: false,
                is_named: true,
            };
        }
        let credential = credentials.map(|folder| folder.join(MANIFEST));
        let credential = credential.filter(|path| path.exists());
        ManifestSource {
            is_credential: credential.is_some(),
            path: credential.unwrap_or_else(|| configuration.join(MANIFEST)),
            files: Files::of(configuration),
            is_named: false,
        }
    }
}

/// Printed below the options by `--help`.
pub const AFTER_HELP: &str = "\
EXAMPLES:
  Serve a manifest, clients connecting at the manifest's socket:
      punctuald /etc/punctual/signs.toml
  As an ordinary user, with a report at the end:
      punctuald signs.toml --socket /tmp/signs.sock --report report.json
  Find out who comes and goes, and which weights are loaded:
      punctuald signs.toml --log debug
  Look at a daemon that is running:
      punctual top --socket /tmp/signs.sock

SIGNALS:
  SIGTERM, SIGINT, SIGHUP, SIGQUIT
                    stop accepting, answer what was accepted, terminate; a second one
                    terminates at once. (With nohup(1), SIGHUP is ignored.) The service
                    manager then starts the daemon again, unless it sent the signal to stop it:
                    SIGHUP has the manifest read again. --reload checks it before.
  SIGUSR1           write the report's present state to --report, and serve on.
  SIGUSR2           write what the black box has (`[recorder]`), and serve on.
  SIGALRM, SIGXFSZ, SIGTTOU and others that would end or stop it are ignored.

TERMINATION CODES:
  0   clean: everything accepted was answered
  1   a reload (--reload) reached no daemon; the manifest is valid
  2   wrong usage of the command line
  3   the manifest or the plan made from it is invalid; nothing was started
  4   a file is missing, unreadable or damaged: manifest, package or profile
  5   resources unavailable: memory, threads, socket
  6   the drain's bound was exceeded; what was open then is counted as lost
  7   a second signal ended the drain; what was open then is counted as lost
  8   a real-time thread was stuck for [daemon] watchdog_ms: start the daemon again
  9   the GPU can no longer be used by this process: start the daemon again
  70  an internal error; please report it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_the_one_named_else_the_credential_else_the_boards() {
        let none = Options::default();
        let of_board = none.manifest_among(None);
        assert_eq!(of_board.path, Path::new("/etc/punctual/manifest.toml"));
        assert!(!of_board.is_credential);

        let name = format!("punctual-credentials-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a fresh folder");
        assert_eq!(none.manifest_among(Some(&folder)), of_board);
        if !of_board.path.exists() {
            let none = of_board.check().expect_err("nothing is there").to_string();
            assert!(
                none.contains("there is none at /etc/punctual/manifest.toml"),
                "{none}"
            );
        }
        std::fs::write(folder.join(MANIFEST), "").expect("a writable folder");
        let passed = none.manifest_among(Some(&folder));
        assert_eq!(passed.path, folder.join(MANIFEST));
        assert!(passed.is_credential);
        assert_eq!(passed.files, Files::of(Path::new(CONFIGURATION)));

        let named = Options {
            manifest: Some("robot/signs.toml".into()),
            ..Options::default()
        };
        let named = named.manifest_among(Some(&folder));
        assert_eq!(named.files, Files::of(Path::new("robot")));
        assert_eq!((named.check(), passed.check()), (Ok(()), Ok(())));
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}

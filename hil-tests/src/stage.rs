//! What all cases of a run share on the target: the agent, the network, its profile, the binaries.

use std::path::{Path, PathBuf};

use punctual_client::now_ns;
use punctual_platform::read;

use crate::facts::Facts;
use crate::manifest::{Task, manifest};
use crate::target::{Output, Script, Target, TargetError};

const SIGNS: &[u8] = include_bytes!("../../models/signs/signs.punctual");

/// One Relu of a picture of 8 x 8: what it answers is the frame.
const MIRROR: &[u8] = include_bytes!("../mirror.onnx");

/// How long copying may take.
const COPY_NS: u64 = 120_000_000_000;

/// How long measuring the network may take.
const PROFILE_NS: u64 = 300_000_000_000;

/// Where everything is, on the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The run's folder.
    pub folder: String,
    /// The folder of the case that is running; below the run's.
    pub case: String,
    /// What marks the run's processes.
    pub mark: String,
    pub board: String,
    pub agent: String,
    /// `punctuald`.
    pub daemon: String,
    /// `punctual`.
    pub command: String,
    /// `punctuald` of another version.
    pub old_daemon: Option<String>,
    /// `channel-torture`.
    pub torture: Option<String>,
}

/// Why a run could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot read the agent's program {path}: {source}", path = path.display())]
    Agent {
        path: PathBuf,
        source: std::io::Error,
    },
    /// This program does not run there.
    #[error(
        "the target is {target}, this program is for {ours}: give one for the target by --agent FILE"
    )]
    Architecture { target: String, ours: &'static str },
    /// The binaries under test are not there.
    #[error("`{program} --version` does not run on the target: install the package there, or name their folder by --bin: {}", words.trim())]
    Program { program: String, words: String },
    /// A network could not be compiled or measured.
    #[error("`punctual {command}` ended with {}: {}", code.map_or("a signal".to_owned(), |code| format!("code {code}")), words.trim())]
    Network {
        command: &'static str,
        code: Option<i32>,
        words: String,
    },
}

/// What the caller states about the binaries.
#[derive(Clone, Debug, Default)]
pub struct Binaries {
    /// Folder of those under test, on the target; none: they are installed.
    pub folder: Option<String>,
    /// Folder of those of another version, likewise.
    pub old_folder: Option<String>,
    /// `channel-torture`, on the target.
    pub torture: Option<String>,
    /// The agent for the target, on this machine; none: this program.
    pub agent: Option<PathBuf>,
    /// Measure the network thoroughly: minutes rather than seconds.
    pub thorough: bool,
}

impl Stage {
    /// Prepares a run on the target.
    pub fn prepare(
        &self,
        target: &Target,
        facts: &Facts,
        binaries: &Binaries,
    ) -> Result<(), StageError> {
        target.reset(&self.mark, &self.folder, now_ns() + COPY_NS)?;
        let agent = agent(facts, binaries.agent.as_deref())?;
        target.write(&self.agent, "755", &agent, now_ns() + COPY_NS)?;
        let signs = format!("{}/signs.punctual", self.folder);
        target.write(&signs, "644", SIGNS, now_ns() + COPY_NS)?;
        let mirror = format!("{}/mirror.onnx", self.folder);
        target.write(&mirror, "644", MIRROR, now_ns() + COPY_NS)?;
        for program in [&self.daemon, &self.command]
            .into_iter()
            .chain(&self.old_daemon)
        {
            runs(target, program)?;
        }
        self.prepare_network(
            target,
            "compile",
            &[&mirror, "--normalise", "none", "--answer", "none"],
        )?;
        self.profile(target, binaries.thorough)
    }

    /// The paths, from the caller's words alone; nothing is done yet.
    #[must_use]
    pub fn named(board: &str, mark: &str, binaries: &Binaries) -> Self {
        let folder = format!("/tmp/punctual-hil-{mark}");
        let program = |folder: &Option<String>, name: &str| match folder {
            Some(folder) => format!("{folder}/{name}"),
            None => name.to_owned(),
        };
        Self {
            case: format!("{folder}/case"),
            agent: format!("{folder}/punctual-hil"),
            mark: mark.to_owned(),
            board: board.to_owned(),
            daemon: program(&binaries.folder, "punctuald"),
            command: program(&binaries.folder, "punctual"),
            old_daemon: binaries
                .old_folder
                .as_ref()
                .map(|old| format!("{old}/punctuald")),
            torture: binaries.torture.clone(),
            folder,
        }
    }

    /// Measures the networks once, for all manifests of the cases.
    fn profile(&self, target: &Target, thorough: bool) -> Result<(), StageError> {
        let path = format!("{}/manifest.toml", self.folder);
        let arguments = [path.as_str(), "--quick"];
        let arguments = &arguments[..2 - usize::from(thorough)];
        for tasks in Task::MEASURED {
            let text = manifest(&self.board, ".", tasks, "");
            target.write(&path, "644", text.as_bytes(), now_ns() + COPY_NS)?;
            self.prepare_network(target, "profile", arguments)?;
        }
        Ok(())
    }

    /// Has `punctual` do this.
    fn prepare_network(
        &self,
        target: &Target,
        command: &'static str,
        arguments: &[&str],
    ) -> Result<(), StageError> {
        let script = Script::new("prepare the networks", "\"$@\" >&2")
            .with([self.command.as_str(), command])
            .with(arguments.iter().copied());
        let output = target.try_run(&script, now_ns() + PROFILE_NS)?;
        match output {
            Output { code: Some(0), .. } => Ok(()),
            Output {
                code,
                stderr: words,
                ..
            } => Err(StageError::Network {
                command,
                code,
                words,
            }),
        }
    }

    /// The manifest of these tasks, for a case's folder, with further lines for the table `[daemon]`.
    #[must_use]
    pub fn manifest(&self, tasks: &[Task], daemon: &str) -> String {
        manifest(&self.board, "..", tasks, daemon)
    }

    pub fn strike(&self, target: &Target) -> Result<(), TargetError> {
        target.reset(&self.mark, &self.folder, now_ns() + COPY_NS)?;
        let script =
            Script::new("remove the run's folder", "rmdir \"$1\"").with([self.folder.as_str()]);
        target.run(&script, now_ns() + COPY_NS).map(drop)
    }
}

/// More than any build of this program has.
const AGENT_BYTES_MAX: u64 = 1 << 30;

fn agent(facts: &Facts, given: Option<&Path>) -> Result<Vec<u8>, StageError> {
    let ours = std::env::consts::ARCH;
    let path = match given {
        Some(path) => path.to_owned(),
        None if facts.architecture != ours => {
            let target = facts.architecture.clone();
            return Err(StageError::Architecture { target, ours });
        }
        None => std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe")),
    };
    read::bytes(&path, AGENT_BYTES_MAX).map_err(|source| StageError::Agent { path, source })
}

fn runs(target: &Target, program: &str) -> Result<(), StageError> {
    let script = Script::new("look for the binaries", "\"$1\" --version").with([program]);
    let output = target.try_run(&script, now_ns() + COPY_NS)?;
    if output.code == Some(0) {
        return Ok(());
    }
    Err(StageError::Program {
        program: program.to_owned(),
        words: output.stderr,
    })
}

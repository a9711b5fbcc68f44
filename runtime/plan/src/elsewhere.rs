//! What a plan is made from for a board that is elsewhere: its file, and profiles that were measured on it. So a robot's manifest is
//! judged where it is written, on another machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use punctual_diagnostics::{Diagnostics, Place, Problems, Rule};
use punctual_model::Profile;
use thiserror::Error;

use crate::inputs::{
    Accounts, Board, DeviceKind, Host, HostCores, PackageInput, PlanInputs, Policies, ProfileInput,
};
use crate::manifest::{Account, Manifest, PackageSource, RawAccess};
use crate::read::{Files, board_named, conditions, of_packages, open, read_packages, read_profile};
use crate::versions::Servable;

/// Floats of the vectors that the kernels for AArch64 have.
const AARCH64_LANES: u8 = 4;

/// Why a plan for a board cannot be made on another machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ElsewhereRule {
    #[error(
        "no profile of board {board:?} is in the packages or beside them{}",
        found(boards)
    )]
    NoProfile {
        board: String,
        /// Boards of which there are profiles.
        boards: Vec<String>,
    },
    /// A board whose figures are found out where it is.
    #[error("the file of board {board:?} does not say {what}")]
    Detected { board: String, what: &'static str },
    #[error("partition {partition:?} is run by {:?}", device.name())]
    Device {
        partition: String,
        device: DeviceKind,
    },
}

fn found(boards: &[String]) -> String {
    match boards {
        [] => String::new(),
        boards => format!("; those that are there are of {}", boards.join(", ")),
    }
}

impl Rule for ElsewhereRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::NoProfile { .. } => {
                "a plan for another board needs profiles that were measured on it"
            }
            Self::Detected { .. } => "of a board that is not here its file says what it has",
            Self::Device { .. } => {
                "what a GPU or a library offers is known only where it is: elsewhere, partitions are of cores"
            }
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NoProfile { board, .. } => format!(
                "on that board, measure with `punctual profile MANIFEST`; keep the profile in the package (--into-packages), beside it as \
                 PACKAGE.{board}.profile.json, or name it with --profile"
            ),
            Self::Detected { board, what } => {
                format!("write {what} into boards/{board}.toml, or check it on the board")
            }
            Self::Device { .. } => "check this manifest on the board, without --board".into(),
        }
    }

    fn is_about_a_file(&self) -> bool {
        matches!(self, Self::NoProfile { .. })
    }
}

impl PlanInputs {
    /// As [`read_from`](Self::read_from), for a board that is not this machine, whatever the manifest says. Nothing is known of that
    /// machine but what its file and its profiles say: it may have other real-time privileges, users and free memory.
    pub fn read_for_board(
        manifest_path: &Path,
        files: &Files,
        profiles: &[PathBuf],
        board: &str,
        policies: Policies,
    ) -> Result<Self, Diagnostics> {
        let manifest_text = open(manifest_path)?;
        let mut problems = Problems::new(manifest_path, &manifest_text, "plan");
        let Some(manifest) =
            crate::manifest::read(&policies, PackageSource::Files(files), &mut problems)
        else {
            return Err(problems.into_errors());
        };
        // What is wrong with the manifest is for the plan to say.
        let of_board = || Problems::new(manifest_path, &manifest_text, "plan");
        let board = board_named(board, &Place::default(), files, of_board())?;
        let mut problems = of_board();
        let lanes = if board.is_jetson() { AARCH64_LANES } else { 0 };
        let named = profiles.iter().map(|path| files.read_instead_of(path));
        let named: Vec<ProfileInput> = named.map(read_profile).collect();
        let servable = Servable {
            conditions: conditions(&manifest, &board, None),
            named: &named,
        };
        let packages = read_packages(&manifest, files, lanes, &servable);
        let profiles = profiles_for(&board, &packages, named, files);
        check_devices(&manifest, &mut problems);
        let host = host(&board, &manifest, &profiles, lanes, &mut problems);
        let Some(host) = host.filter(|_| problems.count() == 0) else {
            return Err(problems.into_errors());
        };
        Ok(Self {
            manifest_path: manifest_path.to_owned(),
            manifest_text,
            board,
            board_is_asked: true,
            host,
            policies,
            packages,
            profiles,
        })
    }
}

/// Those that are named; or else those in the packages and next to them, also under the board's name.
fn profiles_for(
    board: &Board,
    packages: &[PackageInput],
    named: Vec<ProfileInput>,
    files: &Files,
) -> Vec<ProfileInput> {
    if !named.is_empty() {
        return named;
    }
    let of_board = packages.iter().map(|input| {
        let package = files.locate(Path::new(input.file()));
        package.with_extension(format!("{}.profile.json", board.name))
    });
    let of_board = of_board.filter(|path| path.exists()).map(read_profile);
    let of_board: Vec<ProfileInput> = of_board.collect();
    let usual = of_packages(packages, files).into_iter();
    // One that lies there for this machine need not be readable.
    let usual = usual.filter(|input| input.profile.is_ok());
    of_board.into_iter().chain(usual).collect()
}

fn check_devices(manifest: &Manifest, problems: &mut Problems<'_>) {
    for partition in &manifest.partitions {
        if partition.device != DeviceKind::Cpu {
            let (name, device) = (partition.name.value.clone(), partition.device);
            let cause = ElsewhereRule::Device {
                partition: name,
                device,
            };
            problems.add(&partition.place, cause);
        }
    }
}

/// The machine as the board's file and a profile have it; none if they do not say enough.
fn host(
    board: &Board,
    manifest: &Manifest,
    profiles: &[ProfileInput],
    lanes: u8,
    problems: &mut Problems<'_>,
) -> Option<Host> {
    let name = || board.name.clone();
    let mode = manifest.daemon.power_mode.as_ref();
    let mode = mode.map_or_else(|| board.default_power_mode(), |mode| mode.value.as_str());
    let of_mode = board.power_mode(mode).and_then(|mode| mode.cores.as_ref());
    let cores = of_mode.or(board.cores.as_ref()).map(|fact| fact.value);
    let memory = board.memory_bytes.as_ref().map(|fact| fact.value);
    for (is_missing, what) in [
        (cores.is_none(), "how many cores it has"),
        (memory.is_none(), "its memory"),
    ] {
        if is_missing {
            problems.add(
                &Place::default(),
                ElsewhereRule::Detected {
                    board: name(),
                    what,
                },
            );
        }
    }
    let known = profiles
        .iter()
        .filter_map(|input| input.profile.as_ref().ok());
    // The processor prepares frames, and its profile alone has the times.
    let of_processor =
        |profile: &&Profile| profile.key.board == board.name && !profile.prepare.is_empty();
    let Some(profile) = known.clone().find(of_processor) else {
        let mut boards: Vec<String> = known.map(|profile| profile.key.board.clone()).collect();
        boards.sort();
        boards.dedup();
        let cause = ElsewhereRule::NoProfile {
            board: name(),
            boards,
        };
        problems.add(&Place::default(), cause);
        return None;
    };
    Some(Host {
        cores: HostCores {
            available: (0..cores?).collect(),
            isolated: Vec::new(),
        },
        // What the kernel and others take, generously.
        memory_bytes: memory? / 4 * 3,
        realtime: true,
        machine: profile.key.machine.clone(),
        clocks: profile.key.clocks.clone(),
        settings: profile.settings.clone(),
        lanes,
        program_bytes: 0,
        accounts: accounts(manifest),
        gpu: None,
        ort: Err("the board is elsewhere".to_owned()),
    })
}

/// Those that the manifest names, whatever their numbers are there.
fn accounts(manifest: &Manifest) -> Accounts {
    let of_tasks = manifest
        .tasks
        .iter()
        .filter_map(|task| task.entry.allow.as_ref());
    let allowed: Vec<&RawAccess> = manifest
        .daemon
        .admission
        .allow
        .iter()
        .chain(of_tasks)
        .collect();
    let numbered = |lists: Vec<&Vec<Account>>| -> BTreeMap<String, u32> {
        let named = lists
            .into_iter()
            .flatten()
            .filter_map(|account| match account {
                Account::Name(name) => Some(name.clone()),
                Account::Number(_) => None,
            });
        named.zip(1..).collect()
    };
    let users = allowed.iter().filter_map(|allow| allow.users.as_ref());
    let groups = allowed.iter().filter_map(|allow| allow.groups.as_ref());
    Accounts {
        users: numbered(users.map(|at| &at.value).collect()),
        groups: numbered(groups.map(|at| &at.value).collect()),
    }
}

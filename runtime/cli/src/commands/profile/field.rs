//! `punctual profile --from`: new profiles from a recording of a daemon that served.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use punctual_core::PartitionId;
use punctual_insight::Field;
use punctual_model::{Profile, ProfileError};
use punctual_plan::{DeviceKind, Margins};
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_recording::frames::{Follower, Item, Run};
use punctual_recording::{End, Recording, Setting};
use serde::Deserialize;

use crate::recorded::{Opened, RecordingError, RecordingFile, unreadable};

/// The attachment that has the frozen plan.
const PLAN: &str = "plan.json";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error(
        "{path}: it has no attachment {PLAN}: it is of a simulation, whose times nothing measured; a recording of a daemon has one",
        path = path.display()
    )]
    NoPlan { path: PathBuf },
    #[error("{path}: its attachment {PLAN} cannot be read: {source}", path = path.display())]
    Plan {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{path}: its attachment {name} cannot be read: {source}", path = path.display())]
    Profile {
        path: PathBuf,
        name: String,
        source: ProfileError,
    },
    #[error(
        "{path}: it has no profile of any model, as attachments `profile/MODEL`: there is nothing to put figures in",
        path = path.display()
    )]
    NoProfile { path: PathBuf },
    #[error(
        "{path}: model {model} has the package {package:?}, which names no file: the recording is damaged",
        path = path.display()
    )]
    NoName {
        path: PathBuf,
        model: String,
        package: PathBuf,
    },
    #[error(transparent)]
    Write(#[from] ProfileError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Recording(error) => error.termination(),
            Self::File { .. } | Self::Write(_) => Termination::File,
            _ => Termination::BadInput,
        }
    }
}

/// What is needed of a frozen plan.
#[derive(Debug, Deserialize)]
struct RecordedPlan {
    models: Vec<RecordedModel>,
    partitions: Vec<RecordedPartition>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct RecordedModel {
    name: String,
    package: PathBuf,
    device: RecordedDevice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RecordedDevice {
    Cpu,
    Cuda,
    Ort,
}

impl RecordedDevice {
    const fn kind(self) -> DeviceKind {
        match self {
            Self::Cpu => DeviceKind::Cpu,
            Self::Cuda => DeviceKind::Cuda,
            Self::Ort => DeviceKind::Ort,
        }
    }
}

#[derive(Debug, Deserialize)]
struct RecordedPartition {
    #[serde(default, rename = "use")]
    usage: RecordedUse,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RecordedUse {
    #[default]
    Own,
    Idle,
    /// How many units a stage had is the policy's choice, or changes while it runs: no figure is about that.
    #[serde(other)]
    Other,
}

/// A profile is of a package on a device, whatever models are made of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    package: PathBuf,
    device: RecordedDevice,
}

struct Known {
    /// Of its first model.
    name: String,
    profile: Profile,
    field: Field,
}

/// Reads the recording, and writes the profiles into `folder`.
pub fn run(path: &Path, folder: &Path) -> Result<(), Error> {
    let file = RecordingFile::read(path)?;
    let Opened { recording, setting } = file.open()?;
    let plan = plan(path, &recording)?;
    let mut known = profiles(path, &recording, &plan)?;
    let mut follower = Follower::new(&setting.config);
    let mut entries = recording.entries();
    for entry in entries.by_ref() {
        let entry = entry.map_err(|source| unreadable(path, source))?;
        follower.entry(&entry, &mut |item| {
            if let Item::Run(run) = item {
                count(&run, &plan, &setting, &mut known);
            }
        });
    }
    if let Some(End::Cut { why }) = entries.end() {
        output::note(format_args!(
            "the file was cut off ({why}): what lies behind is lost"
        ));
    }
    for (subject, known) in known {
        write(path, folder, &subject, known)?;
    }
    Ok(())
}

fn plan(path: &Path, recording: &Recording<'_>) -> Result<RecordedPlan, Error> {
    let attached = recording.attachment(PLAN).ok_or_else(|| Error::NoPlan {
        path: path.to_owned(),
    })?;
    serde_json::from_slice(&attached).map_err(|source| Error::Plan {
        path: path.to_owned(),
        source,
    })
}

/// The profiles that the plan was made from.
fn profiles(
    path: &Path,
    recording: &Recording<'_>,
    plan: &RecordedPlan,
) -> Result<BTreeMap<Subject, Known>, Error> {
    let mut known = BTreeMap::new();
    for model in &plan.models {
        let name = format!("profile/{}", model.name);
        let Some(attached) = recording.attachment(&name) else {
            continue;
        };
        let profile = Profile::from_json(&String::from_utf8_lossy(&attached));
        let profile = profile.map_err(|source| Error::Profile {
            path: path.to_owned(),
            name,
            source,
        })?;
        known.entry(subject(model)).or_insert_with(|| Known {
            name: model.name.clone(),
            profile,
            field: Field::default(),
        });
    }
    if known.is_empty() {
        return Err(Error::NoProfile {
            path: path.to_owned(),
        });
    }
    Ok(known)
}

fn subject(model: &RecordedModel) -> Subject {
    Subject {
        package: model.package.clone(),
        device: model.device,
    }
}

fn count(run: &Run, plan: &RecordedPlan, setting: &Setting, known: &mut BTreeMap<Subject, Known>) {
    let Some(model) = plan.models.get(run.model.index()) else {
        return;
    };
    let Some(known) = known.get_mut(&subject(model)) else {
        return;
    };
    let usage = plan.partitions.get(run.partition.index());
    let is_place = match usage.map(|partition| partition.usage) {
        Some(RecordedUse::Own) => false,
        Some(RecordedUse::Idle) => true,
        Some(RecordedUse::Other) | None => return,
    };
    if let Some(units) = units_of(run.partition, setting) {
        known.field.run(run, units, is_place);
    }
}

/// As profiles count them.
fn units_of(partition: PartitionId, setting: &Setting) -> Option<u8> {
    let partition = setting.config.partitions.get(partition.index())?;
    u8::try_from(partition.units.count).ok()
}

fn write(path: &Path, folder: &Path, subject: &Subject, known: Known) -> Result<(), Error> {
    let Known {
        name,
        profile,
        field,
    } = known;
    // A recording may name any file: only the last part counts, and it goes into the folder that was asked for.
    let file = subject.package.file_name().ok_or_else(|| Error::NoName {
        path: path.to_owned(),
        model: name.clone(),
        package: subject.package.clone(),
    })?;
    let end = subject.device.kind().profile_file();
    let file = folder.join(file).with_extension(end);
    let recording = path.file_name().unwrap_or(path.as_os_str());
    let recording = recording.to_string_lossy();
    let made = field.profile(&profile, Margins::SAMPLES_FOR_P99, &recording);
    let (table, width) = (made.table(), output::width());
    output::text(format_args!(
        "{name} on {}\n{table:width$}",
        profile.key.machine
    ))?;
    if made.replaced == 0 {
        output::line(format_args!(
            "  no figure has {} samples: no profile is written",
            Margins::SAMPLES_FOR_P99
        ))?;
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|source| Error::File {
        path: folder.to_owned(),
        source,
    })?;
    made.profile.write(&file)?;
    Ok(output::line(format_args!("wrote {}", file.display()))?)
}

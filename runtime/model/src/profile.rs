//! Measured execution times of a network on one machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};

use punctual_platform::files::write_whole;
use punctual_platform::read;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Package, SolutionChoice, SolutionMemory};

/// The version of the profile file that this program writes and reads.
const VERSION: u32 = 2;

/// The measurements of one network on one machine in one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub key: ProfileKey,
    /// Settings of the machine that its speed depends on, by name: `governor`, `frequency`. Empty where the machine does not
    /// tell, and in profiles of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// For each stage the first one that is the same ([`StagePrefix::own`](crate::StagePrefix::own)): their samples are
    /// gathered in one entry, under its number. Empty where no stage repeats an earlier one, and in profiles of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_as: Vec<u8>,
    /// One entry for each (distinct stage, batch, partition size).
    pub stages: Vec<StageProfile>,
    /// The same while every other compute unit of the device runs stages, too: what places are planned with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<StageProfile>,
    /// Preparing one frame: copy in, crop, resize, normalise; one entry a frame
    /// format, frame size and crop size.
    pub prepare: Vec<PrepareProfile>,
    /// Of a GPU: the same by its kernels, while stages run on the same compute units. Profiles of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare_on_device: Vec<PrepareOnDevice>,
    /// From `Preempt` until the worker is free, in nanoseconds: the 99% quantile of the longest
    /// operator of a stage, the largest of all stages, batches and partition sizes.
    pub preemption_ns_max: u64,
    /// The same by stage, batch and partition size: how long a stage that is stopped at a random time keeps its partition.
    /// Profiles of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preemption: Vec<PreemptionProfile>,
    /// The solutions that these figures were measured with, where they are not the direct ones.
    #[serde(default)]
    pub solutions: Vec<SolutionChoice>,
    #[serde(default)]
    pub solution_memory: SolutionMemory,
    /// Of a GPU: at how many tiles of a main loop launches look whether they are preempted, once, when these figures were
    /// measured. None: as the device does without being told, and in profiles of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_stride: Option<NonZeroU8>,
    /// Of a GPU: how long each launch takes alone, for stages that leave room for others or fill it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launches: Vec<LaunchProfile>,
    /// What came of comparing the stages' answers with the reference interpreter's. None: never done, as in profiles of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// Which figures are of runs while a daemon served. None: `punctual profile` measured all of them, and in profiles of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<FieldFigures>,
}

/// Figures that are from recordings (`punctual profile --from`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldFigures {
    /// The files' names, the newest last.
    pub recordings: Vec<String>,
    pub stages: Vec<FieldFigure>,
    /// Of those with busy neighbours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<FieldFigure>,
}

/// Which figure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldFigure {
    pub stage: u8,
    pub batch: u8,
    pub units: u8,
}

impl FieldFigures {
    /// Adds a figure, once.
    pub fn add(&mut self, is_beside: bool, figure: FieldFigure) {
        let list = if is_beside {
            &mut self.beside
        } else {
            &mut self.stages
        };
        if !list.contains(&figure) {
            list.push(figure);
        }
    }
}

impl fmt::Display for FieldFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.stages.len() + self.beside.len();
        write!(
            f,
            "{figures} figures are from the field: {}",
            self.recordings.join(", ")
        )
    }
}

/// What of a network's answers on this machine was compared with the reference interpreter's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    /// Inputs that were drawn; fewer where the reference takes long.
    pub inputs: u32,
    /// Batch sizes, each on each number of `units`.
    pub batches: Vec<u8>,
    pub units: Vec<u8>,
    /// Choices of solutions that were in use; left out if there were none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub solutions: u32,
    /// Values that agree.
    pub values: u64,
    /// Values that rounding alone decides: they may be anything.
    pub undecided: u64,
    /// The largest error, in thousandths of what the network's own arithmetic allows for.
    pub worst_permille: u32,
    /// Whether memory was overwritten before each stage; not where a library has its own.
    pub poisoned: bool,
    /// Milliseconds that all of it took.
    pub took_ms: u64,
    /// Where it was wrong, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Disagreement>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            inputs,
            values,
            undecided,
            ..
        } = self;
        if let Some(failure) = &self.failure {
            return write!(f, "wrong: {failure}");
        }
        let batches: Vec<String> = self.batches.iter().map(u8::to_string).collect();
        let batches = batches.join(", ");
        let worst = f64::from(self.worst_permille) / 10.0;
        write!(
            f,
            "verified on {inputs} inputs at batch {batches}: {values} values agree with the reference interpreter, the \
             largest error is {worst:.1}% of the tolerance"
        )?;
        match undecided {
            0 => Ok(()),
            _ => write!(f, "; rounding decides {undecided} others"),
        }
    }
}

/// The first answer that was wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disagreement {
    pub stage: u8,
    pub batch: u8,
    pub units: u8,
    /// Which member of the batch, and which of the inputs it had.
    pub member: u8,
    pub input: u32,
    /// The output's name, or what else of the answer it is.
    pub output: String,
    /// Which element of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Text, as it may be no number.
    pub found: String,
    pub expected: String,
    /// How far it may be from that.
    pub tolerance: String,
    /// The solution without which it is right, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solution: Option<SolutionChoice>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.units == 1 { "" } else { "s" };
        write!(
            f,
            "stage {} at batch {} on {} unit{s}, member {}, input {}: ",
            self.stage, self.batch, self.units, self.member, self.input
        )?;
        if let Some(position) = self.position {
            write!(f, "element {position} of ")?;
        }
        write!(
            f,
            "`{}` is {}, expected {} within {}",
            self.output, self.found, self.expected, self.tolerance
        )?;
        match &self.solution {
            Some(SolutionChoice {
                operator, solution, ..
            }) => {
                write!(f, "; operator {operator} is computed by `{solution}`")
            }
            None => Ok(()),
        }
    }
}

/// How long one stage at one batch size keeps a partition of one size when it is preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreemptionProfile {
    pub stage: u8,
    pub batch: u8,
    /// Partition size in compute units.
    pub units: u8,
    pub samples: u32,
    /// From the preemption to the end of the action, in nanoseconds: the 99% quantile.
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// The launches of one stage at one batch size on one partition size, each alone on more TPCs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchProfile {
    pub stage: u8,
    pub batch: u8,
    /// TPCs of the partition: which launches a stage has depends on them.
    pub units: u8,
    /// TPCs that the launches had.
    pub on: u8,
    /// The median of each, in order.
    pub ns: Vec<u64>,
    /// For each, on how many TPCs it is as fast.
    pub enough: Vec<u8>,
}

/// What a profile holds for; a figure measured under another key must not be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileKey {
    pub board: String,
    /// Processor model and instruction set the kernels chose.
    pub machine: String,
    /// The package that was measured, by its hash.
    pub package: String,
    /// What of that package determines time ([`Network::timing`](crate::Network::timing)): the figures hold for each package
    /// of which this is the same. Empty in profiles of earlier versions, which hold for the measured package alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timing: String,
    /// Power mode, or `default`.
    pub power_mode: String,
    /// What governs the clocks and how far they go, as the machine tells, or `unknown`. Figures of other clocks are used, with
    /// a warning.
    pub clocks: String,
}

impl ProfileKey {
    /// Whether a measurement under one key takes the place of one under the other.
    #[must_use]
    pub fn holds_as(&self, other: &Self) -> bool {
        let conditions = |key: &Self| {
            [&key.board, &key.machine, &key.power_mode, &key.clocks].map(String::clone)
        };
        let same_timing = !self.timing.is_empty() && self.timing == other.timing;
        conditions(self) == conditions(other) && (same_timing || self.package == other.package)
    }

    /// Whether the figures are of such a package: of its stages, whatever its weights are.
    #[must_use]
    pub fn is_of(&self, package: &Package) -> bool {
        self.timing == package.timing().to_string() || self.is_with_weights_of(package)
    }

    /// Whether they were measured with the very weights of that package.
    #[must_use]
    pub fn is_with_weights_of(&self, package: &Package) -> bool {
        self.package == package.hash().to_string()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageProfile {
    pub stage: u8,
    pub batch: u8,
    /// On how many compute units (cores, TPCs).
    pub units: u8,
    pub samples: u32,
    pub p50_ns: u64,
    /// The quantile that budgets are made from.
    pub p99_ns: u64,
    pub max_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareProfile {
    /// Frame format, e.g. `rgb8`, `nv12`.
    pub format: String,
    pub width: u32,
    pub height: u32,
    /// Columns of the part that the network sees.
    pub crop_width: u32,
    pub crop_height: u32,
    /// Whether that part keeps its aspect ratio. Profiles of earlier versions lack it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub letterbox: bool,
    pub samples: u32,
    pub p50_ns: u64,
    /// The quantile that budgets are made from.
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// Frames that a device prepares itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareOnDevice {
    /// On how many compute units.
    pub units: u8,
    pub frames: Vec<PrepareProfile>,
}

impl PrepareProfile {
    fn is_of_frames_of(&self, other: &Self) -> bool {
        let frames = |entry: &Self| {
            let sizes = [
                entry.width,
                entry.height,
                entry.crop_width,
                entry.crop_height,
            ];
            (sizes, entry.letterbox)
        };
        self.format == other.format && frames(self) == frames(other)
    }
}

/// A profile as it lies in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile<P> {
    version: u32,
    profile: P,
}

/// Many profiles, as they lie in a package.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfilesFile<P> {
    version: u32,
    profiles: P,
}

/// Read first, alone, so that a file of another version is called that and not malformed.
#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

/// Why a profile cannot be used.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The file cannot be read or written.
    #[error("cannot access the profile {path}: {source}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    /// Not the JSON of a profile.
    #[error("the profile cannot be parsed: {0}; run `punctual profile` again")]
    Json(#[from] serde_json::Error),
    #[error(
        "the profile has version {found}, this program reads {VERSION}; run `punctual profile` again"
    )]
    Version { found: u32 },
    /// Percentiles out of order, or nothing measured.
    #[error(
        "the profile says that stage {stage} is measured as stage {same_as}, which must be itself or an earlier stage that is \
         measured: measure it again"
    )]
    SameAs { stage: usize, same_as: u8 },
    #[error(
        "the profile's entry {entry} is impossible: {samples} samples, p50 {p50_ns} ns, p99 {p99_ns} ns, max {max_ns} ns"
    )]
    Impossible {
        /// Position among the stages alone, then those measured next to busy neighbours, then the preparations.
        entry: usize,
        samples: u32,
        p50_ns: u64,
        p99_ns: u64,
        max_ns: u64,
    },
}

/// The nearest figure for a stage that is not faster than asked for.
fn not_faster(figures: &[StageProfile], stage: u8, batch: u8, units: u8) -> Option<&StageProfile> {
    let slower = figures
        .iter()
        .filter(|entry| entry.stage == stage && entry.batch >= batch && entry.units <= units);
    slower.min_by_key(|entry| (entry.batch, u8::MAX - entry.units))
}

fn find<'p>(
    entries: &'p [PrepareProfile],
    format: &str,
    frame: [u32; 2],
    crop: [u32; 2],
    letterbox: bool,
) -> Option<&'p PrepareProfile> {
    entries.iter().find(|entry| {
        entry.format == format
            && [entry.width, entry.height] == frame
            && [entry.crop_width, entry.crop_height] == crop
            && entry.letterbox == letterbox
    })
}

impl Profile {
    /// The figures for a stage at a batch size on a number of compute units. Where exactly that
    /// was not measured, the nearest measurement that is not faster: the next larger batch on the
    /// next smaller number of units. `None` when there is none: a figure is never extrapolated.
    #[must_use]
    pub fn stage(&self, stage: u8, batch: u8, units: u8) -> Option<&StageProfile> {
        not_faster(&self.stages, self.measured_as(stage), batch, units)
    }

    /// The same next to busy neighbours.
    #[must_use]
    pub fn stage_beside(&self, stage: u8, batch: u8, units: u8) -> Option<&StageProfile> {
        not_faster(&self.beside, self.measured_as(stage), batch, units)
    }

    /// The number of the stage in whose entries a stage's figures are.
    #[must_use]
    pub fn measured_as(&self, stage: u8) -> u8 {
        self.same_as
            .get(usize::from(stage))
            .map_or(stage, |same| *same)
    }

    /// How many times as long stages take next to busy neighbours as alone, on partitions of `units` units: the median of
    /// their 99% quantiles' ratios over all stages and batch sizes. None if that was not measured.
    #[must_use]
    pub fn beside_factor(&self, units: u8) -> Option<f64> {
        let ratio = |beside: &StageProfile| {
            let same = |alone: &&StageProfile| {
                (alone.stage, alone.batch, alone.units) == (beside.stage, beside.batch, units)
            };
            let alone = self.stages.iter().find(same)?;
            Some(beside.p99_ns as f64 / alone.p99_ns as f64)
        };
        let measured = self.beside.iter().filter(|entry| entry.units == units);
        let mut ratios: Vec<f64> = measured.filter_map(ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }

    /// The settings that differ between the measurement and a machine with these clocks and settings: name, there, now. Where
    /// either side has no settings, only the clocks are compared.
    #[must_use]
    pub fn changed_settings(
        &self,
        clocks: &str,
        settings: &BTreeMap<String, String>,
    ) -> Vec<(String, String, String)> {
        if self.settings.is_empty() || settings.is_empty() {
            let (was, is) = (self.key.clocks.clone(), clocks.to_owned());
            let changed = (was != is).then(|| ("clocks".to_owned(), was, is));
            return changed.into_iter().collect();
        }
        let names: BTreeSet<&String> = self.settings.keys().chain(settings.keys()).collect();
        let value = |of: &BTreeMap<String, String>, name| {
            of.get(name)
                .map_or_else(|| "unknown".to_owned(), String::clone)
        };
        names
            .into_iter()
            .map(|name| {
                (
                    name.clone(),
                    value(&self.settings, name),
                    value(settings, name),
                )
            })
            .filter(|(_, was, is)| was != is)
            .collect()
    }

    /// The figures for preparing a crop of a frame, both `[width, height]`; only an exact match counts.
    #[must_use]
    pub fn prepare(
        &self,
        format: &str,
        frame: [u32; 2],
        crop: [u32; 2],
        letterbox: bool,
    ) -> Option<&PrepareProfile> {
        find(&self.prepare, format, frame, crop, letterbox)
    }

    /// The same on `units` compute units of the device.
    #[must_use]
    pub fn prepare_on_device(
        &self,
        units: u8,
        format: &str,
        frame: [u32; 2],
        crop: [u32; 2],
        letterbox: bool,
    ) -> Option<&PrepareProfile> {
        let mut of_sizes = self.prepare_on_device.iter();
        let of_size = of_sizes.find(|entry| entry.units == units)?;
        find(&of_size.frames, format, frame, crop, letterbox)
    }

    /// The stages of an earlier measurement under the same key, if this one only measured how frames are prepared: for stages
    /// on another device the processor prepares frames, and runs none.
    #[must_use]
    pub fn or_stages_of(self, earlier: &Self) -> Self {
        if !self.stages.is_empty() || !self.key.holds_as(&earlier.key) {
            return self;
        }
        let mut merged = earlier.clone();
        for entry in self.prepare {
            merged.prepare.retain(|old| !old.is_of_frames_of(&entry));
            merged.prepare.push(entry);
        }
        merged
    }

    /// The profile as JSON. Same profile, same text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let file = ProfileFile {
            version: VERSION,
            profile: self,
        };
        let mut json = serde_json::to_string_pretty(&file).expect("plain data always serialises");
        json.push('\n');
        json
    }

    /// Parses what [`Profile::to_json`] wrote.
    pub fn from_json(json: &str) -> Result<Self, ProfileError> {
        let found = serde_json::from_str::<VersionOnly>(json)?.version;
        if found != VERSION {
            return Err(ProfileError::Version { found });
        }
        let profile = serde_json::from_str::<ProfileFile<Self>>(json)?.profile;
        profile.check()?;
        Ok(profile)
    }

    /// Many profiles as JSON. Same profiles, same text.
    #[must_use]
    pub fn list_to_json(profiles: &[Self]) -> String {
        let file = ProfilesFile {
            version: VERSION,
            profiles,
        };
        serde_json::to_string(&file).expect("plain data always serialises")
    }

    /// Parses what [`Profile::list_to_json`] wrote.
    pub fn list_from_json(json: &[u8]) -> Result<Vec<Self>, ProfileError> {
        let found = serde_json::from_slice::<VersionOnly>(json)?.version;
        if found != VERSION {
            return Err(ProfileError::Version { found });
        }
        let profiles = serde_json::from_slice::<ProfilesFile<Vec<Self>>>(json)?.profiles;
        profiles.iter().try_for_each(Self::check)?;
        Ok(profiles)
    }

    pub fn read(path: &Path) -> Result<Self, ProfileError> {
        let failed = |source| ProfileError::File {
            path: path.to_owned(),
            source,
        };
        Self::from_json(&read::text(path, read::TEXT_BYTES_MAX).map_err(failed)?)
    }

    /// Writes a profile file: first next to it, then renamed, so that a reader sees the old file
    /// or the new one and never half of it.
    pub fn write(&self, path: &Path) -> Result<(), ProfileError> {
        write_whole(path, self.to_json().as_bytes()).map_err(|source| ProfileError::File {
            path: path.to_owned(),
            source,
        })
    }

    fn check(&self) -> Result<(), ProfileError> {
        for (stage, &same_as) in self.same_as.iter().enumerate() {
            if self.same_as.get(usize::from(same_as)) != Some(&same_as)
                || usize::from(same_as) > stage
            {
                return Err(ProfileError::SameAs { stage, same_as });
            }
        }
        let stages = self.stages.iter().chain(&self.beside);
        let stages = stages.map(|s| (s.samples, s.p50_ns, s.p99_ns, s.max_ns));
        let on_device = self.prepare_on_device.iter().flat_map(|of| &of.frames);
        let prepare = self
            .prepare
            .iter()
            .chain(on_device)
            .map(|p| (p.samples, p.p50_ns, p.p99_ns, p.max_ns));
        for (entry, (samples, p50_ns, p99_ns, max_ns)) in stages.chain(prepare).enumerate() {
            if samples == 0 || p50_ns == 0 || p50_ns > p99_ns || p99_ns > max_ns {
                return Err(ProfileError::Impossible {
                    entry,
                    samples,
                    p50_ns,
                    p99_ns,
                    max_ns,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(stage: u8, batch: u8, units: u8, p50_ns: u64) -> StageProfile {
        let (p99_ns, max_ns) = (p50_ns + 10, p50_ns + 20);
        StageProfile {
            stage,
            batch,
            units,
            samples: 100,
            p50_ns,
            p99_ns,
            max_ns,
        }
    }

    fn profile() -> Profile {
        let word = |word: &str| word.to_owned();
        Profile {
            key: ProfileKey {
                board: word("host"),
                machine: word("model avx2"),
                package: word("00"),
                timing: word("11"),
                power_mode: word("default"),
                clocks: word("unknown"),
            },
            settings: BTreeMap::new(),
            same_as: Vec::new(),
            stages: vec![
                entry(0, 4, 1, 400),
                entry(0, 1, 1, 100),
                entry(0, 1, 2, 60),
                entry(0, 4, 2, 220),
            ],
            prepare: vec![PrepareProfile {
                format: word("nv12"),
                width: 640,
                height: 480,
                crop_width: 192,
                crop_height: 128,
                letterbox: false,
                samples: 100,
                p50_ns: 30,
                p99_ns: 40,
                max_ns: 50,
            }],
            prepare_on_device: Vec::new(),
            beside: Vec::new(),
            preemption_ns_max: 50,
            preemption: vec![PreemptionProfile {
                stage: 0,
                batch: 4,
                units: 1,
                samples: 32,
                p99_ns: 40,
                max_ns: 50,
            }],
            launches: vec![LaunchProfile {
                stage: 0,
                batch: 4,
                units: 1,
                on: 2,
                ns: vec![200, 180],
                enough: vec![2, 1],
            }],
            solutions: vec![SolutionChoice {
                operator: 3,
                batch: 1,
                units: 1,
                solution: word("winograd"),
            }],
            solution_memory: SolutionMemory {
                weight_bytes: 4096,
                scratch_bytes: 1024,
            },
            look_stride: NonZeroU8::new(8),
            verified: None,
            field: None,
        }
    }

    #[test]
    fn the_cost_of_preparing_is_that_of_the_same_frame_and_crop() {
        let profile = profile();
        let found = |format, crop| profile.prepare(format, [640, 480], crop, false).is_some();
        assert!(found("nv12", [192, 128]));
        assert!(!found("nv12", [128, 192]), "another crop");
        assert!(!found("rgb8", [192, 128]), "another format");
    }

    #[test]
    fn a_lookup_rounds_to_the_slower_neighbour() {
        let profile = profile();
        let p50 = |stage, batch, units| profile.stage(stage, batch, units).map(|e| e.p50_ns);
        assert_eq!(p50(0, 1, 2), Some(60));
        assert_eq!(p50(0, 2, 1), Some(400));
        assert_eq!(p50(0, 3, 7), Some(220));
        assert_eq!(p50(0, 5, 1), None, "a larger batch than measured");
        assert_eq!(p50(0, 1, 0), None, "fewer units than measured");
        assert_eq!(p50(1, 1, 1), None, "another stage");
    }

    #[test]
    fn the_factor_beside_neighbours_is_the_median_over_stages_and_batches() {
        let mut profile = profile();
        assert_eq!(profile.beside_factor(1), None, "not measured");
        // 410 and 110 alone.
        profile.beside = vec![entry(0, 4, 1, 605), entry(0, 1, 1, 100)];
        assert_eq!(profile.beside_factor(1), Some(615.0 / 410.0));
        assert_eq!(profile.beside_factor(2), None, "another size");
    }

    #[test]
    fn settings_that_differ_are_told_by_name_with_both_values() {
        let settings = |governor: &str| {
            let pairs = [("governor", governor), ("frequency", "400 to 2201 MHz")];
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into()
        };
        let told = |text: [&str; 3]| text.map(str::to_owned).into();
        let mut profile = profile();
        profile.settings = settings("performance");
        let changed = |now| profile.changed_settings("other clocks", &now);
        assert_eq!(changed(settings("performance")), []);
        assert_eq!(
            changed(settings("powersave")),
            [told(["governor", "performance", "powersave"])]
        );
        let mut more = settings("performance");
        more.insert("boost".to_owned(), "on".to_owned());
        assert_eq!(changed(more), [told(["boost", "unknown", "on"])]);
        // A profile of an earlier version has no settings.
        profile.settings.clear();
        let changed = |clocks| profile.changed_settings(clocks, &settings("powersave"));
        assert_eq!(changed("unknown"), []);
        assert_eq!(changed("2 GHz"), [told(["clocks", "unknown", "2 GHz"])]);
    }

    #[test]
    fn a_profile_of_an_earlier_version_can_be_read() {
        let mut before = profile();
        before
            .settings
            .insert("governor".to_owned(), "x".to_owned());
        before.beside = vec![entry(0, 1, 1, 120)];
        assert_eq!(Profile::from_json(&before.to_json()).unwrap(), before);
        // What they lack is not written where there is none of it.
        let json = profile().to_json();
        assert!(!json.contains("settings") && !json.contains("beside"));
        assert!(Profile::from_json(&json).is_ok());
    }

    #[test]
    fn json_gives_the_profile_back() {
        assert_eq!(Profile::from_json(&profile().to_json()).unwrap(), profile());
    }

    #[test]
    fn another_version_is_called_that() {
        let json = profile()
            .to_json()
            .replace("\"version\": 2", "\"version\": 9");
        assert!(matches!(
            Profile::from_json(&json),
            Err(ProfileError::Version { found: 9 })
        ));
    }

    #[test]
    fn preparations_alone_leave_the_stages_that_were_measured_before() {
        let earlier = profile();
        let mut again = earlier.prepare[0].clone();
        again.p50_ns = 31;
        let mut other = again.clone();
        other.letterbox = true;
        let frames_alone = Profile {
            stages: Vec::new(),
            solutions: Vec::new(),
            prepare: vec![again.clone(), other.clone()],
            ..profile()
        };
        let merged = frames_alone.clone().or_stages_of(&earlier);
        assert_eq!(merged.stages, earlier.stages);
        assert_eq!(merged.solutions, earlier.solutions);
        assert_eq!(merged.prepare, [again, other]);

        let mut of_other_machine = earlier.clone();
        of_other_machine.key.machine = "another".to_owned();
        let kept = frames_alone.clone().or_stages_of(&of_other_machine);
        assert_eq!(kept, frames_alone);
        let measured = profile();
        assert_eq!(measured.clone().or_stages_of(&merged), measured);
    }

    #[test]
    fn impossible_figures_and_unknown_fields_are_refused() {
        let json = profile().to_json();
        let swapped = json.replace("\"max_ns\": 120", "\"max_ns\": 1");
        assert!(matches!(
            Profile::from_json(&swapped),
            Err(ProfileError::Impossible { entry: 1, .. })
        ));
        let unknown = json.replace("preemption_ns_max", "preemption_max");
        assert!(matches!(
            Profile::from_json(&unknown),
            Err(ProfileError::Json(_))
        ));
    }
}

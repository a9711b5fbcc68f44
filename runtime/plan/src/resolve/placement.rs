//! Whose cores are whose.

use punctual_core::{Partitioning, PolicySpec as _};
use punctual_diagnostics::{Invalid, Place, Problems, Rule, Spanned, numbers};
use thiserror::Error;

use crate::inputs::DeviceKind;
use crate::inputs::{GpuHost, HostCores, PolicyChoice};
use crate::manifest::{Manifest, RawPartition, UNITS_MAX};
use crate::resolve::Task;
use crate::resolve::partition::UnitUse;
use crate::resolve::powered::{Powered, in_mode, or_another_mode};

/// What is wrong with the cores of partitions, or with those of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlacementRule {
    /// A core that is not there, or not ours.
    #[error(
        "core {core} is not available{}; available are {}",
        in_mode(mode),
        numbers(available)
    )]
    CoreMissing {
        core: u64,
        available: Vec<u16>,
        /// The power mode, if it leaves no more on; so below.
        mode: Option<String>,
    },
    #[error("core {core} belongs to partition {other:?} already")]
    CoreOverlap { core: u16, other: String },
    #[error(
        "{asked} cores wanted, {free} left of {}{}; the daemon's own are {system}",
        available.len(),
        in_mode(mode)
    )]
    TooFewCores {
        asked: u64,
        free: usize,
        available: Vec<u16>,
        /// How many of them are the daemon's own.
        system: usize,
        mode: Option<String>,
    },
    #[error("{cores} cores are named to lead a partition of the GPU")]
    OneLeader { cores: usize },
    #[error(
        "no core is free to lead the partition; available{} are {}",
        in_mode(mode),
        numbers(available)
    )]
    NoCoreToLead {
        available: Vec<u16>,
        mode: Option<String>,
    },
    #[error(
        "no core is left for the partition; available{} are {}",
        in_mode(mode),
        numbers(available)
    )]
    NoneLeft {
        available: Vec<u16>,
        mode: Option<String>,
    },
    /// The device cannot do what the policy relies on.
    #[error("policy {policy:?} runs several networks on the same cores at the same time")]
    PolicyShares { policy: &'static str },
}

impl Rule for PlacementRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::CoreMissing { .. } => {
                "every core that is named is one that this process may run on"
            }
            Self::CoreOverlap { .. } => "partitions share no core",
            Self::TooFewCores { .. } => "with two cores or more, the daemon keeps its own",
            Self::OneLeader { .. } => "one core leads a partition of the GPU",
            Self::NoneLeft { .. } => {
                "a partition without `cores` and `units` has the cores that are left, at least one"
            }
            Self::NoCoreToLead { .. } => "a leader's core runs no other partition",
            Self::PolicyShares { .. } => "the CPU device runs one action at a time on a core",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::CoreMissing { mode: None, .. } => {
                "choose available cores, or widen the affinity".into()
            }
            Self::CoreMissing { mode, .. } => or_another_mode("choose available cores", mode),
            Self::CoreOverlap { .. } => "give each core to one partition".into(),
            Self::TooFewCores { mode, .. } => {
                or_another_mode("lower `units`, or name `cores` to share one", mode)
            }
            Self::OneLeader { .. } => "name one core, or leave `cores` out".into(),
            Self::NoCoreToLead { mode, .. } => or_another_mode(
                "name one of the daemon's `cores` to share it, or free one",
                mode,
            ),
            Self::NoneLeft { mode, .. } => or_another_mode(
                "give other partitions fewer, or name `cores` to share one with the daemon",
                mode,
            ),
            Self::PolicyShares { .. } => {
                "choose another policy; `punctual-lab simulate` knows this one".into()
            }
        }
    }
}

/// The cores, shared out.
pub(crate) struct Placement {
    /// The daemon's own: scheduler and ports on the first, intake threads on the others
    /// (or on the same, if there is only one).
    pub(crate) system: Vec<u16>,
    /// Those partitions whose cores could be found; behind the manifest's own, places.
    pub(crate) partitions: Vec<Placed>,
    /// Cores that may lead places and ranges of TPCs.
    pub(crate) leaders: Vec<u16>,
}

pub(crate) struct Placed {
    pub(crate) name: String,
    /// A leader's, if it has TPCs.
    pub(crate) cores: Vec<u16>,
    pub(crate) tpcs: Vec<u16>,
    pub(crate) device: DeviceKind,
    pub(crate) usage: UnitUse,
    pub(crate) place: Place,
}

impl Placed {
    pub(crate) fn is_place(&self) -> bool {
        self.usage == UnitUse::Idle
    }

    pub(crate) fn fills(&self) -> bool {
        self.usage == UnitUse::Left
    }

    /// The compute units that run its stages.
    pub(crate) fn units(&self) -> &[u16] {
        if self.device.runs_on_cores() {
            &self.cores
        } else {
            &self.tpcs
        }
    }

    pub(crate) fn unit_count(&self) -> usize {
        self.units().len()
    }

    /// The same as profiles count them.
    pub(crate) fn width(&self) -> u8 {
        u8::try_from(self.unit_count()).unwrap_or(u8::MAX)
    }
}

impl Placement {
    pub(crate) fn new(
        manifest: &Manifest,
        isolated: &[u16],
        powered: &Powered<'_>,
        tpcs: Vec<Vec<u16>>,
        problems: &mut Problems<'_>,
    ) -> Self {
        let there = Cores {
            available: &powered.cores,
            isolated,
            mode: &powered.mode_of_cores,
        };
        let Shares {
            system,
            leaders,
            partitions,
        } = share_out(manifest, there, problems);
        let placed = manifest.partitions.iter().zip(partitions).zip(tpcs);
        let partitions = placed
            .filter(|((raw, _), tpcs)| !is_of_tpcs(raw) || !tpcs.is_empty())
            .filter_map(|((raw, cores), tpcs)| {
                Some(Placed {
                    name: raw.name.value.clone(),
                    cores: cores?,
                    tpcs,
                    device: raw.device,
                    usage: match raw.fill {
                        Some(_) => UnitUse::Left,
                        None => UnitUse::Own,
                    },
                    place: raw.place.clone(),
                })
            })
            .collect();
        let mut placement = Self {
            system,
            partitions,
            leaders,
        };
        placement.divide_for(&manifest.daemon.policy, powered.gpu, problems);
        placement
    }

    /// Partitions as the policy wants them.
    fn divide_for(
        &mut self,
        policy: &Spanned<PolicyChoice>,
        gpu: Option<&GpuHost>,
        problems: &mut Problems<'_>,
    ) {
        match policy.value.contract().partitioning {
            Partitioning::Planned | Partitioning::Whole => {}
            Partitioning::Ranges => self.add_ranges(policy, gpu, problems),
            Partitioning::PerTask => {
                let policy_name = policy.value.name();
                let cause = PlacementRule::PolicyShares {
                    policy: policy_name,
                };
                problems.add(&policy.place, cause);
            }
        }
    }

    /// Whether any partition is of TPCs.
    pub(crate) fn uses_gpu(&self) -> bool {
        self.partitions.iter().any(|p| !p.device.runs_on_cores())
    }

    pub(crate) fn has_places(&self) -> bool {
        self.partitions.iter().any(|p| p.is_place())
    }

    /// Cores of partitions, as compute units: in the order of the partitions that name them. TPCs come after them.
    pub(crate) fn units(&self) -> Vec<u16> {
        let mut units = Vec::new();
        let of_cores = self.partitions.iter();
        let of_cores = of_cores.filter(|p| p.device.runs_on_cores());
        for core in of_cores.flat_map(|p| &p.cores) {
            if !units.contains(core) {
                units.push(*core);
            }
        }
        units
    }

    /// The core of scheduler and ports.
    pub(crate) fn first(&self) -> u16 {
        self.system.first().copied().unwrap_or_default()
    }

    /// The core of a task's intake threads, which are those of all of its group.
    pub(crate) fn intake_core(&self, task: &Task) -> u16 {
        match self.system.get(1..) {
            Some(others) if !others.is_empty() => others[task.group.position % others.len()],
            _ => self.first(),
        }
    }

    /// The daemon's own cores that partitions use too.
    pub(crate) fn shared(&self) -> impl Iterator<Item = u16> {
        let system = self.system.iter().copied();
        system.filter(|core| self.whose(*core).is_some())
    }

    /// The partition that a core belongs to.
    pub(crate) fn whose(&self, core: u16) -> Option<&Placed> {
        self.partitions.iter().find(|p| p.cores.contains(&core))
    }

    /// Every core that the plan uses, rising.
    pub(crate) fn used(&self) -> Vec<u16> {
        let partitions = self.partitions.iter().flat_map(|p| &p.cores);
        let mut used: Vec<u16> = self.system.iter().chain(partitions).copied().collect();
        used.sort_unstable();
        used.dedup();
        used
    }
}

/// The cores that there are to share out.
#[derive(Clone, Copy)]
struct Cores<'a> {
    available: &'a [u16],
    isolated: &'a [u16],
    /// The power mode, if it leaves no more on.
    mode: &'a Option<String>,
}

/// Whose cores are whose, without what else partitions have.
struct Shares {
    system: Vec<u16>,
    leaders: Vec<u16>,
    /// By partition; none where it cannot have them.
    partitions: Vec<Option<Vec<u16>>>,
}

/// Named cores first, then the daemon's, then partitions that only say how many, and leaders; then the one that has what is left.
fn share_out(manifest: &Manifest, there: Cores<'_>, problems: &mut Problems<'_>) -> Shares {
    let mut taken = Taken::default();
    let mut partitions: Vec<Option<Vec<u16>>> = Vec::new();
    for partition in &manifest.partitions {
        partitions.push(named_cores(partition, there, &mut taken, problems));
    }
    let leaders = leader_cores(manifest, there, &mut taken, problems);
    let system = system_cores(manifest, there, &taken, problems);
    for (partition, cores) in manifest.partitions.iter().zip(&mut partitions) {
        if partition.cores.is_none() && !partition.has_what_is_left() {
            *cores = free_cores(partition, there, &system, &mut taken, problems);
        }
    }
    for (partition, cores) in manifest.partitions.iter().zip(&mut partitions) {
        if partition.has_what_is_left() {
            *cores = cores_left(partition, there, &system, &mut taken, problems);
        }
    }
    Shares {
        system,
        leaders,
        partitions,
    }
}

/// How many cores the partition gets that has what others leave; none if there is none left, or no such partition.
pub(crate) fn left(manifest: &Manifest, host: &HostCores, problems: &mut Problems<'_>) -> usize {
    let there = Cores {
        available: &host.available,
        isolated: &host.isolated,
        mode: &None,
    };
    let shares = share_out(manifest, there, problems);
    let shares = manifest.partitions.iter().zip(shares.partitions);
    let mut left = shares.filter(|(partition, _)| partition.has_what_is_left());
    let cores = left.next().and_then(|(_, cores)| cores);
    cores.map_or(0, |cores| cores.len())
}

/// Whether `cores` is its leader's.
fn is_of_tpcs(partition: &RawPartition) -> bool {
    partition.tpcs.is_some() || partition.fill.is_some()
}

fn named_cores(
    partition: &RawPartition,
    there: Cores<'_>,
    taken: &mut Taken,
    problems: &mut Problems<'_>,
) -> Option<Vec<u16>> {
    let (named, units) = (partition.cores.as_ref(), partition.units.as_ref());
    let of_tpcs = is_of_tpcs(partition);
    let (one, both) = match partition.tpcs {
        Some(_) => ("tpcs", units.is_some()),
        None => ("cores", named.is_some() && units.is_some()),
    };
    if both {
        let other = "units";
        problems.add(&partition.place, Invalid::ExactlyOne { one, other, both });
        return None;
    }
    let named = named?;
    if of_tpcs && named.value.len() != 1 {
        let cores = named.value.len();
        problems.add(&named.place, PlacementRule::OneLeader { cores });
        return None;
    }
    let before = problems.count();
    let by = partition.name.value.as_str();
    let cores = take(named, by, of_tpcs, there, taken, problems);
    (problems.count() == before).then_some(cores)
}

/// Cores that somebody uses.
#[derive(Default)]
struct Taken {
    /// Each with whose it is.
    cores: Vec<(u16, String)>,
    /// Those that lead partitions of the GPU: one may lead several.
    leaders: Vec<u16>,
}

impl Taken {
    fn by(&self, core: u16) -> Option<&str> {
        let taken = self.cores.iter().find(|(other, _)| *other == core);
        taken.map(|(_, by)| by.as_str())
    }
}

/// The cores of a list, which must not be taken already; only leaders may take cores that other leaders have.
fn take(
    named: &Spanned<Vec<u64>>,
    by: &str,
    leads: bool,
    there: Cores<'_>,
    taken: &mut Taken,
    problems: &mut Problems<'_>,
) -> Vec<u16> {
    let cores = checked(named, there, problems);
    for &core in &cores {
        match taken.by(core) {
            Some(_) if leads && taken.leaders.contains(&core) => {}
            Some(other) => {
                let other = other.to_owned();
                problems.add(&named.place, PlacementRule::CoreOverlap { core, other });
            }
            None => taken.cores.push((core, by.to_owned())),
        }
        if leads {
            taken.leaders.push(core);
        }
    }
    cores
}

/// The cores that lead places of TPCs.
fn leader_cores(
    manifest: &Manifest,
    there: Cores<'_>,
    taken: &mut Taken,
    problems: &mut Problems<'_>,
) -> Vec<u16> {
    let named = manifest.daemon.leaders.cores.as_ref();
    named.map_or_else(Vec::new, |named| {
        take(named, "leader_cores", true, there, taken, problems)
    })
}

/// A list of cores, at least one of them and no more than there are, each available.
fn checked(
    named: &Spanned<Vec<u64>>,
    Cores {
        available, mode, ..
    }: Cores<'_>,
    problems: &mut Problems<'_>,
) -> Vec<u16> {
    let count = named.value.len();
    if count == 0 || count > available.len() {
        let cause = Invalid::OutOfRange {
            value: count as f64,
            least: 1.0,
            most: available.len() as f64,
            unit: " cores",
        };
        problems.add(&named.place, cause);
    }
    let mut cores = Vec::new();
    for &core in named.value.iter().take(available.len()) {
        match available.iter().find(|known| u64::from(**known) == core) {
            Some(known) => cores.push(*known),
            None => {
                let cause = PlacementRule::CoreMissing {
                    core,
                    available: available.to_vec(),
                    mode: mode.clone(),
                };
                problems.add(&named.place, cause);
            }
        }
    }
    cores
}

fn system_cores(
    manifest: &Manifest,
    there: Cores<'_>,
    taken: &Taken,
    problems: &mut Problems<'_>,
) -> Vec<u16> {
    let Cores {
        available,
        isolated,
        ..
    } = there;
    if let Some(named) = &manifest.daemon.cores {
        let cores = checked(named, there, problems);
        if let Some(twice) = (1..cores.len()).find(|i| cores[..*i].contains(&cores[*i])) {
            let (what, name) = ("core", cores[twice].to_string());
            problems.add(&named.place, Invalid::Duplicate { what, name });
        }
        return cores;
    }
    let free = |core: &&u16| taken.by(**core).is_none();
    // Isolated ones are for partitions.
    let ordinary = available.iter().filter(|core| !isolated.contains(core));
    let free = ordinary.chain(available).find(free);
    // All named for partitions: the daemon shares the first.
    free.or(available.first()).copied().into_iter().collect()
}

/// Cores without an owner; with one core everything shares it.
fn free(available: &[u16], system: &[u16], taken: &Taken) -> Vec<u16> {
    let alone = available.len() == 1;
    let is_free = |core: &&u16| (alone || !system.contains(core)) && taken.by(**core).is_none();
    available.iter().filter(is_free).copied().collect()
}

/// All cores that others leave; of these the isolated ones alone, if there are any: other programs keep the rest.
fn cores_left(
    partition: &RawPartition,
    Cores {
        available,
        isolated,
        mode,
    }: Cores<'_>,
    system: &[u16],
    taken: &mut Taken,
    problems: &mut Problems<'_>,
) -> Option<Vec<u16>> {
    let mut left = free(available, system, taken);
    if left.iter().any(|core| isolated.contains(core)) {
        left.retain(|core| isolated.contains(core));
    }
    left.truncate(UNITS_MAX as usize);
    if left.is_empty() {
        let (available, mode) = (available.to_vec(), mode.clone());
        let cause = PlacementRule::NoneLeft { available, mode };
        problems.add(&partition.place, cause);
        return None;
    }
    let name = &partition.name.value;
    let whose = left.iter().map(|core| (*core, name.clone()));
    taken.cores.extend(whose);
    Some(left)
}

/// Cores for a partition that does not name them, isolated ones first; one for a leader.
fn free_cores(
    partition: &RawPartition,
    Cores {
        available,
        isolated,
        mode,
    }: Cores<'_>,
    system: &[u16],
    taken: &mut Taken,
    problems: &mut Problems<'_>,
) -> Option<Vec<u16>> {
    let alone = available.len() == 1;
    let mut free = free(available, system, taken);
    // Isolated ones first; the order stays otherwise.
    free.sort_by_key(|core| !isolated.contains(core));
    let count = match (is_of_tpcs(partition), &partition.units) {
        (false, Some(units)) => units.value,
        // One that leads already may lead this one, too.
        (true, None) if free.is_empty() && !taken.leaders.is_empty() => {
            return taken.leaders.last().map(|leader| vec![*leader]);
        }
        (true, None) => 1,
        // Noted by `named_cores`.
        _ => return None,
    };
    let (place, available, mode) = (&partition.place, available.to_vec(), mode.clone());
    if count > free.len() as u64 {
        let Some(units) = &partition.units else {
            problems.add(place, PlacementRule::NoCoreToLead { available, mode });
            return None;
        };
        let cause = PlacementRule::TooFewCores {
            asked: units.value,
            free: free.len(),
            available,
            system: if alone { 0 } else { system.len() },
            mode,
        };
        problems.add(&units.place, cause);
        return None;
    }
    let mut cores = free[..count as usize].to_vec();
    cores.sort_unstable();
    let name = &partition.name.value;
    let cores_taken = cores.iter().map(|core| (*core, name.clone()));
    taken.cores.extend(cores_taken);
    if is_of_tpcs(partition) {
        taken.leaders.extend(&cores);
    }
    Some(cores)
}

//! Who runs on which core, and how urgently.

use punctual_core::{Criticality, PartitionId, PolicyConfig};

use crate::cause::Cause;
use crate::manifest::{Manifest, PARTITIONS_MAX, RawPartition};
use crate::plan::{PartitionPlan, Role, ThreadPlan};
use crate::problem::{At, Place, Problems};
use crate::tasks::Task;

/// The highest `SCHED_FIFO` priority.
const PRIORITY_MAX: u8 = 99;

/// Worker, egress, scheduler, ingress, probe: the levels above the intake threads'.
const LEVELS_ABOVE_INTAKE: u8 = 5;

/// The cores, shared out.
pub(crate) struct Placement {
    /// The daemon's own: ingress, scheduler and egress on the first, intake threads on the others
    /// (or on the same, if there is only one).
    pub(crate) system: Vec<u16>,
    /// Those partitions whose cores could be found.
    pub(crate) partitions: Vec<Placed>,
}

/// A partition with its cores.
pub(crate) struct Placed {
    pub(crate) name: String,
    pub(crate) cores: Vec<u16>,
    pub(crate) place: Place,
}

impl Placed {
    pub(crate) fn plan(&self) -> PartitionPlan {
        PartitionPlan {
            name: self.name.clone(),
            cores: self.cores.clone(),
        }
    }
}

impl Placement {
    /// Named cores first, then the daemon's, then partitions that only say how many.
    pub(crate) fn new(manifest: &Manifest, available: &[u16], problems: &mut Problems<'_>) -> Self {
        let mut taken: Vec<(u16, String)> = Vec::new();
        let mut cores: Vec<Option<Vec<u16>>> = Vec::new();
        for partition in &manifest.partitions {
            cores.push(named_cores(partition, available, &mut taken, problems));
        }
        let system = system_cores(manifest, available, &taken, problems);
        for (partition, cores) in manifest.partitions.iter().zip(&mut cores) {
            if let (None, Some(units)) = (&partition.cores, &partition.units) {
                *cores = free_cores(partition, units, available, &system, &mut taken, problems);
            }
        }
        let placed = manifest.partitions.iter().zip(cores);
        let partitions = placed
            .filter_map(|(raw, cores)| {
                Some(Placed {
                    name: raw.name.value.clone(),
                    cores: cores?,
                    place: raw.place.clone(),
                })
            })
            .collect();
        Self { system, partitions }
    }

    /// Cores of partitions, as compute units: in the order of the partitions that name them.
    pub(crate) fn units(&self) -> Vec<u16> {
        let mut units = Vec::new();
        for core in self.partitions.iter().flat_map(|p| &p.cores) {
            if !units.contains(core) {
                units.push(*core);
            }
        }
        units
    }

    /// Adds every contiguous range of units that is not a partition yet, for policies that choose
    /// among them while they run.
    pub(crate) fn add_ranges(&mut self, policy: &At<PolicyConfig>, problems: &mut Problems<'_>) {
        let units = self.units();
        let (count, limit) = (units.len() * (units.len() + 1) / 2, PARTITIONS_MAX);
        if count > limit {
            let (what, count, limit) = ("partition", count as u64, limit as u64);
            return problems.add(&policy.place, Cause::TooMany { what, count, limit });
        }
        for length in 1..=units.len() {
            for cores in units.windows(length) {
                if self.partitions.iter().all(|p| p.cores != cores) {
                    self.partitions.push(Placed {
                        name: range_name(cores),
                        cores: cores.to_vec(),
                        place: policy.place.clone(),
                    });
                }
            }
        }
    }

    /// The core of ingress, scheduler and egress.
    pub(crate) fn first(&self) -> u16 {
        self.system.first().copied().unwrap_or_default()
    }

    /// The core of a task's intake threads.
    pub(crate) fn intake_core(&self, task: usize) -> u16 {
        match self.system.get(1..) {
            Some(others) if !others.is_empty() => others[task % others.len()],
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

fn range_name(cores: &[u16]) -> String {
    let names: Vec<String> = cores.iter().map(ToString::to_string).collect();
    format!("cores-{}", names.join("-"))
}

fn named_cores(
    partition: &RawPartition,
    available: &[u16],
    taken: &mut Vec<(u16, String)>,
    problems: &mut Problems<'_>,
) -> Option<Vec<u16>> {
    if partition.cores.is_some() == partition.units.is_some() {
        let cause = Cause::ExactlyOne {
            one: "cores",
            other: "units",
            both: partition.cores.is_some(),
        };
        problems.add(&partition.place, cause);
        return None;
    }
    let named = partition.cores.as_ref()?;
    let before = problems.count();
    let cores = checked(named, available, problems);
    for &core in &cores {
        match taken.iter().find(|(other, _)| *other == core) {
            Some((_, other)) => {
                let other = other.clone();
                problems.add(&named.place, Cause::CoreOverlap { core, other });
            }
            None => taken.push((core, partition.name.value.clone())),
        }
    }
    (problems.count() == before).then_some(cores)
}

/// A list of cores, at least one of them and no more than there are, each available.
fn checked(named: &At<Vec<u64>>, available: &[u16], problems: &mut Problems<'_>) -> Vec<u16> {
    let count = named.value.len();
    if count == 0 || count > available.len() {
        let cause = Cause::OutOfRange {
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
                let available = available.to_vec();
                problems.add(&named.place, Cause::CoreMissing { core, available });
            }
        }
    }
    cores
}

fn system_cores(
    manifest: &Manifest,
    available: &[u16],
    taken: &[(u16, String)],
    problems: &mut Problems<'_>,
) -> Vec<u16> {
    if let Some(named) = &manifest.daemon.cores {
        let cores = checked(named, available, problems);
        if let Some(twice) = (1..cores.len()).find(|i| cores[..*i].contains(&cores[*i])) {
            let (what, name) = ("core", cores[twice].to_string());
            problems.add(&named.place, Cause::Duplicate { what, name });
        }
        return cores;
    }
    let free = available
        .iter()
        .find(|core| !taken.iter().any(|(other, _)| other == *core));
    // All named for partitions: the daemon shares the first.
    free.or(available.first()).copied().into_iter().collect()
}

fn free_cores(
    partition: &RawPartition,
    units: &At<u64>,
    available: &[u16],
    system: &[u16],
    taken: &mut Vec<(u16, String)>,
    problems: &mut Problems<'_>,
) -> Option<Vec<u16>> {
    // With one core everything shares it.
    let alone = available.len() == 1;
    let is_free = |core: &&u16| {
        (alone || !system.contains(core)) && !taken.iter().any(|(other, _)| other == *core)
    };
    let free: Vec<u16> = available.iter().filter(is_free).copied().collect();
    if units.value > free.len() as u64 {
        let cause = Cause::TooFewCores {
            asked: units.value,
            free: free.len(),
            available: available.to_vec(),
            system: if alone { 0 } else { system.len() },
        };
        problems.add(&units.place, cause);
        return None;
    }
    let cores = free[..units.value as usize].to_vec();
    taken.extend(
        cores
            .iter()
            .map(|core| (*core, partition.name.value.clone())),
    );
    Some(cores)
}

/// Priorities by role, from the lowest up: one level for each different deadline's intake threads
/// (the shorter the deadline the higher), worker, egress, scheduler, ingress, stall probe. Where
/// they have to share a core, the worker is below the intake threads (see `arrival`).
pub(crate) struct Priorities {
    base: u8,
    /// Whether workers come first.
    shared: bool,
    /// Different deadlines of real-time tasks, longest first.
    levels: Vec<punctual_core::Nanos>,
}

impl Priorities {
    pub(crate) fn new(
        base: &At<u64>,
        tasks: &[Task],
        shared: bool,
        problems: &mut Problems<'_>,
    ) -> Self {
        let mut levels: Vec<_> = tasks
            .iter()
            .filter(|task| task.criticality == Criticality::RealTime)
            .filter_map(|task| task.deadline)
            .collect();
        levels.sort_unstable();
        levels.dedup();
        levels.reverse();
        let (needed, lowest) = (
            levels.len() + usize::from(LEVELS_ABOVE_INTAKE),
            base.value as u8,
        );
        if usize::from(lowest) + needed - 1 > usize::from(PRIORITY_MAX) {
            let cause = Cause::PrioritiesExhausted {
                base: lowest,
                needed,
                most: PRIORITY_MAX,
            };
            problems.add(&base.place, cause);
        }
        Self {
            base: lowest,
            shared,
            levels,
        }
    }

    /// Best-effort payloads are prepared by ordinary threads: they must never delay a real-time
    /// frame's preparation.
    fn intake(&self, task: &Task) -> Option<u8> {
        let deadline = task.deadline?;
        let level = self.levels.iter().position(|level| *level == deadline)?;
        let level = level as u8 + u8::from(self.shared);
        (task.criticality == Criticality::RealTime).then(|| self.base.saturating_add(level))
    }

    fn worker(&self) -> Option<u8> {
        if self.shared {
            return Some(self.base);
        }
        self.above(0)
    }

    fn above(&self, steps: u8) -> Option<u8> {
        Some(self.base.saturating_add(self.levels.len() as u8 + steps))
    }
}

/// All threads of the plan; `realtime`: whether priorities can be had.
pub(crate) fn threads(
    placement: &Placement,
    priorities: &Priorities,
    tasks: &[Task],
    realtime: bool,
) -> Vec<ThreadPlan> {
    let first = placement.first();
    let mut threads = Vec::new();
    let mut add = |role, core, priority: Option<u8>| {
        threads.push(ThreadPlan {
            role,
            core,
            priority: priority.filter(|_| realtime),
        });
    };
    add(Role::Ingress, first, priorities.above(3));
    add(Role::Scheduler, first, priorities.above(2));
    add(Role::Egress, first, priorities.above(1));
    let mut client = 0;
    for (position, task) in tasks.iter().enumerate() {
        let core = placement.intake_core(position);
        for _ in 0..task.clients {
            add(Role::Intake { client }, core, priorities.intake(task));
            client += 1;
        }
    }
    for (position, partition) in placement.partitions.iter().enumerate() {
        for (unit, core) in partition.cores.iter().enumerate() {
            let role = Role::Worker {
                partition: PartitionId(position as u16),
                unit: unit as u8,
            };
            add(role, *core, priorities.worker());
        }
    }
    for core in placement.used() {
        add(Role::StallProbe, core, priorities.above(4));
    }
    threads
}

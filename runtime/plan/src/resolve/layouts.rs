//! Layouts other than the first: which partitions they add, and which task is where.
//!
//! A task that no partition of a layout names stays on its own partition. So the partitions of a layout are those
//! that it adds, and those of the first that still have tasks; of these no two share a compute unit. Partitions of
//! different layouts may: they never run at the same time.

use std::fmt;

use punctual_core::{LoadRange, PolicySpec as _};
use punctual_diagnostics::{Invalid, Place, Problems, Rule, Spanned, numbers};
use thiserror::Error;

use super::gpu::{self, GpuRule};
use super::placement::{Placed, Placement, PlacementRule};
use super::places::shown;
use super::tasks::Task;
use crate::inputs::DeviceKind;
use crate::manifest::{FIRST, Manifest, PlaceChoice, RawLayout, RawLayoutPartition};
use crate::resolve::powered::{Powered, in_mode, or_another_mode};

/// A rule that a layout breaks.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("in layout {layout:?}: {cause}")]
pub struct InLayout<R: fmt::Display> {
    pub layout: String,
    /// The rule, as of a plan with this layout alone.
    pub cause: R,
}

impl<R: Rule> InLayout<R> {
    pub(crate) fn new(layout: &str, cause: R) -> Self {
        let layout = layout.to_owned();
        Self { layout, cause }
    }
}

impl<R: Rule> Rule for InLayout<R> {
    fn rule(&self) -> &'static str {
        self.cause.rule()
    }

    fn help(&self) -> String {
        self.cause.help()
    }
}

/// What is wrong with a layout.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum LayoutRule {
    #[error("policy {policy:?} does not change layouts")]
    PolicyKeepsLayout { policy: &'static str },
    #[error("{FIRST:?} is the layout of the [[partition]]s")]
    NameOfFirst,
    #[error("partition {partition:?} fills, and the layout would change what it fills")]
    WithFill { partition: String },
    #[error("`places` or [[place]] lend compute units, and homes would change with the layout")]
    WithPlaces,
    #[error("`load` has {count} numbers")]
    NotTwoLoads { count: usize },
    #[error("`load` begins at {least} and ends at {most}")]
    LoadBackwards { least: f64, most: f64 },
    #[error("partition {partition:?} has no tasks")]
    NoTasks { partition: String },
    #[error("task {task:?} is on {one:?} and on {other:?}")]
    TaskTwice {
        task: String,
        one: String,
        other: String,
    },
    /// Compute units that two partitions have.
    #[error(
        "partitions {partition:?} and {other:?} share {}",
        shown(*device, units)
    )]
    Overlap {
        partition: String,
        other: String,
        device: DeviceKind,
        units: Vec<u16>,
    },
    #[error("core {core} of partition {partition:?} leads {led:?}")]
    CoreLeads {
        core: u16,
        partition: String,
        led: String,
    },
    /// Cores with others between them.
    #[error(
        "cores {} are not neighbours in the partitions' order, {}",
        numbers(cores),
        numbers(order)
    )]
    NotNeighbours { cores: Vec<u16>, order: Vec<u16> },
    #[error("{asked} cores wanted that are neighbours, and at most {free} are free")]
    TooFewCores { asked: u64, free: usize },
    #[error("{count} numbers in `tpcs`")]
    NotARange { count: usize },
    #[error(
        "{count} TPCs from {first} on, and this machine has {there}{}, from 0 on",
        in_mode(mode)
    )]
    TpcsMissing {
        first: u64,
        count: u64,
        there: u16,
        /// The power mode, if it leaves no more on.
        mode: Option<String>,
    },
    /// A number that the mechanism for partitions cannot grant.
    #[error(
        "{}, and this machine grants TPCs in multiples of {granularity}",
        shown(DeviceKind::Cuda, tpcs)
    )]
    Granularity { tpcs: Vec<u16>, granularity: u16 },
    /// A mechanism that cannot change the TPCs of a stream.
    #[error(
        "partition {partition:?} is of TPCs, and {mechanism} cannot give them to partitions in turn"
    )]
    NotRedivided {
        partition: String,
        mechanism: String,
    },
}

impl Rule for LayoutRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::PolicyKeepsLayout { .. } => "only the policy `punctual` changes layouts",
            Self::NameOfFirst => "each layout has a name of its own",
            Self::WithFill { .. } | Self::WithPlaces => {
                "a plan has layouts, or partitions that fill, or places"
            }
            Self::NotTwoLoads { .. } | Self::LoadBackwards { .. } => {
                "`load` is the lowest and the highest load for which a layout is meant"
            }
            Self::NoTasks { .. } | Self::TaskTwice { .. } => {
                "in a layout each task is on one partition, and each partition has tasks"
            }
            Self::Overlap { .. } => "partitions of one layout share no compute unit",
            Self::CoreLeads { .. } => {
                "a core that leads partitions of the GPU in any layout runs no other partition in any"
            }
            Self::NotNeighbours { .. } | Self::TooFewCores { .. } => {
                "a layout's partition is a contiguous range of cores, in the order in which the [[partition]]s name them"
            }
            Self::NotARange { .. } | Self::TpcsMissing { .. } => {
                "`tpcs` of a layout's partition are the first TPC and their number"
            }
            Self::Granularity { .. } => "TPCs are granted in the multiples that the driver has",
            Self::NotRedivided { .. } => {
                "TPCs change hands only by masks that were tried on this machine"
            }
        }
    }

    fn help(&self) -> String {
        match self {
            Self::PolicyKeepsLayout { .. } => {
                "remove every [[layout]], or choose policy = \"punctual\"".into()
            }
            Self::NameOfFirst => "choose another name".into(),
            Self::WithFill { .. } => "remove every [[layout]], or give the partition `tpcs`".into(),
            Self::WithPlaces => "remove every [[layout]], or the places".into(),
            Self::NotTwoLoads { .. } => {
                "set load = [LOWEST, HIGHEST], e.g. load = [0.0, 0.4]".into()
            }
            Self::LoadBackwards { least, most } => format!("set load = [{most}, {least}]"),
            Self::NoTasks { .. } => "name at least one task in `tasks`, or remove it".into(),
            Self::TaskTwice { .. } => "name it once".into(),
            Self::Overlap { .. } => {
                "give each to one of them, or move the other's tasks to a partition of the layout"
                    .into()
            }
            Self::CoreLeads { .. } => "name another core".into(),
            Self::NotNeighbours { .. } => {
                "name neighbours only, or list the [[partition]]s in another order".into()
            }
            Self::TooFewCores { .. } => "lower `units`, or name `cores`".into(),
            Self::NotARange { .. } => "set tpcs = [FIRST, COUNT], e.g. tpcs = [0, 4]".into(),
            Self::TpcsMissing { there, mode, .. } => {
                let help = format!("choose a range within the {there} TPCs, at least one");
                or_another_mode(&help, mode)
            }
            Self::Granularity { granularity, .. } => {
                format!("begin at a multiple of {granularity}, and take a multiple of it")
            }
            Self::NotRedivided { .. } => {
                "`punctual board detect` says why masks are not used; or remove the layout".into()
            }
        }
    }
}

/// A layout of which everything is known.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) name: String,
    /// The load for which it is meant, in thousandths.
    pub(crate) load: Option<LoadRange>,
    /// By task: the position of its partition.
    pub(crate) partitions: Vec<usize>,
    pub(crate) place: Place,
}

/// The layouts of the manifest other than the first. Their partitions are added to the placement. What cannot be granted
/// is noted.
pub(super) fn find(
    manifest: &Manifest,
    powered: &Powered<'_>,
    tasks: &[Task],
    placement: &mut Placement,
    problems: &mut Problems<'_>,
) -> Vec<Layout> {
    if !may_change(manifest, problems) {
        return Vec::new();
    }
    let before = problems.count();
    for layout in &manifest.layouts {
        check(layout, manifest, problems);
    }
    // What was noted of partitions and tasks would only be noted again.
    let complete = placement.partitions.len() == manifest.partitions.len()
        && tasks.len() == manifest.tasks.len();
    if !complete || problems.count() > before {
        return Vec::new();
    }
    let mut layouts = Vec::new();
    for raw in &manifest.layouts {
        let mut of_layout = Placing::new(raw, manifest, powered, tasks, placement);
        let mut whole = true;
        for partition in &raw.partitions {
            whole &= of_layout.place(partition, problems).is_some();
        }
        if whole {
            layouts.push(of_layout.finish(problems));
        }
    }
    layouts
}

/// Notes what hinders all layouts.
fn may_change(manifest: &Manifest, problems: &mut Problems<'_>) -> bool {
    let Some(first) = manifest.layouts.first() else {
        return false;
    };
    let policy = &manifest.daemon.policy.value;
    let before = problems.count();
    if !policy.contract().changes_layouts {
        let policy = policy.name();
        problems.add(&first.place, LayoutRule::PolicyKeepsLayout { policy });
    }
    let places = &manifest.daemon.places;
    if places.choice != PlaceChoice::None || !manifest.places.is_empty() {
        problems.add(&first.place, LayoutRule::WithPlaces);
    }
    for partition in &manifest.partitions {
        if let Some(place) = &partition.fill {
            let partition = partition.name.value.clone();
            problems.add(place, LayoutRule::WithFill { partition });
        }
    }
    problems.count() == before
}

/// Notes what is wrong with a layout as it is written.
fn check(layout: &RawLayout, manifest: &Manifest, problems: &mut Problems<'_>) {
    if layout.name.value == FIRST {
        problems.add(&layout.name.place, LayoutRule::NameOfFirst);
    }
    let mut note = |place: &Place, cause| problems.add(place, of(layout, cause));
    if let Some(load) = &layout.load {
        match load.value[..] {
            [least, most] if least > most => {
                note(&load.place, LayoutRule::LoadBackwards { least, most });
            }
            [_, _] => {}
            _ => {
                let count = load.value.len();
                note(&load.place, LayoutRule::NotTwoLoads { count });
            }
        }
    }
    let mut named: Vec<(&String, &String)> = Vec::new();
    for partition in &layout.partitions {
        let Some(tasks) = &partition.tasks else {
            continue;
        };
        let name = &partition.partition.name.value;
        if tasks.value.is_empty() {
            let partition = name.clone();
            note(&tasks.place, LayoutRule::NoTasks { partition });
        }
        for task in &tasks.value {
            if let Some((_, one)) = named.iter().find(|(other, _)| *other == task) {
                let cause = LayoutRule::TaskTwice {
                    task: task.clone(),
                    one: (*one).clone(),
                    other: name.clone(),
                };
                note(&tasks.place, cause);
            }
            named.push((task, name));
        }
    }
    for tasks in layout.partitions.iter().filter_map(|p| p.tasks.as_ref()) {
        for task in &tasks.value {
            let (value, place) = (task.clone(), tasks.place.clone());
            let known = manifest.tasks.iter().map(|raw| &raw.name.value);
            Spanned { value, place }.resolve("task", known, problems);
        }
    }
}

fn of<R: Rule>(layout: &RawLayout, cause: R) -> InLayout<R> {
    InLayout::new(&layout.name.value, cause)
}

/// One layout while its partitions get their compute units.
struct Placing<'a> {
    raw: &'a RawLayout,
    manifest: &'a Manifest,
    tasks: &'a [Task],
    powered: &'a Powered<'a>,
    placement: &'a mut Placement,
    /// By task: the position of its partition.
    partitions: Vec<usize>,
}

impl<'a> Placing<'a> {
    fn new(
        raw: &'a RawLayout,
        manifest: &'a Manifest,
        powered: &'a Powered<'a>,
        tasks: &'a [Task],
        placement: &'a mut Placement,
    ) -> Self {
        Self {
            raw,
            manifest,
            tasks,
            powered,
            // Those that the layout's own partitions name move when these are placed.
            partitions: tasks.iter().map(|task| task.partition).collect(),
            placement,
        }
    }

    /// Gives a partition its compute units; none if that was not possible, which is noted.
    fn place(&mut self, raw: &RawLayoutPartition, problems: &mut Problems<'_>) -> Option<()> {
        let (cores, tpcs) = match (&raw.tpcs, raw.partition.device) {
            (Some(named), DeviceKind::Cuda) => {
                let tpcs = self.tpcs(raw, named, problems)?;
                (vec![self.leader(raw, &tpcs, problems)?], tpcs)
            }
            _ => (self.cores(raw, problems)?, Vec::new()),
        };
        let position = self.placement.partitions.len();
        self.placement.partitions.push(Placed {
            name: raw.partition.name.value.clone(),
            cores,
            tpcs,
            device: raw.partition.device,
            is_place: false,
            fills: false,
            layout: Some(self.raw.name.value.clone()),
            place: raw.partition.place.clone(),
        });
        for (task, partition) in self.tasks.iter().zip(&mut self.partitions) {
            if raw.names(&task.name) {
                *partition = position;
            }
        }
        Some(())
    }

    fn tpcs(
        &self,
        raw: &RawLayoutPartition,
        named: &Spanned<Vec<u64>>,
        problems: &mut Problems<'_>,
    ) -> Option<Vec<u16>> {
        let mut refuse = |cause| {
            problems.add(&named.place, of(self.raw, cause));
            None
        };
        let partition = || raw.partition.name.value.clone();
        if raw.partition.units.is_some() {
            let (one, other, both) = ("tpcs", "units", true);
            problems.add(
                &raw.partition.place,
                Invalid::ExactlyOne { one, other, both },
            );
            return None;
        }
        let [first, count] = named.value[..] else {
            let count = named.value.len();
            return refuse(LayoutRule::NotARange { count });
        };
        // A machine without a GPU was noted with the task's own partition, or with its model.
        let gpu = self.powered.gpu?;
        let (there, granularity) = (self.powered.tpcs, gpu.granularity.max(1));
        if count == 0 || first.saturating_add(count) > u64::from(there) {
            return refuse(LayoutRule::TpcsMissing {
                first,
                count,
                there,
                mode: self.powered.mode_of_tpcs.clone(),
            });
        }
        let tpcs: Vec<u16> = (first as u16..(first + count) as u16).collect();
        let whole = |number: u64| number.is_multiple_of(granularity.into());
        if !whole(first) || !whole(count) {
            return refuse(LayoutRule::Granularity { tpcs, granularity });
        }
        if !gpu.redivides {
            return refuse(LayoutRule::NotRedivided {
                partition: partition(),
                mechanism: gpu.mechanism.clone(),
            });
        }
        Some(tpcs)
    }

    /// The core that leads a range of TPCs: as named, or that of a partition that begins there, so that both share a
    /// stream; else one that leads nothing else in this layout, or a free one.
    fn leader(
        &self,
        raw: &RawLayoutPartition,
        tpcs: &[u16],
        problems: &mut Problems<'_>,
    ) -> Option<u16> {
        if let Some(named) = &raw.partition.cores {
            let [core] = named.value[..] else {
                let cores = named.value.len();
                let cause = PlacementRule::OneLeader { cores };
                problems.add(&named.place, of(self.raw, cause));
                return None;
            };
            let core = self.available(core, &named.place, problems)?;
            let user = self.placement.partitions.iter();
            let mut user = user.filter(|p| p.device.runs_on_cores() && p.cores.contains(&core));
            let Some(user) = user.next() else {
                return Some(core);
            };
            let cause = LayoutRule::CoreLeads {
                core,
                partition: user.name.clone(),
                led: raw.partition.name.value.clone(),
            };
            problems.add(&named.place, of(self.raw, cause));
            return None;
        }
        let all = &self.placement.partitions;
        let led = || all.iter().filter(|p| !p.tpcs.is_empty());
        let busy = |core: u16| {
            let kept = self.kept();
            kept.filter(|p| !p.tpcs.is_empty())
                .any(|p| p.cores[0] == core)
        };
        let there = led().filter(|p| p.tpcs.first() == tpcs.first());
        let known = there.chain(led()).map(|p| p.cores[0]);
        let known = known.chain(self.placement.leaders.iter().copied());
        let free = || {
            let named = self.manifest.further_partitions();
            let named = named.filter_map(|p| p.partition.cores.as_ref());
            let named: Vec<u64> = named.flat_map(|at| at.value.clone()).collect();
            let unused = |core: &&u16| {
                !self.placement.system.contains(core)
                    && all.iter().all(|p| !p.cores.contains(core))
                    && !named.contains(&u64::from(**core))
            };
            self.powered.cores.iter().find(unused).copied()
        };
        let leader = known.clone().find(|&core| !busy(core)).or_else(free);
        // One that serves several at once is noted where a task is real-time.
        let leader = leader.or_else(|| known.clone().next());
        if leader.is_none() {
            let cause = PlacementRule::NoCoreToLead {
                available: self.powered.cores.clone(),
                mode: self.powered.mode_of_cores.clone(),
            };
            problems.add(&raw.partition.place, of(self.raw, cause));
        }
        leader
    }

    fn available(&self, core: u64, place: &Place, problems: &mut Problems<'_>) -> Option<u16> {
        let mut known = self.powered.cores.iter();
        let found = known.find(|known| u64::from(**known) == core).copied();
        if found.is_none() {
            let cause = PlacementRule::CoreMissing {
                core,
                available: self.powered.cores.clone(),
                mode: self.powered.mode_of_cores.clone(),
            };
            problems.add(place, of(self.raw, cause));
        }
        found
    }

    /// The partitions that the layout has so far: those of the first that keep tasks, and its own.
    fn kept(&self) -> impl Iterator<Item = &Placed> {
        let keeps = |position: usize| {
            let mut tasks = self.tasks.iter().filter(|task| task.partition == position);
            tasks.any(|task| !self.raw.partitions.iter().any(|p| p.names(&task.name)))
        };
        let all = self.placement.partitions.iter().enumerate();
        all.filter(move |(position, partition)| match &partition.layout {
            Some(layout) => *layout == self.raw.name.value,
            None => keeps(*position),
        })
        .map(|(_, partition)| partition)
    }

    /// Neighbours, in the order of the cores of all partitions.
    fn cores(&self, raw: &RawLayoutPartition, problems: &mut Problems<'_>) -> Option<Vec<u16>> {
        match (&raw.partition.cores, &raw.partition.units) {
            (Some(named), None) => self.named_cores(raw, named, problems),
            (None, Some(units)) => self.free_cores(units, problems),
            (cores, _) => {
                let (one, other, both) = ("cores", "units", cores.is_some());
                problems.add(
                    &raw.partition.place,
                    Invalid::ExactlyOne { one, other, both },
                );
                None
            }
        }
    }

    fn named_cores(
        &self,
        raw: &RawLayoutPartition,
        named: &Spanned<Vec<u64>>,
        problems: &mut Problems<'_>,
    ) -> Option<Vec<u16>> {
        let mut cores = Vec::new();
        for &core in named.value.iter().take(self.powered.cores.len()) {
            cores.push(self.available(core, &named.place, problems)?);
        }
        let mut led = self.placement.partitions.iter();
        let led = led.find_map(|p| {
            let leads = !p.tpcs.is_empty() && cores.contains(&p.cores[0]);
            leads.then(|| (p.cores[0], p.name.clone()))
        });
        if let Some((core, led)) = led {
            let partition = raw.partition.name.value.clone();
            let cause = LayoutRule::CoreLeads {
                core,
                partition,
                led,
            };
            problems.add(&named.place, of(self.raw, cause));
            return None;
        }
        let mut order = self.placement.units();
        order.extend(
            cores
                .iter()
                .filter(|core| !order.contains(core))
                .copied()
                .collect::<Vec<_>>(),
        );
        let position = |core: &u16| order.iter().position(|other| other == core);
        cores.sort_by_key(position);
        let positions: Vec<Option<usize>> = cores.iter().map(position).collect();
        let steps = |pair: &[Option<usize>]| pair[0].map(|at| at + 1) == pair[1];
        let whole = !cores.is_empty() && cores.len() == named.value.len();
        if !whole || !positions.windows(2).all(steps) {
            let cause = LayoutRule::NotNeighbours { cores, order };
            problems.add(&named.place, of(self.raw, cause));
            return None;
        }
        Some(cores)
    }

    fn free_cores(&self, units: &Spanned<u64>, problems: &mut Problems<'_>) -> Option<Vec<u16>> {
        let all = &self.placement.partitions;
        let leads = |core: u16| {
            let mut led = all.iter().filter(|p| !p.tpcs.is_empty());
            led.any(|p| p.cores[0] == core) || self.placement.leaders.contains(&core)
        };
        // With one core everything shares it.
        let alone = self.powered.cores.len() == 1;
        let is_ours = |core: u16| !leads(core) && (alone || !self.placement.system.contains(&core));
        let is_free = |core: &u16| is_ours(*core) && self.kept().all(|p| !p.cores.contains(core));
        let mut order = self.placement.units();
        let others = self.powered.cores.iter().copied();
        let others: Vec<u16> = others
            .filter(|core| !order.contains(core) && is_ours(*core))
            .collect();
        order.extend(others);
        let asked = usize::try_from(units.value).unwrap_or(usize::MAX);
        let mut runs = order.windows(asked.clamp(1, order.len().max(1)));
        let found = runs.find(|run| run.len() == asked && run.iter().all(is_free));
        if found.is_none() {
            let runs = order.split(|core| !is_free(core));
            let cause = LayoutRule::TooFewCores {
                asked: units.value,
                free: runs.map(<[u16]>::len).max().unwrap_or(0),
            };
            problems.add(&units.place, of(self.raw, cause));
        }
        found.map(<[u16]>::to_vec)
    }

    /// Notes what its partitions cannot have together.
    fn finish(self, problems: &mut Problems<'_>) -> Layout {
        let kept: Vec<&Placed> = self.kept().collect();
        for (position, partition) in kept.iter().enumerate() {
            let mut before = kept[..position].iter();
            let common = |other: &Placed| common(partition, other);
            if let Some((other, units)) = before.find_map(|other| Some((other, common(other)?))) {
                let cause = LayoutRule::Overlap {
                    partition: partition.name.clone(),
                    other: other.name.clone(),
                    device: partition.device,
                    units,
                };
                problems.add(&partition.place, of(self.raw, cause));
            }
        }
        for (task, &position) in self.tasks.iter().zip(&self.partitions) {
            let own = &self.placement.partitions[position];
            if let Some(cause) = shared_leader(task, own, &kept) {
                problems.add(&own.place, of(self.raw, cause));
            }
        }
        let load = self.raw.load.as_ref();
        Layout {
            name: self.raw.name.value.clone(),
            load: load.and_then(|at| range(&at.value)),
            partitions: self.partitions,
            place: self.raw.place.clone(),
        }
    }
}

/// As the leaders of the first layout; that a pair is in both was noted there.
fn shared_leader(task: &Task, own: &Placed, kept: &[&Placed]) -> Option<GpuRule> {
    let new = |other: &&&Placed| own.layout.is_some() || other.layout.is_some();
    let others = kept.iter().filter(new).copied();
    gpu::shared_leader(task, own, others)
}

/// The compute units that two partitions have in common.
fn common(one: &Placed, other: &Placed) -> Option<Vec<u16>> {
    if one.device.runs_on_cores() != other.device.runs_on_cores() {
        return None;
    }
    let units = |placed: &'_ Placed| {
        if placed.device.runs_on_cores() {
            placed.cores.clone()
        } else {
            placed.tpcs.clone()
        }
    };
    let others = units(other);
    let common = units(one).into_iter().filter(|unit| others.contains(unit));
    let common: Vec<u16> = common.collect();
    (!common.is_empty()).then_some(common)
}

/// In thousandths, rounded to the nearest; without an upper end, the highest that there is.
fn range(load: &[f64]) -> Option<LoadRange> {
    let thousandths = |load: f64| (load * 1_000.0).round() as u32;
    match load {
        [least, most] => Some(LoadRange {
            least: thousandths(*least),
            most: thousandths(*most),
        }),
        _ => None,
    }
}

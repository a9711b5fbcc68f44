//! Places: ranges of compute units, in addition to a task's own partition, on which its stages may run while they are idle.
//!
//! These are the candidates. Which of them pay, and are in the plan, follows from the budgets (`budget/places.rs`).

use punctual_core::{PLACED_PARTITIONS_MAX, PolicySpec as _, Units};
use punctual_diagnostics::{Invalid, Place, Problems, Rule, Spanned, numbers};
use thiserror::Error;

use super::partition::UnitUse;
use super::placement::{Placed, Placement};
use super::ranges::{Owners, Range};
use crate::inputs::{DeviceKind, PlanInputs};
use crate::manifest::{Manifest, PlaceChoice, RawPlace};

/// What is wrong with places.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlaceRule {
    /// A policy that runs a task's stages on its own partition only.
    #[error("policy {policy:?} does not lend compute units")]
    PolicyDoesNotLend { policy: &'static str },
    /// A size of cells, and no cells.
    #[error("`cell` is given, and `places` is not \"cells\"")]
    CellUnused,
    /// A partition that ends within a cell.
    #[error(
        "partition {home:?} ({}) does not begin and end where cells of {cell} {} do",
        shown(*device, units),
        noun(*device)
    )]
    Unaligned {
        home: String,
        device: DeviceKind,
        units: Vec<u16>,
        cell: u16,
    },
    #[error(
        "core {core} is in no partition that Punctual's own kernels run; in one are {}",
        numbers(known)
    )]
    CoreOfNoPartition { core: u64, known: Vec<u16> },
    /// Cores with others between them.
    #[error(
        "cores {} are not neighbours in the partitions' order, {}",
        numbers(cores),
        numbers(order)
    )]
    NotNeighbours { cores: Vec<u16>, order: Vec<u16> },
    #[error("{count} numbers in `tpcs`")]
    NotARange { count: usize },
    #[error("{count} TPCs from {first} on, and the partitions have {there}, from 0 on")]
    TpcsOfNoPartition { first: u64, count: u64, there: u16 },
    #[error(
        "{count} TPCs from {first} on, and some of them are in a partition that an engine of others runs"
    )]
    TpcsOfEngine { first: u64, count: u64 },
    /// A number that the mechanism for partitions cannot grant.
    #[error(
        "a place of TPCs {}, and this machine grants them in multiples of {granularity}",
        shown(DeviceKind::Cuda, tpcs)
    )]
    Granularity { tpcs: Vec<u16>, granularity: u16 },
    /// Stages that may run at once, and one thread for them.
    #[error(
        "places begin inside partitions of the GPU, at TPCs {}: {} leader cores are needed, {given} given",
        numbers(begin), begin.len()
    )]
    TooFewLeaders { begin: Vec<u16>, given: usize },
}

impl Rule for PlaceRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::PolicyDoesNotLend { .. } => {
                "only the policy `punctual`, with `lending`, has places"
            }
            Self::CellUnused => "`cell` is the size of the cells of places = \"cells\"",
            Self::Unaligned { .. } => "each partition consists of whole cells",
            Self::CoreOfNoPartition { .. }
            | Self::NotNeighbours { .. }
            | Self::TpcsOfNoPartition { .. }
            | Self::TpcsOfEngine { .. } => {
                "a place is a contiguous range of the compute units that partitions of one device use"
            }
            Self::NotARange { .. } => "`tpcs` of a place are the first TPC and their number",
            Self::Granularity { .. } => "TPCs are granted in the multiples that the driver has",
            Self::TooFewLeaders { .. } => {
                "places of the GPU that begin at different TPCs have leaders on different cores"
            }
        }
    }

    fn help(&self) -> String {
        match self {
            Self::PolicyDoesNotLend { .. } => {
                "remove `places` and every [[place]], or choose the policy `punctual`".into()
            }
            Self::CellUnused => "set places = \"cells\", or remove `cell`".into(),
            Self::Unaligned { cell, device, .. } => format!(
                "give each partition a multiple of {cell} {}, choose another `cell`, or write the places out",
                noun(*device)
            ),
            Self::CoreOfNoPartition { .. } => "name cores of partitions without `device`".into(),
            Self::NotNeighbours { .. } => {
                "name at least one core, and neighbours only, or list the partitions in another order".into()
            }
            Self::NotARange { .. } => "set tpcs = [FIRST, COUNT], e.g. tpcs = [0, 4]".into(),
            Self::TpcsOfNoPartition { there, .. } => {
                format!("choose a range within the {there} TPCs, at least one")
            }
            Self::TpcsOfEngine { .. } => {
                "choose TPCs of partitions without `device`".into()
            }
            Self::Granularity { granularity, .. } => {
                format!("begin at a multiple of {granularity}, and take a multiple of it")
            }
            Self::TooFewLeaders { begin, .. } => format!(
                "set `leader_cores` in [daemon] to {} cores that run no partition, or use larger cells",
                begin.len()
            ),
        }
    }
}

const fn noun(device: DeviceKind) -> &'static str {
    if device.runs_on_cores() {
        "cores"
    } else {
        "TPCs"
    }
}

/// Compute units by their kind.
pub(crate) fn shown(device: DeviceKind, units: &[u16]) -> String {
    let kind = noun(device).trim_end_matches(if units.len() == 1 { "s" } else { "" });
    match (device.runs_on_cores(), units) {
        (false, [first, .., last]) if units.len() > 1 => format!("{kind} {first}-{last}"),
        _ => format!("{kind} {}", numbers(units)),
    }
}

/// A partition of the manifest as far as places depend on it.
#[derive(Clone, Copy)]
pub(crate) struct Home<'m> {
    pub(crate) name: &'m str,
    pub(crate) device: DeviceKind,
    /// How many compute units it has.
    pub(crate) width: u16,
}

/// The devices whose partitions lend and borrow.
const LENDING: [DeviceKind; 2] = [DeviceKind::Cpu, DeviceKind::Cuda];

/// Whether partitions of a device lend and borrow. The library of `ort` has no bound on what it does while others run.
pub(crate) fn lends(device: DeviceKind) -> bool {
    LENDING.contains(&device)
}

/// The compute units of each partition of a device, and its name. Cores are counted through those of all partitions.
fn homes_on<'m>(device: DeviceKind, homes: &[Home<'m>]) -> Vec<(&'m str, Units)> {
    let mut next = 0;
    let mut found = Vec::new();
    for home in homes {
        if home.device.runs_on_cores() == device.runs_on_cores() {
            let units = Units {
                first: next,
                count: home.width,
            };
            next = units.end();
            if home.device == device {
                found.push((home.name, units));
            }
        }
    }
    found
}

/// Partitions that follow each other without a gap, joined.
fn joined(homes: &[(&str, Units)]) -> Vec<Units> {
    let mut runs: Vec<Units> = Vec::new();
    for (_, units) in homes {
        match runs.last_mut() {
            Some(run) if run.end() == units.first => run.count += units.count,
            _ => runs.push(*units),
        }
    }
    runs
}

/// Cells of a run of compute units; the last has the rest.
fn cells(run: Units, cell: u16) -> impl Iterator<Item = Units> {
    let count = (run.count / cell).max(1);
    (0..count).map(move |position| {
        let first = run.first + position * cell;
        let end = if position + 1 == count {
            run.end()
        } else {
            first + cell
        };
        Units {
            first,
            count: end - first,
        }
    })
}

/// The most cells of a device of which the manifest does not give the size: more make decisions longer and gain little.
const CELLS_MAX: u16 = 10;

/// The units of a cell on a device: as given, or the fewest with which there are at most ten and every partition consists of
/// whole ones.
fn cell_on(given: Option<u16>, homes: &[(&str, Units)]) -> u16 {
    let all = homes.iter().map(|(_, units)| units.count).sum::<u16>();
    let least = (all / CELLS_MAX).max(1);
    let fits = |cell: &u16| split_by(*cell, homes).is_none();
    given.unwrap_or_else(|| (least..=all).find(fits).unwrap_or(least))
}

/// A partition that does not consist of whole cells.
fn split_by<'h, 'm>(cell: u16, homes: &'h [(&'m str, Units)]) -> Option<&'h (&'m str, Units)> {
    let edges: Vec<u16> = joined(homes)
        .iter()
        .flat_map(|run| cells(*run, cell))
        .flat_map(|cell| [cell.first, cell.end()])
        .collect();
    let is_edge = |position| edges.contains(&position);
    let mut homes = homes.iter();
    homes.find(|(_, units)| !(is_edge(units.first) && is_edge(units.end())))
}

/// The places that a manifest has the plan make, each range once.
pub(crate) fn generated(choice: PlaceChoice, homes: &[Home<'_>]) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut cell_count = 0;
    for device in LENDING {
        let homes = homes_on(device, homes);
        let runs = joined(&homes);
        let has_all = ranges.iter().any(|range| range.name == "all");
        let mut add = |name: String, units: Units| {
            let known = |range: &Range| (range.device, range.units) == (device, units);
            if !ranges.iter().any(known) {
                ranges.push(Range {
                    name,
                    device,
                    units,
                });
            }
        };
        if let PlaceChoice::Cells(given) = choice {
            let cell = cell_on(given, &homes);
            for units in runs.iter().flat_map(|run| cells(*run, cell)) {
                add(format!("cell-{cell_count}"), units);
                cell_count += 1;
            }
        }
        // The range of a partition that is alone is of no use to others.
        if choice != PlaceChoice::None && homes.len() > 1 {
            for (name, units) in &homes {
                add(format!("home-of-{name}"), *units);
            }
        }
        if let (PlaceChoice::Cells(_), [all], true) = (choice, &runs[..], homes.len() > 1) {
            let name = if has_all { "all-tpcs" } else { "all" };
            add(name.to_owned(), *all);
        }
    }
    ranges
}

/// A partition that does not consist of whole cells, and their size.
fn unaligned(given: Option<u16>, homes: &[Home<'_>]) -> Option<(String, DeviceKind, Units, u16)> {
    LENDING.into_iter().find_map(|device| {
        let homes = homes_on(device, homes);
        let cell = cell_on(given, &homes);
        let (name, units) = split_by(cell, &homes)?;
        Some(((*name).to_owned(), device, *units, cell))
    })
}

/// The places that the manifest asks for, as partitions; what cannot be granted is noted.
pub(super) fn find(
    manifest: &Manifest,
    placement: &Placement,
    inputs: &PlanInputs,
    problems: &mut Problems<'_>,
) -> Vec<Placed> {
    let raw = &manifest.daemon.places;
    let (choice, policy) = (raw.choice, &manifest.daemon.policy.value);
    if raw.cell_unused {
        problems.add(&raw.cell_place, PlaceRule::CellUnused);
    }
    let first = manifest.places.first().map(|place| &place.place);
    let asked = (choice != PlaceChoice::None)
        .then_some(&raw.place)
        .or(first);
    let Some(asked) = asked else {
        return Vec::new();
    };
    if !policy.contract().lends {
        let policy = policy.name();
        problems.add(asked, PlaceRule::PolicyDoesNotLend { policy });
        return Vec::new();
    }
    // What was noted of a partition would only be noted again.
    if placement.partitions.len() < manifest.partitions.len() {
        return Vec::new();
    }
    let search = Search::new(manifest, placement, inputs);
    let mut places = search.generated(asked, problems);
    for place in &manifest.places {
        places.extend(search.written(place, problems));
    }
    search.lead(&mut places, asked, problems);
    let (count, limit) = (
        places.len() + placement.partitions.len(),
        PLACED_PARTITIONS_MAX,
    );
    if count > limit {
        let (what, count, limit) = ("partitions and places", count as u64, limit as u64);
        problems.add(asked, Invalid::TooMany { what, count, limit });
    }
    places
}

/// What ranges become partitions of.
struct Search<'a> {
    manifest: &'a Manifest,
    owners: Owners<'a>,
    homes: Vec<Home<'a>>,
    granularity: u16,
}

impl<'a> Search<'a> {
    fn new(manifest: &'a Manifest, placement: &'a Placement, inputs: &PlanInputs) -> Self {
        let homes = placement.partitions.iter().map(|partition| Home {
            name: &partition.name,
            device: partition.device,
            width: partition.unit_count() as u16,
        });
        Self {
            manifest,
            owners: Owners::of(placement),
            homes: homes.collect(),
            granularity: inputs.gpu().map_or(1, |gpu| gpu.granularity.max(1)),
        }
    }

    fn generated(&self, asked: &Place, problems: &mut Problems<'_>) -> Vec<Placed> {
        let raw = &self.manifest.daemon.places;
        if let PlaceChoice::Cells(given) = raw.choice
            && let Some((home, device, units, cell)) = unaligned(given, &self.homes)
        {
            let units = self.owners.units(device, units);
            let cause = PlaceRule::Unaligned {
                home,
                device,
                units,
                cell,
            };
            problems.add(&raw.cell_place, cause);
            return Vec::new();
        }
        let ranges = generated(raw.choice, &self.homes);
        let names = self.manifest.partitions.iter().map(|p| &p.name.value);
        let names: Vec<&String> = names
            .chain(self.manifest.places.iter().map(|p| &p.name.value))
            .collect();
        let before = problems.count();
        for Range { name, .. } in ranges.iter().filter(|range| names.contains(&&range.name)) {
            let (what, name) = ("partition", name.clone());
            problems.add(asked, Invalid::Duplicate { what, name });
        }
        let places: Vec<Placed> = ranges
            .into_iter()
            .map(|range| self.owners.partition(range, UnitUse::Idle, asked))
            .collect();
        // One is enough: they follow from each other.
        if problems.count() == before {
            places
                .iter()
                .find(|place| self.cannot_be_granted(place, problems));
        }
        places
    }

    /// Notes TPCs that the driver does not grant.
    fn cannot_be_granted(&self, place: &Placed, problems: &mut Problems<'_>) -> bool {
        let (tpcs, granularity) = (place.tpcs.clone(), self.granularity);
        let first = tpcs.first().copied().unwrap_or(0);
        let whole = |count: u16| count.is_multiple_of(granularity);
        if whole(first) && whole(tpcs.len() as u16) {
            return false;
        }
        let cause = PlaceRule::Granularity { tpcs, granularity };
        problems.add(&place.place, cause);
        true
    }

    fn written(&self, raw: &RawPlace, problems: &mut Problems<'_>) -> Option<Placed> {
        let (device, units) = match (&raw.cores, &raw.tpcs) {
            (Some(cores), None) => (DeviceKind::Cpu, self.of_cores(cores, problems)?),
            (None, Some(tpcs)) => (DeviceKind::Cuda, self.of_tpcs(tpcs, problems)?),
            (cores, _) => {
                let (one, other, both) = ("cores", "tpcs", cores.is_some());
                problems.add(&raw.place, Invalid::ExactlyOne { one, other, both });
                return None;
            }
        };
        let name = raw.name.value.clone();
        let range = Range {
            name,
            device,
            units,
        };
        let placed = self.owners.partition(range, UnitUse::Idle, &raw.place);
        (!self.cannot_be_granted(&placed, problems)).then_some(placed)
    }

    /// The positions of the cores of a place.
    fn of_cores(&self, named: &Spanned<Vec<u64>>, problems: &mut Problems<'_>) -> Option<Units> {
        let own = self.owners.placement.partitions.iter();
        let own = own.filter(|partition| partition.device == DeviceKind::Cpu);
        let known: Vec<u16> = own.flat_map(|partition| partition.cores.clone()).collect();
        let mut positions = Vec::new();
        for &core in named.value.iter().take(self.owners.cores.len()) {
            let at = self
                .owners
                .cores
                .iter()
                .position(|known| u64::from(*known) == core);
            let at = at.filter(|&at| known.contains(&self.owners.cores[at]));
            let Some(at) = at else {
                problems.add(&named.place, PlaceRule::CoreOfNoPartition { core, known });
                return None;
            };
            positions.push(at as u16);
        }
        positions.sort_unstable();
        let first = positions.first().copied();
        let steps = positions.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let (Some(first), true) = (first, steps && named.value.len() <= self.owners.cores.len())
        else {
            let cause = PlaceRule::NotNeighbours {
                cores: named.value.iter().map(|core| *core as u16).collect(),
                order: self.owners.cores.clone(),
            };
            problems.add(&named.place, cause);
            return None;
        };
        let count = positions.len() as u16;
        Some(Units { first, count })
    }

    fn of_tpcs(&self, named: &Spanned<Vec<u64>>, problems: &mut Problems<'_>) -> Option<Units> {
        let [first, count] = named.value[..] else {
            let count = named.value.len();
            problems.add(&named.place, PlaceRule::NotARange { count });
            return None;
        };
        let homes = homes_on(DeviceKind::Cuda, &self.homes);
        let there = homes.last().map_or(0, |(_, units)| units.end());
        if count == 0 || first.saturating_add(count) > u64::from(there) {
            let cause = PlaceRule::TpcsOfNoPartition {
                first,
                count,
                there,
            };
            problems.add(&named.place, cause);
            return None;
        }
        let units = Units {
            first: first as u16,
            count: count as u16,
        };
        let holds = |run: &Units| run.first <= units.first && units.end() <= run.end();
        if !joined(&homes).iter().any(holds) {
            problems.add(&named.place, PlaceRule::TpcsOfEngine { first, count });
            return None;
        }
        Some(units)
    }

    /// Gives places of TPCs their leaders: each that begins inside a partition one of the cores that the manifest names.
    fn lead(&self, places: &mut [Placed], asked: &Place, problems: &mut Problems<'_>) {
        let begin = self.owners.begin_inside(places);
        let named = &self.owners.placement.leaders;
        if named.len() < begin.len() {
            let given = named.len();
            let leaders = self.manifest.daemon.leaders.cores.as_ref();
            let place = leaders.map_or(asked, |leaders| &leaders.place);
            problems.add(place, PlaceRule::TooFewLeaders { begin, given });
        }
        self.owners.lead(places, named);
    }
}

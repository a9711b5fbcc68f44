//! Layouts that the planner finds for a device, and their TOML.

use std::fmt::Write as _;

use punctual_core::Units;
use punctual_simulator::layout;

use super::device::{Device, Ranges};

/// The daemon leaves its layout only for one whose fullest partition is less than this part as full.
const WORTH_A_CHANGE: f64 = 7.0 / 8.0;

/// The part by which sums of the same numbers in another order may differ.
const EQUAL: f64 = 1e-9;

/// The longest name that a manifest may have.
const NAME_BYTES_MAX: usize = 64;

/// A layout in addition to the manifest's own.
pub(super) struct Proposal {
    pub(super) name: String,
    ranges: Ranges,
    /// The partitions that it adds; tasks on others stay where they are.
    pub(super) partitions: Vec<Partition>,
    /// The demand that it was found for.
    pub(super) demands: Vec<Demand>,
}

pub(super) struct Partition {
    pub(super) name: String,
    /// Cores or TPCs.
    pub(super) numbers: Vec<u16>,
    pub(super) tasks: Vec<String>,
}

/// How often each task is asked, and how full that makes the fullest partition.
pub(super) struct Demand {
    /// The task that is asked more often than on average; none: the manifest's rates.
    pub(super) busy: Option<String>,
    pub(super) rates_hz: Vec<f64>,
    pub(super) fullest: f64,
    /// The same with the manifest's partitions.
    pub(super) fullest_now: f64,
}

/// What the planner found for a device.
pub(super) struct Found {
    /// Whether the manifest's own partitions are the best ones for its rates.
    pub(super) keeps_first: bool,
    pub(super) proposals: Vec<Proposal>,
    /// Demands for which no layout keeps all promises on the measured sizes, by the task that is busy.
    pub(super) without: Vec<Option<String>>,
}

/// The best layouts for the manifest's rates and for each task's turn, without those that `known` has.
pub(super) fn find(device: &Device, busier: f64, known: &[Ranges], taken: &[&str]) -> Found {
    let scenario = &device.scenario;
    let rates = layout::rates(scenario);
    let turns = (0..scenario.tasks.len()).map(|busy| {
        let rates = layout::rates_in_turn(scenario, busy, busier);
        (Some(device.task_name(busy).to_owned()), rates)
    });
    let mut found = Found {
        keeps_first: false,
        proposals: Vec::new(),
        without: Vec::new(),
    };
    for (busy, rates_hz) in std::iter::once((None, rates)).chain(turns) {
        let Some(ranges) = layout::best_at(scenario, &rates_hz) else {
            found.without.push(busy);
            continue;
        };
        if is_as_good(device, &scenario.planned, &ranges, &rates_hz) {
            found.keeps_first |= busy.is_none();
            continue;
        }
        let mut known = known.iter();
        if known.any(|known| is_as_good(device, known, &ranges, &rates_hz)) {
            continue;
        }
        let demand = Demand {
            busy,
            fullest: device.fullest(&ranges, &rates_hz),
            fullest_now: device.fullest(&scenario.planned, &rates_hz),
            rates_hz,
        };
        let mut same = found.proposals.iter_mut();
        match same.find(|other| are_alike(&other.ranges, &ranges)) {
            Some(other) => other.demands.push(demand),
            None => {
                let proposal = Proposal::new(device, ranges, demand, taken);
                found.proposals.push(proposal);
            }
        }
    }
    found
}

/// Whether a layout is worth as much as the best one: there may be several, as for tasks that are alike.
fn is_as_good(device: &Device, layout: &Ranges, best: &Ranges, rates_hz: &[f64]) -> bool {
    let worth = |layout: &Ranges| layout::worth(&device.scenario, layout, rates_hz);
    let (Some(own), Some(best)) = (worth(layout), worth(best)) else {
        return false;
    };
    own >= best - best.abs() * EQUAL
}

/// Whether two layouts have the same tasks together on equally many units, wherever these are.
fn are_alike(one: &Ranges, other: &Ranges) -> bool {
    let groups = |layout: &Ranges| {
        let groups = layout.iter();
        let mut groups: Vec<_> = groups
            .map(|(at, tasks)| (at.count, tasks.clone()))
            .collect();
        groups.sort_unstable();
        groups
    };
    groups(one) == groups(other)
}

/// The ranges that a layout adds, if groups of tasks that the manifest has on as many units stay there, and the others
/// have the first units that are free; all ranges, if that leaves too little room in one piece.
fn added(ranges: &Ranges, planned: &Ranges, units: u16) -> Ranges {
    let (mut placed, mut moving) = (Vec::new(), Vec::new());
    for (at, tasks) in ranges {
        let mut planned = planned.iter();
        let stays = planned.find(|(own, there)| own.count == at.count && there == tasks);
        match stays {
            Some((own, _)) => placed.push(*own),
            None => moving.push((at.count, tasks)),
        }
    }
    moving.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let mut added = Ranges::new();
    for (count, tasks) in moving {
        let mut all = (0..=units.saturating_sub(count)).map(|first| Units { first, count });
        let is_free = |range: &Units| placed.iter().all(|other| !other.overlaps(*range));
        let Some(range) = all.find(is_free) else {
            return ranges.clone();
        };
        placed.push(range);
        added.push((range, tasks.clone()));
    }
    added.sort_by_key(|(range, _)| range.first);
    added
}

impl Proposal {
    fn new(device: &Device, ranges: Ranges, demand: Demand, taken: &[&str]) -> Self {
        let wanted = match &demand.busy {
            Some(task) => format!("{task}-busy"),
            None => format!("usual-{}", device.unit_name().to_lowercase()),
        };
        let name = free_name(&wanted, taken);
        let added = added(
            &ranges,
            &device.scenario.planned,
            device.scenario.board.units,
        );
        let partitions = (1..).zip(added).map(|(number, (range, tasks))| Partition {
            name: free_name(&format!("{name}-{number}"), taken),
            numbers: device.numbers(range).to_vec(),
            tasks: tasks
                .iter()
                .map(|&task| device.task_name(task).to_owned())
                .collect(),
        });
        Self {
            partitions: partitions.collect(),
            demands: vec![demand],
            name,
            ranges,
        }
    }

    /// As in a manifest, with what it is for in front.
    pub(super) fn toml(&self, device: &Device, busier: f64) -> String {
        let mut text = String::from("\n");
        let demands = self.demands.iter();
        let demands: Vec<String> = demands.map(|one| about(one, device, busier)).collect();
        text += &demands.join("#\n");
        let _ = writeln!(text, "[[layout]]\nname = \"{}\"", self.name);
        for partition in &self.partitions {
            let tasks: Vec<String> = partition.tasks.iter().map(|t| format!("{t:?}")).collect();
            let _ = writeln!(
                text,
                "\n[[layout.partition]]\nname = \"{}\"\n{}\ntasks = [{}]",
                partition.name,
                units_line(device, &partition.numbers),
                tasks.join(", ")
            );
        }
        text
    }
}

/// The key of a layout's partition that says where it is.
pub(super) fn units_line(device: &Device, numbers: &[u16]) -> String {
    match (device.kind.runs_on_cores(), numbers.first()) {
        (false, Some(first)) => format!("tpcs = [{first}, {}]", numbers.len()),
        _ => format!("cores = {numbers:?}"),
    }
}

fn about(demand: &Demand, device: &Device, busier: f64) -> String {
    let rates = demand.rates_hz.iter().enumerate();
    let rates = rates.map(|(task, hz)| format!("{} {hz:.1}", device.task_name(task)));
    let rates: Vec<String> = rates.collect();
    let rates = rates.join(", ");
    let (fullest, now) = (demand.fullest, demand.fullest_now);
    let mut text = match &demand.busy {
        Some(task) => format!(
            "# While {task} is asked {busier} times as often as in the other tasks' turns\n# (frames a second: {rates})\n"
        ),
        None => format!("# At the manifest's own rates (frames a second: {rates})\n"),
    };
    let _ = writeln!(
        text,
        "# the fullest partition is {fullest:.2} full; with the [[partition]]s it is {now:.2} full."
    );
    if demand.busy.is_none() {
        text += "# To begin with this layout, make its partitions the [[partition]]s.\n";
    }
    if fullest >= now * WORTH_A_CHANGE {
        text += "# The daemon changes by itself only to less than 7/8 of that: give it a range of `load`, or leave it out.\n";
    }
    text
}

/// The name, or with a number if a manifest has it; shortened to what may be a name.
fn free_name(wanted: &str, taken: &[&str]) -> String {
    let numbered = (2..).map(|number| format!("-{number}"));
    let mut endings = std::iter::once(String::new()).chain(numbered);
    let named = |ending: String| {
        let room = NAME_BYTES_MAX - ending.len();
        let name = wanted.get(..room).unwrap_or(wanted).to_owned() + &ending;
        (!taken.contains(&name.as_str())).then_some(name)
    };
    endings
        .find_map(named)
        .expect("there are more numbers than names in a manifest")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn units(first: u16, count: u16) -> Units {
        Units { first, count }
    }

    #[test]
    fn groups_that_stay_keep_their_units_and_the_others_get_what_is_free() {
        let planned = vec![(units(0, 1), vec![0, 1]), (units(1, 1), vec![2])];
        let found = vec![
            (units(0, 1), vec![2]),
            (units(1, 2), vec![0]),
            (units(3, 1), vec![1]),
        ];
        let expected = vec![(units(0, 1), vec![1]), (units(2, 2), vec![0])];
        assert_eq!(added(&found, &planned, 4), expected);
        // No two adjacent units are free if the group on the middle one stays.
        let planned = vec![(units(0, 1), vec![0, 1]), (units(1, 1), vec![2])];
        let found = vec![(units(0, 1), vec![2]), (units(1, 2), vec![0, 1])];
        assert_eq!(added(&found, &planned, 3), found);
    }

    #[test]
    fn layouts_are_alike_if_the_same_tasks_have_as_many_units() {
        let one = vec![(units(0, 1), vec![0]), (units(1, 2), vec![1])];
        let other = vec![(units(0, 2), vec![1]), (units(3, 1), vec![0])];
        assert!(are_alike(&one, &other));
        let wider = vec![(units(0, 2), vec![0]), (units(2, 2), vec![1])];
        assert!(!are_alike(&one, &wider));
    }

    #[test]
    fn names_are_free_and_short_enough() {
        assert_eq!(free_name("front-busy", &["front"]), "front-busy");
        let taken = ["front-busy", "front-busy-2"];
        assert_eq!(free_name("front-busy", &taken), "front-busy-3");
        let long = "n".repeat(80);
        assert_eq!(free_name(&long, &[]).len(), NAME_BYTES_MAX);
        assert_eq!(free_name(&long, &[&long[..64]]).len(), NAME_BYTES_MAX);
    }
}

//! Which partitions a plan divides a device into, and which tasks run on each: the choice that `punctual` plans with.
//!
//! Every way to group the tasks and to give each group a contiguous range of compute units is
//! looked at. A range must pass the offline test with its tasks; of what passes, the layout with
//! the largest expected value wins: the accuracy that its tasks reach a second, if capacity left by
//! the mandatory parts goes to the deeper stages that gain most for their time.

use punctual_core::offline::{self, Demand};
use punctual_core::{Criticality, Nanos, TaskId, Units};

use crate::scenario::{Model, Scenario, Task};

/// The most tasks for which all groupings are looked at; with more, they share the whole device.
pub const TASKS_MAX: usize = 6;

/// The share of a range's time that the estimate gives away: beyond it, queues get long.
const CAPACITY: f64 = 0.85;

/// What a range that is used less is worth, next to nothing: of two layouts that reach the same
/// accuracy, the one with the shorter queues is better.
const IDLE_WORTH: f64 = 1e-3;

/// The partitions with their tasks, by rising first unit.
#[must_use]
pub fn choose(scenario: &Scenario) -> Vec<(Units, Vec<usize>)> {
    let whole = range(0, scenario.board.units);
    let everything = || vec![(whole, (0..scenario.tasks.len()).collect())];
    best_at(scenario, &rates(scenario)).unwrap_or_else(everything)
}

/// The most cells of a device: more make decisions longer and gain little (docs/results/lending.md).
const CELLS_MAX: u16 = 10;

/// The units of a cell.
#[must_use]
pub fn cell_size(units: u16) -> u16 {
    (units / CELLS_MAX).max(1)
}

/// The cells of a home, the last one with the rest.
pub fn cells(home: Units, size: u16) -> impl Iterator<Item = Units> {
    let count = (home.count / size).max(1);
    (0..count).map(move |cell| Units {
        first: home.first + cell * size,
        count: if cell + 1 == count {
            home.count - cell * size
        } else {
            size
        },
    })
}

/// The same, with ranges of whole cells of `size` units; the last one also has the rest.
#[must_use]
pub fn aligned(scenario: &Scenario, size: u16) -> Vec<(Units, Vec<usize>)> {
    let mut cells = scenario.clone();
    cells.board.units /= size;
    for measured in cells.models.iter_mut().flat_map(|model| &mut model.stages) {
        let times = (1..=cells.board.units).flat_map(|units| {
            let sizes: std::collections::BTreeSet<u8> =
                measured.times.iter().map(|time| time.batch).collect();
            let stage = &*measured;
            let time = move |batch| crate::scenario::Measured {
                batch,
                units,
                time: stage.time(batch, units * size),
            };
            sizes.into_iter().map(time)
        });
        measured.times = times.collect();
    }
    let mut homes = choose(&cells);
    for (units, _) in &mut homes {
        units.first *= size;
        units.count *= size;
    }
    if let Some((last, _)) = homes.iter_mut().max_by_key(|(units, _)| units.first)
        && last.end() == cells.board.units * size
    {
        last.count = scenario.board.units - last.first;
    }
    homes
}

/// Requests a second of each task.
fn rates(scenario: &Scenario) -> Vec<f64> {
    let rate_hz = |task: &Task| task.pattern.rate_hz().unwrap_or(0.0);
    scenario.tasks.iter().map(rate_hz).collect()
}

/// The best layout at these rates, by rising first unit; none if no layout can promise every
/// deadline, or there are too many tasks to look.
fn best_at(scenario: &Scenario, rates_hz: &[f64]) -> Option<Vec<(Units, Vec<usize>)>> {
    if scenario.tasks.is_empty() || scenario.tasks.len() > TASKS_MAX {
        return None;
    }
    let groups = Table::new(scenario, rates_hz).best_groups()?;
    let mut first = 0;
    let placed = groups.into_iter().map(|(group, count)| {
        let tasks = (0..scenario.tasks.len()).filter(|task| group & (1 << task) != 0);
        let placed = (range(first, count), tasks.collect());
        first += count;
        placed
    });
    Some(placed.collect())
}

const fn range(first: u16, count: u16) -> Units {
    Units { first, count }
}

/// A set of tasks, a bit each.
type Group = u32;

/// The best that a set of tasks reaches on at most a given number of units: its value, and the group of its
/// lowest task with the units of that group.
#[derive(Clone, Copy)]
struct Best {
    value: f64,
    group: Group,
    count: u16,
}

/// Values of all groups on all sizes of range.
struct Table {
    all: Group,
    units: u16,
    /// `values[group][count - 1]`; none: the group cannot be promised its deadlines there.
    values: Vec<Vec<Option<f64>>>,
}

impl Table {
    fn new(scenario: &Scenario, rates_hz: &[f64]) -> Self {
        let (units, all) = (scenario.board.units, (1 << scenario.tasks.len()) - 1);
        let accuracies: Vec<Vec<f64>> = scenario.models.iter().map(Model::accuracies).collect();
        let values = (0..=all).map(|group: Group| {
            let tasks: Vec<usize> = (0..scenario.tasks.len())
                .filter(|task| group & (1 << task) != 0)
                .collect();
            (1..=units)
                .map(|count| value(scenario, rates_hz, &accuracies, &tasks, count))
                .collect()
        });
        Self {
            all,
            units,
            values: values.collect(),
        }
    }

    /// The groups of the best layout with their units.
    fn best_groups(&self) -> Option<Vec<(Group, u16)>> {
        let width = usize::from(self.units) + 1;
        // best[set][units left]
        let mut best: Vec<Vec<Option<Best>>> = vec![vec![None; width]; self.all as usize + 1];
        for set in 1..=self.all {
            for left in 1..=self.units {
                best[set as usize][usize::from(left)] = self.best_first(set, left, &best);
            }
        }
        let (mut set, mut left, mut groups) = (self.all, self.units, Vec::new());
        while set != 0 {
            let step = best[set as usize][usize::from(left)]?;
            groups.push((step.group, step.count));
            set &= !step.group;
            left -= step.count;
        }
        Some(groups)
    }

    /// The best group for the lowest task of `set`, the others being placed as well as can be.
    fn best_first(&self, set: Group, left: u16, best: &[Vec<Option<Best>>]) -> Option<Best> {
        let lowest = set & set.wrapping_neg();
        let others = set & !lowest;
        let mut found: Option<Best> = None;
        // All subsets of the others, from all of them to none.
        let mut joined = others;
        loop {
            let (group, rest) = (lowest | joined, others & !joined);
            for count in 1..=left {
                let placed = match rest {
                    0 => Some(0.0),
                    _ => best[rest as usize][usize::from(left - count)].map(|best| best.value),
                };
                let own = self.values[group as usize][usize::from(count) - 1];
                if let (Some(own), Some(placed)) = (own, placed)
                    && found.is_none_or(|best| own + placed > best.value)
                {
                    let value = own + placed;
                    found = Some(Best {
                        value,
                        group,
                        count,
                    });
                }
            }
            if joined == 0 {
                return found;
            }
            joined = (joined - 1) & others;
        }
    }
}

/// What the tasks are expected to reach on a range of `count` units: right answers a second, none
/// if the offline test fails.
fn value(
    scenario: &Scenario,
    rates_hz: &[f64],
    accuracies: &[Vec<f64>],
    tasks: &[usize],
    count: u16,
) -> Option<f64> {
    let of = |index: &usize| &scenario.tasks[*index];
    let demands: Vec<Demand> = tasks
        .iter()
        .filter(|index| of(index).config.criticality == Criticality::RealTime)
        .map(|&index| demand(scenario, index, count))
        .collect();
    let best_effort = demands.len() < tasks.len();
    let preemption = scenario.board.preemption_bound + scenario.board.dispatch_cost;
    let report = offline::test(&demands, best_effort.then_some(preemption));
    report.outcome.ok()?;

    let mut gains = Vec::new();
    let (mut used, mut value) = (0.0, 0.0);
    for index in tasks {
        let (task, rate) = (of(index), rates_hz[*index]);
        let points = depths(
            scenario,
            &accuracies[task.config.model.index()],
            task,
            count,
        );
        let (work, accuracy) = *points.first()?;
        used += rate * work;
        value += rate * accuracy * weight(task);
        for pair in hull(&points).windows(2) {
            let (time, gain) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            gains.push((rate * time, rate * gain * weight(task)));
        }
    }
    // More than there is time for: in proportion.
    value *= (CAPACITY / used).min(1.0);
    gains.sort_by(|a, b| (b.1 * a.0).total_cmp(&(a.1 * b.0)));
    for (time, gain) in gains {
        let share = ((CAPACITY - used) / time).clamp(0.0, 1.0);
        value += share * gain;
        used += share * time;
    }
    Some(value + IDLE_WORTH * (1.0 - used))
}

/// Best-effort answers are worth little compared with promised ones.
fn weight(task: &Task) -> f64 {
    match task.config.criticality {
        Criticality::RealTime => f64::from(task.config.weight),
        Criticality::BestEffort => 0.01,
    }
}

fn demand(scenario: &Scenario, index: usize, count: u16) -> Demand {
    let config = &scenario.tasks[index].config;
    let mandatory = config.mandatory_exit.index();
    let stages = &scenario.models[config.model.index()].stages[..=mandatory];
    let times = || {
        let budgets = stages.iter().map(|stage| stage.time(1, count).budget);
        budgets.map(|budget| budget + scenario.board.dispatch_cost)
    };
    let deadline = config.deadline.unwrap_or(Nanos::ZERO);
    Demand {
        task: TaskId(index as u16),
        work: times().fold(Nanos::ZERO, |sum, time| sum + time),
        longest_stage: times().max().unwrap_or(Nanos::ZERO),
        deadline: deadline.saturating_sub(scenario.board.egress_bound),
        period: config.period,
        jitter: config.jitter,
        reserved: config.reserved,
    }
}

/// Seconds of work and accuracy at each exit from the mandatory one on, as deep as a request that
/// has the range to itself gets by its deadline.
fn depths(scenario: &Scenario, accuracies: &[f64], task: &Task, count: u16) -> Vec<(f64, f64)> {
    let model = &scenario.models[task.config.model.index()];
    let mut work = 0.0;
    let mut points = Vec::new();
    for (exit, stage) in model.stages.iter().enumerate() {
        work += stage.time(1, count).budget.as_nanos() as f64 / 1e9;
        let deadline = task
            .config
            .deadline
            .map(|deadline| deadline.as_nanos() as f64 / 1e9);
        let fits = deadline.is_none_or(|deadline| work <= deadline);
        if exit < task.config.mandatory_exit.index() || (!fits && !points.is_empty()) {
            continue;
        }
        points.push((work, accuracies[exit]));
    }
    points
}

/// The points of the upper concave hull from the first one on; depths that do not help are left out.
fn hull(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        if hull.last().is_some_and(|last| point.1 <= last.1) {
            continue;
        }
        while let [.., a, b] = hull[..] {
            let turns_right = (b.1 - a.1) * (point.0 - b.0) > (point.1 - b.1) * (b.0 - a.0);
            if turns_right {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::scenario;

    #[test]
    fn what_is_chosen_is_worth_at_least_as_much_as_all_tasks_together() {
        let cameras = scenario();
        let accuracies: Vec<Vec<f64>> = cameras.models.iter().map(Model::accuracies).collect();
        let worth = |layout: &[(Units, Vec<usize>)]| -> Option<f64> {
            let ranges = layout.iter();
            let rates = rates(&cameras);
            ranges
                .map(|(units, tasks)| value(&cameras, &rates, &accuracies, tasks, units.count))
                .sum()
        };
        let whole = range(0, cameras.board.units);
        let together = vec![(whole, (0..cameras.tasks.len()).collect())];
        assert!(worth(&choose(&cameras)) >= worth(&together));
    }

    #[test]
    fn depths_that_do_not_help_are_not_on_the_hull() {
        let points = [(1.0, 0.5), (2.0, 0.5), (3.0, 0.9), (4.0, 0.92), (5.0, 0.99)];
        assert_eq!(hull(&points), [(1.0, 0.5), (3.0, 0.9), (5.0, 0.99)]);
        let mut cameras = scenario();
        let accuracies = cameras.models[0].accuracies();
        let reached = |cameras: &Scenario| depths(cameras, &accuracies, &cameras.tasks[0], 1).len();
        assert_eq!(reached(&cameras), 2);
        cameras.tasks[0].config.deadline = Some(Nanos::from_millis(4));
        assert_eq!(reached(&cameras), 1, "the second exit ends after 5 ms");
    }
}

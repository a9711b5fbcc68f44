//! `[[partition]]`: which compute units run which tasks.

use punctual_core::Units;
use punctual_diagnostics::{Place, Problems, Rule, Section};
use punctual_simulator::scenario::{Board, Task};
use thiserror::Error;

use super::names;

/// What is wrong with how the board is divided.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PartitionRule {
    #[error("{asked} units wanted, {free} left of {there}")]
    TooManyUnits { asked: u16, free: u16, there: u16 },
    #[error("task {task:?} is in another partition already")]
    TaskTwice { task: String },
    #[error("no partition has the tasks {}", tasks.join(", "))]
    TasksInNone { tasks: Vec<String> },
}

impl Rule for PartitionRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::TooManyUnits { .. } => "the partitions' units together are those of the board",
            Self::TaskTwice { .. } | Self::TasksInNone { .. } => {
                "every task is in one partition, if any partition is given"
            }
        }
    }

    fn help(&self) -> String {
        match self {
            Self::TooManyUnits { .. } => "shrink a partition, or raise `board.units`".into(),
            Self::TaskTwice { .. } => "remove it from one of them".into(),
            Self::TasksInNone { .. } => "list them as `tasks` of a partition".into(),
        }
    }
}

/// The partitions, by rising first unit as they stand; none: the best are found.
pub(super) fn read(
    root: &mut Section<'_, '_>,
    board: &Board,
    tasks: &[Task],
    problems: &mut Problems<'_>,
) -> Option<Vec<(Units, Vec<usize>)>> {
    let names: Vec<String> = tasks.iter().map(|task| task.name.clone()).collect();
    let all = 0..=usize::MAX;
    let written = root.list("partition", all, problems, |mut section, problems| {
        let units = section.required_whole("units", 1..=u64::from(board.units), problems);
        let tasks = names::indices(&mut section, "tasks", "task", &names, problems);
        let places = (section.place_of("units"), section.place_of("tasks"));
        section.finish(problems);
        Some((units as u16, tasks, places))
    });
    if written.is_empty() {
        return None;
    }
    let mut placed = Vec::new();
    let mut first = 0;
    let mut has_one = vec![false; names.len()];
    for (count, tasks, (units_place, tasks_place)) in written {
        let (free, there) = (board.units - first, board.units);
        if count > free {
            let asked = count;
            let cause = PartitionRule::TooManyUnits { asked, free, there };
            problems.add(&units_place, cause);
        }
        for &task in &tasks {
            if std::mem::replace(&mut has_one[task], true) {
                let task = names[task].clone();
                problems.add(&tasks_place, PartitionRule::TaskTwice { task });
            }
        }
        placed.push((Units { first, count }, tasks));
        first += count.min(free);
    }
    let in_none = names.into_iter().zip(has_one).filter(|(_, has)| !has);
    let tasks: Vec<String> = in_none.map(|(name, _)| name).collect();
    if !tasks.is_empty() {
        let place = Place::of_key("partition");
        problems.add(&place, PartitionRule::TasksInNone { tasks });
    }
    Some(placed)
}

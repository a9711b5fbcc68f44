//! Who lent what to whom, for a chart and the tables below it.

use std::collections::BTreeSet;

use punctual_core::usage::{Ran, Tally, Usage};
use punctual_core::{Config, Nanos, PartitionId, TaskId, Units};
use punctual_report::{Column, Table};
use serde::Serialize;

/// What ran of a plan with places, by whose compute units it used.
#[derive(Clone, Debug)]
pub struct Lending {
    /// In the order of `usage.homes`.
    pub homes: Vec<Home>,
    pub usage: Usage,
}

/// A partition with the tasks that the plan assigns to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Home {
    pub first: u16,
    pub count: u16,
    /// Positions of its tasks.
    pub tasks: Vec<u16>,
}

impl Home {
    fn of(config: &Config, home: PartitionId) -> Self {
        let Units { first, count } = config.units(home);
        let tasks = (0..).zip(&config.tasks);
        let tasks = tasks.filter(|(_, task)| task.partition == home);
        Self {
            first,
            count,
            tasks: tasks.map(|(task, _)| task).collect(),
        }
    }

    /// As readers tell homes apart: by their units, which are the rows of the chart.
    fn name(&self) -> String {
        match self.count {
            1 => format!("unit {}", self.first),
            count => format!("units {} to {}", self.first, self.first + count - 1),
        }
    }
}

impl Lending {
    /// Sums what ran of each task on each partition.
    #[must_use]
    pub fn new(config: &Config, tally: impl Fn(TaskId, PartitionId) -> Tally) -> Self {
        let usage = Usage::of(config, tally);
        let homes = usage.homes.iter();
        Self {
            homes: homes.map(|home| Home::of(config, home.home)).collect(),
            usage,
        }
    }

    fn name(&self, home: PartitionId) -> String {
        let homes = self.usage.homes.iter().zip(&self.homes);
        let mut named = homes.filter(|(usage, _)| usage.home == home);
        named
            .next()
            .map_or_else(String::new, |(_, home)| home.name())
    }

    /// For each home: where its stages ran, and what it lent.
    #[must_use]
    pub fn by_home(&self, tasks: &[String]) -> Table {
        let mut table = Table::of([
            Column::words("home"),
            Column::words("tasks"),
            Column::number("stages at home"),
            Column::number("on own cells"),
            Column::number("borrowed"),
            Column::number("time at home").unit("ms"),
            Column::number("on own cells").unit("ms"),
            Column::number("borrowed").unit("ms"),
            Column::number("lent").unit("units x ms"),
        ]);
        for (home, usage) in self.homes.iter().zip(&self.usage.homes) {
            let names = home.tasks.iter().map(|task| &tasks[usize::from(*task)][..]);
            let names: Vec<&str> = names.collect();
            let stages = |ran: Ran| ran.stages.to_string();
            table.row([
                home.name(),
                names.join(", "),
                stages(usage.own),
                stages(usage.cells),
                stages(usage.borrowed),
                ms(usage.own.busy),
                ms(usage.cells.busy),
                ms(usage.borrowed.busy),
                ms(self.usage.lent(usage.home)),
            ]);
        }
        table
    }

    /// For each pair of homes: what the one lent the other.
    #[must_use]
    pub fn by_pair(&self) -> Table {
        let mut table = Table::of([
            Column::words("owner"),
            Column::words("borrower"),
            Column::number("stages"),
            Column::number("time").unit("ms"),
            Column::number("lent").unit("units x ms"),
        ])
        .keys(2);
        for loan in &self.usage.loans {
            table.row([
                self.name(loan.owner),
                self.name(loan.borrower),
                loan.ran.stages.to_string(),
                ms(loan.ran.busy),
                ms(loan.unit_time),
            ]);
        }
        table
    }

    /// For each task: on how many compute units the stages of its requests ran.
    #[must_use]
    pub fn by_width(&self, tasks: &[String]) -> Table {
        let all = self.usage.widths.iter().flatten();
        let widths: BTreeSet<u16> = all.map(|width| width.units).collect();
        let headings = widths.iter().map(|units| match units {
            1 => Column::number("1 unit"),
            units => Column::number(&format!("{units} units")),
        });
        let mut table = Table::of([Column::words("task")].into_iter().chain(headings));
        for (task, used) in tasks.iter().zip(&self.usage.widths) {
            let members = |units| used.iter().find(|width| width.units == units);
            let members = |units: &u16| members(*units).map_or(0, |width| width.members);
            let counts = widths.iter().map(|units| members(units).to_string());
            table.row([task.clone()].into_iter().chain(counts));
        }
        table
    }
}

fn ms(time: Nanos) -> String {
    format!("{:.1}", time.as_nanos() as f64 / 1e6)
}

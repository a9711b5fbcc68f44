//! What `punctual check` prints of layouts: each one's partitions and promises, and what a change costs.

use std::fmt;

use punctual_core::{LoadRange, PartitionId};
use punctual_report::{Column, Table};

use super::frozen::Plan;
use super::report::{percent, units};
use crate::budget::{LayoutChange, LayoutPlan, PartitionReport};

/// How the load that layouts are chosen by is measured.
const LOAD: &str = "the load is how full the fullest partition of the first would be\nif each frame of the last second ran \
     there to its last exit, alone";

impl Plan {
    /// Nothing if there is only the first.
    pub(super) fn write_layouts(&self, f: &mut fmt::Formatter<'_>, width: usize) -> fmt::Result {
        if self.layouts.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "Layouts: which tasks are where; {LOAD}\n{:width$}",
            self.layout_table()
        )?;
        for layout in &self.layouts {
            let LayoutPlan {
                name,
                core_loads,
                schedulability,
                ..
            } = layout;
            writeln!(
                f,
                "Cores in layout {name}\n{:width$}",
                self.core_table(core_loads)
            )?;
            writeln!(
                f,
                "Promises in layout {name}\n{:width$}",
                self.promise_table(schedulability)
            )?;
        }
        writeln!(
            f,
            "Changes between layouts: made only while every promise is kept; the partitions then begin no stage for \
             at most the\nlongest wait\n{:width$}",
            self.change_table()
        )
    }

    /// By layout, the first among them, and partition.
    fn layout_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("layout"),
            Column::words("meant for load"),
            Column::words("partition"),
            Column::words("cores"),
            Column::number("utilisation"),
            Column::words("tasks"),
        ])
        .inset();
        let own: Vec<PartitionId> = self.tasks.iter().map(|task| task.partition).collect();
        let further = self.layouts.iter();
        let further = further.map(|layout| (&layout.partitions, &layout.schedulability));
        let all = std::iter::once((&own, &self.schedulability)).chain(further);
        for (position, (partitions, reports)) in all.enumerate() {
            let mut first = true;
            for report in reports {
                let tasks = partitions.iter().zip(&self.tasks);
                let here = tasks.filter(|(partition, _)| **partition == report.partition);
                let names: Vec<&str> = here.map(|(_, task)| task.name.as_str()).collect();
                if names.is_empty() {
                    continue;
                }
                let of_layout = |text: String| if first { text } else { String::new() };
                let partition = &self.partitions[report.partition.index()];
                table.row([
                    of_layout(self.layout_name(position).to_owned()),
                    of_layout(self.load_of(position)),
                    partition.name.clone(),
                    units(partition),
                    utilisation(report),
                    names.join(" "),
                ]);
                first = false;
            }
        }
        table
    }

    /// The loads for which a layout is meant.
    fn load_of(&self, layout: usize) -> String {
        let further = layout.checked_sub(1);
        let range = further.and_then(|at| self.scheduler.layouts[at].load);
        match range {
            Some(LoadRange { least, most }) => {
                let load = |thousandths: u32| f64::from(thousandths) / 1_000.0;
                match most {
                    u32::MAX => format!("{} and more", load(least)),
                    most => format!("{} to {}", load(least), load(most)),
                }
            }
            None => "any other".to_owned(),
        }
    }

    fn change_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("from"),
            Column::words("to"),
            Column::number("longest wait"),
            Column::words("partitions"),
        ])
        .inset();
        for change in &self.layout_changes {
            let LayoutChange {
                from,
                to,
                partitions,
                wait,
            } = change;
            let names = partitions.iter();
            let names: Vec<&str> = names
                .map(|at| self.partitions[at.index()].name.as_str())
                .collect();
            table.row([
                self.layout_name(*from).to_owned(),
                self.layout_name(*to).to_owned(),
                wait.to_string(),
                names.join(" "),
            ]);
        }
        table
    }
}

fn utilisation(report: &PartitionReport) -> String {
    percent(report.utilisation)
}

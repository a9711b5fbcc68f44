//! The report of what tasks borrowed and lent, and a few words of it for the status line.

use std::sync::atomic::Ordering::Relaxed;

use punctual_core::usage::{Ran, Usage, WidthUsage};
use punctual_core::{Nanos, PartitionId};
use punctual_plan::Plan;

use crate::metrics::{LendingMetrics, Metrics};
use crate::report::{HomeReport, LendingReport, LoanReport, RanReport, WidthReport, WidthsReport};

pub(super) fn report(plan: &Plan, metrics: &LendingMetrics) -> LendingReport {
    let usage = Usage::of(&plan.scheduler, |task, at| metrics.tally(task, at));
    let name = |partition: PartitionId| plan.partitions[partition.index()].name.clone();
    let homes = usage.homes.iter().map(|home| HomeReport {
        partition: name(home.home),
        own: ran(home.own),
        cells: ran(home.cells),
        borrowed: ran(home.borrowed),
        lent_unit_us: us(usage.lent(home.home)),
    });
    let loans = usage.loans.iter().map(|loan| LoanReport {
        owner: name(loan.owner),
        borrower: name(loan.borrower),
        stages: loan.ran.stages,
        busy_us: us(loan.ran.busy),
        unit_us: us(loan.unit_time),
    });
    let tasks = plan.tasks.iter().zip(&usage.widths);
    let tasks = tasks.map(|(task, widths)| WidthsReport {
        task: task.name.clone(),
        widths: widths.iter().map(width).collect(),
    });
    LendingReport {
        places: places(plan),
        homes: homes.collect(),
        loans: loans.collect(),
        tasks: tasks.collect(),
    }
}

/// How many places there are, and how much of the work runs there; none without places.
pub(super) fn status(plan: &Plan, metrics: &Metrics) -> Option<String> {
    let partitions = plan.partitions.iter().zip(&metrics.partitions);
    let (mut there, mut everywhere) = (0, 0);
    for (partition, metrics) in partitions {
        let finished = metrics.finished.load(Relaxed);
        everywhere += finished;
        there += if partition.is_place() { finished } else { 0 };
    }
    in_words(places(plan), there, everywhere)
}

/// With the stages that ran on places, and all.
fn in_words(places: u64, there: u64, everywhere: u64) -> Option<String> {
    let percent = 100 * there / everywhere.max(1);
    Some(format!("{}, {percent}% of stages there", count(places)?))
}

/// That stages may run on places, and on how many; none without places.
pub fn words(plan: &Plan) -> Option<String> {
    count(places(plan))
}

fn count(places: u64) -> Option<String> {
    match places {
        0 => None,
        1 => Some("lending on 1 place".into()),
        places => Some(format!("lending on {places} places")),
    }
}

fn places(plan: &Plan) -> u64 {
    let places = plan
        .partitions
        .iter()
        .filter(|partition| partition.is_place());
    places.count() as u64
}

fn ran(ran: Ran) -> RanReport {
    RanReport {
        stages: ran.stages,
        busy_us: us(ran.busy),
    }
}

fn width(width: &WidthUsage) -> WidthReport {
    WidthReport {
        units: width.units.into(),
        members: width.members,
    }
}

const fn us(time: Nanos) -> u64 {
    time.as_nanos() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_has_a_few_words_of_lending_and_none_without_places() {
        let said = |places, there, everywhere| in_words(places, there, everywhere);
        let expected = "lending on 1 place, 0% of stages there";
        assert_eq!(said(1, 0, 0).as_deref(), Some(expected));
        let expected = "lending on 3 places, 33% of stages there";
        assert_eq!(said(3, 4, 12).as_deref(), Some(expected));
        assert_eq!(said(0, 0, 12), None);
    }
}

//! Whose compute units the work of each home used: what a plan with places borrowed and lent, for reports and charts.
//! The *home* of a task is the partition to which the plan assigns it.

use alloc::vec::Vec;

use crate::config::{Config, Units};
use crate::ids::{PartitionId, TaskId};
use crate::time::Nanos;

/// Whose compute units a partition has, for work of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// Exactly those of the home.
    Home,
    /// A part of those of the home.
    Cell,
    /// At least one of another home.
    Borrowed,
}

impl Site {
    /// Where work of `home` is that runs on `units`.
    #[must_use]
    pub const fn of(home: Units, units: Units) -> Self {
        match home.common(units) {
            _ if home.first == units.first && home.count == units.count => Self::Home,
            common if common == units.count => Self::Cell,
            _ => Self::Borrowed,
        }
    }
}

/// Stages that came to their end, and their time on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    pub stages: u64,
    /// The sum of their measured times.
    pub busy: Nanos,
}

impl Ran {
    fn add(&mut self, other: Self) {
        self.stages += other.stages;
        self.busy += other.busy;
    }
}

/// What ran of one task on one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The stages whose first member was a request of the task. All members have the same home.
    pub ran: Ran,
    /// The members that were requests of the task, of all stages on the partition.
    pub members: u64,
}

/// What ran of the tasks of one home, by whose compute units it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeUsage {
    pub home: PartitionId,
    /// On exactly its compute units.
    pub own: Ran,
    /// On a part of them.
    pub cells: Ran,
    /// On units of other homes, or of others and its own.
    pub borrowed: Ran,
}

/// What ran of the tasks of one home on compute units of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    /// The home to which the units belong.
    pub owner: PartitionId,
    /// The home of the tasks.
    pub borrower: PartitionId,
    /// What ran on at least one of the units.
    pub ran: Ran,
    /// The sum over the stages: the owner's units that they used, times their time.
    pub unit_time: Nanos,
}

/// The members of stages that ran on partitions of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WidthUsage {
    pub units: u16,
    pub members: u64,
}

/// What ran where, summed by homes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// By rising position of the home.
    pub homes: Vec<HomeUsage>,
    /// The pairs of homes of which one used units of the other.
    pub loans: Vec<Loan>,
    /// By task: the widths on which stages of its requests ran, rising.
    pub widths: Vec<Vec<WidthUsage>>,
}

impl Usage {
    /// Sums what ran of each task on each partition.
    #[must_use]
    pub fn of(config: &Config, tally: impl Fn(TaskId, PartitionId) -> Tally) -> Self {
        let mut homes: Vec<PartitionId> = config.tasks.iter().map(|task| task.partition).collect();
        homes.sort_unstable();
        homes.dedup();
        let by_home = |home: PartitionId| {
            let partitions = (0..config.partitions.len()).map(|at| PartitionId(at as u16));
            let tasks = (0..).map(TaskId).zip(&config.tasks);
            let tasks = tasks.filter(|(_, task)| task.partition == home);
            let tasks: Vec<TaskId> = tasks.map(|(id, _)| id).collect();
            partitions
                .map(|at| {
                    let mut ran = Ran::default();
                    tasks.iter().for_each(|&task| ran.add(tally(task, at).ran));
                    (config.units(at), ran)
                })
                .collect::<Vec<_>>()
        };
        let ran: Vec<(PartitionId, Vec<(Units, Ran)>)> =
            homes.iter().map(|&home| (home, by_home(home))).collect();
        let tasks = (0..config.tasks.len()).map(|task| TaskId(task as u16));
        Self {
            homes: ran
                .iter()
                .map(|(home, ran)| home_usage(config, *home, ran))
                .collect(),
            loans: loans(config, &ran),
            widths: tasks
                .map(|task| widths(config, |at| tally(task, at).members))
                .collect(),
        }
    }

    /// The compute units of a home times the time for which stages of others used them.
    #[must_use]
    pub fn lent(&self, home: PartitionId) -> Nanos {
        let loans = self.loans.iter().filter(|loan| loan.owner == home);
        loans.fold(Nanos::ZERO, |sum, loan| sum + loan.unit_time)
    }
}

/// What ran of a home, given for each partition.
fn home_usage(config: &Config, home: PartitionId, ran: &[(Units, Ran)]) -> HomeUsage {
    let none = Ran::default();
    let mut usage = HomeUsage {
        home,
        own: none,
        cells: none,
        borrowed: none,
    };
    for (units, ran) in ran {
        let sum = match Site::of(config.units(home), *units) {
            Site::Home => &mut usage.own,
            Site::Cell => &mut usage.cells,
            Site::Borrowed => &mut usage.borrowed,
        };
        sum.add(*ran);
    }
    usage
}

fn loans(config: &Config, homes: &[(PartitionId, Vec<(Units, Ran)>)]) -> Vec<Loan> {
    let mut loans = Vec::new();
    for (owner, _) in homes {
        for (borrower, ran) in homes.iter().filter(|(borrower, _)| borrower != owner) {
            let mut loan = Loan {
                owner: *owner,
                borrower: *borrower,
                ran: Ran::default(),
                unit_time: Nanos::ZERO,
            };
            for (units, ran) in ran {
                let common = config.units(*owner).common(*units);
                if common > 0 {
                    loan.ran.add(*ran);
                    loan.unit_time += ran.busy.saturating_mul(common.into());
                }
            }
            if loan.ran.stages > 0 {
                loans.push(loan);
            }
        }
    }
    loans
}

fn widths(config: &Config, members: impl Fn(PartitionId) -> u64) -> Vec<WidthUsage> {
    let partitions = (0..config.partitions.len()).map(|at| PartitionId(at as u16));
    let used = partitions.map(|at| (config.units(at).count, members(at)));
    let mut used: Vec<(u16, u64)> = used.filter(|(_, members)| *members > 0).collect();
    used.sort_unstable();
    let mut widths: Vec<WidthUsage> = Vec::new();
    for (units, members) in used {
        match widths.last_mut() {
            Some(last) if last.units == units => last.members += members,
            _ => widths.push(WidthUsage { units, members }),
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::config::{Answers, Criticality, Delivery, PartitionConfig, TaskConfig};
    use crate::ids::{Confidence, ModelId, StageId};

    const fn units(first: u16, count: u16) -> Units {
        Units { first, count }
    }

    fn task(home: u16) -> TaskConfig {
        TaskConfig {
            model: ModelId(0),
            partition: PartitionId(home),
            criticality: Criticality::RealTime,
            deadline: None,
            period: Nanos::from_millis(10),
            burst: 1,
            jitter: Nanos::ZERO,
            prepare: Nanos::ZERO,
            mandatory_exit: StageId(0),
            threshold: Confidence(0),
            threshold_min: Confidence(0),
            batch_max: 1,
            queue_max: 1,
            reserved: false,
            answers: Answers::Final,
            weight: 1,
            offload_to: None,
            delivery: Delivery::EveryFrame,
        }
    }

    /// Two homes of two units, two tasks on the first and one on the second; a cell of the first, a place with the
    /// units of the second, and one of all units.
    fn plan() -> Config {
        let ranges = [
            units(0, 2),
            units(2, 2),
            units(0, 1),
            units(2, 2),
            units(0, 4),
        ];
        let partition = |units| PartitionConfig {
            units,
            preemption_bound: Nanos::ZERO,
            share_max: 1000,
        };
        Config {
            tasks: vec![task(0), task(0), task(1)],
            models: vec![],
            partitions: ranges.map(partition).into(),
            request_buffers: 1,
            pages: 0,
            dispatch_cost: Nanos::ZERO,
            egress_bound: Nanos::ZERO,
        }
    }

    const fn ran(stages: u64, us: u64) -> Ran {
        let busy = Nanos::from_micros(us);
        Ran { stages, busy }
    }

    #[test]
    fn a_site_is_borrowed_as_soon_as_one_unit_belongs_to_another_home() {
        let home = units(2, 4);
        assert_eq!(Site::of(home, units(2, 4)), Site::Home);
        assert_eq!(Site::of(home, units(2, 2)), Site::Cell);
        assert_eq!(Site::of(home, units(5, 1)), Site::Cell);
        assert_eq!(Site::of(home, units(1, 4)), Site::Borrowed);
        assert_eq!(Site::of(home, units(0, 8)), Site::Borrowed);
        assert_eq!(Site::of(home, units(6, 2)), Site::Borrowed);
    }

    #[test]
    fn stages_are_summed_by_home_and_lent_units_count_with_their_time() {
        let tally = |task: TaskId, at: PartitionId| match (task.0, at.0) {
            (0, 0) => (ran(1, 10), 1),
            (0, 2) => (ran(2, 30), 2),
            (0, 3) => (ran(4, 50), 5),
            (1, 3) => (ran(1, 5), 1),
            (1, 4) => (ran(1, 7), 3),
            (2, 1) => (ran(8, 90), 8),
            _ => (Ran::default(), 0),
        };
        let tally = |task, at| {
            let (ran, members) = tally(task, at);
            Tally { ran, members }
        };
        let usage = Usage::of(&plan(), tally);
        let first = HomeUsage {
            home: PartitionId(0),
            own: ran(1, 10),
            cells: ran(2, 30),
            borrowed: ran(6, 62),
        };
        let second = HomeUsage {
            home: PartitionId(1),
            own: ran(8, 90),
            cells: Ran::default(),
            borrowed: Ran::default(),
        };
        assert_eq!(usage.homes, [first, second]);
        let loan = Loan {
            owner: PartitionId(1),
            borrower: PartitionId(0),
            ran: ran(6, 62),
            // Both units of the second home, also for the stage that had its own two in addition to them.
            unit_time: Nanos::from_micros(124),
        };
        assert_eq!(usage.loans, [loan]);
        assert_eq!(usage.lent(PartitionId(1)), Nanos::from_micros(124));
        assert_eq!(usage.lent(PartitionId(0)), Nanos::ZERO);
        let width = |units, members| WidthUsage { units, members };
        assert_eq!(usage.widths[0], [width(1, 2), width(2, 6)]);
        assert_eq!(usage.widths[1], [width(2, 1), width(4, 3)]);
        assert_eq!(usage.widths[2], [width(2, 8)]);
    }
}

//! Making all tables and queues from a plan.

use crate::bounded::List;
use crate::config::{Config, PartitionConfig};
use crate::punctual::Punctual;
use crate::punctual::conduct::Conduct;
use crate::punctual::ledger::Ledger;
use crate::punctual::load::Load;
use crate::punctual::paging::Paging;
use crate::punctual::parameters::PunctualConfig;
use crate::punctual::partition::{Partition, Partitions};
use crate::punctual::price::Prices;
use crate::punctual::queues::Queues;
use crate::punctual::requests::Requests;
use crate::punctual::reservations::Reservations;
use crate::punctual::rhythm::Rhythm;
use crate::punctual::service::Service;
use crate::punctual::share::Share;
use crate::punctual::slack::Scan;
use crate::punctual::slot::Slot;
use crate::punctual::tables::Tables;
use crate::time::Instant;

impl Punctual {
    /// For a plan that has been checked.
    pub(crate) fn from_plan(config: &Config, parameters: PunctualConfig) -> Self {
        let tables = Tables::new(config, parameters.batching);
        let kept = tables.tasks().iter().map(|t| usize::from(t.kept)).sum();
        // Without a price there is no table of it.
        let priced = if parameters.price {
            tables.layouts()
        } else {
            0
        };
        let prices = (0..priced)
            .map(|layout| Prices::new(config, tables.tasks_in(layout), parameters.price_margin));
        Self {
            parameters,
            prices: prices.collect(),
            load: Load::new(config.tasks.len()),
            ledger: Ledger::new(config.tasks.len()),
            reservations: Reservations::new(config.tasks.len()),
            service: Service::new(config.tasks.len(), config.partitions.len()),
            rhythms: alloc::vec![Rhythm::default(); config.tasks.len()].into(),
            requests: Requests::new(config.request_buffers, kept),
            partitions: Partitions::new(
                (0..config.partitions.len())
                    .map(|index| partition(config, &tables, &parameters, index)),
            ),
            paging: Paging::new(config),
            now: Instant::ZERO,
            actions_ordered: 0,
            wanted_layout: 0,
            thinks_again: Instant::ZERO,
            moving: List::with_capacity(usize::from(config.request_buffers)),
            draining: false,
            shedding: false,
            stale_events: 0,
            tables,
            #[cfg(test)]
            ablation: None,
        }
    }
}

fn partition(
    config: &Config,
    tables: &Tables,
    parameters: &PunctualConfig,
    index: usize,
) -> Partition {
    let plan = &config.partitions[index];
    // All open requests may be at one partition.
    let buffers = usize::from(config.request_buffers);
    let reserved_in = |layout| {
        let tasks = tables.tasks_in(layout).iter().zip(&config.tasks);
        let here = tasks.filter(|(table, task)| table.partition.index() == index && task.reserved);
        here.count()
    };
    let reserved = (0..tables.layouts()).map(reserved_in).max();
    Partition::new(
        Slot::new(plan.preemption_bound + config.dispatch_cost),
        Queues::new(buffers),
        Scan::new(buffers, reserved.unwrap_or(0)),
        Conduct::new(config.models.len(), parameters),
        Share::new(plan.share_max),
        overlapping(&config.partitions, index),
    )
}

/// The other partitions that share a compute unit with this one.
fn overlapping(partitions: &[PartitionConfig], index: usize) -> alloc::boxed::Box<[u16]> {
    let own = partitions[index].units;
    let others = partitions.iter().enumerate();
    let others = others.filter(|(other, plan)| *other != index && plan.units.overlaps(own));
    others.map(|(other, _)| other as u16).collect()
}

//! What a decision about one partition looks at, and does not change: who decides what runs next
//! returns a choice, who decides when to look again a time.

use crate::punctual::ablation::Ablation;
use crate::punctual::parameters::PunctualConfig;
use crate::punctual::partition::Partition;
use crate::punctual::price::Prices;
use crate::punctual::requests::Requests;
use crate::punctual::rhythm::Rhythm;
use crate::punctual::service::Service;
use crate::punctual::tables::Tables;
use crate::time::Instant;

/// One partition at the time of this step, with all that is not a partition's own.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub now: Instant,
    pub parameters: &'a PunctualConfig,
    pub tables: &'a Tables,
    /// Of the present layout; none if there is no price.
    pub prices: Option<&'a Prices>,
    pub requests: &'a Requests,
    pub service: &'a Service,
    pub rhythms: &'a [Rhythm],
    pub partition: &'a Partition,
    pub shedding: bool,
    #[cfg(test)]
    pub ablation: Option<Ablation>,
}

impl View<'_> {
    #[cfg(test)]
    pub fn ablated(&self, ablation: Ablation) -> bool {
        self.ablation == Some(ablation)
    }

    #[cfg(not(test))]
    pub const fn ablated(&self, _: Ablation) -> bool {
        false
    }
}

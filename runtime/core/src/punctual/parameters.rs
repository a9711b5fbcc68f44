//! What of the policy can be switched off, to show what it is worth.

use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// Stages remembered of each model on each partition: the most that [`PunctualConfig`] may look at.
pub const WINDOW_MAX: usize = 16;

/// Parameters of the default policy. Its guarantee holds with every setting of the switches: they
/// only choose among what endangers no promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct PunctualConfig {
    /// Stages run in batches; off: one request at a time.
    pub batching: bool,
    /// Requests that wait at the same stage share a batch wherever they come from; off: after its
    /// first stage a request shares batches only with those that it shared the last one with.
    pub rebatching: bool,
    /// First answers come before deeper ones when more is asked than was planned for, and deeper
    /// ones go where they gain most; off: the request with the earliest deadline runs as deep as
    /// it wants and may, then the next.
    pub mandatory_first: bool,
    /// Promised work waits for a frame that is expected, if one batch then ends sooner; off: it never waits.
    pub waiting: bool,
    /// A deeper stage must gain enough for its time at the present load (the price of depth); off,
    /// which measures better (decision 7): any stage may run that endangers nothing.
    pub price: bool,
    /// How long before the end of an action (at budgets) the next may be handed to its partition,
    /// so that the device need not wait for a decision; 0, for devices that hold one action at a
    /// time: not before it has ended.
    pub launch_lead: Nanos,
    /// Thousandths of a partition that the price keeps free.
    pub price_margin: u16,
    /// How often the layout is chosen anew by what is asked.
    pub replan_interval: Nanos,
    /// A model that breaks its profile while others keep theirs loses its promises until it keeps it
    /// again; off: its overruns slow down all that run on its partition.
    pub demotion: bool,
    /// When so many of the newest `demote_of` real-time stages of a model on a partition overran; 1 to
    /// `demote_of`. Four of sixteen: a budget is a high quantile of what was measured, so that one in
    /// a hundred may overrun rightly, and a machine that stops for a moment costs a model one or two.
    pub demote_overruns: u8,
    /// 1 to 16.
    pub demote_of: u8,
    /// How many stages in a row a demoted model has to keep within its budgets to be reinstated.
    pub reinstate_after: u16,
    /// And for how long.
    pub reinstate_calm: Nanos,
}

impl PunctualConfig {
    /// What no plan can mean.
    pub(super) fn broken_rule(&self) -> Option<&'static str> {
        let window = 1..=WINDOW_MAX as u8;
        if !window.contains(&self.demote_of) {
            return Some("demote-of must be 1 to 16");
        }
        let possible = (1..=self.demote_of).contains(&self.demote_overruns);
        (!possible).then_some("demote-overruns must be 1 to demote-of")
    }
}

impl Default for PunctualConfig {
    fn default() -> Self {
        Self {
            batching: true,
            rebatching: true,
            mandatory_first: true,
            waiting: true,
            launch_lead: Nanos::ZERO,
            price: false,
            price_margin: 50,
            replan_interval: Nanos::from_millis(100),
            demotion: true,
            demote_overruns: 4,
            demote_of: 16,
            reinstate_after: 64,
            reinstate_calm: Nanos::from_millis(1_000),
        }
    }
}

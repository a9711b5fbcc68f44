//! The parameters of the policy. Each part that a switch turns off is a line of docs/results/ablation.md.

use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// The most stages of each model on each partition that are recorded, and so the largest
/// [`PunctualConfig::demote_of`].
pub const WINDOW_MAX: usize = 16;

/// Parameters of the default policy. Its guarantee holds with every setting of the switches, because they
/// only choose among actions that endanger no promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct PunctualConfig {
    /// Stages run in batches; off: one request at a time.
    pub batching: bool,
    /// Requests that wait for the same stage share a batch; off: after its first stage, a request shares
    /// batches only with the members of its last batch.
    pub rebatching: bool,
    /// While more requests arrive than were planned for, mandatory stages run before optional ones
    /// (decision 6), and optional stages run in the order of their gain; off: the request with the earliest
    /// deadline runs as deep as it may, then the next.
    pub mandatory_first: bool,
    /// A mandatory batch waits for an expected frame, if the larger batch ends sooner than two; off: it never
    /// waits.
    pub waiting: bool,
    /// Work runs on idle places of its model, too (`lending`); off: on its home only.
    pub lending: bool,
    /// A deeper stage must gain enough for its time at the present load (the price of depth); off, which
    /// measures better (decision 7): every stage that endangers no promise may run.
    pub price: bool,
    /// How long before the end of an action, if it takes its budget, the next may be handed to its partition.
    /// So the device need not wait for a decision. 0, for devices that hold one action at a time: the next
    /// one waits for the end.
    pub launch_lead: Nanos,
    /// Thousandths of a partition that the price keeps free.
    pub price_margin: u16,
    /// A model that breaks its profile while others keep theirs loses its promises until it keeps its profile
    /// again; off: its overruns make all budgets on its partition longer.
    pub demotion: bool,
    /// A model is demoted when this many of its newest `demote_of` real-time stages on a partition overran; 1
    /// to `demote_of`. Four of sixteen, because a budget is a high quantile of the measurements. One stage in
    /// a hundred may overrun without a defect, and a machine that stalls for a moment costs a model one or
    /// two.
    pub demote_overruns: u8,
    /// The size of that window: 1 to 16.
    pub demote_of: u8,
    /// How many stages in a row a demoted model must keep within its budgets to be reinstated.
    pub reinstate_after: u16,
    /// How much time must also have passed since its last overrun.
    pub reinstate_calm: Nanos,
}

impl PunctualConfig {
    /// The rule that a parameter breaks, if one does.
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
            lending: true,
            launch_lead: Nanos::ZERO,
            price: false,
            price_margin: 50,
            demotion: true,
            demote_overruns: 4,
            demote_of: 16,
            reinstate_after: 64,
            reinstate_calm: Nanos::from_millis(1_000),
        }
    }
}

//! Which sessions share which partition of which board, at which batch sizes: the planner of Nexus
//! (Shen et al., SOSP 2019, sections 4 and 6), as pure functions.
//!
//! A *session* is all requests for one model with one deadline (its latency objective). A *node* is
//! a partition of a board. A node runs its sessions in turn, one batch of each in a *duty cycle*.
//! A request that just missed its session's batch waits a whole cycle and then for its own batch,
//! so with cycle d and batch time L(b) it takes at most d + L(b).
//!
//! How long an input takes depends on the size of the batch that it is in, and this on the cycle: the
//! items of this bin packing are squishy. [`pack`] is the published greedy algorithm, [`fewest_nodes`]
//! the optimum by trying all subsets, [`split`] divides the deadline of a query of several models,
//! [`combine`] makes one session of several that begin with the same stages.

mod combine;
mod cost;
mod cycle;
mod exact;
mod rate;
mod squishy;
#[cfg(test)]
mod tests;
mod times;

pub use combine::{Branch, combine};
pub use cost::{Choice, StageCost};
pub use cycle::{Cycle, Load, Run, Session};
pub use exact::{LOADS_MAX, fewest_nodes};
pub use punctual_plan::{Flow, Split, even_split, split};
pub use rate::Rate;
pub use squishy::{Bin, Merging, Node, Packing, Shelf, pack};
pub use times::{BatchTimes, TimesError};

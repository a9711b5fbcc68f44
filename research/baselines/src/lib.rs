//! What published systems and servers do, each as its source describes it, so that they can be compared with Punctual on the
//! same plans, in simulation and on a board. They promise nothing: their plans need not pass the offline test.
//!
//! All but `punctual` are rules for the batch runner of [`punctual_policy_seeb::batch_runner`]. To add one: a file here with its
//! parameters, its [`PolicySpec`](punctual_core::PolicySpec) and its rules; a line in [`all`]; its name in
//! [`punctual_plan::PUBLISHED`].
#![forbid(unsafe_code)]

mod batch;
mod branchynet;
mod clipper;
mod clockwork;
mod deeprt;
mod edgeserving;
mod gslice;
mod lines;
mod nexus;
mod seq;
mod streams;

use punctual_plan::Policies;

pub use batch::BatchConfig;
pub use branchynet::BranchynetConfig;
pub use clipper::ClipperConfig;
pub use clockwork::ClockworkConfig;
pub use deeprt::DeeprtConfig;
pub use edgeserving::EdgeservingConfig;
pub use gslice::GsliceConfig;
pub use nexus::{NexusConfig, NexusDrop};
pub use seq::SeqConfig;
pub use streams::StreamsConfig;

/// Those that ship, and the published ones. The fuzzer draws by position: new ones go to the end.
#[must_use]
pub fn all() -> Policies {
    Policies::shipped()
        .with::<ClockworkConfig>()
        .with::<BatchConfig>()
        .with::<DeeprtConfig>()
        .with::<GsliceConfig>()
        .with::<BranchynetConfig>()
        .with::<ClipperConfig>()
        .with::<NexusConfig>()
        .with::<EdgeservingConfig>()
        .with::<SeqConfig>()
        .with::<StreamsConfig>()
}

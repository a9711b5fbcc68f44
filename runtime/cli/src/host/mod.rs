//! What on a machine will cost latency, and the command that mends it.
//!
//! [`examine`] is a function of the kernel's files ([`Machine`]) and of the cores that matter: it
//! changes nothing, and a machine that was recorded gives the same findings anywhere.

mod finding;
mod machine;
mod reference;
mod remedy;
mod rules;
mod subject;
mod table;

pub use finding::{Cores, Finding, Gravity};
pub use machine::Machine;
pub use punctual_platform::affinity::shown;
pub use reference::Reference;
pub use subject::Subject;
pub use table::table;

/// Every property that the machine lets one see, in the order of [`Subject`].
pub fn examine(machine: &Machine, cores: &Cores) -> Vec<Finding> {
    rules::all(machine, cores)
}

/// Whether anything is so wrong that promises cannot be kept.
pub fn any_grave(findings: &[Finding]) -> bool {
    findings.iter().any(|f| f.gravity == Gravity::Grave)
}

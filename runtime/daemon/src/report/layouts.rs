//! Layouts: which one is the present one, and how often each was changed to.

use serde::{Deserialize, Serialize};

/// Only of a plan with several layouts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutsReport {
    /// The name of the present one.
    pub present: String,
    /// Changes so far.
    pub changes: u64,
    /// The first, and the others in the manifest's order.
    pub layouts: Vec<LayoutReport>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutReport {
    pub name: String,
    /// Changes to it.
    pub entered: u64,
}

//! What a fleet's plan is made from.

use std::path::PathBuf;

use punctual_plan::{PackageInput, ProfileInput};

/// Everything that goes into a fleet's plan: the same inputs give the same plan.
#[derive(Clone, Debug, Default)]
pub struct FleetInputs {
    /// The fleet file, for messages.
    pub path: PathBuf,
    pub text: String,
    /// The packages that its models name, by the path as written there.
    pub packages: Vec<PackageInput>,
    pub profiles: Vec<ProfileInput>,
}

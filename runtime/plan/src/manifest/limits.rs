//! How large a manifest may be. The scheduler's bound on a step rests on it.

pub(crate) const TASKS_MAX: usize = 64;
pub(crate) const MODELS_MAX: usize = 32;
pub(crate) const PARTITIONS_MAX: usize = 32;
pub(crate) const CLIENT_SLOTS_MAX: usize = 64;

//! How large a manifest may be. The scheduler's bound on a step rests on it: a step looks at open requests, whose number the
//! places for clients limit, and at reserved tasks, whose number a partition's time limits. Unreserved tasks cost it nothing.

use punctual_core::PLACED_PARTITIONS_MAX;

pub(crate) const TASKS_MAX: usize = 4096;
pub(crate) const MODELS_MAX: usize = 4096;
pub(crate) const PARTITIONS_MAX: usize = 32;
/// Of those that are written out. All partitions and places together are no more than the scheduler has bits for.
pub(crate) const PLACES_MAX: usize = PLACED_PARTITIONS_MAX - PARTITIONS_MAX;
pub(crate) const CLIENT_SLOTS_MAX: usize = 64;

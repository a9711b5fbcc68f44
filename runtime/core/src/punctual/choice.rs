//! What a decision about a partition comes to.

use crate::ids::BATCH_MAX;
use crate::punctual::slot::Kind;
use crate::punctual::tables::Row;

/// A stage to run, with its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub kind: Kind,
    pub row: Row,
    /// Position of the batch size in the row's sizes.
    pub size: usize,
    /// Buffers.
    pub members: heapless::Vec<u16, BATCH_MAX>,
    /// How much later than now it may start without harm, in nanoseconds (m of the policy); not
    /// positive: not at all. Best-effort: without regard to real-time work, which preempts it.
    pub spare: i64,
}

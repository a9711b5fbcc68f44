//! The result of a decision about a partition: one batch of one stage.

use crate::ids::BATCH_MAX;
use crate::punctual::slot::Kind;
use crate::punctual::tables::Row;

/// A stage to run, with its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub kind: Kind,
    /// The partition whose queues the members come from.
    pub home: usize,
    pub row: Row,
    /// Position of the batch size in the row's sizes.
    pub size: usize,
    /// The members' request buffers.
    pub members: heapless::Vec<u16, BATCH_MAX>,
    /// How much later the stage may start without breaking a promise, in nanoseconds. Zero or less: it
    /// may not start later. Best-effort work ignores promises here, as real-time work preempts it.
    pub start_slack: i64,
}

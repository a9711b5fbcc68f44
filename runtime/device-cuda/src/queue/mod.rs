//! Virtual host queues: launches go to the driver a few at a time, and come back by a word.
//!
//! A stage's launches are known beforehand; a queue hands over the next one only while few wait in the
//! driver ([`Ledger`]). To evict, the queue's epoch moves on: what is still on the host was never
//! handed over, what waits in the driver finds another epoch at its first block and empties itself
//! within microseconds, what runs ends at its next block or tile. The device notes the first evicted
//! launch, a kernel of one thread behind it reports that to the host, and the stage resumes exactly there.
//!
//! Nothing is left to reclaim: the driver copies a launch's parameters when it takes the launch, and
//! they lie nowhere else. So no memory of evicted launches is freed on the way of the real-time work
//! that they make room for, or ever.
//!
//! Progress needs no driver call: each launch writes how far the list has come when it begins, evicted or not, and the last one that
//! the stage is done, into words of page-locked host memory. Only after an eviction the driver is
//! asked whether the stream has run empty.

mod ledger;
mod virtual_queue;
mod words;

use punctual_device::Mechanism;

/// An epoch that blocks look at, and launches that empty themselves.
pub const MECHANISM: Mechanism = Mechanism(1);

pub use ledger::{Ledger, NONE_EVICTED, NotHandedOver};
pub use virtual_queue::{FlagPlace, QueueSpec, VirtualQueue};
pub use words::{EpochFlag, StopFlag};

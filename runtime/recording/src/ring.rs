//! From the scheduler's thread to the recorder's: steps, without an allocation, a lock or a system call.
//!
//! The cells are the scheduler's own types. What they would take as bytes is less memory and many more instructions: encoding
//! is the ordinary thread's work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_core::{Action, Actions, Event, Instant, Nanos};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::entry::Step;

/// A step's cells lie one behind the other: its event, and each of its actions.
// A box for the largest would be allocated each time.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
enum Cell {
    Event {
        /// Steps that found no room, between the last one here and this one.
        lost_before: u64,
        now: Instant,
        took: Nanos,
        event: Event,
        actions: usize,
    },
    Action(Action),
}

/// The bytes of one cell.
pub const CELL_BYTES: usize = size_of::<Cell>();

/// The scheduler's end.
#[derive(Debug)]
pub struct StepSink {
    cells: Producer<Cell>,
    /// Steps that found no room since the last one that did.
    lost: u64,
    lost_in_all: Arc<AtomicU64>,
}

/// The recorder's end.
#[derive(Debug)]
pub struct StepSource {
    cells: Consumer<Cell>,
    lost_in_all: Arc<AtomicU64>,
}

/// A step that was taken out.
#[derive(Debug)]
pub struct Told {
    /// Steps before it that found no room.
    pub lost_before: u64,
    pub step: Step,
}

/// A ring of so many cells, the only allocation.
#[must_use]
pub fn steps(cells: usize) -> (StepSink, StepSource) {
    let (producer, consumer) = RingBuffer::new(cells);
    let lost_in_all = Arc::new(AtomicU64::new(0));
    let sink = StepSink {
        cells: producer,
        lost: 0,
        lost_in_all: Arc::clone(&lost_in_all),
    };
    let source = StepSource {
        cells: consumer,
        lost_in_all,
    };
    (sink, source)
}

impl StepSink {
    /// Writes a step, whole, or counts it as lost.
    pub fn write(&mut self, now: Instant, took: Nanos, event: &Event, actions: &Actions) {
        let count = actions.len();
        let Ok(chunk) = self.cells.write_chunk_uninit(1 + count) else {
            self.lost += 1;
            // Relaxed: a count that orders nothing.
            self.lost_in_all.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let head = Cell::Event {
            lost_before: std::mem::take(&mut self.lost),
            now,
            took,
            event: event.clone(),
            actions: count,
        };
        let actions = actions.iter().cloned().map(Cell::Action);
        chunk.fill_from_iter(std::iter::once(head).chain(actions));
    }
}

impl StepSource {
    /// Takes the oldest step out.
    pub fn take(&mut self) -> Option<Told> {
        let Cell::Event {
            lost_before,
            now,
            took,
            event,
            actions,
        } = self.cells.pop().ok()?
        else {
            unreachable!("a step is written whole, and read whole");
        };
        let actions = (0..actions).map_while(|_| match self.cells.pop() {
            Ok(Cell::Action(action)) => Some(action),
            _ => None,
        });
        let step = Step {
            now,
            took,
            event,
            actions: actions.collect(),
        };
        Some(Told { lost_before, step })
    }

    /// Steps that found no room, in all.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_in_all.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{ActionId, Config, PartitionId};

    use super::*;

    fn preempt(action: u64) -> Action {
        Action::Preempt {
            partition: PartitionId(0),
            action: ActionId(action),
        }
    }

    fn actions(count: u64) -> Actions {
        let mut actions = Actions::for_config(&Config {
            tasks: Vec::new(),
            models: Vec::new(),
            partitions: Vec::new(),
            request_buffers: 8,
            pages: 0,
            dispatch_cost: Nanos::ZERO,
            egress_bound: Nanos::ZERO,
        });
        (0..count).for_each(|id| actions.push(preempt(id)));
        actions
    }

    fn write(sink: &mut StepSink, at: u64, count: u64) {
        let now = Instant::from_nanos(at);
        sink.write(now, Nanos::new(7), &Event::Tick, &actions(count));
    }

    #[test]
    fn steps_come_out_whole_with_their_actions() {
        let (mut sink, mut source) = steps(8);
        for at in 0..5 {
            write(&mut sink, at, at % 3);
            let told = source.take().expect("it is there");
            assert_eq!((told.lost_before, told.step.now.as_nanos()), (0, at));
            assert_eq!(told.step.took, Nanos::new(7));
            let written: Vec<Action> = (0..at % 3).map(preempt).collect();
            assert_eq!(told.step.actions, written);
            assert!(source.take().is_none());
        }
    }

    #[test]
    fn a_step_without_room_for_all_of_it_is_lost_and_the_next_one_says_so() {
        let (mut sink, mut source) = steps(4);
        write(&mut sink, 1, 2);
        write(&mut sink, 2, 1);
        write(&mut sink, 3, 3);
        write(&mut sink, 4, 0);
        assert_eq!(source.lost(), 2);
        assert_eq!(source.take().expect("the first").step.actions.len(), 2);
        let last = source.take().expect("the last");
        assert_eq!((last.lost_before, last.step.now.as_nanos()), (2, 4));
    }
}

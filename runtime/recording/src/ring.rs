//! From the scheduler's thread to the recorder's: steps, without an allocation, a lock or a system call.
//!
//! The cells are the scheduler's own types. What they would take as bytes is less memory and many more instructions: encoding
//! is the ordinary thread's work. Only after steps were lost, the scheduler's thread writes its state, which nothing else knows
//! then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_core::{Action, Actions, Event, Instant, Nanos, Scheduler};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::entry::Step;

/// Room for a state. One that is longer is not written: steps that follow lost ones cannot be replayed then.
const STATE_BYTES: usize = 64 << 10;

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
        /// Whether the state behind this step is in the ring of states.
        has_state: bool,
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
    /// Whether steps were lost since the recorder last knew the state.
    is_state_wanted: bool,
    states: Producer<SavedState>,
    /// Where the next state is written; with the recorder while it reads the last one.
    room: Consumer<Box<[u8]>>,
}

/// The recorder's end.
#[derive(Debug)]
pub struct StepSource {
    cells: Consumer<Cell>,
    lost_in_all: Arc<AtomicU64>,
    states: Consumer<SavedState>,
    room: Producer<Box<[u8]>>,
}

#[derive(Debug)]
struct SavedState {
    bytes: Box<[u8]>,
    /// None: it is longer, or the policy keeps none.
    length: Option<usize>,
}

/// A step that was taken out.
#[derive(Debug)]
pub struct Told {
    /// Steps before it that found no room.
    pub lost_before: u64,
    pub step: Step,
    /// The scheduler's state behind it, if steps before it were lost.
    pub state: Option<Vec<u8>>,
}

/// A ring of this many cells, the only allocation. Its memory is there: no page of it is touched for the first time later.
#[must_use]
pub fn steps(cells: usize) -> (StepSink, StepSource) {
    let (producer, consumer) = RingBuffer::new(cells);
    let (states, states_out) = RingBuffer::new(1);
    let (mut room, room_out) = RingBuffer::new(1);
    // Written, as memory of zeros alone is not there yet.
    let _ = room.push(vec![u8::MAX; STATE_BYTES].into_boxed_slice());
    let lost_in_all = Arc::new(AtomicU64::new(0));
    let mut sink = StepSink {
        cells: producer,
        lost: 0,
        lost_in_all: Arc::clone(&lost_in_all),
        is_state_wanted: false,
        states,
        room: room_out,
    };
    let mut source = StepSource {
        cells: consumer,
        lost_in_all,
        states: states_out,
        room,
    };
    sink.touch_all(&mut source);
    (sink, source)
}

impl StepSink {
    fn touch_all(&mut self, source: &mut StepSource) {
        for _ in 0..self.cells.slots() {
            let _ = self.cells.push(Cell::Event {
                lost_before: 0,
                now: Instant::ZERO,
                took: Nanos::ZERO,
                event: Event::Tick,
                actions: 0,
                has_state: false,
            });
        }
        while source.cells.pop().is_ok() {}
    }

    /// Writes a step, whole, or counts it as lost. `scheduler` is as it is behind it.
    pub fn write(
        &mut self,
        now: Instant,
        took: Nanos,
        event: &Event,
        actions: &Actions,
        scheduler: &Scheduler,
    ) {
        let count = actions.len();
        if self.cells.slots() <= count {
            self.lost += 1;
            self.is_state_wanted = true;
            // Relaxed: a count that orders nothing.
            self.lost_in_all.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let has_state = self.is_state_wanted && self.save(scheduler);
        let lost_before = std::mem::take(&mut self.lost);
        // There is room, as no other thread writes. The reader may see the first cells of a step before the last ones.
        let _ = self.cells.push(Cell::Event {
            lost_before,
            now,
            took,
            event: event.clone(),
            actions: count,
            has_state,
        });
        for action in actions {
            let _ = self.cells.push(Cell::Action(action.clone()));
        }
    }

    /// Writes the state, if the recorder does not have the room for it still.
    #[cold]
    fn save(&mut self, scheduler: &Scheduler) -> bool {
        let Ok(mut bytes) = self.room.pop() else {
            return false;
        };
        self.is_state_wanted = false;
        let length = scheduler.save_into(&mut bytes);
        self.states.push(SavedState { bytes, length }).is_ok()
    }
}

impl StepSource {
    /// Takes the oldest step out.
    pub fn take(&mut self) -> Option<Told> {
        // The last cells of a step may be on their way.
        match self.cells.peek() {
            Ok(Cell::Event { actions, .. }) if self.cells.slots() > *actions => {}
            _ => return None,
        }
        let Cell::Event {
            lost_before,
            now,
            took,
            event,
            actions,
            has_state,
        } = self.cells.pop().ok()?
        else {
            unreachable!("it was looked at before");
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
        let state = has_state.then(|| self.state()).flatten();
        Some(Told {
            lost_before,
            step,
            state,
        })
    }

    /// The state that was written, if one was; its room goes back.
    fn state(&mut self) -> Option<Vec<u8>> {
        let SavedState { bytes, length } = self.states.pop().ok()?;
        let state = length.and_then(|length| Some(bytes.get(..length)?.to_vec()));
        let _ = self.room.push(bytes);
        state
    }

    /// Steps that found no room, in all.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_in_all.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{ActionId, Config, PartitionId, PunctualConfig};
    use punctual_policy_testing::plans::random_plan;
    use punctual_types::Random;

    use super::*;

    fn preempt(action: u64) -> Action {
        Action::Preempt {
            partition: PartitionId(0),
            action: ActionId(action),
        }
    }

    /// A scheduler that a plan could be made for, with its plan.
    fn scheduler() -> (Scheduler, Config) {
        let policy = PunctualConfig::default();
        let of = |seed| {
            let config = random_plan(&policy, &mut Random::new(seed));
            Some((Scheduler::new(&config, &policy).ok()?, config))
        };
        (0..).find_map(of).expect("many")
    }

    /// Writes a step with this many actions.
    fn write(sink: &mut StepSink, at: u64, count: u64) {
        let (scheduler, config) = scheduler();
        let mut actions = Actions::for_config(&config);
        (0..count).for_each(|id| actions.push(preempt(id)));
        let now = Instant::from_nanos(at);
        sink.write(now, Nanos::new(7), &Event::Tick, &actions, &scheduler);
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
            assert!(told.state.is_none() && source.take().is_none());
        }
    }

    #[test]
    fn a_step_without_room_for_all_of_it_is_lost_and_the_next_one_says_so_with_the_state() {
        let (mut sink, mut source) = steps(4);
        write(&mut sink, 1, 2);
        write(&mut sink, 2, 1);
        write(&mut sink, 3, 3);
        write(&mut sink, 4, 0);
        assert_eq!(source.lost(), 2);
        let first = source.take().expect("the first");
        assert_eq!((first.step.actions.len(), first.state), (2, None));
        let last = source.take().expect("the last");
        assert_eq!((last.lost_before, last.step.now.as_nanos()), (2, 4));
        assert_eq!(last.state, scheduler().0.state());
        write(&mut sink, 5, 0);
        assert!(source.take().expect("the next").state.is_none());
    }

    #[test]
    fn while_the_recorder_has_not_read_a_state_the_next_one_waits() {
        let (mut sink, mut source) = steps(2);
        let fill = |sink: &mut StepSink| (0..3).for_each(|at| write(sink, at, 0));
        fill(&mut sink);
        source.take().expect("there are two");
        // The first state.
        write(&mut sink, 4, 0);
        write(&mut sink, 5, 0);
        source.take().expect("there are two");
        // Its room is in the ring.
        write(&mut sink, 6, 0);
        let told: Vec<Told> = std::iter::from_fn(|| source.take()).collect();
        let has_state: Vec<bool> = told.iter().map(|told| told.state.is_some()).collect();
        assert_eq!(has_state, [true, false]);
        write(&mut sink, 7, 0);
        assert!(source.take().expect("it is there").state.is_some());
    }
}

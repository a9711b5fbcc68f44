//! `wait → step → carry out`, for ever.

use punctual_core::{Action, Actions, Event, Instant, Nanos, Scheduler};

/// What the scheduler's decisions act upon: the daemon's channel and devices, or a simulation in virtual time.
pub trait World {
    /// The present, on the clock that all instants are on.
    fn now(&self) -> Instant;

    /// Blocks until something happened or `until` has come (`None`: no limit), then appends what
    /// happened to `events`, oldest first. May return with nothing. Must not append more than
    /// [`Events::room`] allows: what does not fit stays where it is for the next call.
    fn wait(&mut self, until: Option<Instant>, events: &mut Events);

    /// Does what the scheduler decided, or arranges for an event that says it could not be done. Never blocks.
    fn carry_out(&mut self, action: &Action);

    /// Told before each step of what the scheduler is about to learn.
    fn deciding(&mut self, _event: &Event) {}

    /// Told of each step once its actions are carried out, and of the scheduler as it is then.
    fn stepped(&mut self, _scheduler: &Scheduler, _step: &Step<'_>) {}

    /// True when the loop is to end even though requests are open (the drain's bound is over).
    fn ended(&self) -> bool {
        false
    }
}

/// A step that was taken.
#[derive(Clone, Copy, Debug)]
pub struct Step<'s> {
    /// The time that the scheduler was told.
    pub now: Instant,
    pub event: &'s Event,
    pub actions: &'s Actions,
    /// From `now` until the last action was carried out.
    pub took: Nanos,
}

/// A buffer of events with a capacity fixed at construction.
#[derive(Debug)]
pub struct Events {
    list: Vec<Event>,
    capacity: usize,
}

impl Events {
    /// An empty buffer for `capacity` events; the only allocation.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            list: Vec::with_capacity(capacity),
            capacity,
        }
    }

    #[must_use]
    pub fn room(&self) -> usize {
        self.capacity - self.list.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The events, oldest first.
    pub fn iter(&self) -> std::slice::Iter<'_, Event> {
        self.list.iter()
    }

    /// Appends an event.
    ///
    /// # Panics
    /// If there is no [`room`](Self::room): the world broke its contract.
    pub fn push(&mut self, event: Event) {
        assert!(
            self.room() > 0,
            "World::wait appended more than {} events",
            self.capacity
        );
        self.list.push(event);
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = &'a Event;
    type IntoIter = std::slice::Iter<'a, Event>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Runs `scheduler` on `world` until it is drained, or the world says that it ended.
///
/// Nothing is allocated in here: `events` and `actions` are made before the ready signal.
pub fn drive<W: World>(
    scheduler: &mut Scheduler,
    world: &mut W,
    events: &mut Events,
    actions: &mut Actions,
) {
    while !scheduler.drained() && !world.ended() {
        world.wait(scheduler.next_timer(), events);
        for event in events.list.drain(..) {
            step(scheduler, world, &event, actions);
        }
        if scheduler
            .next_timer()
            .is_some_and(|timer| timer <= world.now())
        {
            step(scheduler, world, &Event::Tick, actions);
        }
    }
}

fn step<W: World>(scheduler: &mut Scheduler, world: &mut W, event: &Event, actions: &mut Actions) {
    world.deciding(event);
    let now = world.now();
    actions.clear();
    scheduler.step(now, event, actions);
    for action in actions.iter() {
        world.carry_out(action);
    }
    let took = world.now().since(now);
    let step = Step {
        now,
        event,
        actions,
        took,
    };
    world.stepped(scheduler, &step);
}

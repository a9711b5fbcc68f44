//! The scheduler's thread: the one loop, on the daemon's world.

use punctual_plan::Plan;
use std::sync::Arc;

use punctual_core::{Actions, ConfigError, Scheduler};
use punctual_device::Device;
use punctual_executor::{Events, drive};
use punctual_platform::poll::Waker;

use crate::drain::Flag;
use crate::world::DaemonWorld;

/// Events taken from the rings between two looks at the clock.
const EVENTS: usize = 64;

/// What the scheduler's thread works with.
pub struct Driver<D> {
    scheduler: Scheduler,
    world: DaemonWorld<D>,
    events: Events,
    actions: Actions,
    /// Raised when the drain is over.
    drained: Arc<Flag>,
    stop: Arc<Flag>,
    housekeeping: Waker,
}

impl<D: Device> Driver<D> {
    pub fn new(
        plan: &Plan,
        world: DaemonWorld<D>,
        drained: Arc<Flag>,
        stop: Arc<Flag>,
        housekeeping: Waker,
    ) -> Result<Self, ConfigError> {
        let actions = Actions::for_config(&plan.scheduler);
        let scheduler = Scheduler::new(&plan.scheduler, &plan.policy)?;
        world.assume(&scheduler);
        Ok(Self {
            scheduler,
            world,
            events: Events::with_capacity(EVENTS),
            actions,
            drained,
            stop,
            housekeeping,
        })
    }

    /// Drives until the drain is over. Then refuses what ports took before they saw the order to drain, and waits for the
    /// stop flag, so that its page faults can still be read. Returns itself, so that nothing is freed on this thread.
    pub fn serve(mut self) -> Self {
        drive(
            &mut self.scheduler,
            &mut self.world,
            &mut self.events,
            &mut self.actions,
        );
        self.drained.raise();
        self.housekeeping.wake();
        loop {
            // Before the rings and the flag: a bell in between ends the wait below.
            let seen = self.world.bell.count();
            let stopping = self.stop.is_raised();
            self.world.refuse_the_rest();
            if stopping {
                return self;
            }
            self.world.heart.waiting();
            self.world.bell.wait(seen, None);
        }
    }
}

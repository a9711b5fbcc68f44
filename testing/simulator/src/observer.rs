//! What observes a run: an auditor, or the recorder of a chart.

use punctual_core::{Action, ActionId, Event, Instant, PartitionId, Scheduler};

/// Sees a run from outside, and changes nothing. Events and actions come in the order in which the
/// scheduler learns of the ones and decides the others.
pub trait Observer {
    /// The scheduler is about to learn of `event` at `now`.
    fn event(&mut self, _now: Instant, _event: &Event) {}

    fn action(&mut self, _now: Instant, _action: &Action) {}

    /// An action was on the device. Called just before the scheduler learns of its end.
    fn ran(&mut self, _span: &Span) {}

    /// The scheduler has decided, and its actions are carried out.
    fn stepped(&mut self, _now: Instant, _scheduler: &Scheduler) {}

    fn end(&mut self, _now: Instant) {}
}

/// The time that an action was on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub action: ActionId,
    pub partition: PartitionId,
    pub from: Instant,
    pub to: Instant,
    /// Whether it came to its end; else it was stopped, or failed.
    pub finished: bool,
}

impl Observer for () {}

impl<A: Observer, B: Observer> Observer for (A, B) {
    fn event(&mut self, now: Instant, event: &Event) {
        self.0.event(now, event);
        self.1.event(now, event);
    }

    fn action(&mut self, now: Instant, action: &Action) {
        self.0.action(now, action);
        self.1.action(now, action);
    }

    fn ran(&mut self, span: &Span) {
        self.0.ran(span);
        self.1.ran(span);
    }

    fn stepped(&mut self, now: Instant, scheduler: &Scheduler) {
        self.0.stepped(now, scheduler);
        self.1.stepped(now, scheduler);
    }

    fn end(&mut self, now: Instant) {
        self.0.end(now);
        self.1.end(now);
    }
}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn event(&mut self, now: Instant, event: &Event) {
        (**self).event(now, event);
    }

    fn action(&mut self, now: Instant, action: &Action) {
        (**self).action(now, action);
    }

    fn ran(&mut self, span: &Span) {
        (**self).ran(span);
    }

    fn stepped(&mut self, now: Instant, scheduler: &Scheduler) {
        (**self).stepped(now, scheduler);
    }

    fn end(&mut self, now: Instant) {
        (**self).end(now);
    }
}

impl<O: Observer> Observer for Option<O> {
    fn event(&mut self, now: Instant, event: &Event) {
        self.iter_mut()
            .for_each(|observer| observer.event(now, event));
    }

    fn action(&mut self, now: Instant, action: &Action) {
        self.iter_mut()
            .for_each(|observer| observer.action(now, action));
    }

    fn ran(&mut self, span: &Span) {
        self.iter_mut().for_each(|observer| observer.ran(span));
    }

    fn stepped(&mut self, now: Instant, scheduler: &Scheduler) {
        self.iter_mut()
            .for_each(|observer| observer.stepped(now, scheduler));
    }

    fn end(&mut self, now: Instant) {
        self.iter_mut().for_each(|observer| observer.end(now));
    }
}

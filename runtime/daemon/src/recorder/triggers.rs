//! Which steps are incidents: the black box is written then.

use punctual_core::{
    Action, ActionId, Config, Criticality, Event, Finished, Infer, Nanos, Verdict,
};
use punctual_recording::Step;

/// A stage that takes this many times its budget is an incident. What is beyond its budget by less is what the margins of
/// other stages, and demotion, are for.
const OVERRUN_TIMES: u64 = 2;

/// Why a recording was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// `SIGUSR2`.
    Requested,
    /// A frame that was promised an answer in time got it late.
    LatePromise,
    Overrun,
    Demoted,
    DeviceFault,
    /// The machine runs others instead of the daemon's threads.
    Starved,
    /// A real-time thread no longer moves; the daemon ends.
    Stuck,
    /// The recorder's own scheduler decided otherwise: a defect of Punctual, or of the machine.
    Differs,
}

impl Trigger {
    /// As in names of files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::LatePromise => "late",
            Self::Overrun => "overrun",
            Self::Demoted => "demoted",
            Self::DeviceFault => "device-fault",
            Self::Starved => "starved",
            Self::Stuck => "stuck",
            Self::Differs => "differs",
        }
    }

    /// Whether what comes next belongs to it, too.
    pub const fn has_consequences(self) -> bool {
        !matches!(self, Self::Requested | Self::Stuck)
    }
}

/// A real-time stage that the device has.
struct Running {
    action: ActionId,
    budget: Nanos,
}

/// Looks at each step.
pub struct Triggers {
    config: Config,
    /// At most two for each partition.
    running: Vec<Running>,
}

impl Triggers {
    pub fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            running: Vec::with_capacity(2 * config.partitions.len()),
        }
    }

    /// What is wrong, if so.
    pub fn look(&mut self, step: &Step) -> Option<Trigger> {
        let of_event = match &step.event {
            Event::Finished(finished) => self.finished(finished),
            Event::Failed { action } => {
                self.ended(*action);
                Some(Trigger::DeviceFault)
            }
            Event::NotRun { action } | Event::Preempted { action } => {
                self.ended(*action);
                None
            }
            Event::Starved { starved: true, .. } => Some(Trigger::Starved),
            _ => None,
        };
        let mut trigger = of_event;
        for action in &step.actions {
            trigger = trigger.or(self.decided(action));
        }
        trigger
    }

    fn decided(&mut self, action: &Action) -> Option<Trigger> {
        match action {
            Action::Infer(infer) if infer.criticality == Criticality::RealTime => {
                self.running.push(Running {
                    action: infer.id,
                    budget: self.budget(infer),
                });
                None
            }
            Action::Reply(reply) if reply.verdict == Verdict::Late => {
                let is_promised = self.config.tasks[reply.task.index()].reserved;
                is_promised.then_some(Trigger::LatePromise)
            }
            Action::Demote(_) => Some(Trigger::Demoted),
            _ => None,
        }
    }

    fn budget(&self, infer: &Infer) -> Nanos {
        let stage = &self.config.models[infer.model.index()].stages[infer.stage.index()];
        let mut times = stage.times.iter();
        let time = times.find(|time| time.batch == infer.batch);
        time.map_or(Nanos::MAX, |time| time.on[infer.partition.index()].budget)
    }

    fn ended(&mut self, action: ActionId) -> Option<Running> {
        let mut running = self.running.iter();
        let at = running.position(|running| running.action == action)?;
        Some(self.running.swap_remove(at))
    }

    fn finished(&mut self, finished: &Finished) -> Option<Trigger> {
        let running = self.ended(finished.action)?;
        let limit = running.budget.saturating_mul(OVERRUN_TIMES);
        (finished.measured > limit).then_some(Trigger::Overrun)
    }
}

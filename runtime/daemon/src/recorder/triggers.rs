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
                self.forget_unreported();
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

    /// An action that the device never reports would stay.
    fn forget_unreported(&mut self) {
        if self.running.len() >= 2 * self.config.partitions.len() {
            self.running.remove(0);
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
        Some(self.running.remove(at))
    }

    fn finished(&mut self, finished: &Finished) -> Option<Trigger> {
        let running = self.ended(finished.action)?;
        let limit = running.budget.saturating_mul(OVERRUN_TIMES);
        (finished.measured > limit).then_some(Trigger::Overrun)
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{
        ClientId, Instant, ModelId, PartitionId, PunctualConfig, Reply, StageId, TaskId, Ticket,
        Window,
    };
    use punctual_policy_testing::plans::random_plan;
    use punctual_types::Random;

    use super::*;

    /// Of a plan whose first task is promised.
    fn triggers() -> Triggers {
        let policy = PunctualConfig::default();
        let mut config = random_plan(&policy, &mut Random::new(1));
        config.tasks[0].reserved = true;
        Triggers::new(&config)
    }

    fn step(event: Event, actions: Vec<Action>) -> Step {
        Step {
            now: Instant::ZERO,
            took: Nanos::ZERO,
            event,
            actions,
        }
    }

    fn infer(id: u64, criticality: Criticality) -> Action {
        Action::Infer(Infer {
            id: ActionId(id),
            partition: PartitionId(0),
            model: ModelId(0),
            stage: StageId(0),
            batch: 1,
            members: heapless::Vec::new(),
            window: Window {
                earliest: Instant::ZERO,
                latest: Instant::ZERO,
            },
            criticality,
        })
    }

    fn finished(id: u64, measured: Nanos) -> Event {
        Event::Finished(Finished {
            action: ActionId(id),
            started: Instant::ZERO,
            measured,
            members: heapless::Vec::new(),
        })
    }

    #[test]
    fn a_real_time_stage_of_twice_its_budget_is_an_incident() {
        let mut triggers = triggers();
        let Action::Infer(of) = infer(0, Criticality::RealTime) else {
            unreachable!("it is one");
        };
        let budget = triggers.budget(&of);
        let cases = [
            (Criticality::RealTime, budget.saturating_mul(2), None),
            (
                Criticality::RealTime,
                budget.saturating_mul(2) + Nanos::new(1),
                Some(Trigger::Overrun),
            ),
            (Criticality::BestEffort, budget.saturating_mul(9), None),
        ];
        for (id, (criticality, measured, expected)) in (1..).zip(cases) {
            assert_eq!(
                triggers.look(&step(Event::Tick, vec![infer(id, criticality)])),
                None
            );
            let found = triggers.look(&step(finished(id, measured), Vec::new()));
            assert_eq!(found, expected, "{criticality:?} {measured:?}");
        }
        // Nothing is known of it any more.
        assert_eq!(
            triggers.look(&step(finished(2, Nanos::MAX), Vec::new())),
            None
        );
    }

    #[test]
    fn actions_that_are_never_reported_take_no_room_for_ever() {
        let mut triggers = triggers();
        for id in 0..1_000 {
            triggers.look(&step(Event::Tick, vec![infer(id, Criticality::RealTime)]));
        }
        assert_eq!(triggers.running.len(), 2 * triggers.config.partitions.len());
        let found = triggers.look(&step(finished(999, Nanos::MAX), Vec::new()));
        assert_eq!(found, Some(Trigger::Overrun), "the newest is known");
    }

    #[test]
    fn a_late_answer_counts_if_it_was_promised() {
        let mut triggers = triggers();
        let reply = Reply {
            request: None,
            task: TaskId(0),
            ticket: Ticket {
                client: ClientId(0),
                slot: 0,
                part: 0,
                sequence: 0,
            },
            verdict: Verdict::Late,
            answer: None,
            captured: Instant::ZERO,
            deadline: Instant::ZERO,
            delivered: None,
        };
        let late = step(Event::Tick, vec![Action::Reply(reply)]);
        assert_eq!(triggers.look(&late), Some(Trigger::LatePromise));
        triggers.config.tasks[0].reserved = false;
        assert_eq!(triggers.look(&late), None);
    }
}

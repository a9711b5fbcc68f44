//! Whatever clients, the intake and the device do, and however late it is: every submission gets
//! one verdict, buffers and partitions have one user at a time, nothing panics.

use std::sync::Arc;

use proptest::prelude::*;
use punctual_simulator::fuzz::Twinned;
use punctual_types::Random;

use super::random_plans::{UNIT, random_plan, units};
use punctual_core::{
    Arrival, ClientId, Confidence, Config, Delivery, Event, Finished, Infer, Instant, ModelId,
    Nanos, PunctualConfig, RequestId, Scheduler, StageTime, TaskId, Ticket, Window,
};
use punctual_policy_testing::world::{Ending, Nature, World};

/// Keeps no bound.
#[derive(Clone, Debug)]
struct Careless(Random);

impl Nature for Careless {
    fn duration(&mut self, _: &Infer, time: StageTime) -> Nanos {
        let budget = time.budget.as_nanos();
        match self.0.within(0, 9) {
            0 => Nanos::ZERO,
            1 => Nanos::new(budget * self.0.within(1, 40)),
            2..4 => Nanos::new(self.0.within(0, 2 * budget)),
            _ => time.budget,
        }
    }
    fn preparation(&mut self, _: TaskId) -> Nanos {
        units(self.0.within(0, 30))
    }
    fn confidence(&mut self, _: &Infer) -> Confidence {
        Confidence(self.0.next_u64() as u16)
    }
    fn stopping(&mut self, bound: Nanos) -> Nanos {
        bound.saturating_mul(self.0.within(0, 3))
    }
    fn start(&mut self, window: Window) -> Instant {
        window.earliest + units(self.0.within(0, 3))
    }
    fn ending(&mut self) -> Ending {
        match self.0.within(0, 15) {
            0 => Ending::Failed,
            1 => Ending::NotRun,
            2 => Ending::FinishedWithoutAnswers,
            _ => Ending::Finished,
        }
    }
    fn transfer(&mut self, _: ModelId, load: Nanos) -> Nanos {
        load.saturating_mul(self.0.within(0, 3))
    }
    fn transfer_ok(&mut self, _: ModelId) -> bool {
        !self.0.one_in(6)
    }
    fn payload_ok(&mut self, _: TaskId) -> bool {
        !self.0.one_in(8)
    }
}

/// What the outside does, in units of time after what it did before.
#[derive(Clone, Debug)]
enum Act {
    Frame {
        task: u16,
        /// Captured so long before; from the future if negative.
        age: i64,
        /// A deadline of the client's own, so long after.
        deadline: Option<u64>,
    },
    AbsurdFrame {
        task: u16,
        captured: u64,
        deadline: u64,
    },
    Gone {
        client: u16,
    },
    Stale {
        buffer: u16,
        action: u64,
    },
    Tick,
    Shed {
        hold: bool,
    },
    Drain,
}

fn act() -> impl Strategy<Value = Act> {
    let absurd = || prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
    prop_oneof![
        20 => (any::<u16>(), -5..60_i64, prop::option::weighted(0.2, 0..100_u64))
            .prop_map(|(task, age, deadline)| Act::Frame { task, age, deadline }),
        1 => (any::<u16>(), absurd(), absurd())
            .prop_map(|(task, captured, deadline)| Act::AbsurdFrame { task, captured, deadline }),
        2 => (0..6_u16).prop_map(|client| Act::Gone { client }),
        2 => (any::<u16>(), 0..200_u64).prop_map(|(buffer, action)| Act::Stale { buffer, action }),
        1 => Just(Act::Tick),
        1 => any::<bool>().prop_map(|hold| Act::Shed { hold }),
        1 => prop::bool::weighted(0.1).prop_map(|d| if d { Act::Drain } else { Act::Tick }),
    ]
}

fn carry_out(world: &mut World<Careless>, act: &Act, sequence: u64) {
    let now = world.now;
    let tasks = world.config.tasks.len() as u16;
    let mut arrive = |task: u16, captured, deadline| {
        let ticket = Ticket {
            client: ClientId(task % 6),
            slot: 0,
            part: 0,
            sequence,
        };
        let task = TaskId(task % tasks);
        world.schedule(
            now,
            Event::Arrived(Arrival {
                task,
                ticket,
                captured,
                deadline,
                egress: Nanos::new(match sequence % 3 {
                    0 => 0,
                    1 => sequence % 8 * UNIT,
                    _ => u64::MAX,
                }),
            }),
        );
    };
    match *act {
        Act::Frame {
            task,
            age,
            deadline,
        } => {
            let captured = now.as_nanos().saturating_add_signed(-age * UNIT as i64);
            arrive(
                task,
                Instant::from_nanos(captured),
                deadline.map(|d| now + units(d)),
            );
        }
        Act::AbsurdFrame {
            task,
            captured,
            deadline,
        } => arrive(
            task,
            Instant::from_nanos(captured),
            Some(Instant::from_nanos(deadline)),
        ),
        Act::Gone { client } => {
            let client = ClientId(client);
            world.schedule(now, Event::ClientGone { client });
        }
        // Names of a generation that is never reached, and of actions not yet ordered.
        Act::Stale { buffer, action } => {
            let request = RequestId {
                buffer,
                generation: u32::MAX,
            };
            let measured = Nanos::ZERO;
            world.schedule(
                now,
                Event::Prepared {
                    request,
                    measured,
                    ready: Ok(()),
                },
            );
            let action = punctual_core::ActionId(u64::MAX - action);
            world.schedule(now, Event::Failed { action });
            let finished = Finished {
                action,
                started: now,
                measured,
                members: heapless::Vec::new(),
            };
            world.schedule(now, Event::Finished(finished));
        }
        Act::Tick => world.schedule(now, Event::Tick),
        Act::Shed { hold } => world.schedule(now, Event::Shed { hold }),
        Act::Drain => world.schedule(now, Event::Drain),
    }
}

fn valid_plan() -> impl Strategy<Value = u64> {
    any::<u64>().prop_filter("plans that pass the offline test", |seed| {
        Scheduler::new(
            &random_plan(&mut Random::new(*seed)),
            &PunctualConfig::default(),
        )
        .is_ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_misbehaviour_costs_a_verdict_a_buffer_or_the_scheduler(
        seed in valid_plan(),
        spare in 0..30_u16,
        acts in prop::collection::vec((0..15_u64, act()), 1..120),
    ) {
        let mut random = Random::new(seed);
        let mut config = random_plan(&mut random);
        // From as few buffers as the plan may have upwards.
        let passes = |buffers: &u16| {
            let request_buffers = *buffers;
            let config = Config { request_buffers, ..config.clone() };
            Scheduler::new(&config, &PunctualConfig::default()).is_ok()
        };
        let least = (1..=config.request_buffers).find(passes);
        config.request_buffers = least.expect("the plan passes") + spare;
        for task in &mut config.tasks {
            if random.one_in(3) {
                task.delivery = Delivery::LatestFrame;
            }
        }
        // Whatever happens, a copy that is made from its state goes on as the scheduler does.
        let policy = Twinned { of: Arc::new(PunctualConfig::default()), every: 5 };
        let mut world = World::under(config, &policy, Careless(random));
        for (sequence, (after, act)) in acts.iter().enumerate() {
            let at = world.now + units(*after);
            prop_assert_eq!(world.run_until(at), Ok(()));
            carry_out(&mut world, act, sequence as u64);
        }
        let end = world.now;
        prop_assert_eq!(world.run_until(end), Ok(()));
        prop_assert_eq!(world.drain(), Ok(()));
        let stale = acts.iter().filter(|(_, act)| matches!(act, Act::Stale { .. })).count() as u64;
        prop_assert_eq!(world.scheduler.stale_events(), 3 * stale);
    }
}

#[test]
fn same_events_lead_to_the_same_decisions() {
    let decisions = || -> Vec<_> {
        let mut random = Random::new(7);
        let config = loop {
            let config = random_plan(&mut random);
            if Scheduler::new(&config, &PunctualConfig::default()).is_ok() {
                break config;
            }
        };
        let mut world = World::new(config, Careless(random.clone()));
        for sequence in 0..300 {
            let age = random.within(0, 20) as i64;
            let task = random.next_u64() as u16;
            let act = Act::Frame {
                task,
                age,
                deadline: None,
            };
            carry_out(&mut world, &act, sequence);
            let at = world.now + units(random.within(0, 15));
            world.run_until(at).expect("no violation");
        }
        world.drain().expect("nothing lost");
        world.log.clone()
    };
    assert_eq!(decisions(), decisions());
}

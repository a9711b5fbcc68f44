//! Recordings of runs in virtual time.

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use punctual_core::{
    Action, Actions, Config, ConfigError, Contract, Counters, Event, Instant, Nanos, Policy,
    PolicySpec, PunctualConfig, Reply, Scheduler, TaskId,
};
use punctual_policy_testing::plans::random_plan;
use punctual_policy_testing::weather::Weather;
use punctual_policy_testing::world::World;
use punctual_recording::{Entry, Names, Sent, Setting, Step, Writer};
use punctual_types::Random;

/// A plan and what was recorded of it.
pub struct Recorded {
    pub setting: Setting,
    pub entries: Vec<Entry>,
}

/// The default policy, and all that it is told and decides.
#[derive(Clone, Debug, Default)]
struct Watched(Arc<Mutex<Vec<Step>>>);

#[derive(Debug)]
struct Watching {
    policy: Box<dyn Policy>,
    steps: Arc<Mutex<Vec<Step>>>,
}

impl PolicySpec for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn summary(&self) -> &'static str {
        "as the default policy"
    }

    fn contract(&self) -> Contract {
        PunctualConfig::default().contract()
    }

    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        PunctualConfig::default().check(config)
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Box::new(Watching {
            policy: PunctualConfig::default().build(config),
            steps: Arc::clone(&self.0),
        })
    }
}

impl Policy for Watching {
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        self.policy.step(now, event, actions);
        let step = Step {
            now,
            took: Nanos::new(700),
            event: event.clone(),
            actions: actions.iter().cloned().collect(),
        };
        self.steps.lock().expect("no panic").push(step);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.policy.next_timer()
    }

    fn drained(&self) -> bool {
        self.policy.drained()
    }

    fn counters(&self, task: TaskId) -> &Counters {
        self.policy.counters(task)
    }

    fn open(&self) -> usize {
        self.policy.open()
    }

    fn stale_events(&self) -> u64 {
        self.policy.stale_events()
    }
}

/// A random plan in foul weather, if there is one for this seed.
pub fn run(seed: u64, frames: u64) -> Option<Recorded> {
    let mut random = Random::new(seed);
    let policy = Watched::default();
    let config = random_plan(&policy, &mut random);
    Scheduler::new(&config, &policy).ok()?;
    let nature = Weather::foul(&config, random.clone());
    let mut world = World::under(config.clone(), &policy, nature);
    for (index, task) in (0..).zip(&config.tasks) {
        for frame in 0..frames {
            let at = Instant::ZERO + task.period.saturating_mul(frame);
            world.frame(index, at);
        }
    }
    // What the auditor finds of a world that keeps no bounds is not asked here.
    let _ = world.run_until(Instant::from_nanos(u64::MAX / 4));
    let steps = std::mem::take(&mut *policy.0.lock().expect("no panic"));
    let mut entries = vec![Entry::Segment {
        number: 0,
        state: None,
    }];
    entries.extend(steps.into_iter().flat_map(with_sent));
    let setting = Setting {
        names: Names {
            tasks: numbered("task", config.tasks.len()),
            models: numbered("model", config.models.len()),
            partitions: numbered("part", config.partitions.len()),
        },
        policy: serde_json::json!({"punctual": {}}),
        config,
    };
    Some(Recorded { setting, entries })
}

fn numbered(what: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{what}-{number}"))
        .collect()
}

/// A step, and the records that ports send for it.
fn with_sent(step: Step) -> Vec<Entry> {
    let decided = step.now;
    let sent = |reply: &Reply, is_final| Sent {
        ticket: reply.ticket,
        is_final,
        decided,
        began: decided + Nanos::from_micros(20),
        ended: decided + Nanos::from_micros(45),
    };
    let records: Vec<Entry> = step
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Reply(reply) => Some(Entry::Sent(sent(reply, true))),
            Action::Deliver(reply) => Some(Entry::Sent(sent(reply, false))),
            _ => None,
        })
        .collect();
    [Entry::Step(step)].into_iter().chain(records).collect()
}

impl Recorded {
    /// As it lies in a file.
    pub fn file(&self) -> Vec<u8> {
        let mut writer = Writer::new(Cursor::new(Vec::new()), 0, &self.setting).expect("memory");
        let entries = self.entries.iter().cloned();
        writer.append(Instant::ZERO, entries).expect("memory");
        writer.finish().expect("memory").into_inner()
    }
}

/// The first that has much in it.
pub fn long_run() -> Recorded {
    let long = |recorded: &Recorded| {
        recorded.entries.len() > 600 && recorded.setting.config.tasks.len() > 1
    };
    (0..)
        .filter_map(|seed| run(seed, 40))
        .find(long)
        .expect("many")
}

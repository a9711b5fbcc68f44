//! Random workloads for random plans, in a world that keeps its bounds. Used here and by `testing/policies`.

use std::vec::Vec;

use punctual_types::Random;

use super::random_plans::{UNIT, units};
use super::world::{Nature, World};
use crate::{
    Action, Confidence, Config, Delivery, Infer, Instant, Nanos, PunctualConfig, Rejection,
    StageTime, TaskConfig, TaskId, Verdict, Window,
};

/// Most frames of a task that keep to its period.
const RELEASES: u64 = 40;
/// The number of random plans, of which about half pass the offline test. `PUNCTUAL_PLANS` sets another.
pub fn plans() -> u64 {
    let count = std::env::var("PUNCTUAL_PLANS").ok();
    count.and_then(|n| n.parse().ok()).unwrap_or(300)
}

/// All times are within their budgets. A stage takes its whole budget in two of three cases.
#[derive(Clone, Debug)]
pub struct WithinBounds {
    random: Random,
    jitter: Vec<Nanos>,
    /// By model: until then its stages take up to four times their budgets.
    pub unmeasured_until: Vec<Instant>,
}

impl WithinBounds {
    pub fn new(config: &Config, random: Random) -> Self {
        Self {
            random,
            jitter: config.tasks.iter().map(|t| t.jitter).collect(),
            unmeasured_until: std::vec![Instant::ZERO; config.models.len()],
        }
    }
}

impl Nature for WithinBounds {
    fn duration(&mut self, infer: &Infer, time: StageTime) -> Nanos {
        if infer.window.earliest < self.unmeasured_until[infer.model.index()] {
            return Nanos::new(self.random.within(1, 4 * time.budget.as_nanos()));
        }
        let budget = time.budget.as_nanos();
        if self.random.one_in(3) {
            Nanos::new(self.random.within(1, budget))
        } else {
            time.budget
        }
    }
    fn preparation(&mut self, task: TaskId) -> Nanos {
        let bound = self.jitter[task.index()].as_nanos();
        Nanos::new(self.random.within(0, bound / UNIT) * UNIT)
    }
    fn confidence(&mut self, _: &Infer) -> Confidence {
        Confidence(self.random.within(0, 65_535) as u16)
    }
    fn stopping(&mut self, bound: Nanos) -> Nanos {
        Nanos::new(self.random.within(bound.as_nanos() / 2, bound.as_nanos()))
    }
    fn start(&mut self, window: Window) -> Instant {
        // A best-effort action without a deadline may start arbitrarily late.
        let latest = window.latest.min(window.earliest + units(20));
        let lateness = latest.since(window.earliest).as_nanos();
        window.earliest + Nanos::new(self.random.within(0, lateness))
    }
}

/// Submits frames at most once a period, bursts of extras from some tasks, and best-effort frames all the time.
/// Returns the frames of reserved tasks that kept to their period and were not late: none of these may be
/// rejected.
pub fn submit(world: &mut World<WithinBounds>, random: &mut Random) -> Vec<u64> {
    let tasks = world.config.tasks.clone();
    let mut lateness = Random::new(random.clone().next_u64());
    let longest = tasks.iter().map(|t| t.period.as_nanos()).max();
    let end = longest.unwrap_or(1) * RELEASES / 4;
    // All tasks begin at the same time: the worst case for EDF.
    let together = random.one_in(2);
    let mut in_time = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let period = task.period.as_nanos();
        let bursts = random.one_in(2) || task.offload_to.is_some();
        let keeps_to_period = task.reserved && !bursts;
        // A late frame overtakes no other of its task, as each preparation takes J at most.
        let latest = task.period.saturating_sub(task.jitter).as_nanos() / UNIT;
        let mut captured = if together {
            0
        } else {
            random.within(0, period / UNIT) * UNIT
        };
        for _ in 0..RELEASES {
            if captured >= end {
                break;
            }
            let at = Instant::from_nanos(captured);
            if keeps_to_period && latest > 0 && lateness.one_in(6) {
                let late = units(lateness.within(1, latest));
                world.frame_captured(index as u16, at + late, at, None);
            } else {
                for _ in 0..random.within(1, u64::from(task.burst)) {
                    let frame = world.frame(index as u16, at);
                    in_time.extend(keeps_to_period.then_some(frame));
                }
            }
            if bursts && random.one_in(2) {
                extras(world, random, index as u16, task, at);
            }
            captured += period;
            if random.one_in(3) {
                captured += random.within(0, period / UNIT) * UNIT;
            }
        }
    }
    in_time
}

/// Frames beyond the reservation, some of them with a deadline of the client's own.
fn extras(
    world: &mut World<WithinBounds>,
    random: &mut Random,
    index: u16,
    task: &TaskConfig,
    captured: Instant,
) {
    // Few frames are offloaded unless many arrive.
    let most = if task.offload_to.is_some() { 12 } else { 3 };
    for _ in 0..random.within(1, most) {
        let after = units(random.within(0, task.period.as_nanos() / UNIT));
        let deadline = captured + task.deadline.unwrap_or(units(50));
        let early = random.one_in(4).then(|| deadline - units(2));
        world.frame_captured(index, captured + after, captured, early);
    }
}

/// Half of the plans have the defaults, the others random switches: no promise depends on a switch.
pub fn random_parameters(seed: u64) -> PunctualConfig {
    let mut random = Random::new(!seed);
    if random.one_in(2) {
        return PunctualConfig::default();
    }
    PunctualConfig {
        batching: random.one_in(2),
        rebatching: random.one_in(2),
        mandatory_first: random.one_in(2),
        waiting: random.one_in(2),
        lending: true,
        launch_lead: units([0, 2, 100][random.within(0, 2) as usize]),
        price: random.one_in(2),
        price_margin: random.within(0, 500) as u16,
        ..PunctualConfig::default()
    }
}

/// In half of the plans, some tasks deliver the latest frame only: no promise depends on it.
pub fn random_delivery(seed: u64, config: &mut Config) {
    let mut random = Random::new(seed.rotate_left(32));
    let some = random.one_in(2);
    for task in &mut config.tasks {
        if some && random.one_in(2) {
            task.delivery = Delivery::LatestFrame;
        }
    }
}

/// The verdicts of frames in `in_time` that were rejected, late or dropped.
pub fn broken_terms(log: &[(Instant, Action)], in_time: &[u64]) -> Vec<Verdict> {
    let verdicts = log.iter().filter_map(|(_, action)| match action {
        Action::Reply(reply) if in_time.contains(&reply.ticket.sequence) => Some(reply.verdict),
        _ => None,
    });
    let allowed = [Verdict::OnTime, Verdict::Rejected(Rejection::Superseded)];
    verdicts
        .filter(|verdict| !allowed.contains(verdict))
        .collect()
}

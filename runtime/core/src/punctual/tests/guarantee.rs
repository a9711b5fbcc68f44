//! The guarantee: in every plan that passes the offline test, no accepted real-time request
//! misses, whatever extras, optional work, batches and best-effort work do, as long as the world
//! keeps its bounds. And the test would notice if the policy were weaker: three ablations miss.

use std::collections::BTreeSet;
use std::vec::Vec;

use punctual_types::Random;

use super::random_plans::{UNIT, random_plan, units};
use super::world::{Nature, World};
use crate::policy::Policy as _;
use crate::punctual::Punctual;
use crate::punctual::ablation::Ablation;
use crate::{
    Action, Confidence, Config, Counters, Criticality, Delivery, Infer, Instant, Nanos,
    PunctualConfig, Rejection, StageTime, TaskConfig, TaskId, Verdict, Window,
};

/// Frames of a task that kept to their period, at most.
const RELEASES: u64 = 40;
/// Plans drawn; about half pass the offline test. The environment may ask for more.
pub fn plans() -> u64 {
    let asked = std::env::var("PUNCTUAL_PLANS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(300)
}

/// Times within the budgets: the whole budget more often than not.
#[derive(Clone, Debug)]
struct WithinBounds {
    random: Random,
    jitter: Vec<Nanos>,
    /// Layouts that it asks for, in no order.
    layouts: u64,
}

impl Nature for WithinBounds {
    fn duration(&mut self, _: &Infer, time: StageTime) -> Nanos {
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
    fn layout(&mut self) -> Option<usize> {
        let asks = self.layouts > 1 && self.random.one_in(8);
        asks.then(|| self.random.within(0, self.layouts - 1) as usize)
    }
    fn start(&mut self, window: Window) -> Instant {
        // A best-effort action without a deadline may start arbitrarily late.
        let latest = window.latest.min(window.earliest + units(20));
        let lateness = latest.since(window.earliest).as_nanos();
        window.earliest + Nanos::new(self.random.within(0, lateness))
    }
}

/// Frames at most once a period, bursts of extras from some tasks, best-effort frames all the
/// time. Returns the frames of reserved tasks that kept to their period, but for those that came
/// late: none of these may be refused.
fn submit(world: &mut World<WithinBounds>, random: &mut Random) -> Vec<u64> {
    let tasks = world.config.tasks.clone();
    let mut lateness = Random::new(random.clone().next_u64());
    let longest = tasks.iter().map(|t| t.period.as_nanos()).max();
    let end = longest.unwrap_or(1) * RELEASES / 4;
    // Zero: all at once, the worst case for EDF.
    let together = random.one_in(2);
    let mut in_time = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let period = task.period.as_nanos();
        let bursts = random.one_in(2) || task.spill.is_some();
        let keeps_to_period = task.reserved && !bursts;
        // So late that it overtakes none of its task's, of which each takes J at most.
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
                let frame = world.frame(index as u16, at);
                in_time.extend(keeps_to_period.then_some(frame));
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
    // Few frames spill unless many come.
    let most = if task.spill.is_some() { 12 } else { 3 };
    for _ in 0..random.within(1, most) {
        let after = units(random.within(0, task.period.as_nanos() / UNIT));
        let deadline = captured + task.deadline.unwrap_or(units(50));
        let early = random.one_in(4).then(|| deadline - units(2));
        world.frame_captured(index, captured + after, captured, early);
    }
}

/// Half of the plans have every switch on, the others any of them: all are for quality, none for safety.
fn random_parameters(seed: u64) -> PunctualConfig {
    let mut random = Random::new(!seed);
    if random.one_in(2) {
        return PunctualConfig::default();
    }
    PunctualConfig {
        batching: random.one_in(2),
        rebatching: random.one_in(2),
        mandatory_first: random.one_in(2),
        waiting: random.one_in(2),
        launch_lead: units([0, 2, 100][random.within(0, 2) as usize]),
        price: random.one_in(2),
        price_margin: random.within(0, 500) as u16,
        ..PunctualConfig::default()
    }
}

/// In half of the plans, some tasks want the latest frame only: nobody's promises depend on it.
fn random_delivery(seed: u64, config: &mut Config) {
    let mut random = Random::new(seed.rotate_left(32));
    let some = random.one_in(2);
    for task in &mut config.tasks {
        if some && random.one_in(2) {
            task.delivery = Delivery::LatestFrame;
        }
    }
}

/// What became of one plan.
pub struct Course {
    pub promised: u64,
    pub misses: u64,
    /// Partitions beyond the first that each model ran on.
    pub moved: usize,
    /// Frames that another task took on than their own.
    pub spilled: u64,
    /// Frames that made way to newer ones.
    pub superseded: u64,
}

/// One plan from its seed; `None` if the plan does not pass.
fn run(seed: u64, ablation: Option<Ablation>) -> Option<Course> {
    let mut random = Random::new(seed);
    let config = random_plan(&mut random);
    run_plan(seed, config, random, ablation)
}

/// The same for a given plan.
pub fn run_plan(
    seed: u64,
    mut config: Config,
    mut random: Random,
    ablation: Option<Ablation>,
) -> Option<Course> {
    let mut parameters = PunctualConfig::default();
    if ablation.is_none() {
        parameters = random_parameters(seed);
        random_delivery(seed, &mut config);
    }
    Punctual::new(&config, parameters).ok()?;
    let nature = WithinBounds {
        random: random.clone(),
        jitter: config.tasks.iter().map(|t| t.jitter).collect(),
        layouts: config.layouts.len() as u64 + 1,
    };
    let mut world = World::with(config, parameters, nature);
    world.scheduler.ablation = ablation;
    let in_time = submit(&mut world, &mut random);
    world.run_until(Instant::from_nanos(1_000_000_000));
    world.drain();
    if ablation.is_none() {
        for (_, action) in &world.log {
            if let Action::Reply(reply) = action
                && in_time.contains(&reply.ticket.sequence)
            {
                let taken_on = [Verdict::OnTime, Verdict::Rejected(Rejection::Superseded)];
                let kept = taken_on.contains(&reply.verdict);
                assert!(kept, "seed {seed}: it kept its terms, {reply:?}");
            }
        }
    }
    let counted = |of: fn(&Counters) -> u64| {
        let tasks = 0..world.config.tasks.len() as u16;
        let counters = tasks.map(|task| world.scheduler.counters(TaskId(task)));
        counters.map(of).sum()
    };
    Some(Course {
        promised: promised(&world),
        misses: world.misses,
        moved: moved(&world),
        spilled: counted(|counters| counters.spilled),
        superseded: counted(|counters| counters.rejected_superseded),
    })
}

/// Real-time requests that were taken on, but for those that made way.
fn promised(world: &World<WithinBounds>) -> u64 {
    let promised = |(_, action): &&(Instant, Action)| match action {
        Action::Reply(reply) => {
            let task = &world.config.tasks[reply.task.index()];
            let refused = matches!(reply.verdict, Verdict::Rejected(_));
            task.criticality == Criticality::RealTime && !refused
        }
        _ => false,
    };
    world.log.iter().filter(promised).count() as u64
}

fn moved(world: &World<WithinBounds>) -> usize {
    let mut seen = BTreeSet::new();
    for (_, action) in &world.log {
        if let Action::Infer(infer) = action {
            seen.insert((infer.model, infer.partition));
        }
    }
    let models: BTreeSet<_> = seen.iter().map(|(model, _)| *model).collect();
    seen.len() - models.len()
}

#[test]
fn no_accepted_request_misses_in_random_plans_that_pass_the_offline_test() {
    let drawn = plans();
    let (mut passed, mut promised, mut spilled, mut superseded) = (0, 0, 0, 0);
    for seed in 0..drawn {
        let Some(course) = run(seed, None) else {
            continue;
        };
        assert_eq!(course.misses, 0, "seed {seed}");
        passed += 1;
        promised += course.promised;
        spilled += course.spilled;
        superseded += course.superseded;
    }
    std::println!(
        "{passed} plans, {promised} promised requests, {spilled} spilled, {superseded} superseded, \
         0 misses"
    );
    let enough = 4 * spilled > passed && superseded > passed;
    assert!(
        passed * 4 > drawn && promised > 50 * passed && enough,
        "too few to mean anything"
    );
}

/// Plans with misses under an ablation: there must be some, or the test above shows nothing.
fn assert_plans_miss(ablation: Ablation) {
    let courses = (0..plans()).filter_map(|seed| run(seed, Some(ablation)));
    let plans = courses.filter(|course| course.misses > 0).count();
    std::println!("{ablation:?}: {plans} plans with misses");
    assert!(plans > 0, "{ablation:?} makes no misses");
}

#[test]
fn admission_against_pending_requests_only_makes_misses() {
    assert_plans_miss(Ablation::PendingOnlyAdmission);
}

#[test]
fn optional_work_without_the_gate_makes_misses() {
    assert_plans_miss(Ablation::UngatedOptional);
}

#[test]
fn batches_that_only_their_members_agree_to_make_misses() {
    assert_plans_miss(Ablation::MembersOnlyBatch);
}

//! In every plan with a pipeline that passes the offline test, each query of a frame that keeps to its root's rate is on
//! time. Without any part of the mechanism some are not.

use std::sync::Arc;

use punctual_core::{
    Actions, Arrival, Config, ConfigError, Contract, Counters, Event, Instant, Policy, PolicySpec,
    TaskId,
};
use punctual_types::Random;

use crate::arrivals::{Parts, Pattern};
use crate::audit::{Auditor, Violation};
use crate::fuzz::Case;
use crate::observer::Observer;
use crate::outcome::Outcome;
use crate::run::{Settings, run_plan};
use crate::summary::Queries;

/// The number of random plans, of which most pass the offline test. `PUNCTUAL_PLANS` sets another.
fn drawn() -> u64 {
    let count = std::env::var("PUNCTUAL_PLANS").ok();
    count.and_then(|n| n.parse().ok()).unwrap_or(100)
}

/// The cases of plans that pass the offline test.
fn cases(extras: bool) -> impl Iterator<Item = Case> {
    let cases = (0..drawn()).map(move |seed| Case::draw_pipelines(seed, extras));
    cases.filter(Case::is_schedulable)
}

/// Whether nothing but its own root keeps a query of the case from an answer: all that counts is reserved.
fn is_promised(case: &Case) -> bool {
    let tasks = case.scenario.tasks.iter();
    let mut parts = tasks.filter(|task| matches!(task.pattern, Pattern::Parts(_)));
    parts.any(|task| task.config.reserved)
}

/// What became of the queries of a case against which the auditor has nothing.
fn audited(case: &Case) -> Queries {
    let mut auditor = auditor(case);
    let outcome = observed(case, &case.config(), &*case.policy, &mut auditor);
    assert_eq!(auditor.findings().first(), None, "{case}");
    assert_eq!(auditor.gaps(), [], "{case}");
    assert_eq!(auditor.queries(), outcome.queries, "{case}");
    outcome.queries[0]
}

fn auditor(case: &Case) -> Auditor {
    let auditor = Auditor::new(&case.config(), case.policy.contract());
    auditor.with_pipelines(case.scenario.pipelines())
}

#[test]
fn no_query_that_keeps_to_the_rate_of_its_root_misses_in_plans_that_pass_the_offline_test() {
    let (mut plans, mut queries, mut parts) = (0, 0, 0);
    for case in cases(false).filter(is_promised) {
        let of = audited(&case);
        assert_eq!(of.on_time, of.submitted, "{case}");
        plans += 1;
        queries += of.submitted;
        parts += of.parts;
    }
    println!("{plans} plans, {queries} queries of {parts} parts, 0 misses");
    let enough = plans * 3 > drawn() && queries > 30 * plans && parts > 2 * queries;
    assert!(enough, "too few to mean anything");
}

#[test]
fn frames_beyond_the_rate_of_a_root_keep_no_promised_query_from_an_answer() {
    let (mut plans, mut queries, mut on_time) = (0, 0, 0);
    for case in cases(true).filter(is_promised) {
        // The auditor claims the queries of frames that conform.
        let of = audited(&case);
        plans += 1;
        queries += of.submitted;
        on_time += of.on_time;
    }
    println!("{plans} plans, {on_time} of {queries} queries on time, no promise broken");
    assert!(on_time < queries && on_time * 3 > queries);
}

fn queries_of(case: &Case, config: &Config, policy: &dyn PolicySpec) -> Queries {
    observed(case, config, policy, &mut ()).queries[0]
}

fn observed(
    case: &Case,
    config: &Config,
    policy: &dyn PolicySpec,
    observer: &mut impl Observer,
) -> Outcome {
    let settings = Settings {
        seed: case.seed,
        keep_requests: false,
    };
    let arrivals = case.scenario.arrivals(1.0, &Random::new(case.seed));
    let arrivals = arrivals.expect("patterns that can be played");
    let outcome = run_plan(&case.scenario, config, policy, arrivals, settings, observer);
    outcome.expect("a plan that passes")
}

/// The parts of a case's followers.
fn followers(case: &Case) -> impl Iterator<Item = (TaskId, Parts)> {
    let tasks = case.scenario.tasks.iter().enumerate();
    tasks.filter_map(|(index, task)| match task.pattern {
        Pattern::Parts(parts) => Some((TaskId(index as u16), parts)),
        _ => None,
    })
}

/// In how many plans a query misses if the scheduler has another plan, or is told something else.
fn assert_plans_miss(change: fn(&Case, &mut Config), tell: fn(Instant, &mut Event)) {
    let (mut missing, mut all) = (0, 0);
    for case in cases(false).filter(is_promised) {
        let mut config = case.config();
        change(&case, &mut config);
        let policy = told(&case, tell);
        let of = queries_of(&case, &config, &policy);
        all += 1;
        missing += u32::from(of.on_time < of.submitted);
    }
    println!("{missing} of {all} plans with misses");
    assert!(missing > 0, "no query misses");
}

fn told(case: &Case, tell: fn(Instant, &mut Event)) -> Told {
    Told {
        policy: Arc::clone(&case.policy),
        followers: followers(case).map(|(task, _)| task).collect(),
        tell,
    }
}

/// The default policy, which is told something else of followers.
#[derive(Debug)]
struct Told {
    policy: Arc<dyn PolicySpec>,
    followers: Vec<TaskId>,
    tell: fn(Instant, &mut Event),
}

#[derive(Debug)]
struct Misled {
    policy: Box<dyn Policy>,
    followers: Vec<TaskId>,
    tell: fn(Instant, &mut Event),
}

impl PolicySpec for Told {
    fn name(&self) -> &'static str {
        self.policy.name()
    }
    fn summary(&self) -> &'static str {
        self.policy.summary()
    }
    fn contract(&self) -> Contract {
        self.policy.contract()
    }
    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        self.policy.check(config)
    }
    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Box::new(Misled {
            policy: self.policy.build(config),
            followers: self.followers.clone(),
            tell: self.tell,
        })
    }
}

impl Policy for Misled {
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        let task = match event {
            Event::Arrived(Arrival { task, .. }) | Event::Burst { task, .. } => Some(*task),
            _ => None,
        };
        let mut told = event.clone();
        if task.is_some_and(|task| self.followers.contains(&task)) {
            (self.tell)(now, &mut told);
        }
        self.policy.step(now, &told, actions);
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

#[test]
fn a_jitter_without_the_deadline_of_the_root_makes_misses() {
    let without = |case: &Case, config: &mut Config| {
        for (task, parts) in followers(case) {
            let task = &mut config.tasks[task.index()];
            task.jitter = parts.jitter(task.prepare, None);
        }
    };
    assert_plans_miss(without, |_, _| {});
}

#[test]
fn a_reservation_for_one_part_of_each_frame_makes_misses() {
    let one = |case: &Case, config: &mut Config| {
        for (task, _) in followers(case) {
            config.tasks[task.index()].burst = 1;
        }
    };
    assert_plans_miss(one, |_, _| {});
}

#[test]
fn parts_captured_when_they_arrive_make_misses() {
    assert_plans_miss(
        |_, _| {},
        |now, event| match event {
            Event::Arrived(part) => part.captured = now,
            Event::Burst { captured, .. } => *captured = now,
            _ => {}
        },
    );
}

/// Says nothing of the parts of a frame.
fn silent(_: Instant, event: &mut Event) {
    if matches!(event, Event::Burst { .. }) {
        *event = Event::Tick;
    }
}

#[test]
fn frames_without_parts_that_are_not_announced_let_frames_beyond_the_rate_take_their_place() {
    let missing = cases(true).filter(is_promised).filter(|case| {
        let mut auditor = auditor(case);
        observed(case, &case.config(), &told(case, silent), &mut auditor);
        let mut found = auditor.findings().list().iter();
        found.any(|found| matches!(found.violation, Violation::QueryMissed { .. }))
    });
    let missing = missing.count();
    println!("{missing} plans with misses");
    assert!(missing > 0, "no query misses");
}

#[test]
fn parts_that_are_not_announced_keep_others_from_an_answer() {
    let refused = |tell: fn(Instant, &mut Event)| {
        let of_others = cases(false).filter(is_promised).map(|case| {
            let outcome = observed(&case, &case.config(), &told(&case, tell), &mut ());
            let others = outcome.tasks.last().expect("the last takes what is left");
            others.rejected.no_slack as f64 / others.submitted as f64
        });
        of_others.sum::<f64>()
    };
    let (told, untold) = (refused(|_, _| {}), refused(silent));
    println!("{told:.1} refused, {untold:.1} without announcements");
    assert!(told < untold, "{told}, {untold}");
}

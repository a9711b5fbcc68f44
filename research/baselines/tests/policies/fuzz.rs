//! The fuzzer finds what is planted, shrinks it, and finds nothing else.

use std::sync::Arc;

use punctual_core::{
    Actions, Config, ConfigError, Contract, Counters, Event, Instant, Nanos, PartitionId, Policy,
    PolicySpec, PunctualConfig, TaskId,
};
use punctual_plan::PolicyChoice;
use punctual_simulator::faults::Fault;
use punctual_simulator::fuzz::{Campaign, Case, Failure, Passed, campaign, check, shrink};

/// Seeds of the smoke run. `.ci/run` asks for more, of its own.
const SMOKE: u64 = 400;

#[test]
fn seeds_of_everything_are_clean() {
    let plan = Campaign {
        first: asked("PUNCTUAL_FIRST", 0),
        cases: asked("PUNCTUAL_SEEDS", SMOKE),
        tries: 200,
        recorded: std::env::var_os("PUNCTUAL_RECORDED").is_some(),
    };
    let report = campaign(plan, &policies(), |_| true);
    println!("{report}");
    assert!(report.failures.is_empty());
    assert!(report.infeasible * 4 < report.cases, "{report}");
    assert!(report.on_time > 10 * report.cases && report.gaps > report.cases / 10);
    assert!(report.offloaded > report.cases / 10, "{report}");
    assert!(report.queries_on_time > report.cases, "{report}");
    assert!(report.replayed > 100 * (report.cases / 32), "{report}");
}

/// All that are known, in the order in which cases are drawn.
fn policies() -> Vec<Arc<dyn PolicySpec>> {
    punctual_baselines::all()
        .iter()
        .map(PolicyChoice::shared)
        .collect()
}

/// What the environment asks for: a soak is this test with more seeds.
fn asked(variable: &str, otherwise: u64) -> u64 {
    let asked = std::env::var(variable).ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn the_same_seed_is_the_same_case_and_other_seeds_are_others() {
    let policies = policies();
    let text = |seed| Case::draw(seed, &policies).to_string();
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
    assert_eq!(
        check(&Case::draw(7, &policies)),
        check(&Case::draw(7, &policies))
    );
}

/// A policy whose recount contradicts it after every step.
#[derive(Debug)]
struct Contradicting(PunctualConfig);

impl PolicySpec for Contradicting {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn summary(&self) -> &'static str {
        self.0.summary()
    }
    fn contract(&self) -> Contract {
        self.0.contract()
    }
    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        self.0.check(config)
    }
    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Box::new(Contradicted(self.0.build(config)))
    }
}

#[derive(Debug)]
struct Contradicted(Box<dyn Policy>);

impl Policy for Contradicted {
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        self.0.step(now, event, actions);
    }
    fn next_timer(&self) -> Option<Instant> {
        self.0.next_timer()
    }
    fn drained(&self) -> bool {
        self.0.drained()
    }
    fn counters(&self, task: TaskId) -> &Counters {
        self.0.counters(task)
    }
    fn open(&self) -> usize {
        self.0.open()
    }
    fn stale_events(&self) -> u64 {
        self.0.stale_events()
    }
    fn check(&self) -> Result<(), &'static str> {
        Err("planted")
    }
    fn scale(&self, partition: PartitionId) -> u64 {
        self.0.scale(partition)
    }
}

#[test]
fn a_recount_that_contradicts_the_scheduler_is_a_failure() {
    let policies: Vec<Arc<dyn PolicySpec>> =
        vec![Arc::new(Contradicting(PunctualConfig::default()))];
    let failures = (0..20).filter_map(|seed| check(&Case::draw(seed, &policies)).err());
    let failures: Vec<Failure> = failures.collect();
    let is_planted = |failure: &Failure| matches!(failure, Failure::State { broken, .. } if *broken == "planted");
    assert!(
        failures.len() >= 5 && failures.iter().all(is_planted),
        "{failures:?}"
    );
}

#[test]
fn a_failing_case_shrinks_to_what_makes_it_fail() {
    // Fails while two tasks ask the same network and a client goes.
    let planted = |case: &Case| {
        let tasks = &case.scenario.tasks;
        let asks = |model| {
            tasks
                .iter()
                .filter(|t| t.config.model.index() == model)
                .count()
        };
        let gone = |fault: &Fault| matches!(fault, Fault::ClientGone { .. });
        if (0..3).any(|model| asks(model) >= 2) && case.scenario.faults.iter().any(gone) {
            return Err(Failure::Panic("planted".to_owned()));
        }
        Ok(Passed::default())
    };
    let policies = policies();
    let failing = |seed: &u64| planted(&Case::draw(*seed, &policies)).is_err();
    for seed in (0..1_000).filter(failing).take(5) {
        let failure = Failure::Panic("planted".to_owned());
        let (case, found) = shrink(&Case::draw(seed, &policies), &failure, 2_000, planted);
        assert_eq!(found, failure);
        let scenario = &case.scenario;
        let sizes = (
            scenario.tasks.len(),
            scenario.faults.len(),
            scenario.models[0].stages.len(),
        );
        assert_eq!(sizes, (2, 1, 1), "seed {seed}: {case}");
        assert!(
            scenario.length < Nanos::from_micros(60),
            "seed {seed}: {case}"
        );
        let simplest = format!("{:?}", PunctualConfig::default());
        let simple = format!("{:?}", case.policy) == simplest;
        assert!(
            !case.policy.contract().promises || simple,
            "seed {seed}: {case}"
        );
    }
}

#[test]
fn seeds_that_found_something_stay_clean() {
    // In this order: a stage that no later stage holds the batch of; a lost action whose window has no end in
    // sight; a timer forgotten for an arrival; pages that a lost action keeps from another model; weights of a
    // waiting request that make room; lost completions of a demoted model; weights that came as a frame that
    // supersedes could last begin; a stage that ends on one place while an action lost on another locks its home; a frame with
    // the capture time of another, whose refusal ended that one's burst; a frame that waits for an older one that is lost.
    let policies = policies();
    for seed in [
        64,
        10_745,
        19_467,
        100_356,
        101_028,
        555_000_262,
        987_656_067,
        587_798_415_920,
        142_688_164_691_360,
        20_261_201_095_698,
        20_261_201_005_698,
    ] {
        let outcome = check(&Case::draw(seed, &policies));
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
    }
}

//! The golden figures: what every policy decides, and what every experiment comes to, as hashes. A change
//! that moves or renames code leaves them as they are; one that means to alter a figure records it anew.
//!
//! ```sh
//! cargo run --release -p punctual-evaluation --example golden            # a subset, within five minutes
//! cargo run --release -p punctual-evaluation --example golden -- --full
//! cargo run --release -p punctual-evaluation --example golden -- --record
//! cargo run --release -p punctual-evaluation --example golden -- --record 'experiment seeb' fuzz   # these alone
//! ```
//!
//! `testing/golden/figures.txt` has a line for each figure:
//!
//! | kind | what is hashed |
//! |---|---|
//! | `stream` | every event and every action of a workload under a policy, with their times |
//! | `fuzz` | the same of 100 cases of the fuzzer |
//! | `summary` | the figures of that workload's run, as JSON |
//! | `experiment` | the numbers in the experiment's tables, not their words |

use punctual_plan::PolicyChoice;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use punctual_core::{Action, Event, Instant, Nanos, PolicySpec};
use punctual_evaluation::experiments::{self, Experiment};
use punctual_evaluation::workloads;
use punctual_platform::clock;
use punctual_platform::output;
use punctual_simulator::fuzz::Case;
use punctual_simulator::observer::Observer;
use punctual_simulator::run::{Settings, run_plan, simulate};
use punctual_simulator::scenario::Scenario;
use punctual_types::Random;
use serde::Serialize;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../testing/golden/figures.txt"
);

/// The longest virtual time of a workload's run.
const LENGTH: Nanos = Nanos::from_millis(20_000);

/// So that there is something to decide.
const LOAD: f64 = 1.5;
const SEED: u64 = 1;

/// Cases of the fuzzer behind one hash.
const CASES: u64 = 100;

/// Hashes behind the fuzzer's cases, from seed 0 on: of the subset, and in full.
const RANGES: [u64; 2] = [30, 200];

/// Experiments of the subset: those that take a few seconds.
const QUICK: [&str; 4] = ["delivery", "demotion", "spill", "nexus-drop"];

/// Policies of the subset: those that the product ships.
const SHIPPED: [&str; 2] = ["punctual", "seeb"];

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| given.iter().any(|argument| argument == name);
    let (record, full) = (has("--record"), has("--full") || has("--record"));
    let only: Vec<&str> = given
        .iter()
        .filter(|argument| !argument.starts_with("--"))
        .map(String::as_str)
        .collect();
    let mut found = figures(full, &only);
    if record {
        if !only.is_empty() {
            let mut all = recorded(Path::new(FILE));
            all.append(&mut found);
            found = all;
        }
        let mut text = String::new();
        for (name, hash) in &found {
            let _ = writeln!(text, "{hash}  {name}");
        }
        std::fs::write(FILE, text).expect("testing/golden is writable");
        output::note(format_args!("{} figures recorded", found.len()));
        return;
    }
    let recorded = recorded(Path::new(FILE));
    let mut differ = 0;
    for (name, hash) in &found {
        if recorded.get(name) != Some(hash) {
            differ += 1;
            output::note(format_args!("differs: {name}"));
        }
    }
    let gone = recorded
        .keys()
        .filter(|name| full && only.is_empty() && !found.contains_key(*name));
    for name in gone {
        differ += 1;
        output::note(format_args!("gone: {name}"));
    }
    output::note(format_args!(
        "{} figures looked at, {differ} differ",
        found.len()
    ));
    std::process::exit(i32::from(differ > 0));
}

/// By name.
fn recorded(path: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path).expect("figures were recorded");
    let line = |line: &str| {
        line.split_once("  ")
            .map(|(hash, name)| (name.into(), hash.into()))
    };
    text.lines().filter_map(line).collect()
}

enum Job {
    Workload(workloads::Workload, PolicyChoice),
    Fuzz(u64),
    Experiment(Experiment),
}

impl Job {
    fn is_quick(&self) -> bool {
        match self {
            Self::Workload(_, policy) => SHIPPED.contains(&policy.name()),
            Self::Fuzz(range) => *range < RANGES[0],
            Self::Experiment(experiment) => QUICK.contains(&experiment.name),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Workload(workload, policy) => format!("{} {}", workload.name, policy.name()),
            Self::Fuzz(range) => {
                let first = range * CASES;
                format!("fuzz {first:05} to {:05}", first + CASES - 1)
            }
            Self::Experiment(experiment) => format!("experiment {}", experiment.name),
        }
    }

    fn run(&self) -> Vec<(String, String)> {
        let name = self.name();
        match self {
            Self::Workload(workload, policy) => {
                let of_run = of_workload(&workload.scenario(), policy);
                let [stream, summary] = of_run.unwrap_or_else(|refusal| [refusal.clone(), refusal]);
                vec![
                    (format!("stream {name}"), stream),
                    (format!("summary {name}"), summary),
                ]
            }
            Self::Fuzz(range) => vec![(name, of_cases(range * CASES))],
            Self::Experiment(experiment) => {
                let hash = blake3::hash(numbers(&(experiment.run)()).as_bytes());
                vec![(name, short(&hash))]
            }
        }
    }
}

/// Runs everything, on all processors; what takes longest first.
fn figures(full: bool, only: &[&str]) -> BTreeMap<String, String> {
    let experiments = experiments::all().into_iter().map(Job::Experiment);
    let policies: Vec<PolicyChoice> = punctual_baselines::all().iter().cloned().collect();
    let of_workload = |workload: workloads::Workload| {
        let policies = policies.clone().into_iter();
        policies.map(move |policy| Job::Workload(workload, policy))
    };
    let workloads = workloads::all().into_iter().flat_map(of_workload);
    let jobs = experiments
        .chain(workloads)
        .chain((0..RANGES[1]).map(Job::Fuzz));
    let asked = |job: &Job| only.is_empty() || only.iter().any(|part| job.name().contains(part));
    let jobs: Vec<Job> = jobs
        .filter(|job| (full || job.is_quick()) && asked(job))
        .collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        // Relaxed: the numbers are different, and order nothing.
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = clock::now_ns();
            let figures = job.run();
            let seconds = (clock::now_ns() - began) as f64 / 1e9;
            if seconds > 5.0 {
                output::note(format_args!("{seconds:6.1} s  {}", figures[0].0));
            }
            found
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(figures);
        }
    };
    std::thread::scope(|scope| {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        (0..processors).for_each(|_| drop(scope.spawn(work)));
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The hashes of its stream and of its figures; or why the policy does not take it, which is as good a figure.
fn of_workload(scenario: &Scenario, policy: &dyn PolicySpec) -> Result<[String; 2], String> {
    let mut scenario = scenario.clone();
    scenario.length = scenario.length.min(LENGTH);
    let settings = Settings {
        seed: SEED,
        keep_requests: false,
    };
    let mut stream = Stream::default();
    let outcome = simulate(&scenario, policy, LOAD, settings, &mut stream);
    let outcome = outcome.map_err(|_| "refused".to_owned())?;
    let figures = serde_json::json!({
        "summary": outcome.summary(), "effort": outcome.effort, "tasks": outcome.tasks.len(),
    });
    let figures = blake3::hash(figures.to_string().as_bytes());
    Ok([short(&stream.0.finalize()), short(&figures)])
}

fn of_cases(first: u64) -> String {
    let policies: Vec<_> = punctual_baselines::all()
        .iter()
        .map(PolicyChoice::shared)
        .collect();
    let mut stream = Stream::default();
    for seed in first..first + CASES {
        let case = Case::draw(seed, &policies);
        let arrivals = case
            .scenario
            .arrivals(1.0, &Random::new(seed))
            .expect("the fuzzer draws what can be played");
        let settings = Settings {
            seed,
            keep_requests: false,
        };
        let outcome = run_plan(
            &case.scenario,
            &case.config(),
            &*case.policy,
            arrivals,
            settings,
            &mut stream,
        );
        stream.add(&outcome.is_ok());
    }
    short(&stream.0.finalize())
}

#[derive(Default)]
struct Stream(blake3::Hasher);

impl Stream {
    fn add(&mut self, what: &impl Serialize) {
        let bytes = postcard::to_allocvec(what).expect("plain data");
        self.0.update(&bytes);
    }
}

impl Observer for Stream {
    fn event(&mut self, now: Instant, event: &Event) {
        self.add(&(now, event));
    }

    fn action(&mut self, now: Instant, action: &Action) {
        self.add(&(now, action));
    }
}

/// The words with a digit in the rows of tables.
fn numbers(text: &str) -> String {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let words = rows.flat_map(str::split_whitespace);
    let numbers: Vec<&str> = words
        .filter(|word| word.contains(|c: char| c.is_ascii_digit()))
        .collect();
    numbers.join(" ")
}

fn short(hash: &blake3::Hash) -> String {
    hash.to_hex()[..16].to_owned()
}

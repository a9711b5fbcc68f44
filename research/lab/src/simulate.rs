//! `punctual simulate`: one run in depth, or an experiment.

use punctual_plan::PolicyChoice;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use punctual_core::{Config, Instant, Nanos, PolicySpec, TaskId};
use punctual_evaluation::experiments;
use punctual_evaluation::format::Workload;
use punctual_evaluation::report::{self, Recorder, Row, span};
use punctual_platform::{clock, output};
use punctual_recording::{SEGMENT, WriteError, Writer};
use punctual_report::{Table, percent};
use punctual_simulator::audit::Auditor;
use punctual_simulator::fuzz::{Campaign, campaign};
use punctual_simulator::outcome::Outcome;
use punctual_simulator::recording::{self, Recording};
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::summary::Summary;

use crate::what_if::sources;
use crate::workload::{self, Error};

/// What to simulate.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual simulate robot
  punctual simulate seeb-poisson --policy seeb --load 2 --seed 7
  punctual simulate robot --seconds 5 --html robot.html
  punctual simulate disb-real --policy streams --audit
  punctual simulate robot --seconds 5 --record robot.mcap
  punctual simulate robot.mcap --policy clockwork --audit
  punctual simulate robot-day --json
  punctual simulate --experiment seeb
  punctual simulate --fuzz 10000 --seed 1
  punctual simulate --list

A run is a pure function of workload, policy, load and seed: the same each time. A manifest is a workload, too, as it would be
served on this machine: its cameras keep their rates, and a frame has any number of crops up to the bound. So is a recording (.mcap): the frames,
answers and times that were recorded.
An experiment prints the tables of docs/results.

TERMINATION CODES: 0 done; 1 requests were lost, or the fuzzer found a violation; 3 no such
workload, policy or experiment, or the policy cannot take the workload; 4 a file is missing or
cannot be written.")]
pub struct Options {
    /// A built-in workload (--list), or a file: a manifest, a workload's, DISB's, a recording.
    #[arg(required_unless_present_any = ["list", "experiment", "fuzz"])]
    workload: Option<String>,
    /// The scheduling policy.
    #[arg(long, default_value = "punctual")]
    policy: String,
    /// Factor on the workload's rates.
    #[arg(long, default_value = "1", value_parser = workload::load)]
    load: f64,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Length of the run in seconds of virtual time, instead of the workload's own.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    #[command(flatten)]
    places: workload::Places,
    /// Check every event and action against the scheduler's contract.
    #[arg(long)]
    audit: bool,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Write an HTML page with plots and a chart of the schedule.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write what the scheduler is told and decides, as an MCAP file for `punctual replay`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Run an experiment instead.
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// Run this many random cases under the auditor instead, with seeds from --seed on, for --seconds at most;
    /// a failing case is reduced and printed.
    #[arg(long, value_name = "CASES", conflicts_with_all = ["workload", "experiment"])]
    fuzz: Option<u64>,
    /// List workloads, policies and experiments.
    #[arg(long)]
    list: bool,
}

pub fn run(options: &Options) -> Result<(), Error> {
    if options.list {
        output::text(workload::list())?;
        let experiments = experiments::all();
        let experiments = experiments.iter().map(|one| (one.name, one.about));
        let experiments = workload::listed(experiments);
        output::text(format_args!("\nEXPERIMENTS\n{experiments}"))?;
        return Ok(());
    }
    if let Some(cases) = options.fuzz {
        return fuzz(options, cases);
    }
    if let Some(name) = &options.experiment {
        return experiment(name);
    }
    let name = options.workload.as_deref().expect("clap requires it");
    let Workload {
        mut scenario,
        policies,
        ..
    } = workload::document(name)?;
    options.places.apply(&mut scenario)?;
    if let Some(seconds) = options.seconds {
        scenario.length = Nanos::from_millis(seconds * 1000);
    }
    let policy = workload::policy(&options.policy, &policies)?;
    let settings = Settings {
        seed: options.seed,
        keep_requests: false,
    };
    let config = scenario.config(&policy);
    let auditor = options
        .audit
        .then(|| Auditor::new(&config, policy.contract()).with_pipelines(scenario.pipelines()));
    let recorder = options.html.is_some();
    let recorder = recorder.then(|| Recorder::new(&config, Instant::ZERO));
    let recording = options.record.as_ref();
    let recording = recording.map(|path| recording_at(path, &config, &policy, &scenario));
    let mut observers = ((auditor, recorder), recording.transpose()?);
    let started = clock::now_ns();
    let outcome = simulate(&scenario, &policy, options.load, settings, &mut observers)?;
    let took = clock::now_ns() - started;
    let ((auditor, recorder), recording) = observers;
    if let (Some(recording), Some(path)) = (recording, &options.record) {
        let finished = recording.finish();
        finished.map_err(|source| unwritten(path, source))?;
        output::note(format_args!("wrote {}", path.display()));
    }
    let row = Row::new(
        &scenario.name,
        policy.name(),
        options.load,
        options.seed,
        &outcome.summary(),
    );
    if let Some(path) = &options.html {
        let record = recorder.map(Recorder::into_record).unwrap_or_default();
        let page = page(options, &scenario, &row, &outcome, &record);
        workload::write(path, &report::page(&page))?;
        output::note(format_args!("wrote {}", path.display()));
    }
    if options.json {
        output::line(json(&scenario, &row, &outcome))?;
    } else {
        output::text(text(&scenario, &row, &outcome))?;
        let wall = took as f64 / 1e9;
        let rate = row.submitted as f64 / wall;
        output::note(format_args!(
            "\nsimulated {} in {wall:.2} s: {rate:.0} requests/s of wall time",
            Nanos::new(outcome.ended.as_nanos())
        ));
    }
    if let Some(auditor) = auditor {
        audited(&auditor)?;
    }
    if row.lost > 0 {
        let message = format!(
            "{} requests got no verdict: a fault of the policy",
            row.lost
        );
        return Err(Error::Bad(message));
    }
    Ok(())
}

fn recording_at(
    path: &Path,
    config: &Config,
    policy: &PolicyChoice,
    scenario: &Scenario,
) -> Result<Recording<BufWriter<File>>, Error> {
    let file = File::create(path).map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })?;
    let policy = serde_json::to_value(policy).expect("parameters are plain data");
    let setting = recording::setting(scenario, config, policy);
    Writer::new(BufWriter::new(file), 0, &setting)
        .and_then(|writer| Recording::begin(writer, SEGMENT))
        .map_err(|source| unwritten(path, source))
}

fn unwritten(path: &Path, source: WriteError) -> Error {
    Error::Write {
        path: path.to_owned(),
        source: std::io::Error::other(source),
    }
}

/// What the auditor says.
pub fn audited(auditor: &Auditor) -> Result<(), Error> {
    let findings = auditor.findings();
    if findings.total() == 0 {
        output::note(format_args!("the auditor found nothing"));
        return Ok(());
    }
    for finding in findings.list() {
        output::note(finding);
    }
    let message = format!("the auditor found {} violations", findings.total());
    Err(Error::Bad(message))
}

/// Runs that go into making one failing case smaller.
const SHRINKING_RUNS: u32 = 2_000;

fn fuzz(options: &Options, cases: u64) -> Result<(), Error> {
    // A panic in a case is a finding, and shrinking repeats it many times.
    std::panic::set_hook(Box::new(|_| {}));
    let started = clock::now_ns();
    let limit_ns = options.seconds.map_or(u64::MAX, |s| s * 1_000_000_000);
    let all = punctual_baselines::all();
    let policies: Vec<_> = all.iter().map(PolicyChoice::shared).collect();
    let plan = Campaign {
        first: options.seed,
        cases,
        tries: SHRINKING_RUNS,
        recorded: false,
    };
    let report = campaign(plan, &policies, |_| clock::now_ns() - started < limit_ns);
    drop(std::panic::take_hook());
    output::text(&report)?;
    let wall = (clock::now_ns() - started) as f64 / 1e9;
    let rate = report.cases as f64 / wall * 3600.0;
    output::note(format_args!("{wall:.1} s: {rate:.0} cases/h"));
    match report.failures.len() {
        0 => Ok(()),
        kinds => Err(Error::Bad(format!("{kinds} kinds of failures: see above"))),
    }
}

fn experiment(name: &str) -> Result<(), Error> {
    let known = experiments::all();
    let Some(experiment) = known.iter().find(|experiment| experiment.name == name) else {
        return Err(Error::Experiment {
            name: name.to_owned(),
            known: known.iter().map(|experiment| experiment.name).collect(),
        });
    };
    output::note(format_args!(
        "{}; see also {}",
        experiment.about, experiment.results
    ));
    output::line((experiment.run)())?;
    Ok(())
}

fn text(scenario: &Scenario, row: &Row, outcome: &Outcome) -> String {
    let width = output::width();
    let mut text = format!(
        "{}: {}\n\n{:width$}\n{:width$}",
        scenario.name,
        scenario.about,
        report::comparison(std::slice::from_ref(row)),
        tasks(scenario, outcome)
    );
    if !outcome.queries.is_empty() {
        text.push_str(&format!("\n{:width$}", queries(scenario, outcome)));
    }
    let effort = &outcome.effort;
    let actions = effort.actions.max(1) as f64;
    text.push_str(&format!(
        "\n{} decisions; {} stages of {:.2} requests, {} stopped, {} not begun in time; {} loads; \
         {} requests offloaded; \
         utilisation {}; prediction error {} in the mean, longest {:.2} of the budget; mean time \
         to reject {}\n",
        effort.steps,
        effort.actions,
        effort.members as f64 / actions,
        effort.preempted,
        effort.not_run,
        effort.loads,
        effort.offloaded,
        percent(effort.utilisation(outcome.ended)),
        percent(effort.prediction_error / actions),
        effort.worst_prediction,
        span(outcome.summary().reject_us),
    ));
    if let Some(times) = &outcome.times {
        text.push_str(&format!("{}\n", sources(times)));
    }
    text
}

fn tasks(scenario: &Scenario, outcome: &Outcome) -> Table {
    let mut table = Table::new(
        &[
            "task",
            "requests",
            "on time",
            "late",
            "no slack",
            "hopeless",
            "queue full",
            "failed",
            "lost",
            "accuracy",
            "p50",
            "p99",
            "max",
            "exits",
        ],
        1,
    );
    for (index, task) in scenario.tasks.iter().enumerate() {
        let summary = outcome.summary_of(TaskId(index as u16));
        let exits: Vec<String> = summary.exits.iter().map(u64::to_string).collect();
        table.row([
            task.name.clone(),
            summary.submitted.to_string(),
            summary.on_time.to_string(),
            summary.late.to_string(),
            summary.rejected.no_slack.to_string(),
            summary.rejected.late_on_arrival.to_string(),
            summary.rejected.queue_full.to_string(),
            summary.failed.sum().to_string(),
            summary.lost.to_string(),
            percent(summary.accuracy),
            span(summary.latency_us.p50),
            span(summary.latency_us.p99),
            span(summary.latency_us.max),
            exits.join(" "),
        ]);
    }
    table
}

/// A pipeline's queries, and the parts that count.
fn queries(scenario: &Scenario, outcome: &Outcome) -> Table {
    let headings = ["queries of", "queries", "on time", "parts", "on time"];
    let mut table = Table::new(&headings, 1);
    for of in &outcome.queries {
        table.row([
            scenario.tasks[of.root.index()].name.clone(),
            of.submitted.to_string(),
            of.on_time.to_string(),
            of.parts.to_string(),
            of.parts_on_time.to_string(),
        ]);
    }
    table
}

/// Everything, for a machine.
fn json(scenario: &Scenario, row: &Row, outcome: &Outcome) -> String {
    let of_task = |(index, task): (usize, &punctual_simulator::scenario::Task)| {
        let summary: Summary = outcome.summary_of(TaskId(index as u16));
        let told_early = summary.told_early;
        serde_json::json!({ "task": task.name, "told_early": told_early, "summary": summary })
    };
    let tasks: Vec<_> = scenario.tasks.iter().enumerate().map(of_task).collect();
    let name = |root: TaskId| &scenario.tasks[root.index()].name;
    let queries = outcome.queries.iter();
    let queries = queries.map(|of| serde_json::json!({ "task": name(of.root), "queries": of }));
    let json = serde_json::json!({
        "queries": queries.collect::<Vec<_>>(),
        "run": row,
        "summary": outcome.summary(),
        "tasks": tasks,
        "effort": outcome.effort,
        "ending": outcome.ending,
        "times": outcome.times,
        "utilisation": outcome.effort.utilisation(outcome.ended),
    });
    serde_json::to_string_pretty(&json).expect("plain data")
}

fn page(
    options: &Options,
    scenario: &Scenario,
    row: &Row,
    outcome: &Outcome,
    record: &report::Record,
) -> report::Page {
    let merged = report::merged(&row.policy, std::iter::once(outcome));
    let title = format!("{} on {}", row.policy, scenario.name);
    report::Page {
        about: scenario.about.clone(),
        command: command(options, row),
        rows: vec![row.clone()],
        loads: vec![report::AtLoad {
            load: row.load,
            policies: vec![merged],
        }],
        charts: vec![report::chart(title.clone(), scenario, record)],
        title,
    }
}

/// The command that gives the same figures again.
fn command(options: &Options, row: &Row) -> String {
    let mut words = vec![
        "punctual simulate".to_owned(),
        options.workload.clone().unwrap_or_default(),
        format!("--policy {} --load {}", row.policy, row.load),
        format!("--seed {}", row.seed),
    ];
    words.extend(options.places.words());
    words.join(" ")
}

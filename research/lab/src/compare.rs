//! `punctual compare`: one workload under several policies, side by side, in virtual time.

use punctual_core::PolicySpec;
use punctual_plan::PolicyChoice;
use std::io::IsTerminal as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use punctual_evaluation::compare::{Comparison, Run};
use punctual_evaluation::format::Workload;
use punctual_evaluation::report::{self, Row};
use punctual_platform::output;
use punctual_simulator::scenario::Scenario;

use crate::what_if::sources;
use crate::workload::{self, Error};

/// What to compare.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual compare seeb-poisson
  punctual compare robot --policies punctual,seeb,clockwork --loads 0.5,1,2,4 --html robot.html
  punctual compare seeb-poisson --policies punctual --loads 1,8 --corun 1.25
  punctual compare seeb-pai --seeds 10 --json | jq '.[] | select(.missed > 0)'
  punctual compare my-workload.toml
  punctual compare robot.mcap --policies punctual,clockwork
  punctual compare --list

Everything happens in virtual time: no device, no daemon, the same scheduler. The same command
gives the same figures each time. A request is answered on time, or missed: then its camera was told early (refused before the
deadline, so that it can act), or it was answered late, or at the deadline there was silence. Latency counts from the intended
submission; `of all` counts what was not answered as wrong, and the score what was not right on time.
`punctual` runs stages on idle compute units of other partitions, too, where the workload has times for narrower
ranges (--no-lending: not). A recording (.mcap) has the frames, answers and times that were recorded; how much of each run had other
times is said below the table. The bound is the accuracy that no scheduler can exceed, even one that knows all requests in advance.

JSON: an array of objects, one a run: workload, policy, load, seed, submitted, missed, late,
rejected, failed, lost, told_early, silent, told_us, accuracy, accuracy_all,
accuracy_on_time (the score), accuracy_full_depth, accuracy_bound (0 to 1, null: not computed), latency_us {p50, p99, p999, max, mean}, goodput_per_s, gpu_efficacy.

TERMINATION CODES: 0 done; 1 a policy lost a request; 3 no such workload or policy, or a policy
cannot take the workload; 4 a file is missing or cannot be written.")]
pub struct Options {
    /// A built-in workload (--list), or a file: a workload's, DISB's, a recording.
    #[arg(required_unless_present = "list")]
    workload: Option<String>,
    /// Policies by name; all that can take the workload if none is named.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    policies: Vec<String>,
    /// Factors on the workload's rates.
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = workload::load)]
    loads: Vec<f64>,
    /// Number of runs of each, with seeds 0, 1, ...
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    #[command(flatten)]
    places: workload::Places,
    /// Print one object a run instead of a table.
    #[arg(long)]
    json: bool,
    /// Write an HTML page with plots and charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write each plot as an SVG file: misses.svg, accuracy.svg, latencies.svg.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Skip the bound that no scheduler can exceed.
    #[arg(long)]
    no_bound: bool,
    /// Number of runs in parallel; the figures do not depend on it.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// List workloads and policies.
    #[arg(long)]
    list: bool,
}

pub fn run(options: &Options) -> Result<(), Error> {
    if options.list {
        output::text(workload::list())?;
        return Ok(());
    }
    let name = options.workload.as_deref().expect("clap requires it");
    let Workload {
        mut scenario,
        policies,
        ..
    } = workload::document(name)?;
    options.places.apply(&mut scenario)?;
    let mut policies = workload::policies(&options.policies, &policies)?;
    if options.policies.is_empty() {
        policies.retain(|policy| takes(policy, &scenario));
    }
    let comparison = Comparison {
        scenario: &scenario,
        policies: &policies,
        loads: &options.loads,
        seeds: options.seeds,
        bound: !options.no_bound,
        charts: options.html.is_some(),
    };
    let progress = progress(comparison.runs());
    let runs = comparison.run(jobs(options), || progress.inc(1))?;
    progress.finish_and_clear();
    let rows: Vec<report::Row> = runs.iter().map(|run| run.row.clone()).collect();
    if let Some(path) = &options.html {
        let page = report::page(&page(options, &comparison, &runs));
        workload::write(path, &page)?;
        output::note(format_args!("wrote {}", path.display()));
    }
    if let Some(folder) = &options.svg {
        pictures(folder, &page(options, &comparison, &runs))?;
    }
    if options.json {
        output::line(serde_json::to_string_pretty(&rows).expect("plain data"))?;
    } else {
        output::line(format_args!("{}: {}\n", scenario.name, scenario.about))?;
        let width = output::width();
        output::text(format_args!("{:width$}", report::comparison(&rows)))?;
        output::line(format_args!("\n{}", report::MEANING.join("\n")))?;
    }
    for run in &runs {
        if let Some(times) = &run.outcome.times {
            let Row { policy, load, .. } = &run.row;
            output::note(format_args!("{policy} at load {load}: {}", sources(times)));
        }
    }
    let lost: u64 = rows.iter().map(|row| row.lost).sum();
    if lost > 0 {
        let message = format!("{lost} requests got no verdict: a fault of the policy");
        return Err(Error::Bad(message));
    }
    Ok(())
}

/// Whether a policy can take a workload at all; who cannot is named, and left out.
fn takes(policy: &PolicyChoice, scenario: &Scenario) -> bool {
    match punctual_core::Scheduler::new(&scenario.config(policy), policy) {
        Ok(_) => true,
        Err(error) => {
            output::note(format_args!("without {}: {error}", policy.name()));
            false
        }
    }
}

fn jobs(options: &Options) -> NonZeroUsize {
    let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    options.jobs.unwrap_or_else(all)
}

fn progress(runs: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(runs as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left");
    bar.set_style(style.expect("a valid template"));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn page(options: &Options, comparison: &Comparison<'_>, runs: &[Run]) -> report::Page {
    let loads = comparison.loads.iter().map(|&load| {
        let at: Vec<&Run> = runs.iter().filter(|run| run.row.load == load).collect();
        let names = comparison.policies.iter().map(PolicySpec::name);
        let merged: Vec<_> = names
            .map(|name| {
                let of_policy = at.iter().filter(|run| run.row.policy == name);
                report::merged(name, of_policy.map(|run| &run.outcome))
            })
            .collect();
        report::AtLoad {
            load,
            policies: merged,
        }
    });
    let charts = runs.iter().filter(|run| !run.record.bars.is_empty());
    let last = comparison.loads.last().copied().unwrap_or(1.0);
    report::Page {
        title: format!("Policies on {}", comparison.scenario.name),
        about: comparison.scenario.about.clone(),
        command: command(options),
        rows: runs.iter().map(|run| run.row.clone()).collect(),
        loads: loads.collect(),
        charts: charts
            .map(|run| {
                let title = format!("{} at load {last}", run.row.policy);
                report::chart(title, comparison.scenario, &run.record)
            })
            .collect(),
    }
}

/// The plots, each as a file; latencies at the load that is nearest to the published one.
fn pictures(folder: &Path, page: &report::Page) -> Result<(), Error> {
    let published = |at: &&report::AtLoad| ((at.load.ln().abs()) * 1e6) as u64;
    let at = page.loads.iter().min_by_key(published);
    let latencies = at.map_or(&[][..], |at| &at.policies);
    for (name, plot) in [
        ("misses.svg", report::misses_against_load(&page.rows)),
        ("accuracy.svg", report::accuracy_against_misses(&page.rows)),
        ("latencies.svg", report::latency_cdf(latencies)),
    ] {
        let path = folder.join(name);
        let picture = punctual_report::picture(&[plot]);
        workload::write(&path, picture.as_str())?;
        output::note(format_args!("wrote {}", path.display()));
    }
    Ok(())
}

/// The command that gives the same figures again.
fn command(options: &Options) -> String {
    let mut words = vec!["punctual compare".to_owned()];
    words.extend(options.workload.clone());
    if !options.policies.is_empty() {
        words.push(format!("--policies {}", options.policies.join(",")));
    }
    let loads: Vec<String> = options.loads.iter().map(f64::to_string).collect();
    words.push(format!("--loads {}", loads.join(",")));
    words.push(format!("--seeds {}", options.seeds));
    words.extend(options.places.words());
    words.join(" ")
}

//! `punctual bench paging`: many networks in one manifest, served by the daemon from a cache that holds a part of their weights.

use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use punctual_client::{Verdict, now_ns};
use punctual_conformance::networks;
use punctual_daemon::{LatencyReport, Report as Served};
use punctual_model::PAGE_BYTES;
use punctual_platform::output;
use punctual_types::Random;
use serde::Serialize;

use crate::programs::{Folder, Programs, Serves};
use crate::zoo::{self, Asker, Error};

/// How much of what.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench paging
  punctual bench paging --models 200 --cache-percent 20 --rate 100 --seconds 10

Makes that many distinct networks (two exits, 24x24 images, about a third of a megabyte of weights
each) as packages in a folder, and a manifest with one `[[task]]` for all of them. Measures one, plans,
and starts the daemon with a cache that holds the given part of their weights. One client submits
frames for all of them over one connection, at random times (Poisson), most for a few networks (their
popularity falls with their rank: Zipf). Each has a deadline, and either is answered or refused.

TERMINATION CODES: 0 done; 1 a request was lost; 4 a file cannot be written; 5 a program cannot be
started.")]
pub struct Options {
    /// Number of networks.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=4096))]
    models: u16,
    /// The part of their pages that the cache holds, in percent.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    cache_percent: u32,
    /// Requests a second.
    #[arg(long, default_value_t = 150.0)]
    rate: f64,
    /// Length of the measurement, in seconds.
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Popularity falls with this power of the rank; 0: all models are equally popular.
    #[arg(long, default_value_t = 1.0)]
    skew: f64,
    /// Deadline of each request after its capture, in milliseconds.
    #[arg(long, default_value_t = 100)]
    deadline_ms: u64,
    /// The scheduling policy: `punctual`, or `clockwork`, which punctual-lab serves by.
    #[arg(long, default_value = "punctual", value_parser = ["punctual", "clockwork"])]
    policy: String,
    /// Folder for the packages, which are kept there [default: a temporary one].
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The folder of the programs [default: that of this one].
    #[arg(long, value_name = "FOLDER")]
    bin: Option<PathBuf>,
    /// Seed of the arrival times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    models: u16,
    /// Of all models together, and of the cache.
    pages: [u32; 2],
    policy: String,
    rate_hz: f64,
    submitted: u64,
    on_time: u64,
    late: u64,
    rejected: u64,
    failed: u64,
    lost: u64,
    hit_percent: f64,
    loads: u64,
    evictions: u64,
    /// p50, p99, largest.
    load_us: [f64; 3],
    latency_us: [f64; 3],
    /// p50, p99, 99.9%, largest.
    decision_us: [f64; 4],
    /// `punctual check`: packages read, plan made and printed.
    check_ms: f64,
    /// From the daemon's start until it serves.
    start_ms: f64,
    /// As planned, and as it was at most, in 10^6 bytes.
    memory_mb: [f64; 2],
    /// What the machine did not grant.
    missing: Vec<String>,
}

pub fn run(options: &Options) -> Result<(), Error> {
    let report = measure(options)?;
    if options.json {
        let json = serde_json::to_string_pretty(&report).expect("numbers and names");
        output::line(json)?;
    } else {
        output::text(report.text())?;
    }
    if report.lost > 0 {
        return Err(Error::Missing(report.lost));
    }
    Ok(())
}

/// Writes the packages that are not there yet; how many pages each has.
fn write_packages(models: u16, folder: &Path) -> Result<u32, Error> {
    zoo::create(folder)?;
    let mut pages = 1;
    for index in 0..models {
        let path = zoo::package(folder, index);
        if index > 0 && path.exists() {
            continue;
        }
        let written = zoo::write(networks::residual(u64::from(index) + 1), &path)?;
        let image = written.image(punctual_device_cpu::lanes());
        pages = image.map_or(pages, |image| image.pages() as u32);
    }
    Ok(pages)
}

/// One table for all packages of the folder.
fn manifest(options: &Options, policy: &str, zoo: &Path, cache: u32) -> String {
    let Options {
        rate, deadline_ms, ..
    } = options;
    format!(
        r#"[daemon]
weight_cache = "{} KiB"
policy = "{policy}"

[recorder]
mode = "off"

[[partition]]
name = "main"
units = 1

[[task]]
package = "{}/*.punctual"
rate_hz = {rate}
deadline_ms = {deadline_ms}
answers = "early"
queue_depth = 16
slots = {SLOTS}
"#,
        u64::from(cache) * PAGE_BYTES as u64 / 1024,
        zoo.display(),
    )
}

/// Frames that the client can have on their way.
const SLOTS: u16 = 64;

fn measure(options: &Options) -> Result<Report, Error> {
    let programs = Programs::new(options.bin.as_deref());
    let folder = Folder::new("paging")?;
    let zoo = options.folder.clone();
    let zoo = zoo.unwrap_or_else(|| folder.path("zoo"));
    let each = write_packages(options.models, &zoo)?;
    let all = each * u32::from(options.models);
    let cache = (all * options.cache_percent).div_ceil(100).max(each);
    let (text, path) = (
        manifest(options, "punctual", &zoo, cache),
        folder.path("zoo.toml"),
    );
    folder.write("zoo.toml", text.as_bytes())?;
    // The first of them: the others take the same time.
    if !zoo::profile(&zoo, 0).exists() {
        programs.profile(&path)?;
    }
    let began = now_ns();
    programs.check(&path)?;
    let check_ms = ms_since(began);
    folder.write(
        "zoo.toml",
        manifest(options, &options.policy, &zoo, cache).as_bytes(),
    )?;
    let began = now_ns();
    let serves = match options.policy.as_str() {
        "punctual" => Serves::Daemon,
        _ => Serves::Lab,
    };
    let daemon = programs.reporting(serves, &path, &folder)?;
    let start_ms = ms_since(began);
    let tally = Feed::new(daemon.socket(), options.models)?.run(&arrivals(options))?;
    let served = daemon.stop()?;
    let times = [check_ms, start_ms];
    Ok(Report::new(options, [all, cache], times, &tally, &served))
}

fn ms_since(began_ns: u64) -> f64 {
    now_ns().saturating_sub(began_ns) as f64 / 1e6
}

/// When a request comes, in ns after the start, and for which network.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Planned {
    after_ns: u64,
    model: u16,
}

#[derive(Debug)]
struct Tally {
    submitted: u64,
    on_time: u64,
    late: u64,
    rejected: u64,
    failed: u64,
    /// From the planned time to the answer, in nanoseconds; answered requests only.
    latency: Histogram<u64>,
}

impl Tally {
    fn new() -> Self {
        let latency = Histogram::new_with_bounds(1, 3_600_000_000_000, 3);
        Self {
            submitted: 0,
            on_time: 0,
            late: 0,
            rejected: 0,
            failed: 0,
            latency: latency.expect("bounds that a histogram can have"),
        }
    }

    /// Requests without a verdict: must be 0.
    const fn lost(&self) -> u64 {
        self.submitted - self.on_time - self.late - self.rejected - self.failed
    }
}

/// The one client: what is late to come is never waited for, the next request comes when it was planned.
struct Feed {
    asker: Asker,
    tally: Tally,
}

/// How long the last verdicts are waited for.
const LAST_NS: u64 = 5_000_000_000;

impl Feed {
    fn new(socket: &Path, models: u16) -> Result<Self, Error> {
        Ok(Self {
            asker: Asker::connect(socket, models)?,
            tally: Tally::new(),
        })
    }

    fn run(mut self, coming: &[Planned]) -> Result<Tally, Error> {
        let start_ns = now_ns() + 100_000_000;
        for planned in coming {
            let at_ns = start_ns + planned.after_ns;
            self.take_until(at_ns)?;
            while !self.asker.submit(planned.model, at_ns, 0)? {
                self.take_until(now_ns() + 1_000_000)?;
            }
            self.tally.submitted += 1;
        }
        let end_ns = now_ns() + LAST_NS;
        while self.asker.unanswered() > 0 && now_ns() < end_ns {
            self.take_until(now_ns() + 10_000_000)?;
        }
        Ok(self.tally)
    }

    fn take_until(&mut self, until_ns: u64) -> Result<(), Error> {
        while let Some(response) = self.asker.verdict(until_ns)? {
            let tally = &mut self.tally;
            let count = match response.verdict {
                Verdict::OnTime => &mut tally.on_time,
                Verdict::Late => &mut tally.late,
                Verdict::Rejected(_) => &mut tally.rejected,
                Verdict::Failed(_) => &mut tally.failed,
            };
            *count += 1;
            if response.answer.is_some() {
                let took = response.finished_ns.saturating_sub(response.captured_ns);
                tally.latency.saturating_record(took);
            }
        }
        Ok(())
    }
}

/// Poisson arrivals; a model's popularity falls with its rank, which is its number.
fn arrivals(options: &Options) -> Vec<Planned> {
    let mut random = Random::new(options.seed).stream("arrivals", 0);
    let weights = (0..options.models).map(|rank| (f64::from(rank) + 1.0).powf(-options.skew));
    let mut sums = Vec::with_capacity(usize::from(options.models));
    let mut sum = 0.0;
    for weight in weights {
        sum += weight;
        sums.push(sum);
    }
    let end = f64::from(options.seconds);
    let mut at = 0.0;
    let mut planned = Vec::new();
    loop {
        at += random.exponential(1.0 / options.rate);
        if at >= end {
            return planned;
        }
        let point = random.unit() * sum;
        let model = sums.partition_point(|&s| s < point).min(sums.len() - 1);
        planned.push(Planned {
            after_ns: (at * 1e9) as u64,
            model: model as u16,
        });
    }
}

impl Report {
    fn new(
        options: &Options,
        pages: [u32; 2],
        [check_ms, start_ms]: [f64; 2],
        tally: &Tally,
        served: &Served,
    ) -> Self {
        let latency = |quantile| tally.latency.value_at_quantile(quantile) as f64 / 1e3;
        let LatencyReport { p50, p99, max, .. } = served.paging.load_us;
        let (paging, decision) = (&served.paging, &served.decision_us);
        let asked = (paging.hits + paging.misses).max(1);
        let mb = |bytes: u64| bytes as f64 / 1e6;
        Self {
            models: options.models,
            pages,
            policy: options.policy.clone(),
            rate_hz: options.rate,
            submitted: tally.submitted,
            on_time: tally.on_time,
            late: tally.late,
            rejected: tally.rejected,
            failed: tally.failed,
            lost: tally.lost(),
            hit_percent: paging.hits as f64 * 100.0 / asked as f64,
            loads: paging.load_us.count,
            evictions: paging.evictions,
            load_us: [p50 as f64, p99 as f64, max as f64],
            latency_us: [
                latency(0.5),
                latency(0.99),
                tally.latency.max() as f64 / 1e3,
            ],
            decision_us: [decision.p50, decision.p99, decision.p999, decision.max],
            check_ms,
            start_ms,
            memory_mb: [
                mb(served.memory.planned_bytes),
                mb(served.memory.peak_bytes),
            ],
            missing: served.missing.clone(),
        }
    }

    fn text(&self) -> String {
        let [all, cache] = self.pages;
        let [load, load_p99, load_max] = self.load_us;
        let [latency, latency_p99, latency_max] = self.latency_us;
        let [decision, decision_p99, decision_p999, decision_max] = self.decision_us;
        let [planned, peak] = self.memory_mb;
        let missing = match &self.missing[..] {
            [] => String::new(),
            missing => format!("not granted: {}\n", missing.join(", ")),
        };
        format!(
            "{} networks of {all} pages in all, a cache of {cache}, {:.0} requests/s, {}\n\
             submitted {}: on time {}, late {}, rejected {}, failed {}, lost {}\n\
             hits {:.1}%, {} loads, {} evictions\n\
             a load:     p50 {load:.0} us, p99 {load_p99:.0} us, longest {load_max:.0} us\n\
             an answer:  p50 {latency:.0} us, p99 {latency_p99:.0} us, longest {latency_max:.0} us\n\
             a decision: p50 {decision:.1} us, p99 {decision_p99:.1} us, 99.9% {decision_p999:.1} us, longest {decision_max:.1} us\n\
             punctual check: {:.0} ms, start of the daemon: {:.0} ms\n\
             memory: {planned:.0} MB planned, {peak:.0} MB at most\n{missing}",
            self.models,
            self.rate_hz,
            self.policy,
            self.submitted,
            self.on_time,
            self.late,
            self.rejected,
            self.failed,
            self.lost,
            self.hit_percent,
            self.loads,
            self.evictions,
            self.check_ms,
            self.start_ms,
        )
    }
}

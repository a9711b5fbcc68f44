//! What best-effort work costs real-time work on the GPU, and what it adds: REEF, Figure 11.

mod plan;
mod world;

use punctual_core::{Actions, Criticality, Scheduler};
use punctual_device_cuda::CudaDevice;
use punctual_executor::{Events, drive};
use punctual_plan::PolicyChoice;
use punctual_report::{Axis, Bars};
use punctual_simulator::scenario::Scenario;
use punctual_types::Random;

use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig::{self, Rig};
use super::super::step::{Session, Step, StepError};
use plan::WORKLOADS;
use world::{Tally, World};

pub struct Disb;

const WAYS: [&str; 2] = ["real-time only", "both, preempting"];

struct Figures {
    real_time: Latency,
    real_time_hz: f64,
    all_hz: f64,
    /// Requests of real-time tasks that were not answered within their deadline, of all.
    missed: f64,
}

impl Step for Disb {
    fn name(&self) -> &'static str {
        "disb"
    }

    fn about(&self) -> &'static str {
        "real-time latency beside best-effort work, and the throughput of both (REEF, Figure 11)"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let networks = plan::networks(session);
        let models: Vec<_> = networks
            .iter()
            .map(|network| (network, &[1_u8][..]))
            .collect();
        let mut rigs = rig::whole(session, &models, [rig::queue(session.gpu()?)?])?;
        let profiled = plan::profile(session, &mut rigs[0], &networks)?;
        let mut result = StepResult::default();
        let mut tables = Tables::new();
        for &(letter, workload) in session.size(&WORKLOADS[..], &WORKLOADS[..1]) {
            let scenario = plan::scenario(session, workload, &profiled);
            let alone = play(session, &mut rigs[0], without_best_effort(scenario.clone()))?;
            let both = play(session, &mut rigs[0], scenario)?;
            tables.add(letter, &alone, &both);
            judge(&mut result, letter, &both, &alone);
        }
        tables.into(&mut result);
        plan::notes(session, &mut result);
        Ok(result)
    }
}

fn judge(result: &mut StepResult, letter: char, found: &Figures, alone: &Figures) {
    let of = format!("DISB {letter}");
    let latency = found.real_time.mean_over(&alone.real_time);
    result.figure("disb-latency", &of, latency);
    let gain = format!("disb-{}", letter.to_ascii_lowercase());
    result.figure(&gain, "", found.all_hz / alone.all_hz);
}

fn without_best_effort(mut scenario: Scenario) -> Scenario {
    scenario
        .tasks
        .retain(|task| task.config.criticality == Criticality::RealTime);
    let all = (0..scenario.tasks.len()).collect();
    scenario.planned = vec![(scenario.planned[0].0, all)];
    scenario
}

/// Plays a workload on the real clock: the production loop and scheduler on the GPU.
fn play(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    scenario: Scenario,
) -> Result<Figures, StepError> {
    let policy = PolicyChoice::default();
    let config = scenario.config(&policy);
    let load = session.size(1.0, 0.1);
    let arrivals = scenario.arrivals(load, &Random::new(1))?;
    let (buffers, tasks) = (config.request_buffers, config.tasks.len());
    let mut actions = Actions::for_config(&config);
    let mut scheduler = Scheduler::new(&config, &policy)?;
    let mut world = World::new(rig, arrivals, tasks);
    let mut events = Events::with_capacity(usize::from(buffers) + 64);
    drive(&mut scheduler, &mut world, &mut events, &mut actions);
    let tallies = world.end()?;
    Ok(figures(&scenario, &tallies))
}

fn figures(scenario: &Scenario, tallies: &[Tally]) -> Figures {
    let both = || scenario.tasks.iter().zip(tallies);
    let real_time = || both().filter(|(task, _)| task.config.criticality == Criticality::RealTime);
    let seconds = scenario.length.as_nanos() as f64 / 1e9;
    let answers = |tally: &Tally| tally.latencies_ns.len() as f64;
    let latencies = real_time().flat_map(|(_, tally)| tally.latencies_ns.iter().copied());
    let submitted: u64 = real_time().map(|(_, tally)| tally.submitted).sum();
    let on_time: u64 = real_time().map(|(_, tally)| tally.on_time).sum();
    Figures {
        real_time: Latency::of(latencies.collect()),
        real_time_hz: real_time().map(|(_, tally)| answers(tally)).sum::<f64>() / seconds,
        all_hz: both().map(|(_, tally)| answers(tally)).sum::<f64>() / seconds,
        missed: (submitted - on_time) as f64 / submitted.max(1) as f64,
    }
}

struct Tables {
    sheet: Sheet,
    latency: Bars,
    throughput: Bars,
}

impl Tables {
    fn new() -> Self {
        let bars = |title: &str, unit: &str| Bars {
            title: title.to_owned(),
            y: Axis::linear(unit),
            groups: Vec::new(),
            series: WAYS.map(|way| (way.to_owned(), Vec::new())).to_vec(),
        };
        Self {
            sheet: Sheet::of_latencies(
                "Real-time requests, from when they were due",
                &["workload", "way"],
                &[
                    "mean / alone",
                    "missed",
                    "real-time/s",
                    "all/s",
                    "all / alone",
                ],
            ),
            latency: bars("Mean real-time latency", "ms"),
            throughput: bars("Answers, real-time and best-effort", "1/s"),
        }
    }

    fn add(&mut self, letter: char, alone: &Figures, both: &Figures) {
        for (position, (way, found)) in WAYS.into_iter().zip([alone, both]).enumerate() {
            let rest = [
                format!("{:.3}", found.real_time.mean_over(&alone.real_time)),
                format!("{:.2}%", found.missed * 100.0),
                format!("{:.1}", found.real_time_hz),
                format!("{:.1}", found.all_hz),
                format!("{:.2}", found.all_hz / alone.all_hz),
            ];
            let what = [letter.to_string(), way.to_owned()];
            self.sheet.latency(what, &found.real_time, rest);
            let mean_ms = found.real_time.mean_us / 1e3;
            self.latency.series[position].1.push(Some(mean_ms));
            self.throughput.series[position].1.push(Some(found.all_hz));
        }
        for bars in [&mut self.latency, &mut self.throughput] {
            bars.groups.push(letter.to_string());
        }
    }

    fn into(self, result: &mut StepResult) {
        result.tables.push(self.sheet);
        result.bars.extend([self.latency, self.throughput]);
    }
}

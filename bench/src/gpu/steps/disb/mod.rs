//! What best-effort work costs real-time work on the GPU, and what it adds: REEF, Figure 11.

mod plan;
mod world;

use punctual_baselines::{SeqConfig, StreamsConfig};
use punctual_core::{Actions, Criticality, Scheduler};
use punctual_device_cuda::CudaDevice;
use punctual_evaluation::workloads;
use punctual_executor::{Events, drive};
use punctual_plan::PolicyChoice;
use punctual_report::{Axis, Bars};
use punctual_simulator::scenario::{Model, Scenario};
use punctual_types::Random;

use super::super::division::Parts;
use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig::{self, Rig, Setup};
use super::super::step::{Session, Step, StepError};
use plan::{Plan, WORKLOADS};
use world::{Tally, World};

pub struct Disb;

/// Who decides, on which partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Real-time work has the GPU for itself.
    Alone,
    /// One request after the other, real-time work first.
    Sequential,
    /// A stream for each task, all at once.
    Streams,
    /// All of the GPU, best-effort work preempted.
    Ours,
    /// Best-effort work on a quarter of the TPCs, at the same time as real-time work on the others.
    OursDivided,
}

impl Way {
    const ALL: [Self; 5] = [
        Self::Alone,
        Self::Sequential,
        Self::Streams,
        Self::Ours,
        Self::OursDivided,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Alone => "real-time only",
            Self::Sequential => "sequential",
            Self::Streams => "streams",
            Self::Ours => "ours, preempting",
            Self::OursDivided => "ours, divided",
        }
    }

    fn policy(self) -> PolicyChoice {
        match self {
            Self::Alone | Self::Sequential => PolicyChoice::new(SeqConfig::default()),
            Self::Streams => PolicyChoice::new(StreamsConfig::default()),
            Self::Ours | Self::OursDivided => PolicyChoice::default(),
        }
    }
}

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

    fn needs(&self) -> &'static [&'static str] {
        &["calibration"]
    }

    fn seconds(&self) -> u32 {
        120
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let parts = Parts::find(session, gpu)?;
        let networks = plan::networks(session);
        let models: Vec<_> = networks
            .iter()
            .map(|network| (network, &[1_u8][..]))
            .collect();
        let plan = Plan::new(&parts);
        let mut rig = Rig::cuda(
            session,
            &Setup {
                models: &models,
                division: plan.division(&parts),
                queue: rig::queue(gpu)?,
            },
        )?;
        let profiled = plan::profile(session, &mut rig, &networks, &plan)?;
        let mut result = StepResult::default();
        let mut tables = Tables::new();
        for &(letter, workload) in session.size(&WORKLOADS[..], &WORKLOADS[..1]) {
            let possible = |way: &Way| *way != Way::OursDivided || plan.divided.is_some();
            let mut found = Vec::new();
            for way in Way::ALL.into_iter().filter(possible) {
                let divided = way == Way::OursDivided;
                let scenario = plan.scenario(session, workload, &profiled, divided);
                let figures = play(session, &mut rig, &plan, scenario, way)?;
                found.push((way, figures));
            }
            let alone = &found[0].1;
            for (way, figures) in &found {
                tables.row(letter, *way, figures, alone);
                if *way == Way::Ours {
                    judge(&mut result, letter, figures, alone);
                }
            }
        }
        tables.into(&mut result);
        plan::notes(session, &mut result, &plan);
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

/// Plays a workload on the real clock: the production loop and scheduler on the GPU.
fn play(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    plan: &Plan,
    mut scenario: Scenario,
    way: Way,
) -> Result<Figures, StepError> {
    if way == Way::Alone {
        let real_time = |criticality| criticality == Criticality::RealTime;
        scenario
            .tasks
            .retain(|task| real_time(task.config.criticality));
        let all = (0..scenario.tasks.len()).collect();
        scenario.planned = vec![(scenario.planned[0].0, all)];
    }
    let policy = way.policy();
    let config = scenario.config(&policy);
    let load = session.size(1.0, 0.1);
    let arrivals = scenario.arrivals(load, &Random::new(1))?;
    let first = plan.first_partition(way == Way::OursDivided);
    let (buffers, tasks) = (config.request_buffers, config.tasks.len());
    let mut actions = Actions::for_config(&config);
    let mut scheduler = Scheduler::new(&config, &policy)?;
    let mut world = World::new(rig, arrivals, first, tasks);
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
            series: Way::ALL
                .map(|way| (way.name().to_owned(), Vec::new()))
                .to_vec(),
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

    fn row(&mut self, letter: char, way: Way, found: &Figures, alone: &Figures) {
        let what = [letter.to_string(), way.name().to_owned()];
        let rest = [
            format!("{:.3}", found.real_time.mean_over(&alone.real_time)),
            format!("{:.2}%", found.missed * 100.0),
            format!("{:.1}", found.real_time_hz),
            format!("{:.1}", found.all_hz),
            format!("{:.2}", found.all_hz / alone.all_hz),
        ];
        self.sheet.latency(what, &found.real_time, rest);
        let group = letter.to_string();
        let position = Way::ALL.iter().position(|each| *each == way);
        let values = [
            (&mut self.latency, found.real_time.mean_us / 1e3),
            (&mut self.throughput, found.all_hz),
        ];
        for (bars, value) in values {
            if bars.groups.last() != Some(&group) {
                bars.groups.push(group.clone());
                bars.series
                    .iter_mut()
                    .for_each(|(_, values)| values.push(None));
            }
            let series = position.and_then(|at| bars.series.get_mut(at));
            if let Some(last) = series.and_then(|(_, values)| values.last_mut()) {
                *last = Some(value);
            }
        }
    }

    fn into(self, result: &mut StepResult) {
        result.tables.push(self.sheet);
        result.bars.extend([self.latency, self.throughput]);
    }
}

/// The workload of that name, as its authors published it.
fn published(workload: &str) -> Scenario {
    workloads::by_name(workload).expect("built in")
}

/// By position in the list of networks: what the simulator knows of a network.
type Profiled = Vec<Model>;

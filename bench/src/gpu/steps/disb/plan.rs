//! DISB's workloads with networks of ours, on partitions of the GPU.

use punctual_core::{Criticality, Nanos, StageId, Units};
use punctual_device::conformance::networks;
use punctual_device_cuda::{CudaDevice, Division};
use punctual_evaluation::experiments::disb::DEADLINE;
use punctual_evaluation::profiles::reef::right_at_the_end;
use punctual_model::Network;
use punctual_roofline::structures::{OF_DISB, Structure};
use punctual_simulator::scenario::{Board, Measured, Model, Scenario, Stage};

use super::super::super::division::Parts;
use super::super::super::result::{Latency, StepResult};
use super::super::super::rig::{self, BUFFERS, Rig, StageRun};
use super::super::super::step::{Session, StepError};
use super::{Profiled, published};

/// By letter and the simulator's name.
pub const WORKLOADS: [(char, &str); 5] = [
    ('A', "disb-a"),
    ('B', "disb-b"),
    ('C', "disb-c"),
    ('D', "disb-d"),
    ('E', "disb-e"),
];

/// DISB has ten tasks at most.
const TASKS_MAX: usize = 10;

/// What budgets are above the longest of the profile, in percent.
const MARGIN_PERCENT: u64 = 110;

/// The networks, in the order of [`OF_DISB`]; a small one where everything is tiny.
pub fn networks(session: &Session<'_>) -> Vec<Network> {
    if session.quick {
        return vec![networks::residual(1)];
    }
    let network = |(_, structure): &(&str, Structure)| structure.network(224, 1);
    OF_DISB.iter().map(network).collect()
}

/// Which partitions the device has: all of the GPU for each task of a stream, then its two parts.
pub struct Plan {
    whole: u16,
    /// Units of the real-time part, if the GPU can be divided.
    pub divided: Option<u16>,
}

impl Plan {
    pub fn new(parts: &Parts) -> Self {
        let quarter = (parts.units / 4).max(1);
        Self {
            whole: parts.units,
            divided: (parts.units > 1).then(|| parts.units - quarter),
        }
    }

    pub fn division(&self, parts: &Parts) -> Division {
        let mut ranges = vec![parts.tpcs(0, self.whole); TASKS_MAX];
        if let Some(first) = self.divided {
            ranges.push(parts.tpcs(0, first));
            ranges.push(parts.tpcs(first, self.whole - first));
        }
        parts.division(ranges)
    }

    /// The device's partition that is a configuration's first.
    pub fn first_partition(&self, divided: bool) -> u16 {
        if divided { TASKS_MAX as u16 } else { 0 }
    }

    /// Partitions to be profiled, by their units.
    fn sizes(&self) -> Vec<(u16, u16)> {
        let whole = (0, self.whole);
        let parts = self.divided.map(|first| {
            let at = TASKS_MAX as u16;
            [(at, first), (at + 1, self.whole - first)]
        });
        std::iter::once(whole)
            .chain(parts.into_iter().flatten())
            .collect()
    }

    /// A workload of DISB with what was profiled of our networks.
    pub fn scenario(
        &self,
        session: &Session<'_>,
        workload: &str,
        profiled: &Profiled,
        divided: bool,
    ) -> Scenario {
        let published = published(workload);
        let mut tasks = published.tasks;
        for task in &mut tasks {
            let name = &published.models[task.config.model.index()].name;
            let place = OF_DISB.iter().position(|(stood_for, _)| stood_for == name);
            let model = place.unwrap_or(0) % profiled.len();
            task.config.model.0 = model as u16;
            task.config.mandatory_exit = StageId(profiled[model].stages.len() as u8 - 1);
            task.config.reserved = false;
            if task.config.criticality == Criticality::RealTime {
                task.config.deadline = Some(DEADLINE);
            }
        }
        let board = Board {
            request_buffers: BUFFERS,
            ..Board::of(self.whole)
        };
        let length = session.size(Nanos::from_millis(4_000), Nanos::from_millis(200));
        let mut scenario = Scenario::new(profiled.clone(), tasks, board, length);
        if let Some(first) = self.divided.filter(|_| divided) {
            scenario.planned = self.parts(&scenario, first);
        }
        scenario
    }

    fn parts(&self, scenario: &Scenario, first: u16) -> Vec<(Units, Vec<usize>)> {
        let of = |wanted: Criticality| {
            let tasks = scenario.tasks.iter().enumerate();
            let tasks = tasks.filter(move |(_, task)| task.config.criticality == wanted);
            tasks.map(|(index, _)| index).collect()
        };
        let real_time = Units {
            first: 0,
            count: first,
        };
        let best_effort = Units {
            first,
            count: self.whole - first,
        };
        vec![
            (real_time, of(Criticality::RealTime)),
            (best_effort, of(Criticality::BestEffort)),
        ]
    }
}

/// How long every stage takes on each size of partition, for one image.
pub fn profile(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    networks: &[Network],
    plan: &Plan,
) -> Result<Profiled, StepError> {
    let mut profiled = Vec::new();
    for (model, network) in networks.iter().enumerate() {
        rig.write(model as u16, 0, 1, |seed| rig::picture(network, seed))?;
        let mut stages = vec![Stage::default(); network.stages.len()];
        for (partition, units) in plan.sizes() {
            let mut durations = vec![Vec::new(); stages.len()];
            for _ in 0..session.size(30, 2) {
                for (stage, durations) in durations.iter_mut().enumerate() {
                    let stage_run = StageRun {
                        partition,
                        model: model as u16,
                        stage: stage as u8,
                        batch: 1,
                        first: 0,
                    };
                    durations.push(rig.run(stage_run)?.measured.as_nanos());
                }
            }
            for (stage, durations) in stages.iter_mut().zip(durations) {
                stage.times.push(time(units, durations));
            }
        }
        profiled.push(model_of(network, stages));
    }
    Ok(profiled)
}

fn time(units: u16, durations_ns: Vec<u64>) -> Measured {
    let longest = (Latency::of(durations_ns).p99_us * 1e3) as u64;
    Measured {
        batch: 1,
        units,
        time: punctual_core::StageTime {
            budget: Nanos::new(longest * MARGIN_PERCENT / 100),
            max_seen: Nanos::new(longest * 2),
        },
    }
}

/// Its exits know nothing before the last one: requests go all the way, as DISB's do.
fn model_of(network: &Network, stages: Vec<Stage>) -> Model {
    Model {
        name: network.name.clone(),
        source: "this GPU".into(),
        calibration: right_at_the_end(stages.len()),
        stages,
        weights: None,
    }
}

/// What must be known of the figures.
pub fn notes(session: &Session<'_>, result: &mut StepResult, plan: &Plan) {
    if session.quick {
        result.note("Only workload A, at a tenth of its rate: sizes are tiny.");
    }
    result.note(
        "The production loop and scheduler on this GPU; requests come when DISB's files say, latency counts from then. \
         Inputs are on the device already, as in REEF. DISB knows no deadlines: 300 ms, without reservations.",
    );
    result.note(
        "densenet201 is ResNet-50 here, inceptionv3 ResNet-34, distilbert (tokens: no CUDA kernels) MobileNetV2; \
         ResNet-152 and VGG-19 are themselves. All at 224 x 224 in halves, always to the last exit.",
    );
    result.note(match plan.divided {
        Some(first) => format!(
            "Divided: real-time work on {first} of {} units, best-effort work on the others. The bounds are judged for \
             ours, preempting: all of the GPU for whoever is first.",
            plan.whole
        ),
        None => "No mechanism divides this GPU: nothing runs beside real-time work.".to_owned(),
    });
}

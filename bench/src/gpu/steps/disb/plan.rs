//! DISB's workloads with networks of ours, on all of the GPU.

use punctual_conformance::networks;
use punctual_core::{Criticality, Nanos, StageId, StageTime};
use punctual_device_cuda::CudaDevice;
use punctual_evaluation::experiments::disb::DEADLINE;
use punctual_evaluation::profiles::reef::right_at_the_end;
use punctual_evaluation::workloads;
use punctual_model::Network;
use punctual_roofline::structures::{OF_DISB, Structure};
use punctual_simulator::scenario::{Board, Measured, Model, Scenario, Stage};

use super::super::super::result::{Latency, StepResult};
use super::super::super::rig::{self, BUFFERS, Rig, StageRun};
use super::super::super::step::{Session, StepError};

/// By letter and the simulator's name.
pub const WORKLOADS: [(char, &str); 5] = [
    ('A', "disb-a"),
    ('B', "disb-b"),
    ('C', "disb-c"),
    ('D', "disb-d"),
    ('E', "disb-e"),
];

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

/// The workload of that name, as its authors published it.
pub fn published(workload: &str) -> Scenario {
    workloads::by_name(workload).expect("built in")
}

/// A workload of DISB with what was profiled of our networks, by their position in [`networks`].
pub fn scenario(session: &Session<'_>, workload: &str, profiled: &[Model]) -> Scenario {
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
        ..Board::of(UNITS)
    };
    let length = session.size(Nanos::from_millis(4_000), Nanos::from_millis(200));
    Scenario::new(profiled.to_vec(), tasks, board, length)
}

/// One partition is all of the GPU.
const UNITS: u16 = 1;

/// How long every stage takes for one image.
pub fn profile(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    networks: &[Network],
) -> Result<Vec<Model>, StepError> {
    let mut profiled = Vec::new();
    for (model, network) in networks.iter().enumerate() {
        rig.write(model as u16, 0, 1, |seed| rig::picture(network, seed))?;
        let mut durations = vec![Vec::new(); network.stages.len()];
        for _ in 0..session.size(30, 2) {
            for (stage, durations) in durations.iter_mut().enumerate() {
                let stage_run = StageRun {
                    partition: 0,
                    model: model as u16,
                    stage: stage as u8,
                    batch: 1,
                    first: 0,
                };
                durations.push(rig.run(stage_run)?.measured.as_nanos());
            }
        }
        let stage = |durations| Stage {
            times: vec![time(durations)],
            ..Stage::default()
        };
        profiled.push(model_of(
            network,
            durations.into_iter().map(stage).collect(),
        ));
    }
    Ok(profiled)
}

fn time(durations_ns: Vec<u64>) -> Measured {
    let longest = (Latency::of(durations_ns).p99_us * 1e3) as u64;
    Measured {
        batch: 1,
        units: UNITS,
        time: StageTime {
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
pub fn notes(session: &Session<'_>, result: &mut StepResult) {
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
    result.note(
        "All of the GPU for whoever is first; a real-time request preempts best-effort work.",
    );
}

//! What a stage suffers from another one that runs at the same time: SEEB-GPU, Table 1.

use punctual_core::Criticality;
use punctual_device_cuda::CudaDevice;
use punctual_report::{Axis, Bars};
use punctual_roofline::structures::Structure;

use super::super::division::Parts;
use super::super::load::{Load, Work};
use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig::{self, BUFFERS, Rig, Setup, StageRun};
use super::super::roofline::Roofline;
use super::super::step::{Prerequisite, Session, Step, StepError};
use super::networks;

pub struct Isolation;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    OnOtherTpcs,
    OnTheSameTpcs,
}

impl Beside {
    const ALL: [Self; 3] = [Self::Nothing, Self::OnOtherTpcs, Self::OnTheSameTpcs];

    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "alone",
            Self::OnOtherTpcs => "disjoint TPCs",
            Self::OnTheSameTpcs => "the same TPCs",
        }
    }

    /// The partition of what runs at the same time: 0 is the measured stage's.
    const fn partition(self) -> Option<u16> {
        match self {
            Self::Nothing => None,
            Self::OnOtherTpcs => Some(1),
            Self::OnTheSameTpcs => Some(2),
        }
    }
}

impl Step for Isolation {
    fn name(&self) -> &'static str {
        "isolation"
    }

    fn about(&self) -> &'static str {
        "a stage alone, beside another one on disjoint TPCs, and on the same (SEEB-GPU, Table 1)"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["calibration"]
    }

    fn seconds(&self) -> u32 {
        30
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let parts = Parts::find(session, gpu)?;
        let half = parts.units / 2;
        if half == 0 {
            return Err(Prerequisite::Undivided.into());
        }
        let ranges = [
            parts.tpcs(0, half),
            parts.tpcs(half, half),
            parts.tpcs(0, half),
        ];
        let structures = [Structure::ResNet50, Structure::MobileNetV2];
        let networks = networks::of(session, &structures, 224);
        let batches = session.size(&[1, 8][..], &[1]);
        let models: Vec<_> = networks.iter().map(|network| (network, batches)).collect();
        let mut rig = Rig::cuda(
            session,
            &Setup {
                models: &models,
                division: parts.division(ranges.to_vec()),
                queue: rig::queue(gpu)?,
            },
        )?;
        let roofline = Roofline::find(session)?;
        let multiprocessors = parts.multiprocessors(0, half)?;
        let (mut found, mut compared) = (Vec::new(), Vec::new());
        let mut left = networks.len() * batches.len();
        for (model, network) in networks.iter().enumerate() {
            rig.write(model as u16, 0, BUFFERS, |seed| rig::picture(network, seed))?;
            for &batch in batches {
                let victim = StageRun {
                    partition: 0,
                    model: model as u16,
                    stage: 0,
                    batch,
                    first: 0,
                };
                let name = format!("{}, first stage, batch {batch}", network.name);
                let latencies = measure(session, &mut rig, victim, 1000 / left as u64)?;
                let predicted = roofline.network(network, batch, multiprocessors);
                compared.push(predicted.stage(&name, 0, latencies[0].p50_us));
                found.push((name, latencies));
                left -= 1;
            }
        }
        let mut result = report(&found);
        result.compared = compared;
        result.note(roofline.about());
        result.note(
            "Beside it the same stage runs over and over, two actions deep. Blocks of the three cases alternate; \
             times are from the order of a stage to its event. SEEB-GPU found 0.068, 0.077 and 0.128 ms for a \
             convolution on 11 TPCs each.",
        );
        Ok(result)
    }
}

/// Stages by name, each with its latencies by what runs at the same time.
fn report(found: &[(String, [Latency; 3])]) -> StepResult {
    let mut result = StepResult::default();
    let title = "A stage on half of the TPCs";
    let mut sheet = Sheet::of_latencies(title, &["stage", "beside"], &["p50 / alone"]);
    for (name, latencies) in found {
        let over = |latency: &Latency| latency.over(&latencies[0]);
        for (beside, latency) in Beside::ALL.into_iter().zip(latencies) {
            let what = [name.clone(), beside.name().to_owned()];
            sheet.latency(what, latency, [format!("{:.2}", over(latency))]);
        }
        result.figure("disjoint", name, over(&latencies[1]));
    }
    result.tables.push(sheet);
    let series = Beside::ALL.iter().enumerate().map(|(position, beside)| {
        let medians = found
            .iter()
            .map(|(_, latencies)| Some(latencies[position].p50_us));
        (beside.name().to_owned(), medians.collect())
    });
    result.bars.push(Bars {
        title: "Median of a stage on half of the TPCs".to_owned(),
        y: Axis::linear("us"),
        groups: found
            .iter()
            .map(|(name, _)| name.replace(", first stage, batch ", " x"))
            .collect(),
        series: series.collect(),
    });
    result
}

/// Latencies of the stage in each case, blocks of each in turn.
fn measure(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    victim: StageRun,
    permille: u64,
) -> Result<[Latency; 3], StepError> {
    const BLOCK: usize = 20;
    let mut durations = [const { Vec::new() }; 3];
    for (round, ()) in session.rounds(150, 2, permille).enumerate() {
        for (beside, durations) in Beside::ALL.into_iter().zip(&mut durations) {
            let mut load = Load::begin(
                rig,
                beside.partition().map(|partition| Work {
                    stage_run: StageRun {
                        partition,
                        first: u16::from(victim.batch),
                        ..victim
                    },
                    criticality: Criticality::RealTime,
                }),
            )?;
            for _ in 0..session.size(BLOCK, 2) {
                let took = load.run(rig, victim)?;
                // The first round finds cold caches.
                if round > 0 {
                    durations.push(took);
                }
            }
            load.end(rig)?;
        }
    }
    Ok(durations.map(Latency::of))
}

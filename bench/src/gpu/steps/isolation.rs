//! What a promised stage suffers from best-effort work that runs at the same time, kept apart by masks or not: SEEB-GPU, Table 1.

use punctual_device_cuda::CudaDevice;
use punctual_model::Network;
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

/// What runs at the same time as the promised stage, and where both run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Alone,
    Beside,
    /// What masks alone cost: half of the GPU.
    AloneOnHalf,
    BesideOnOtherHalf,
    BesideOnSameHalf,
}

impl Condition {
    const ALL: [Self; 5] = [
        Self::Alone,
        Self::Beside,
        Self::AloneOnHalf,
        Self::BesideOnOtherHalf,
        Self::BesideOnSameHalf,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone, on all TPCs",
            Self::Beside => "beside best-effort work, both on all TPCs",
            Self::AloneOnHalf => "alone, on its half",
            Self::BesideOnOtherHalf => "beside best-effort work, each on its half",
            Self::BesideOnSameHalf => "beside best-effort work, both on one half",
        }
    }

    /// Of the device's partitions, which are half, the other half, all, all again, and half again.
    const fn partitions(self) -> Partitions {
        let (promised, beside) = match self {
            Self::Alone => (2, None),
            Self::Beside => (2, Some(3)),
            Self::AloneOnHalf => (0, None),
            Self::BesideOnOtherHalf => (0, Some(1)),
            Self::BesideOnSameHalf => (0, Some(4)),
        };
        Partitions { promised, beside }
    }
}

struct Partitions {
    promised: u16,
    beside: Option<u16>,
}

/// By condition.
type Latencies = [Latency; Condition::ALL.len()];

fn under(latencies: &Latencies, condition: Condition) -> &Latency {
    &latencies[condition as usize]
}

/// First stages of a network: the promised one's batch, and that of those that run at the same time.
struct Case {
    model: usize,
    batch: u8,
    beside: u8,
}

impl Step for Isolation {
    fn name(&self) -> &'static str {
        "isolation"
    }

    fn about(&self) -> &'static str {
        "a promised stage alone, beside best-effort work, and beside it with masks, from its order to its end (SEEB-GPU, Table 1)"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["calibration"]
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let parts = Parts::find(session, gpu)?;
        let half = parts.units / 2;
        if half == 0 {
            return Err(Prerequisite::Undivided.into());
        }
        let (first, all) = (parts.tpcs(0, half), parts.tpcs(0, parts.units));
        let other = parts.tpcs(half, half);
        let structures = [Structure::ResNet50, Structure::MobileNetV2];
        let networks = networks::of(session, &structures, 224);
        let batches = session.size(&[1, 8][..], &[1]);
        let models: Vec<_> = networks.iter().map(|network| (network, batches)).collect();
        let mut rig = Rig::cuda(
            session,
            &Setup {
                models: &models,
                division: parts.division(vec![first.clone(), other, all.clone(), all, first]),
                queue: rig::queue(gpu)?,
            },
        )?;
        let roofline = Roofline::find(session)?;
        let multiprocessors = parts.multiprocessors(0, half)?;
        let (mut result, mut found) = (StepResult::default(), Vec::new());
        let cases = cases(session, &networks);
        for (index, case) in cases.iter().enumerate() {
            let network = &networks[case.model];
            rig.write(case.model as u16, 0, BUFFERS, |seed| {
                rig::picture(network, seed)
            })?;
            let name = format!("{}, first stage, batch {}", network.name, case.batch);
            let durations = measure(session, &mut rig, case, 1000 / (cases.len() - index) as u64)?;
            let mut named = Condition::ALL.into_iter().zip(durations);
            let latencies: Latencies = std::array::from_fn(|_| {
                let (condition, durations) = named.next().expect("one each");
                result.nanoseconds(format!("{name}, {}", condition.name()), durations)
            });
            let predicted = roofline.network(network, case.batch, multiprocessors);
            let alone = under(&latencies, Condition::AloneOnHalf).p50_us;
            result.compared.push(predicted.stage(&name, 0, alone));
            found.push((name, latencies));
        }
        report(&found, &mut result);
        result.note(roofline.about());
        Ok(result)
    }
}

/// In first light the usual one: a promised frame, and larger batches of best-effort work.
fn cases(session: &Session<'_>, networks: &[Network]) -> Vec<Case> {
    let case = |model, batch, beside| Case {
        model,
        batch,
        beside,
    };
    if session.brief {
        return vec![case(0, 1, session.size(8, 1))];
    }
    let batches = session.size(&[1, 8][..], &[1]);
    let of_model = |model| batches.iter().map(move |&batch| case(model, batch, batch));
    (0..networks.len()).flat_map(of_model).collect()
}

/// Stages by name, each with its latencies.
fn report(found: &[(String, Latencies)], result: &mut StepResult) {
    let title = "A promised stage, from its order to its event";
    let mut sheet = Sheet::of_latencies(title, &["stage", "condition"], &["p50 / alone there"]);
    for (name, latencies) in found {
        for (condition, latency) in Condition::ALL.into_iter().zip(latencies) {
            let alone = match condition.partitions().promised {
                0 => Condition::AloneOnHalf,
                _ => Condition::Alone,
            };
            let over = latency.over(under(latencies, alone));
            let what = [name.clone(), condition.name().to_owned()];
            sheet.latency(what, latency, [format!("{over:.2}")]);
        }
        let disjoint = under(latencies, Condition::BesideOnOtherHalf);
        let over = disjoint.over(under(latencies, Condition::AloneOnHalf));
        result.figure("disjoint", name, over);
    }
    result.tables.push(sheet);
    if let Some((_, latencies)) = found.first() {
        let p99 = |condition| under(latencies, condition).p99_us;
        result.found = format!(
            "p99 of a promised stage: {:.0} us alone, {:.0} beside best-effort work, {:.0} with masks between them",
            p99(Condition::Alone),
            p99(Condition::Beside),
            p99(Condition::BesideOnOtherHalf)
        );
    }
    let series = Condition::ALL.map(|condition| {
        let medians = found
            .iter()
            .map(|(_, all)| Some(under(all, condition).p50_us));
        (condition.name().to_owned(), medians.collect())
    });
    result.bars.push(Bars {
        title: "Median of a promised stage".to_owned(),
        y: Axis::linear("us"),
        groups: found
            .iter()
            .map(|(name, _)| name.replace(", first stage, batch ", " x"))
            .collect(),
        series: series.to_vec(),
    });
    result.note(
        "Beside it the same stage runs over and over, two actions deep; in first light for batches of 8. Blocks of all conditions \
         alternate. Partitions of one leading core that begin at one TPC never run at once: with one core, unmasked work does not \
         overlap. SEEB-GPU found 0.068 ms alone, 0.077 on disjoint TPCs and 0.128 on the same for a convolution on 11 TPCs each.",
    );
}

/// The stage under each condition, blocks of each in turn.
fn measure(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    case: &Case,
    permille: u64,
) -> Result<[Vec<u64>; Condition::ALL.len()], StepError> {
    const BLOCK: usize = 20;
    let stage_run = |partition, batch, first| StageRun {
        partition,
        model: case.model as u16,
        stage: 0,
        batch,
        first,
    };
    let mut durations = [const { Vec::new() }; Condition::ALL.len()];
    for (round, ()) in session.rounds(150, 2, permille).enumerate() {
        for (condition, durations) in Condition::ALL.into_iter().zip(&mut durations) {
            let Partitions { promised, beside } = condition.partitions();
            let work = beside.map(|partition| Work {
                stage_run: stage_run(partition, case.beside, u16::from(case.batch)),
                stages: 1,
            });
            let mut load = Load::begin(rig, work)?;
            for _ in 0..session.size(BLOCK, 2) {
                let took = load.run(rig, stage_run(promised, case.batch, 0))?;
                // The first round finds cold caches.
                if round > 0 {
                    durations.push(took);
                }
            }
            load.end(rig)?;
        }
    }
    Ok(durations)
}

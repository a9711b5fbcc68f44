//! What a promised stage suffers from best-effort work that runs at the same time, kept apart by masks or not.

use punctual_core::Criticality;
use punctual_roofline::structures::Structure;

use super::super::super::division::Parts;
use super::super::super::load::{Load, Work};
use super::super::super::result::{Latency, Sheet};
use super::super::super::rig::{self, Rig, Setup, StageRun};
use super::super::super::step::{Prerequisite, Session, StepError};
use super::super::super::steps::networks;
use super::super::finding::Finding;
use super::FirstStep;

pub struct Beside;

/// What runs at the same time as the promised stage, and where both run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Alone,
    BesideUnmasked,
    BesideMasked,
    /// What masks alone cost: half of the GPU.
    AloneMasked,
}

impl Condition {
    const ALL: [Self; 4] = [
        Self::Alone,
        Self::BesideUnmasked,
        Self::BesideMasked,
        Self::AloneMasked,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone, on all TPCs",
            Self::BesideUnmasked => "beside best-effort work, both on all TPCs",
            Self::BesideMasked => "beside best-effort work, each on its half",
            Self::AloneMasked => "alone, on its half",
        }
    }

    /// The partitions of the promised stage and of what runs at the same time: of two halves, then twice everything.
    const fn partitions(self) -> Partitions {
        let (promised, beside) = match self {
            Self::Alone => (2, None),
            Self::BesideUnmasked => (2, Some(3)),
            Self::BesideMasked => (0, Some(1)),
            Self::AloneMasked => (0, None),
        };
        Partitions { promised, beside }
    }
}

struct Partitions {
    promised: u16,
    beside: Option<u16>,
}

impl FirstStep for Beside {
    fn name(&self) -> &'static str {
        "beside"
    }

    fn shows(&self) -> &'static str {
        "a promised stage alone, beside best-effort work, and beside it with masks, from its order to its end"
    }

    fn seconds(&self) -> u32 {
        4
    }

    fn of_time(&self) -> bool {
        true
    }

    fn run(&self, session: &Session<'_>) -> Result<Finding, StepError> {
        let gpu = session.gpu()?;
        let parts = Parts::find(session, gpu)?;
        let half = parts.units / 2;
        if half == 0 {
            return Err(Prerequisite::Undivided.into());
        }
        let all = parts.tpcs(0, parts.units);
        let ranges = vec![
            parts.tpcs(0, half),
            parts.tpcs(half, half),
            all.clone(),
            all,
        ];
        let networks = networks::of(session, &[Structure::ResNet50], 224);
        let batch = session.size(8, 1);
        let mut rig = Rig::cuda(
            session,
            &Setup {
                models: &[(&networks[0], session.size(&[1, 8], &[1]))],
                division: parts.division(ranges),
                queue: rig::queue(gpu)?,
            },
        )?;
        rig.write(0, 0, 1 + 2 * u16::from(batch), |seed| {
            rig::picture(&networks[0], seed)
        })?;
        let mut durations = [const { Vec::new() }; Condition::ALL.len()];
        for (round, ()) in session.rounds(100, 2, 900).enumerate() {
            for (condition, durations) in Condition::ALL.into_iter().zip(&mut durations) {
                let took = block(session, &mut rig, condition, batch)?;
                // The first round finds cold caches.
                if round > 0 {
                    durations.extend(took);
                }
            }
        }
        Ok(report(durations))
    }
}

/// Some promised stages in a row under one condition.
fn block(
    session: &Session<'_>,
    rig: &mut Rig<punctual_device_cuda::CudaDevice>,
    condition: Condition,
    batch: u8,
) -> Result<Vec<u64>, StepError> {
    let partitions = condition.partitions();
    let stage_run = |partition, batch, first| StageRun {
        partition,
        model: 0,
        stage: 0,
        batch,
        first,
    };
    let work = partitions.beside.map(|partition| Work {
        stage_run: stage_run(partition, batch, 1),
        criticality: Criticality::BestEffort,
    });
    let mut load = Load::begin(rig, work)?;
    let promised = stage_run(partitions.promised, 1, 0);
    let took = (0..session.size(20, 2)).map(|_| load.run(rig, promised));
    let took = took.collect::<Result<Vec<u64>, StepError>>()?;
    load.end(rig)?;
    Ok(took)
}

fn report(durations: [Vec<u64>; Condition::ALL.len()]) -> Finding {
    let mut finding = Finding::default();
    let mut sheet = Sheet::of_latencies(
        "A promised stage of ResNet-50 (batch 1), from its order to its event",
        &["condition"],
        &[],
    );
    let mut told = Vec::new();
    for (condition, durations) in Condition::ALL.into_iter().zip(durations) {
        let latency = Latency::of(durations.clone());
        sheet.latency([condition.name().to_owned()], &latency, []);
        if condition != Condition::AloneMasked {
            told.push(format!("{:.0}", latency.p99_us));
        }
        finding.nanoseconds(condition.name(), durations);
    }
    finding.tables.push(sheet);
    finding.found = format!(
        "p99 of a promised stage: {} us alone, {} beside best-effort work, {} with masks between them",
        told[0], told[1], told[2]
    );
    finding.note(
        "Beside it the first stage of ResNet-50 runs over and over for larger batches, two actions deep. Partitions of one \
         leading core that begin at one TPC never run at once: with one core, unmasked work does not overlap.",
    );
    finding
}

//! What a stage suffers from another one beside it: SEEB-GPU, Table 1.

use punctual_core::{ActionId, Criticality, Event};
use punctual_device_cuda::CudaDevice;
use punctual_device_cuda::structures::Structure;
use punctual_platform::clock;
use punctual_simulator::report::{Axis, Bars};

use super::super::division::Parts;
use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig::{self, Errand, Rig, Setup};
use super::super::step::{Lack, Session, Step, StepError};
use super::networks;

pub struct Isolation;

/// What runs beside.
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

    /// The partition of what runs beside: 0 is the measured stage's.
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
            return Err(Lack::Undivided.into());
        }
        let ranges = [
            parts.tpcs(0, half),
            parts.tpcs(half, half),
            parts.tpcs(0, half),
        ];
        let structures = [Structure::ResNet50, Structure::MobileNetV2];
        let networks = networks::of(session, &structures, 224);
        let batches = session.size(&[1, 8][..], &[1, 2]);
        let models: Vec<_> = networks.iter().map(|network| (network, batches)).collect();
        let mut rig = Rig::cuda(
            session,
            &Setup {
                models: &models,
                division: parts.division(ranges.to_vec()),
                queue: rig::queue(gpu)?,
            },
        )?;
        let mut result = StepResult::default();
        let headings = [
            &["stage", "beside"],
            &Latency::HEADINGS[..],
            &["p50 / alone"],
        ]
        .concat();
        let mut sheet = Sheet::new("A stage on half of the TPCs", &headings, 2);
        let mut bars = Bars {
            title: "Median of a stage on half of the TPCs".to_owned(),
            y: Axis::linear("us"),
            groups: Vec::new(),
            series: Beside::ALL
                .map(|beside| (beside.name().to_owned(), Vec::new()))
                .to_vec(),
        };
        let cases = networks.len() * batches.len();
        for (index, (model, &batch)) in (0..networks.len())
            .flat_map(|model| batches.iter().map(move |batch| (model, batch)))
            .enumerate()
        {
            let network = &networks[model];
            rig.write(model as u16, 0, 64, |seed| rig::picture(network, seed))?;
            let victim = Errand {
                partition: 0,
                model: model as u16,
                stage: 0,
                batch,
                first: 0,
            };
            let permille = 1000 / (cases - index) as u64;
            let found = measure(session, &mut rig, victim, permille)?;
            let name = format!("{}, first stage, batch {batch}", network.name);
            for (position, beside) in Beside::ALL.into_iter().enumerate() {
                let ratio = found[position].p50_us / found[0].p50_us;
                let what = [name.clone(), beside.name().to_owned()];
                let cells = found[position]
                    .cells()
                    .into_iter()
                    .chain([format!("{ratio:.2}")]);
                sheet.row(what.into_iter().chain(cells));
                bars.series[position].1.push(Some(found[position].p50_us));
            }
            bars.groups.push(format!("{} x{batch}", network.name));
            result.figure("disjoint", &name, found[1].p50_us / found[0].p50_us);
        }
        result.tables.push(sheet);
        result.bars.push(bars);
        result.note(
            "Beside it the same stage runs over and over, two actions deep. Blocks of the three cases alternate; \
             times are from the order of a stage to its event. SEEB-GPU found 0.068, 0.077 and 0.128 ms for a \
             convolution on 11 TPCs each.",
        );
        Ok(result)
    }
}

/// Latencies of the stage in each case, blocks of each in turn.
fn measure(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    victim: Errand,
    permille: u64,
) -> Result<[Latency; 3], StepError> {
    const BLOCK: usize = 20;
    let mut durations = [const { Vec::new() }; 3];
    for (round, ()) in session.rounds(150, 2, permille).enumerate() {
        for (beside, durations) in Beside::ALL.into_iter().zip(&mut durations) {
            let mut load = Load::begin(rig, victim, beside.partition())?;
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

/// What runs beside, two actions deep.
struct Load {
    errands: Vec<Errand>,
    open: Vec<(ActionId, Errand)>,
}

impl Load {
    fn begin(
        rig: &mut Rig<CudaDevice>,
        like: Errand,
        partition: Option<u16>,
    ) -> Result<Self, StepError> {
        let errand = |partition, turn| Errand {
            partition,
            first: (1 + turn) * u16::from(like.batch),
            ..like
        };
        let errands = partition.map(|partition| [0, 1].map(|turn| errand(partition, turn)));
        let mut load = Self {
            errands: errands.into_iter().flatten().collect(),
            open: Vec::new(),
        };
        for errand in load.errands.clone() {
            load.submit(rig, errand)?;
        }
        Ok(load)
    }

    fn submit(&mut self, rig: &mut Rig<CudaDevice>, errand: Errand) -> Result<(), StepError> {
        let id = rig.submit(errand, Criticality::RealTime)?;
        self.open.push((id, errand));
        Ok(())
    }

    /// Runs a stage while the load goes on.
    fn run(&mut self, rig: &mut Rig<CudaDevice>, errand: Errand) -> Result<u64, StepError> {
        let start = clock::now_ns();
        let id = rig.submit(errand, Criticality::RealTime)?;
        loop {
            let Event::Finished(finished) = rig.event()? else {
                return Err(StepError::NotRun(errand));
            };
            if finished.action == id {
                return Ok(clock::now_ns() - start);
            }
            let again = self.over(finished.action);
            for errand in again {
                self.submit(rig, errand)?;
            }
        }
    }

    /// The errand of an action of the load that is over.
    fn over(&mut self, action: ActionId) -> Option<Errand> {
        let at = self.open.iter().position(|(id, _)| *id == action)?;
        Some(self.open.swap_remove(at).1)
    }

    fn end(mut self, rig: &mut Rig<CudaDevice>) -> Result<(), StepError> {
        while !self.open.is_empty() {
            match rig.event()? {
                Event::Finished(finished) => drop(self.over(finished.action)),
                other => return Err(StepError::Unexpected(Box::new(other))),
            }
        }
        Ok(())
    }
}

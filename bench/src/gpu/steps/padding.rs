//! What a real-time network suffers from launches that fill the TPCs that it leaves, and what they add:
//! REEF's kernel padding (section 5), by masks.

use punctual_device::{Device, ModelSpec};
use punctual_device_cuda::driver::Context;
use punctual_device_cuda::kernel_padding::{KernelPaddingSpec, LaunchTimes};
use punctual_device_cuda::launch_times::{Subject, launch_times};
use punctual_device_cuda::{Counts, CudaDevice};
use punctual_model::Network;
use punctual_platform::clock;
use punctual_report::{Axis, Bars};
use punctual_roofline::structures::Structure;

use super::super::division::Parts;
use super::super::load::{DEEP, Load, Work};
use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig::{self, Rig, Setup, StageRun};
use super::super::step::{Prerequisite, Session, Step, StepError};
use super::networks;

pub struct Padding;

/// What runs at the same time as the real-time network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Alone,
    /// Nothing, on the device that fills: launches are kept to the TPCs on which they are as fast.
    Confined,
    /// Best-effort stages on a partition that fills.
    Filled,
    /// Best-effort stages on a stream of the same TPCs.
    Stream,
}

impl Way {
    const ALL: [Self; 4] = [Self::Alone, Self::Confined, Self::Filled, Self::Stream];

    const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Confined => "alone, confined",
            Self::Filled => "beside a partition that fills",
            Self::Stream => "beside a stream of the same TPCs",
        }
    }

    const fn fills(self) -> bool {
        matches!(self, Self::Confined | Self::Filled)
    }

    const fn has_best_effort(self) -> bool {
        matches!(self, Self::Filled | Self::Stream)
    }
}

#[derive(Clone, Debug, Default)]
struct Found {
    /// Of whole networks, from when they were due.
    real_time_ns: Vec<u64>,
    /// Best-effort stages that ended meanwhile.
    stages: u64,
    /// How long all of it took.
    took_ns: u64,
}

impl Found {
    fn stages_per_second(&self) -> f64 {
        self.stages as f64 * 1e9 / self.took_ns.max(1) as f64
    }
}

/// The real-time network, every so often.
#[derive(Clone, Copy, Debug)]
struct Beat {
    model: u16,
    stages: u8,
    period_ns: u64,
    count: u64,
}

impl Step for Padding {
    fn name(&self) -> &'static str {
        "padding"
    }

    fn about(&self) -> &'static str {
        "a real-time network beside launches that fill what it leaves of the TPCs (REEF, section 5)"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["calibration"]
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let parts = Parts::find(session, gpu)?;
        if !parts.can_change_masks() {
            return Err(Prerequisite::Masks.into());
        }
        let structures = [Structure::ResNet34, Structure::MobileNetV2];
        let networks = networks::of(session, &structures, 224);
        let models: Vec<_> = networks
            .iter()
            .map(|network| (network, &[1_u8][..]))
            .collect();
        let times = measured(session, &parts, &networks)?;
        let all = parts.tpcs(0, parts.units);
        let setup = Setup {
            models: &models,
            division: parts.division(vec![all.clone(), all]),
            queue: rig::queue(gpu)?,
        };
        let kernel_padding = KernelPaddingSpec {
            fillers: vec![1],
            times,
        };
        let mut plain = Rig::cuda(session, &setup)?;
        let mut filled = Rig::with_padding(session, &setup, &kernel_padding)?;
        for rig in [&plain, &filled] {
            for (model, first, count) in [(0, 0, 1), (networks.len() - 1, 1, DEEP)] {
                let picture = |seed| rig::picture(&networks[model], seed);
                rig.write(model as u16, first, count, picture)?;
            }
        }
        let beat = beat(session, &mut plain, &networks[0])?;
        let found = alternate(session, [&mut plain, &mut filled], &networks, beat)?;
        let counts = filled.device.counters().read();
        Ok(report(&networks, beat, &found, &counts))
    }
}

/// What each launch of each network takes on all TPCs.
fn measured(
    session: &Session<'_>,
    parts: &Parts,
    networks: &[Network],
) -> Result<LaunchTimes, StepError> {
    let context = Context::retain(session.gpu()?)?;
    let all = parts.tpcs(0, parts.units);
    let subjects = networks.iter().enumerate().map(|(model, network)| Subject {
        model,
        spec: ModelSpec::resident(network, &[1]),
        tpcs: all.clone(),
    });
    let subjects: Vec<_> = subjects.collect();
    let page_bytes = rig::cuda_spec(session).page_bytes;
    let rounds = session.size(25, 1);
    Ok(launch_times(
        &context,
        parts.partitioner(),
        all,
        &subjects,
        page_bytes,
        rounds,
    )?)
}

/// Real-time work for half of the time.
fn beat(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    network: &Network,
) -> Result<Beat, StepError> {
    let stage_run = stage_run(0, 0, 0, 0);
    let stages = network.stages.len();
    let mut took = Vec::new();
    for _ in 0..session.size(40, 2) {
        took.push(rig.run_through(stage_run, stages)?);
    }
    // The first runs find cold caches.
    let took = Latency::of(took.split_off(took.len() / 2));
    Ok(Beat {
        model: 0,
        stages: stages as u8,
        period_ns: (took.p50_us * 2e3) as u64,
        count: session.size(20, 1),
    })
}

const fn stage_run(partition: u16, model: u16, stage: u8, first: u16) -> StageRun {
    StageRun {
        partition,
        model,
        stage,
        batch: 1,
        first,
    }
}

/// Blocks of each way in turn; the plain device, and the one that fills.
fn alternate(
    session: &Session<'_>,
    [plain, filled]: [&mut Rig<CudaDevice>; 2],
    networks: &[Network],
    beat: Beat,
) -> Result<[Found; 4], StepError> {
    let model = networks.len() - 1;
    let work = Work {
        stage_run: stage_run(1, model as u16, 0, 1),
        stages: networks[model].stages.len() as u8,
    };
    let mut all = <[Found; 4]>::default();
    for (round, ()) in session.rounds(200, 2, 900).enumerate() {
        for (way, found) in Way::ALL.into_iter().zip(&mut all) {
            let rig = if way.fills() {
                &mut *filled
            } else {
                &mut *plain
            };
            let block = block(rig, beat, way.has_best_effort().then_some(work))?;
            // The first round finds cold caches.
            if round > 0 {
                found.real_time_ns.extend(block.real_time_ns);
                found.stages += block.stages;
                found.took_ns += block.took_ns;
            }
        }
    }
    Ok(all)
}

/// A few real-time networks, and best-effort stages meanwhile.
fn block<D: Device>(rig: &mut Rig<D>, beat: Beat, work: Option<Work>) -> Result<Found, StepError> {
    let begun = clock::now_ns();
    let mut load = Load::begin(rig, work)?;
    // Best-effort work is under way by then.
    let first = clock::now_ns() + beat.period_ns / 4;
    let mut found = Found::default();
    for turn in 0..beat.count {
        let due = first + turn * beat.period_ns;
        load.until(rig, due)?;
        for stage in 0..beat.stages {
            load.run(rig, stage_run(0, beat.model, stage, 0))?;
        }
        found.real_time_ns.push(clock::now_ns() - due);
    }
    found.took_ns = clock::now_ns() - begun;
    found.stages = load.ended;
    load.end(rig)?;
    Ok(found)
}

fn report(networks: &[Network], beat: Beat, found: &[Found; 4], counts: &Counts) -> StepResult {
    let mut result = StepResult::default();
    let latencies = found
        .each_ref()
        .map(|found| Latency::of(found.real_time_ns.clone()));
    let title = "A real-time network, from when it was due, and best-effort stages meanwhile";
    let after = ["p99 / alone", "best-effort stages/s"];
    let mut sheet = Sheet::of_latencies(title, &["way"], &after);
    for ((way, found), latency) in Way::ALL.iter().zip(found).zip(&latencies) {
        let rest = [
            format!("{:.3}", latency.p99_over(&latencies[0])),
            format!("{:.1}", found.stages_per_second()),
        ];
        sheet.latency([way.name().to_owned()], latency, rest);
    }
    result.tables.push(sheet);
    let bars = |of: fn(&Latency) -> f64| latencies.iter().map(|l| Some(of(l) / 1e3)).collect();
    result.bars.push(Bars {
        title: "Real-time latency".to_owned(),
        y: Axis::linear("ms"),
        groups: Way::ALL.map(|way| way.name().to_owned()).to_vec(),
        series: vec![
            ("p50".to_owned(), bars(|latency| latency.p50_us)),
            ("p99".to_owned(), bars(|latency| latency.p99_us)),
        ],
    });
    result.figure("padding", "", latencies[2].p99_over(&latencies[0]));
    result.note(format!(
        "{}, batch 1, is due every {:.3} ms, which is twice what it takes; beside it {} at batch 1, {DEEP} actions \
         deep. Both have all TPCs. Blocks of {} of each way alternate.",
        networks[0].name,
        beat.period_ns as f64 / 1e6,
        networks[networks.len() - 1].name,
        beat.count,
    ));
    result.note(format!(
        "{} launches filled; {} of them had to wait, and {} times one was called off for a real-time launch. What \
         launches take was measured first, each alone.",
        counts.filled, counts.fillers_waited, counts.fillers_called_off,
    ));
    result
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::cpu;
    use super::*;
    use punctual_conformance::networks;

    #[test]
    fn real_time_networks_are_due_at_their_times_while_best_effort_stages_go_on() {
        let network = networks::residual(1);
        let mut rig = cpu(&network, 2);
        rig.write(0, 0, 1 + DEEP, |seed| rig::picture(&network, seed))
            .expect("free buffers");
        let stages = network.stages.len() as u8;
        let beat = Beat {
            model: 0,
            stages,
            period_ns: 5_000_000,
            count: 4,
        };
        let work = Work {
            stage_run: stage_run(1, 0, 0, 1),
            stages,
        };
        let mut run = |work| block(&mut rig, beat, work).expect("it runs");
        let beside = run(Some(work));
        assert_eq!(beside.real_time_ns.len(), 4);
        assert!(beside.took_ns >= 3 * beat.period_ns, "{beside:?}");
        assert!(beside.stages > 0, "{beside:?}");
        // Nothing was left behind, which the next block would take for something unexpected.
        let alone = run(None);
        assert_eq!((alone.real_time_ns.len(), alone.stages), (4, 0));
    }

    #[test]
    fn the_figure_is_that_of_the_partition_that_fills() {
        let found = [1_000, 1_010, 1_020, 3_000].map(|ns| Found {
            real_time_ns: vec![ns; 10],
            stages: 6,
            took_ns: 2_000_000_000,
        });
        let beat = Beat {
            model: 0,
            stages: 1,
            period_ns: 1,
            count: 1,
        };
        let result = report(&[networks::residual(1)], beat, &found, &Counts::default());
        assert_eq!(result.figures[0].value, 1.02);
        let rates = result.tables[0].rows.iter().map(|row| row.last());
        assert!(rates.flatten().all(|rate| rate == "3.0"));
    }
}

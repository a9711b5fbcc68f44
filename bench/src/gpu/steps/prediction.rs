//! Whether stages take what their profile says: Clockwork, Figure 10.

use punctual_device_cuda::CudaDevice;
use punctual_device_cuda::driver::Attribute;
use punctual_model::{Network, Package};
use punctual_report::{Axis, Lines, Series};
use punctual_roofline::structures::Structure;
use punctual_types::Random;

use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig::{self, BUFFERS, Rig, StageRun};
use super::super::roofline::{Predicted, Roofline};
use super::super::step::{Session, Step, StepError};
use super::networks;
use punctual::demo;

pub struct Prediction;

/// Networks that are measured, which share the request buffers: each has as many as its largest batch at least.
const NETWORKS: u16 = 6;

/// A stage at a batch size, what its profile predicts, and by how much its runs differed.
struct Case {
    stage_run: StageRun,
    name: String,
    profiled_ns: Vec<u64>,
    /// Measured less predicted, in nanoseconds.
    errors_ns: Vec<i64>,
}

impl Step for Prediction {
    fn name(&self) -> &'static str {
        "prediction"
    }

    fn about(&self) -> &'static str {
        "how long stages take, beside what the roofline predicts and what their profile does (Clockwork, Figure 10)"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let networks = predicted_networks(session)?;
        let batches: &[u8] = if session.brief || session.quick {
            &[1]
        } else {
            &[1, 8]
        };
        let models: Vec<_> = networks.iter().map(|network| (network, batches)).collect();
        let queue = rig::queue(session.gpu()?)?;
        let mut rigs = rig::whole(session, &models, [queue])?;
        let rig = &mut rigs[0];
        let mut cases = cases(&networks, batches);
        for () in session.rounds(100, 2, 300) {
            for case in &mut cases {
                let took = run(rig, &networks, case.stage_run)?;
                case.profiled_ns.push(took);
            }
        }
        for case in &mut cases {
            // The first rounds find cold caches.
            let warm = case.profiled_ns.len() / 10;
            case.profiled_ns.drain(..warm);
        }
        let mut random = Random::new(3).stream("prediction", 0);
        for () in session.rounds(100_000, 4, 950) {
            let index = (random.unit() * cases.len() as f64) as usize % cases.len();
            let case = &mut cases[index];
            let took = run(rig, &networks, case.stage_run)?;
            case.errors_ns
                .push(took as i64 - predicted(&case.profiled_ns) as i64);
        }
        let mut result = report(&cases);
        let roofline = Roofline::find(session)?;
        let multiprocessors = session.gpu()?.attribute(Attribute::Multiprocessors)?;
        for (model, network) in networks.iter().enumerate() {
            for &batch in batches {
                let predicted = roofline.network(network, batch, multiprocessors);
                let of_batch = |case: &&Case| {
                    usize::from(case.stage_run.model) == model && case.stage_run.batch == batch
                };
                compare(
                    cases.iter().filter(of_batch),
                    network,
                    &predicted,
                    &mut result,
                );
            }
        }
        result.note(roofline.about());
        Ok(result)
    }
}

/// Compares the stages of a network at a batch size, and all of them together, with the roofline's predictions.
fn compare<'c>(
    cases: impl Iterator<Item = &'c Case>,
    network: &Network,
    predicted: &Predicted,
    result: &mut StepResult,
) {
    let (mut all_us, mut batch) = (0.0, 0);
    for case in cases {
        let us = result
            .nanoseconds(&case.name, case.profiled_ns.clone())
            .p50_us;
        let stage = usize::from(case.stage_run.stage);
        result.compared.push(predicted.stage(&case.name, stage, us));
        all_us += us;
        batch = case.stage_run.batch;
    }
    let whole = predicted.whole(&format!("{}, batch {batch}", network.name), all_us);
    if result.found.is_empty() {
        let beside = match &whole.predicted {
            Some(predicted) => format!(
                "{:.0} us were predicted ({:.2} times)",
                predicted.us, predicted.ratio
            ),
            None => whole.why.clone().unwrap_or_default(),
        };
        let stages = network.stages.len();
        result.found = format!(
            "{} in {stages} stages took {all_us:.0} us; {beside}",
            network.name
        );
    }
    result.compared.push(whole);
}

/// All networks that docs/results/gpu-predictions.md has predictions of.
fn predicted_networks(session: &Session<'_>) -> Result<Vec<Network>, StepError> {
    let structures = [
        Structure::ResNet50,
        Structure::MobileNetV2,
        Structure::UNet,
        Structure::VitB16,
    ];
    let mut networks = networks::of(session, &structures, 224);
    if session.quick || session.brief {
        return Ok(networks);
    }
    for package in [demo::SIGNS, demo::STREETS] {
        networks.push(Package::decode(package)?.network().clone());
    }
    Ok(networks)
}

fn cases(networks: &[Network], batches: &[u8]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (model, network) in networks.iter().enumerate() {
        for stage in 0..network.stages.len() {
            for &batch in batches {
                cases.push(Case {
                    stage_run: StageRun {
                        partition: 0,
                        model: model as u16,
                        stage: stage as u8,
                        batch,
                        // A model's requests stay in the buffers that its first stage wrote.
                        first: BUFFERS / NETWORKS * model as u16,
                    },
                    name: format!("{}, stage {stage}, batch {batch}", network.name),
                    profiled_ns: Vec::new(),
                    errors_ns: Vec::new(),
                });
            }
        }
    }
    cases
}

fn run(
    rig: &mut Rig<CudaDevice>,
    networks: &[Network],
    stage_run: StageRun,
) -> Result<u64, StepError> {
    if stage_run.stage == 0 {
        let network = &networks[usize::from(stage_run.model)];
        let seed = |buffer| rig::picture(network, buffer);
        rig.write(
            stage_run.model,
            stage_run.first,
            u16::from(stage_run.batch),
            seed,
        )?;
    }
    Ok(rig.run(stage_run)?.measured.as_nanos())
}

/// What 99 of 100 profiled runs do not exceed: the controller of Clockwork predicts by the 99th percentile of
/// recent runs.
fn predicted(profiled_ns: &[u64]) -> u64 {
    (Latency::of(profiled_ns.to_vec()).p99_us * 1e3) as u64
}

fn report(cases: &[Case]) -> StepResult {
    let mut result = StepResult::default();
    let headings = [
        "stage",
        "predicted, us",
        "n",
        "early p50",
        "early p99",
        "late p50",
        "late p99",
        "late max",
    ];
    let mut sheet = Sheet::new("Errors of predictions, us", &headings, 1);
    for case in cases {
        let (early, late) = sides(&case.errors_ns);
        let us = |us: f64| format!("{us:.1}");
        sheet.row([
            case.name.clone(),
            us(predicted(&case.profiled_ns) as f64 / 1e3),
            case.errors_ns.len().to_string(),
            us(early.p50_us),
            us(early.p99_us),
            us(late.p50_us),
            us(late.p99_us),
            us(late.max_us),
        ]);
    }
    let all: Vec<i64> = cases
        .iter()
        .flat_map(|case| case.errors_ns.iter().copied())
        .collect();
    let (early, late) = sides(&all);
    if !all.is_empty() {
        result.figure("too-long", "all stages", early.p99_us);
        result.figure("too-short", "all stages", late.p99_us);
    }
    result.tables.push(sheet);
    result.plots.push(Lines {
        title: "Errors of predictions".into(),
        x: Axis::linear("measured less predicted, us"),
        y: Axis::linear("% of runs"),
        series: vec![Series {
            name: "stages in random order".into(),
            points: distribution(all),
        }],
    });
    result.note(
        "Predicted is the 99th percentile of the profile's runs, taken before; then stages of all networks at all \
         batch sizes run in random order. Early are runs shorter than predicted (0 for the others), late those longer; \
         percentiles are over all runs.",
    );
    result
}

/// How much runs were shorter than predicted, and how much longer; 0 for those on the other side.
fn sides(errors_ns: &[i64]) -> (Latency, Latency) {
    let side = |sign: i64| {
        let beyond = errors_ns.iter().map(|error| (error * sign).max(0) as u64);
        Latency::of(beyond.collect())
    };
    (side(-1), side(1))
}

/// Points of the distribution, as many as a plot can show.
fn distribution(mut errors_ns: Vec<i64>) -> Vec<[f64; 2]> {
    errors_ns.sort_unstable();
    let count = errors_ns.len();
    let step = (count / 400).max(1);
    let at = |index: usize| {
        let share = (index + 1) as f64 * 100.0 / count as f64;
        [errors_ns[index] as f64 / 1e3, share]
    };
    (0..count).step_by(step).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_and_late_runs_are_told_apart() {
        let (early, late) = sides(&[-40_000, -10_000, 0, 25_000]);
        assert_eq!((early.max_us, late.max_us), (40.0, 25.0));
        assert_eq!((early.count, late.p50_us), (4, 0.0));
    }

    #[test]
    fn a_distribution_rises_to_all_runs() {
        let points = distribution((0..1000).rev().collect());
        assert!(
            points
                .windows(2)
                .all(|pair| pair[0][0] <= pair[1][0] && pair[0][1] < pair[1][1])
        );
        assert!(points.len() <= 500 && points[0][1] > 0.0);
        assert_eq!(distribution(Vec::new()), Vec::<[f64; 2]>::new());
    }
}

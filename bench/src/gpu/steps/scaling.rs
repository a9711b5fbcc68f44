//! Latency against TPCs and against the batch: SEEB-GPU, Figure 4.

use punctual_device_cuda::CudaDevice;
use punctual_model::Network;
use punctual_report::{Axis, Lines, Series};

use super::super::division::Parts;
use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig::{self, Rig, Setup, StageRun};
use super::super::roofline::Roofline;
use super::super::step::{Session, Step, StepError};
use super::networks;

pub struct Scaling;

const SIDE: u32 = 128;

/// A network on a partition at a batch size.
#[derive(Clone, Copy)]
struct Case {
    model: usize,
    /// Position in the list of sizes.
    partition: usize,
    batch: u8,
}

struct Show {
    title: &'static str,
    x: Axis,
    cases: Vec<Case>,
    /// Where a case is on the axis.
    at: fn(&Case, &[u16]) -> f64,
}

impl Step for Scaling {
    fn name(&self) -> &'static str {
        "scaling"
    }

    fn about(&self) -> &'static str {
        "latency of whole networks against the number of TPCs and the batch (SEEB-GPU, Figure 4)"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["calibration"]
    }

    fn seconds(&self) -> u32 {
        54
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let parts = Parts::find(session, gpu)?;
        let mut sizes = sizes(parts.units);
        if session.quick {
            sizes.retain(|&size| size == 1 || size == parts.units);
        }
        let batches: &[u8] = session.size(&[1, 2, 4, 8, 16, 32], &[1]);
        let networks = networks::of(session, &networks::SEEB, SIDE);
        let models: Vec<_> = networks.iter().map(|network| (network, batches)).collect();
        let ranges = sizes.iter().map(|&size| parts.tpcs(0, size)).collect();
        let mut rig = Rig::cuda(
            session,
            &Setup {
                models: &models,
                division: parts.division(ranges),
                queue: rig::queue(gpu)?,
            },
        )?;
        let tpcs: Vec<u16> = sizes.iter().map(|&size| parts.tpcs(0, size).end).collect();
        let all = sizes.len() - 1;
        let mut result = StepResult::default();
        let shows = [
            Show {
                title: "One image against TPCs",
                x: Axis::linear("TPCs"),
                cases: cases(networks.len(), &sizes, batches, |_, batch| batch == 1),
                at: |case, tpcs| f64::from(tpcs[case.partition]),
            },
            Show {
                title: "All TPCs against the batch",
                x: Axis::log("batch"),
                cases: cases(networks.len(), &sizes, batches, |partition, _| {
                    partition == all
                }),
                at: |case, _| f64::from(case.batch),
            },
        ];
        let roofline = Roofline::find(session)?;
        for (show, permille) in shows.into_iter().zip([500, 950]) {
            let found = measure(session, &mut rig, &networks, &show.cases, permille)?;
            for (case, latency) in show.cases.iter().zip(&found) {
                let network = &networks[case.model];
                let multiprocessors = parts.multiprocessors(0, sizes[case.partition])?;
                let predicted = roofline.network(network, case.batch, multiprocessors);
                let of = format!("{}, batch {}", network.name, case.batch);
                result.compared.push(predicted.whole(&of, latency.p50_us));
            }
            result.plots.push(show.plot(&networks, &tpcs, &found));
            result.tables.push(show.table(&networks, &tpcs, &found));
        }
        result.note(format!(
            "Whole networks, stage after stage, images of {SIDE} x {SIDE} (SEEB-GPU's size), from the order of the \
             first stage to the event of the last. All cases are run in turn, round by round."
        ));
        result.note(roofline.about());
        Ok(result)
    }
}

/// Sizes of partitions: few TPCs one by one, more in larger steps, all of them last.
fn sizes(units: u16) -> Vec<u16> {
    let mut sizes = Vec::new();
    let mut size = 1;
    while size < units && sizes.len() < 11 {
        sizes.push(size);
        size += (size / 2).max(1);
    }
    sizes.push(units);
    sizes
}

fn cases(
    models: usize,
    sizes: &[u16],
    batches: &[u8],
    wanted: impl Fn(usize, u8) -> bool,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for model in 0..models {
        for partition in 0..sizes.len() {
            for &batch in batches.iter().filter(|&&batch| wanted(partition, batch)) {
                cases.push(Case {
                    model,
                    partition,
                    batch,
                });
            }
        }
    }
    cases
}

fn measure(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    networks: &[Network],
    cases: &[Case],
    permille: u64,
) -> Result<Vec<Latency>, StepError> {
    let mut durations = vec![Vec::new(); cases.len()];
    for (round, ()) in session.rounds(200, 2, permille).enumerate() {
        for (case, durations) in cases.iter().zip(&mut durations) {
            let (network, model) = (&networks[case.model], case.model as u16);
            // A request buffer holds the input of one model at a time.
            rig.write(model, 0, u16::from(case.batch), |seed| {
                rig::picture(network, seed)
            })?;
            let stage_run = StageRun {
                partition: case.partition as u16,
                model,
                stage: 0,
                batch: case.batch,
                first: 0,
            };
            let took = rig.run_through(stage_run, network.stages.len())?;
            // The first round finds cold caches.
            if round > 0 {
                durations.push(took);
            }
        }
    }
    Ok(durations.into_iter().map(Latency::of).collect())
}

impl Show {
    fn plot(&self, networks: &[Network], tpcs: &[u16], found: &[Latency]) -> Lines {
        let of_model = |model: usize| {
            let both = self.cases.iter().zip(found);
            let both = both.filter(move |(case, _)| case.model == model);
            both.map(|(case, latency)| [(self.at)(case, tpcs), latency.p50_us / 1e3])
        };
        let series = networks.iter().enumerate().map(|(model, network)| Series {
            name: network.name.clone(),
            points: of_model(model).collect(),
        });
        Lines {
            title: self.title.to_owned(),
            x: self.x.clone(),
            y: Axis::linear("median latency, ms"),
            series: series.collect(),
        }
    }

    fn table(&self, networks: &[Network], tpcs: &[u16], found: &[Latency]) -> Sheet {
        let mut sheet =
            Sheet::of_latencies(self.title, &["network", "TPCs", "batch"], &["images/s"]);
        for (case, latency) in self.cases.iter().zip(found) {
            let what = [
                networks[case.model].name.clone(),
                tpcs[case.partition].to_string(),
                case.batch.to_string(),
            ];
            let rate = f64::from(case.batch) * 1e6 / latency.p50_us;
            sheet.latency(what, latency, [format!("{rate:.0}")]);
        }
        sheet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_grow_from_one_tpc_to_all_of_them() {
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(4), [1, 2, 3, 4]);
        assert_eq!(sizes(8), [1, 2, 3, 4, 6, 8]);
        let large = sizes(66);
        assert_eq!((large[0], large[large.len() - 1]), (1, 66));
        assert!(large.windows(2).all(|pair| pair[0] < pair[1]) && large.len() <= 12);
    }

    #[test]
    fn every_network_is_measured_on_every_size() {
        let cases = cases(2, &[1, 2, 4], &[1, 8], |_, batch| batch == 1);
        assert_eq!(cases.len(), 6);
    }
}

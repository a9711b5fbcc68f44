//! Whole networks preempted at any time (REEF, Figures 12 and 20).

use punctual_core::{Criticality, Event, PartitionId};
use punctual_device::Device as _;
use punctual_device_cuda::queue::QueueSpec;
use punctual_device_cuda::structures::Structure;
use punctual_device_cuda::{CudaDevice, Division};
use punctual_platform::clock;
use punctual_simulator::random::Random;
use punctual_simulator::report::{Axis, Bars};

use super::super::super::result::{Latency, Sheet, StepResult};
use super::super::super::rig::{self, Errand, Rig, Setup};
use super::super::super::step::{Session, StepError};
use super::super::networks;
use super::Way;

/// Measures and adds what was found.
pub fn measure(session: &Session<'_>, result: &mut StepResult) -> Result<(), StepError> {
    let usual = rig::queue(session.gpu()?)?;
    let structures = [Structure::Vgg19, Structure::ResNet152, Structure::ResNet50];
    let networks = networks::of(session, &structures, 224);
    let models: Vec<_> = networks
        .iter()
        .map(|network| (network, &[1_u8][..]))
        .collect();
    let mut rigs = Vec::new();
    for way in Way::ALL {
        let queue = QueueSpec {
            bound: way.bound(usual.bound),
            check_stride: if way.looks() { usual.check_stride } else { 0 },
            ..usual
        };
        let rig = Rig::cuda(
            session,
            &Setup {
                models: &models,
                division: Division::Whole,
                queue,
            },
        )?;
        rigs.push(rig);
    }
    let headings = [
        &["network", "way"],
        &Latency::HEADINGS[..],
        &["resumed", "begun again"],
    ]
    .concat();
    let mut sheet = Sheet::new(
        "Networks preempted at any time: from the wish to the device's word",
        &headings,
        2,
    );
    let mut bars = Bars {
        title: "Mean preemption latency".into(),
        y: Axis::linear("us"),
        groups: networks
            .iter()
            .map(|network| network.name.clone())
            .collect(),
        series: Way::ALL
            .map(|way| (way.name().to_owned(), Vec::new()))
            .to_vec(),
    };
    let mut random = Random::new(2).stream("preemption", 0);
    for (model, network) in networks.iter().enumerate() {
        for rig in &mut rigs {
            rig.write(model as u16, 0, 1, |seed| rig::picture(network, seed))?;
        }
        let permille = 500 / (networks.len() - model) as u64;
        let before: Vec<_> = rigs
            .iter()
            .map(|rig| rig.device.counters().read())
            .collect();
        let found = alternate(session, &mut rigs, model as u16, permille, &mut random)?;
        for (position, way) in Way::ALL.into_iter().enumerate() {
            let (now, then) = (rigs[position].device.counters().read(), before[position]);
            let counts = [
                now.resumed - then.resumed,
                now.begun_again - then.begun_again,
            ];
            let what = [network.name.clone(), way.name().to_owned()];
            let cells = found[position].cells().into_iter();
            sheet.row(
                what.into_iter()
                    .chain(cells)
                    .chain(counts.map(|count| count.to_string())),
            );
            bars.series[position].1.push(Some(found[position].mean_us));
        }
    }
    result.tables.push(sheet);
    result.bars.push(bars);
    Ok(())
}

fn alternate(
    session: &Session<'_>,
    rigs: &mut [Rig<CudaDevice>],
    model: u16,
    permille: u64,
    random: &mut Random,
) -> Result<Vec<Latency>, StepError> {
    let errand = Errand {
        partition: 0,
        model,
        stage: 0,
        batch: 1,
        first: 0,
    };
    let mut alone = Vec::new();
    for rig in rigs.iter_mut() {
        // The first run finds cold caches.
        rig.run(errand)?;
        alone.push(rig.run(errand)?.measured_ns);
    }
    let mut durations = vec![Vec::new(); rigs.len()];
    for () in session.rounds(400, 3, permille) {
        for ((rig, &alone), durations) in rigs.iter_mut().zip(&alone).zip(&mut durations) {
            let after = alone as f64 * random.unit();
            durations.extend(preempt(rig, errand, after as u64)?);
            // What was preempted is finished, so that each round begins alike.
            rig.run(errand)?;
        }
    }
    Ok(durations.into_iter().map(Latency::of).collect())
}

/// From the wish to the event; none if the stage was done before.
fn preempt(
    rig: &mut Rig<CudaDevice>,
    errand: Errand,
    after_ns: u64,
) -> Result<Option<u64>, StepError> {
    let id = rig.submit(errand, Criticality::BestEffort)?;
    let begun = clock::now_ns();
    while clock::now_ns() - begun < after_ns {
        std::hint::spin_loop();
    }
    let wished = clock::now_ns();
    rig.device.preempt(PartitionId(errand.partition), id);
    match rig.event()? {
        Event::Preempted { action } if action == id => Ok(Some(clock::now_ns() - wished)),
        Event::Finished(finished) if finished.action == id => Ok(None),
        other => Err(StepError::Unexpected(Box::new(other))),
    }
}

//! Weights that come and go.

use punctual_core::{ActionId, Event, ModelId, Nanos};
use punctual_model::PAGE_BYTES;

use super::Subject;
use super::harness::Harness;
use super::networks;
use super::suite::{BATCHES, partitions};
use punctual_device::{CacheSpec, Device, DeviceSpec, ModelSpec, Start, SubmitError};

const A: ModelId = ModelId(0);
const B: ModelId = ModelId(1);
const PINNED: ModelId = ModelId(2);

/// One of the networks fits, and never two: see `start`.
const PAGES: u32 = 2;

/// A device with three small networks, of which two are paged and one fits the cache at a time.
fn start<S: Subject>(subject: &S) -> Harness<S> {
    let networks = [21, 22, 23].map(networks::residual);
    let bytes = size_of_val::<[f32]>(&networks[0].weights);
    let alone = bytes.div_ceil(PAGE_BYTES) as u32;
    assert!(
        2 * alone > PAGES,
        "{bytes} bytes are not enough for this check"
    );
    let model = |network, paged| ModelSpec {
        paged,
        ..ModelSpec::resident(network, &BATCHES)
    };
    let models = [&networks[0], &networks[1], &networks[2]];
    Harness::start(
        subject,
        &DeviceSpec {
            models: &[
                model(models[0], true),
                model(models[1], true),
                model(models[2], false),
            ],
            partitions: &partitions(&[&[0]]),
            request_buffers: 1,
            cache: Some(CacheSpec {
                pages: PAGES,
                core: None,
                priority: None,
            }),
            start: Start::Whole,
        },
    )
}

/// Loads a model and waits until it is there.
fn load<S: Subject>(harness: &mut Harness<S>, model: ModelId) {
    let action = ActionId(1_000);
    let loading = harness.device.load(action, model);
    assert_eq!(loading, Ok(()), "model {model:?}");
    let limit = harness.now() + Nanos::from_millis(30_000);
    loop {
        match harness.poll() {
            Some(Event::Loaded { action: loaded, .. }) => return assert_eq!(loaded, action),
            Some(event) => panic!("{event:?} instead of the end of a load"),
            None => {}
        }
        assert!(harness.now() < limit, "a load does not end");
        harness.wait(limit);
    }
}

/// Runs all stages of a model; the answers are its own.
fn run<S: Subject>(harness: &mut Harness<S>, model: ModelId) {
    let network = networks::residual(21 + u64::from(model.0));
    let image = networks::image(&network, 5);
    harness.run(model, &network, &image, &format!("model {model:?}"));
}

/// Models take turns in a cache that holds one of them, and each time answer as ever.
pub fn weights_come_and_go<S: Subject>(subject: &S) {
    let mut harness = start(subject);
    for round in 0..4 {
        let model = if round % 2 == 0 { A } else { B };
        load(&mut harness, model);
        run(&mut harness, model);
        run(&mut harness, PINNED);
        run(&mut harness, model);
        harness.device.unload(model).expect("it is not in use");
    }
}

/// Orders that contradict where weights are, are refused and change nothing.
pub fn loads_that_do_not_fit_are_refused<S: Subject>(subject: &S) {
    let mut harness = start(subject);
    let refused = |harness: &mut Harness<S>, model| harness.device.load(ActionId(1), model);
    let unknown = ModelId(3);
    assert_eq!(
        refused(&mut harness, unknown),
        Err(SubmitError::UnknownModel(unknown))
    );
    assert_eq!(
        refused(&mut harness, PINNED),
        Err(SubmitError::Pinned(PINNED))
    );
    assert_eq!(
        harness.device.unload(PINNED),
        Err(SubmitError::Pinned(PINNED))
    );
    assert_eq!(harness.device.unload(A), Err(SubmitError::NotResident(A)));
    load(&mut harness, A);
    assert_eq!(refused(&mut harness, A), Err(SubmitError::AlreadyLoaded(A)));
    let full = refused(&mut harness, B);
    assert!(
        matches!(full, Err(SubmitError::NoFreePages { model: B, .. })),
        "{full:?}"
    );
    run(&mut harness, A);
}

/// Actions are taken while the weights are there, and weights stay while an action reads them.
pub fn weights_in_use_stay<S: Subject>(subject: &S) {
    let mut harness = start(subject);
    let infer = harness.action(0, 1, &[0]);
    let absent = SubmitError::NotResident(A);
    assert_eq!(harness.device.submit(&infer), Err(absent));
    load(&mut harness, A);
    let image = networks::image(&networks::residual(21), 5);
    harness.write_input(0, A, &image);
    harness.submit(&infer);
    assert_eq!(harness.device.unload(A), Err(SubmitError::WeightsInUse(A)));
    assert!(matches!(harness.event(), Event::Finished(_)));
    assert_eq!(harness.device.unload(A), Ok(()));
    assert_eq!(harness.device.submit(&infer), Err(absent));
}

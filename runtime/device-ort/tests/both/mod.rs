//! What is tested of the device on cores and of the one on the GPU alike, where `ORT_DYLIB_PATH` names a library; else each test
//! says that it is skipped.

use std::path::Path;

use punctual_conformance::{Subject, networks, suite};
use punctual_device::{CacheSpec, DeviceSpec, ModelSpec, PartitionSpec, Start};
use punctual_device_ort::{Library, StartError, named};
use punctual_model::{Network, Package};

/// Whether there is a library to test with.
pub fn is_there() -> bool {
    if named().is_none() {
        eprintln!("skipped: ORT_DYLIB_PATH names no ONNX Runtime");
    }
    named().is_some()
}

pub fn library() -> Library {
    Library::load(None).expect("the library that the environment names")
}

/// Checks of the suite, where there is a library.
macro_rules! conforms {
    ($subject:expr, $($check:ident),* $(,)?) => {
        $(#[test] fn $check() {
            if $crate::both::is_there() {
                punctual_conformance::suite::$check(&$subject);
            }
        })*
    };
}
pub(crate) use conforms;

/// On the demonstration network: the suite's own of three stages has operators on tokens.
pub fn survivors_of_different_batches_run_together<S: Subject>(subject: &S) {
    if !is_there() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs");
    let package = Package::read(&folder.join("signs.punctual"));
    let package = package.expect("the package in the tree");
    suite::survivors_run_together_on(subject, package.network());
}

pub fn what_reductions_give_is_carried_to_later_stages<S: Subject>(subject: &S) {
    if is_there() {
        suite::answers_equal_the_reference_on(subject, &reduced());
    }
}

/// `start` starts a device that should page, and returns why it does not.
pub fn paged_weights_are_refused_with_the_models_name(
    start: impl FnOnce(&DeviceSpec<'_>) -> Option<StartError>,
) {
    if !is_there() {
        return;
    }
    let network = networks::residual(3);
    let paged = ModelSpec {
        paged: true,
        ..ModelSpec::resident(&network, &[1])
    };
    let refused = start(&DeviceSpec {
        models: &[paged],
        partitions: &[PartitionSpec::on_cores("p", vec![0], None)],
        request_buffers: 1,
        cache: Some(CacheSpec {
            pages: 4,
            core: None,
            priority: None,
        }),
        start: Start::Whole,
    });
    assert!(matches!(refused, Some(StartError::Paged(name)) if name == network.name));
}

/// A network whose later stage reads what reductions behind a session give: the second exit answers by the scores of the
/// first, which a linear layer makes of a list of detections.
fn reduced() -> Network {
    let mut network = networks::detectors(3);
    let [first, second] = &mut network.stages[..] else {
        panic!("two stages");
    };
    let scores = first.exit.as_ref().and_then(|exit| exit.scores);
    let carried = scores.expect("scores").tensor;
    first.outputs.push(carried);
    second.inputs.push(carried);
    second.exit.as_mut().expect("an exit").scores = scores;
    for stage in &mut network.stages {
        stage.outputs.sort_unstable();
        stage.inputs.sort_unstable();
    }
    network
        .validate()
        .expect("an exit may read what an earlier stage made");
    network
}

//! The conformance suite on ONNX Runtime, where `ORT_DYLIB_PATH` names a library; else each test says
//! that it is skipped.
//!
//! Left out, with the reason: everything about weights that come and go (this device holds all of them);
//! operators on tokens and on bytes (they are not written as ONNX).

mod reduced;

use std::sync::Arc;

use punctual_conformance::{Subject, networks, suite};
use punctual_device::{DeviceSpec, ModelSpec, PartitionSpec, Start};
use punctual_device_ort::{Library, LibraryError, OrtDevice, StartError, named};
use punctual_platform::Doorbell;

struct Ort;

impl Subject for Ort {
    type Device = OrtDevice;

    const TOKENS_AND_BYTES: bool = false;

    fn start(&self, spec: &DeviceSpec<'_>, bell: Arc<Doorbell>) -> OrtDevice {
        let library = Library::load(None).expect("the library that the environment names");
        OrtDevice::start(library, spec, bell).expect("starts")
    }
}

/// Whether there is a library to test with.
fn is_there() -> bool {
    if named().is_none() {
        eprintln!("skipped: ORT_DYLIB_PATH names no ONNX Runtime");
    }
    named().is_some()
}

macro_rules! conforms {
    ($($check:ident),* $(,)?) => {
        $(#[test] fn $check() {
            if is_there() {
                suite::$check(&Ort);
            }
        })*
    };
}

conforms!(
    answers_equal_the_reference,
    request_buffers_are_used_again_by_other_models,
    windows_are_honoured,
    preempted_actions_can_be_run_again,
    actions_that_do_not_fit_are_refused,
    a_third_action_is_refused,
    partitions_do_not_disturb_each_other,
);

/// On the demonstration network: the suite's own of three stages has operators on tokens.
#[test]
fn survivors_of_different_batches_run_together() {
    if !is_there() {
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs");
    let package = punctual_model::Package::read(&folder.join("signs.punctual"));
    let package = package.expect("the package in the tree");
    suite::survivors_run_together_on(&Ort, package.network());
}

#[test]
fn copies_equal_the_reference() {
    if is_there() {
        suite::answers_equal_the_reference_on(&Ort, &networks::copies(3));
    }
}

#[test]
fn what_reductions_give_is_carried_to_later_stages() {
    if is_there() {
        suite::answers_equal_the_reference_on(&Ort, &reduced::network());
    }
}

#[test]
fn a_library_that_is_not_there_is_named() {
    if named().is_some() {
        // The library of this process is the one that the environment names.
        return;
    }
    assert!(matches!(Library::load(None), Err(LibraryError::NotNamed)));
    let nowhere = std::path::Path::new("/nowhere/libonnxruntime.so");
    let refused = Library::load(Some(nowhere)).err().expect("no such file");
    assert!(
        refused.to_string().contains("/nowhere/libonnxruntime.so"),
        "{refused}"
    );
}

#[test]
fn paged_weights_are_refused_with_the_models_name() {
    if !is_there() {
        return;
    }
    let network = networks::residual(3);
    let paged = ModelSpec {
        paged: true,
        ..ModelSpec::resident(&network, &[1])
    };
    let spec = DeviceSpec {
        models: &[paged],
        partitions: &[PartitionSpec::on_cores("p", vec![0], None)],
        request_buffers: 1,
        cache: Some(punctual_device::CacheSpec {
            pages: 4,
            core: None,
            priority: None,
        }),
        start: Start::Whole,
    };
    let library = Library::load(None).expect("the library that the environment names");
    let started = OrtDevice::start(library, &spec, Arc::new(Doorbell::new()));
    assert!(matches!(started, Err(StartError::Paged(name)) if name == network.name));
}
